// Tick: one time of a schedule and what the scheduler planned for it.
#pragma once

#include <optional>
#include <string>

#include "mainspring/schedule.h"

namespace mainspring {

struct Tick {
  WallTime nominal;
  std::optional<WallTime> until;
  std::int64_t count = 1;
  bool fire = true;  // false: skipped, with `reason`
  bool past_due = false;
  std::string reason;
  std::string note;
  friend bool operator==(const Tick&, const Tick&) = default;
};

// The headers of a tick's job: the template's, "mainspring-schedule" (the name),
// "mainspring-nominal" (RFC 3339), and for a late tick "mainspring-past-due": "true".
std::string tick_headers(const Schedule& schedule, WallTime nominal, bool past_due);

}  // namespace mainspring
