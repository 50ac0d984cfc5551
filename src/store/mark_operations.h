// Operations on marks and saved views: see mainspring/marks.h.
#pragma once

#include <optional>
#include <string>

#include "mainspring/marks.h"

namespace mainspring {

// Answers the Mark. With MarkSource::worker: returns the existing worker mark with this text, if
// any. Removes the earliest mark if there are more than kMaxMarks. Errors: invalid_argument (the
// time).
struct AddMark {
  std::string text;
  std::optional<WallTime> at{};  // nullopt = now
  std::string by;
  MarkSource source = MarkSource::manual;
};
// Answers Done. Errors: not_found.
struct RemoveMark {
  std::int64_t id = 0;
};

// Answers the SavedView. Replaces the view of this name. Errors: overloaded (kMaxViews).
struct PutView {
  SavedView view;  // updated_at is set by the store; has passed validate()
};
// Answers Done. Errors: not_found.
struct RemoveView {
  std::string name;
};

Error no_mark(std::int64_t id);
Error no_view(std::string_view name);
Error too_many_views();

}  // namespace mainspring
