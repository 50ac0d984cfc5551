// How loaded this machine is: stall times and free memory.
//
// Source: https://docs.kernel.org/accounting/psi.html
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mainspring {

struct MachinePressure {
  // The largest share of the last ten seconds in which some task waited for CPU, memory or I/O, in
  // percent; 0 if the kernel does not measure it.
  double stalled = 0;
  std::optional<std::int64_t> free_memory_bytes{};
};
MachinePressure read_pressure(const std::string& proc = "/proc");

// Tasks or processes that may be added to `now` of the `wanted`: none while the machine is stalled,
// and not more than fit into the free memory, at `peak_bytes` each (0 = not known). Fewer are
// always possible.
inline constexpr double kMostStalled = 20;
int grown(int now, int wanted, const MachinePressure& pressure, std::int64_t peak_bytes);

}  // namespace mainspring
