// Start failures: errors of handlers whose program cannot be started. They are the worker's
// trouble: the job goes back without counting the attempt, and the worker claims no more for a
// while.
#pragma once

#include "mainspring/worker.h"

namespace mainspring {

// WorkerFacts::language of a worker with this trouble ends so.
inline constexpr std::string_view kCannotStart = " (cannot start)";

// Marks `error` as a start failure, unless it depends on the job: arguments or an environment that
// are too large.
Error start_failure(Error error);
bool is_start_failure(const Error& error);

// Pause before the next try after `failures` in a row: 1 s, doubled up to 1 min.
Duration start_pause(int failures);

}  // namespace mainspring
