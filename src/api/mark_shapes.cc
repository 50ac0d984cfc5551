// Marks and saved views in and out of JSON.
#include "api/mark_shapes.h"

#include <fmt/format.h>

#include <charconv>

#include "api/fields.h"
#include "api/json.h"

namespace mainspring {
namespace {

constexpr JsonField<AddMark> kAddMark[] = {
    {"text", &as_string<&AddMark::text>},
    {"at", &as_optional_time<&AddMark::at>},
};

bool read_source(JsonReader& in, Mark& mark) {
  std::string text;
  if (!in.string(text)) return false;
  const auto source = parse_mark_source(text);
  if (!source) return in.fail_here("must be manual or worker");
  mark.source = *source;
  return true;
}
constexpr JsonField<Mark> kMark[] = {
    {"id", &as_id<&Mark::id>},     {"at", &as_time<&Mark::at>}, {"text", &as_string<&Mark::text>},
    {"by", &as_string<&Mark::by>}, {"source", &read_source},
};
struct MarksAnswer {
  MarkPage page;
  std::string cursor;
};
constexpr JsonField<MarksAnswer> kMarks[] = {
    {"marks",
     [](JsonReader& in, MarksAnswer& answer) {
       return in.array(kMaxResponseEntries, [&](std::size_t) {
         return in.object(kMark, answer.page.marks.emplace_back());
       });
     }},
    {"next_cursor", &as_optional_string<&MarksAnswer::cursor>},
};

constexpr JsonField<SavedView> kPutView[] = {
    {"page", &as_string<&SavedView::page>},
    {"query", &as_string<&SavedView::query>},
};
constexpr JsonField<SavedView> kView[] = {
    {"name", &as_string<&SavedView::name>},           {"page", &as_string<&SavedView::page>},
    {"query", &as_string<&SavedView::query>},         {"by", &as_string<&SavedView::by>},
    {"updated_at", &as_time<&SavedView::updated_at>},
};
constexpr JsonField<std::vector<SavedView>> kViews[] = {
    {"views",
     [](JsonReader& in, std::vector<SavedView>& views) {
       return in.array(kMaxResponseEntries,
                       [&](std::size_t) { return in.object(kView, views.emplace_back()); });
     }},
};

void write_mark(JsonWriter& w, const Mark& mark) {
  w.begin_object().key("id").number(mark.id).key("at").time(mark.at);
  w.key("text").string(mark.text).key("by").string(mark.by);
  w.key("source").string(to_string(mark.source)).end_object();
}

void write_view(JsonWriter& w, const SavedView& view) {
  w.begin_object().key("name").string(view.name).key("page").string(view.page);
  w.key("query").string(view.query).key("by").string(view.by);
  w.key("updated_at").time(view.updated_at).end_object();
}

}  // namespace

// -- marks ----------------------------------------------------------------------------------------

Result<AddMark> decode_add_mark_request(std::string_view body) {
  MS_TRY_ASSIGN(AddMark request, decode_request(body, kAddMark));
  MS_TRY(check_mark_text(request.text));
  return request;
}

void encode_add_mark_request(const AddMark& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("text").string(request.text);
  if (request.at) w.key("at").time(*request.at);
  w.end_object();
}

void encode_mark(const Mark& mark, std::string& out) {
  JsonWriter w(out);
  write_mark(w, mark);
}

Result<Mark> decode_mark(std::string_view body) {
  return decode_response(body, kMark);
}

void encode_marks(const MarkPage& page, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("marks").begin_array();
  for (const Mark& mark : page.marks) write_mark(w, mark);
  w.end_array().key("next_cursor");
  page.next ? w.string(encode_mark_cursor(*page.next)) : w.null();
  w.end_object();
}

Result<MarkPage> decode_marks(std::string_view body) {
  MS_TRY_ASSIGN(MarksAnswer answer, decode_response(body, kMarks));
  if (!answer.cursor.empty()) {
    const auto next = decode_mark_cursor(answer.cursor);
    if (!next) return bad_response(next.error());
    answer.page.next = *next;
  }
  return std::move(answer.page);
}

std::string encode_mark_cursor(MarkPlace before) {
  return fmt::format("{}-{}", before.first.us(), before.second);
}

Result<MarkPlace> decode_mark_cursor(std::string_view cursor) {
  std::int64_t at = 0, id = 0;
  const char* const end = cursor.data() + cursor.size();
  const auto [dash, bad_at] = std::from_chars(cursor.data(), end, at);
  if (bad_at == std::errc() && dash != end && *dash == '-') {
    const auto [last, bad_id] = std::from_chars(dash + 1, end, id);
    if (bad_id == std::errc() && last == end && at >= 0 && id >= 0)
      return MarkPlace(WallTime::from_us(at), id);
  }
  return invalid("cursor", fmt::format("cursor \"{}\": must be a next_cursor of an earlier page",
                                       cut_text(cursor, 64)));
}

// -- saved views ----------------------------------------------------------------------------------

Result<PutView> decode_put_view_request(std::string name, std::string_view body) {
  PutView request;
  MS_TRY_ASSIGN(request.view, decode_request(body, kPutView));
  request.view.name = std::move(name);
  MS_TRY(validate(request.view));
  return request;
}

void encode_put_view_request(const PutView& request, std::string& out) {
  JsonWriter(out)
      .begin_object()
      .key("page")
      .string(request.view.page)
      .key("query")
      .string(request.view.query)
      .end_object();
}

void encode_view(const SavedView& view, std::string& out) {
  JsonWriter w(out);
  write_view(w, view);
}

Result<SavedView> decode_view(std::string_view body) {
  return decode_response(body, kView);
}

void encode_views(std::span<const SavedView> views, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("views").begin_array();
  for (const SavedView& view : views) write_view(w, view);
  w.end_array().end_object();
}

Result<std::vector<SavedView>> decode_views(std::string_view body) {
  return decode_response(body, kViews);
}

std::vector<std::string_view> mark_request_fields(std::string_view schema) {
  if (schema == "AddMarkRequest") return field_names(kAddMark);
  if (schema == "PutViewRequest") return field_names(kPutView);
  return {};
}

}  // namespace mainspring
