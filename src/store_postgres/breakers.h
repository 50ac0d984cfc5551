// Circuit breakers: statements, the breakers that a transaction has loaded, and a node's copies.
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
  bool uncertain = false;  // other nodes may have changed it
};

// A breaker that this transaction has locked.
struct LoadedBreaker {
  BreakerSettings settings, had;
  BreakerMeter meter, was;  // now, and as in the database
};

// An end that is not counted yet.
struct BreakerNote {
  std::string breaker;
  BreakerMeter::Probe attempt;
  std::int64_t began = 0;
  bool failed = false;
  std::optional<std::int64_t> open_for;
};

}  // namespace mainspring::pg
