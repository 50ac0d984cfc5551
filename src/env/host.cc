// Host name and process id, from the kernel.
#include "env/host.h"

#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace mainspring {

std::string host_name() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') return "localhost";
  std::string name = host.data();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c <= ' ' || c > '~'; }, '.');
  return name;
}

std::int64_t process_id() {
  return getpid();
}

std::optional<bool> clock_synchronised() {
  timex state{};
  const int answer = adjtimex(&state);  // modes = 0: only reads
  if (answer < 0) return std::nullopt;
  return answer != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
}

}  // namespace mainspring
