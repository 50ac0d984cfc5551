// Facts about this machine and process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mainspring {

// The kernel's host name, in a container the container's; bytes outside printable ASCII become '.'.
// "localhost" if there is none.
std::string host_name();
std::int64_t process_id();
// Whether the kernel's clock follows a time server; nullopt = not known.
std::optional<bool> clock_synchronised();

}  // namespace mainspring
