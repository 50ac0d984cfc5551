// Marks and saved views in and out of JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/mark_operations.h"

namespace mainspring {

// {"text", "at"}
Result<AddMark> decode_add_mark_request(std::string_view body);
void encode_add_mark_request(const AddMark& request, std::string& out);
// {"id", "at", "text", "by", "source"}
void encode_mark(const Mark& mark, std::string& out);
Result<Mark> decode_mark(std::string_view body);
// {"marks", "next_cursor"}
void encode_marks(const MarkPage& page, std::string& out);
Result<MarkPage> decode_marks(std::string_view body);
std::string encode_mark_cursor(MarkPlace before);
Result<MarkPlace> decode_mark_cursor(std::string_view cursor);

// {"page", "query"}
Result<PutView> decode_put_view_request(std::string name, std::string_view body);
void encode_put_view_request(const PutView& request, std::string& out);
// {"name", "page", "query", "by", "updated_at"}
void encode_view(const SavedView& view, std::string& out);
Result<SavedView> decode_view(std::string_view body);
void encode_views(std::span<const SavedView> views, std::string& out);
Result<std::vector<SavedView>> decode_views(std::string_view body);

}  // namespace mainspring
