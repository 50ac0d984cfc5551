// The bytes are taken in by the assembler: nothing is copied or unpacked at run time.
#include "dashboard/dashboard.h"

#ifdef MAINSPRING_DASHBOARD_DIR

// The bytes of FILE between the symbols NAME and NAME_end.
#define MS_DASHBOARD_BYTES(NAME, FILE)                                    \
  asm(".pushsection .rodata\n.global " #NAME "\n" #NAME ":\n.incbin \""   \
      MAINSPRING_DASHBOARD_DIR "/" FILE "\"\n.global " #NAME "_end\n"     \
      #NAME "_end:\n.byte 0\n.popsection\n");                             \
  extern "C" const char NAME[], NAME##_end[];

MS_DASHBOARD_BYTES(ms_dashboard_page, "index.html")
MS_DASHBOARD_BYTES(ms_dashboard_page_gz, "index.html.gz")
MS_DASHBOARD_BYTES(ms_dashboard_script, "app.js")
MS_DASHBOARD_BYTES(ms_dashboard_script_gz, "app.js.gz")
MS_DASHBOARD_BYTES(ms_dashboard_style, "app.css")
MS_DASHBOARD_BYTES(ms_dashboard_style_gz, "app.css.gz")

namespace mainspring {

std::span<const DashboardFile> dashboard_files() {
  static const DashboardFile files[] = {
      {"", "text/html; charset=utf-8",
       {ms_dashboard_page, ms_dashboard_page_end},
       {ms_dashboard_page_gz, ms_dashboard_page_gz_end}},
      {"app.js", "text/javascript; charset=utf-8",
       {ms_dashboard_script, ms_dashboard_script_end},
       {ms_dashboard_script_gz, ms_dashboard_script_gz_end}},
      {"app.css", "text/css; charset=utf-8",
       {ms_dashboard_style, ms_dashboard_style_end},
       {ms_dashboard_style_gz, ms_dashboard_style_gz_end}}};
  return files;
}

}  // namespace mainspring

#else

namespace mainspring {

std::span<const DashboardFile> dashboard_files() {
  return {};
}

}  // namespace mainspring

#endif
