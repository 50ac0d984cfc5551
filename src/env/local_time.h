// The time zone of this process.
#pragma once

#include <cstdint>

#include "mainspring/time.h"

namespace mainspring {

// How far local clocks are ahead of UTC at `t`, in seconds: by TZ, else /etc/localtime. 0 for times
// that the C library cannot convert.
std::int64_t local_offset_s(WallTime t);

}  // namespace mainspring
