// The statements of marks and saved views.
#pragma once

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct MarkStatements {
  explicit MarkStatements(std::string_view schema);
  Statement of_worker, insert, trim, remove, view, count_views, put_view, remove_view, page, views;
};

}  // namespace mainspring::pg
