// Breakers: their statements, what a transaction has in hand of them, and what a node remembers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/breaker.h"
#include "store_postgres/connection.h"

namespace mainspring::pg {

struct BreakerStatements {
  explicit BreakerStatements(std::string_view schema);
  Statement load, lock, lock_free, probes, take_notes, note, save, insert, remove, exists, count,
      named_by, names, of_queue;
};

// As this node saw it last.
struct BreakerCopy {
  BreakerSettings settings;
  BreakerMeter meter;
  bool uncertain = false;  // others may have changed it since
};

// Locked by this transaction.
struct BreakerInHand {
  BreakerSettings settings, had;
  BreakerMeter meter, was;  // now, and as the database has it
};

// An end that is to be counted.
struct BreakerNote {
  std::string breaker;
  BreakerMeter::Probe attempt;
  std::int64_t began = 0;
  bool failed = false;
  std::optional<std::int64_t> open_for;
};

}  // namespace mainspring::pg
