// prctl(2) and setrlimit(2).
#include "env/private_memory.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>

namespace mainspring {

Result<void> keep_memory_private() {
  rlimit limit{};
  const bool done = ::getrlimit(RLIMIT_CORE, &limit) == 0 && [&] {
    limit.rlim_cur = 0;
    return ::setrlimit(RLIMIT_CORE, &limit) == 0 && ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
  }();
  if (done) return {};
  return Error{ErrorCode::io_error,
               fmt::format("cannot keep this process's memory private: {}; use --allow-core to "
                           "continue without it",
                           std::strerror(errno))};
}

}  // namespace mainspring
