// Resource usage of this process, read from /proc.
#pragma once

#include <cstdint>

#include "mainspring/time.h"

namespace mainspring {

// Values that cannot be read are 0.
struct ProcessStats {
  double cpu_seconds = 0;  // user and system
  WallTime started;        // to 10 ms; moves if the wall clock is set
  std::int64_t resident_bytes = 0;
  std::int64_t virtual_bytes = 0;
  std::int64_t threads = 0;
  std::int64_t open_files = 0;  // file descriptors
  std::int64_t max_files = 0;
};

ProcessStats read_process_stats();
// The soft limit; 0 = unlimited or unknown.
std::int64_t open_file_limit();

}  // namespace mainspring
