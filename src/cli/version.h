// The version, as set by CMake.
#pragma once

#include <string_view>

namespace mainspring::cli {
#if !defined(MAINSPRING_VERSION)
#error "src/cli/CMakeLists.txt defines MAINSPRING_VERSION"
#endif
inline constexpr std::string_view kVersion = MAINSPRING_VERSION;
}  // namespace mainspring::cli
