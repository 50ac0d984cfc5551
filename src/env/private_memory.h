// Keeping what is in this process's memory (tokens, keys, payloads) to itself.
#pragma once

#include "mainspring/result.h"

namespace mainspring {

// From now on: no core files (the soft limit; programs that are started may raise theirs again),
// and no reading of this process's memory, environment and descriptors by others of its user, such
// as the jobs that it runs (PR_SET_DUMPABLE 0; root still may). Programs that it starts are not
// affected. What it costs: no debugger without root, and a server that is not root cannot give
// the autogroups of its jobs a nice value. Errors: io_error.
Result<void> keep_memory_private();

}  // namespace mainspring
