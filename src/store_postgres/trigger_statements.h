// Statements on triggers and their ledgers.
#pragma once

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct TriggerStatements {
  explicit TriggerStatements(std::string_view schema);
  Statement lock, lock_several, count, insert, save, state, remove, event, add_event, forget,
      watches, known;
  // For readers.
  Statement one, list, events;
};

}  // namespace mainspring::pg
