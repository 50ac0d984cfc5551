// Protects this process's memory (tokens, keys, payloads).
#pragma once

#include "mainspring/result.h"

namespace mainspring {

// From now on: no core files (the soft limit; child programs may raise theirs again), and other
// processes of the same user, such as its jobs, cannot read this process's memory, environment and
// descriptors (PR_SET_DUMPABLE 0; root still can). Child programs are not affected. Costs:
// debugging needs root, and a server that is not root cannot set a nice value for the autogroups of
// its jobs. Errors: io_error.
Result<void> keep_memory_private();

}  // namespace mainspring
