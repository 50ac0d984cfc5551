// The dashboard's files as they are served: web/ bundled at build time, part of the program.
#pragma once

#include <span>
#include <string_view>

namespace mainspring {

struct DashboardFile {
  std::string_view name;  // in the path: "" is the page itself
  std::string_view content_type;
  std::string_view plain, gzip;  // the bytes, and the same bytes compressed
};

// Empty in a build without MAINSPRING_DASHBOARD. Static lifetime; callable from every thread.
std::span<const DashboardFile> dashboard_files();

}  // namespace mainspring
