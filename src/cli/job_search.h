// The flags that select jobs: for `jobs list` and `bulk`.
#pragma once

#include <vector>

#include "cli/command.h"
#include "mainspring/search.h"

namespace mainspring::cli {

std::vector<Flag> search_flags();
// By --queue, --kind, --tag, --state, --since, --until and --search. Errors: invalid_argument.
Result<JobSearch> search_of(const Invocation& invocation, const Io& io);
// "--state …" instead of "state …".
Error with_search_flags(Error error);

}  // namespace mainspring::cli
