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

// Processes whose environment at their exec had the entry `mark` ("MAINSPRING_HOST=3f9a1c…"), but
// not this process itself. Those of other users cannot be seen without being root.
std::vector<pid_t> find_marked(const std::string& mark);

// KILL to them until there are none, so that what they start meanwhile is found too; by pidfd, and
// the mark is read again before each, so that no other process that got the same number is hit.
// Answers how many were ended. Errors: timeout (some still there after `limit`; the message has
// their numbers), forbidden (not permitted to).
Result<int> end_marked(const std::string& mark, Duration limit);

// What a process and all its living descendants have used of the CPU, dead children that were
// waited for included; nullopt if there is no such process.
std::optional<Duration> cpu_time_of_tree(pid_t root);

}  // namespace mainspring
