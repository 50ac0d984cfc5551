// Leftovers: processes that outlived the one that started them, found by a mark in their
// environment.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring {

// Processes whose environment at their exec had the entry `mark` ("MAINSPRING_HOST=3f9a1c…"),
// except this process itself. Processes of other users are visible only to root.
std::vector<pid_t> find_marked(const std::string& mark);

// Kills them until there are none, so that processes that they start meanwhile are found too. Uses
// pidfds and reads the mark again before each kill, so that no other process with a reused pid is
// hit. Returns the number of killed processes. Errors: timeout (some still exist after `limit`; the
// message has their pids), forbidden (no permission).
Result<int> end_marked(const std::string& mark, Duration limit);

// CPU time of a process and all its living descendants, including reaped children; nullopt if there
// is no such process.
std::optional<Duration> cpu_time_of_tree(pid_t root);

}  // namespace mainspring
