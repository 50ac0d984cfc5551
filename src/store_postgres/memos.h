// The statements of memos, and what a transaction knows of them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct MemoStatements {
  explicit MemoStatements(std::string_view schema);
  Statement count, known, insert, remove, page;
};

// For the jobs of a renewal: the number of memos, and which of the renewal's names exist.
struct KnownMemos {
  std::map<JobId, std::size_t> count;
  std::set<std::pair<JobId, std::string>> names;
};

}  // namespace mainspring::pg
