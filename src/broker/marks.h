// Marks and saved views: calls that the broker and the client of a server implement.
//
// All calls block and are thread-safe.
#pragma once

#include <vector>

#include "store/mark_operations.h"

namespace mainspring {

class Marks {
 public:
  virtual ~Marks() = default;

  // Errors of all: invalid_argument (with the field), unavailable.
  virtual Result<Mark> add_mark(AddMark request) = 0;
  virtual Result<MarkPage> marks(const MarkFilter& filter) = 0;
  virtual Result<void> remove_mark(std::int64_t id) = 0;  // also not_found
  // Replaces the view of this name. Errors: also overloaded (kMaxViews).
  virtual Result<SavedView> put_view(PutView request) = 0;
  virtual Result<std::vector<SavedView>> views() = 0;             // all, by name
  virtual Result<void> remove_view(const std::string& name) = 0;  // also not_found
};

}  // namespace mainspring
