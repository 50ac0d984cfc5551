// Asks the C library.
#include "env/local_time.h"

#include <ctime>

namespace mainspring {

std::int64_t local_offset_s(WallTime t) {
  const auto seconds = static_cast<std::time_t>(t.us() / 1'000'000);
  std::tm local{};
  return localtime_r(&seconds, &local) == nullptr ? 0 : local.tm_gmtoff;
}

}  // namespace mainspring
