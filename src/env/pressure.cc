// Reads the pressure of this machine from /proc.
#include "env/pressure.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace mainspring {

MachinePressure read_pressure(const std::string& proc) {
  MachinePressure out;
  for (const char* resource : {"cpu", "memory", "io"}) {
    std::ifstream file(proc + "/pressure/" + resource);
    std::string kind, average;
    if (file >> kind >> average && kind == "some" && average.starts_with("avg10="))
      out.stalled = std::max(out.stalled, std::strtod(average.c_str() + 6, nullptr));
  }
  std::ifstream memory(proc + "/meminfo");
  std::int64_t kib = 0;
  for (std::string name, rest; memory >> name >> kib && std::getline(memory, rest);) {
    if (name == "MemAvailable:") out.free_memory_bytes = kib * 1024;
  }
  return out;
}

int grown(int now, int wanted, const MachinePressure& pressure, std::int64_t peak_bytes) {
  if (wanted <= now) return wanted;
  if (pressure.stalled >= kMostStalled) return now;
  if (!pressure.free_memory_bytes || peak_bytes <= 0) return wanted;
  const std::int64_t fit = *pressure.free_memory_bytes / peak_bytes;
  return now + static_cast<int>(std::min<std::int64_t>(wanted - now, fit));
}

}  // namespace mainspring
