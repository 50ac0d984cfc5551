// The statements of the history.
#pragma once

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct HistoryStatements {
  explicit HistoryStatements(std::string_view schema);
  Statement lock_series, series, put_series, put, prune_minutes, prune_hours, drop_series,
      which_series, read, facts, recent;
};

}  // namespace mainspring::pg
