// The real clock and the sources of chance.
#include <fmt/format.h>
#include <sys/random.h>
#include <time.h>

#include "base/assert.h"
#include "env/clock.h"
#include "env/random.h"

namespace mainspring {
namespace {

std::int64_t read_clock_us(clockid_t id) {
  timespec t{};
  MS_ASSERT(clock_gettime(id, &t) == 0, "the kernel has this clock");
  return t.tv_sec * 1'000'000LL + t.tv_nsec / 1000;
}

}  // namespace

Now SystemClock::now() const {
  return {Instant::from_us(read_clock_us(CLOCK_BOOTTIME)),
          WallTime::from_us(read_clock_us(CLOCK_REALTIME))};
}

std::string Random::hex128() {
  return fmt::format("{:016x}{:016x}", next(), next());
}

std::uint64_t SystemRandom::next() {
  std::uint64_t value = 0;
  MS_ASSERT(getrandom(&value, sizeof value, 0) == sizeof value, "the kernel gives random bytes");
  return value;
}

std::uint64_t SeededRandom::next() {
  state_ += 0x9e3779b97f4a7c15u;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace mainspring
