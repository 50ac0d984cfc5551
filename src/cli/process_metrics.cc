// mainspring_build_info and process_*.
#include "cli/process_metrics.h"

#include "cli/version.h"
#include "env/process_stats.h"

namespace mainspring::cli {

void register_process_metrics(Registry& registry, const std::string& store) {
  registry.gauge("mainspring_build_info",
                 "1, with the version of the program and the kind of its store.",
                 [] { return 1.0; }, {{"version", std::string(kVersion)}, {"store", store}});
  registry.counter_of("process_cpu_seconds_total", "User and system CPU time.",
                      [] { return read_process_stats().cpu_seconds; });
  const auto gauge = [&](const char* name, const char* help, auto member) {
    registry.gauge(name, help,
                   [member] { return static_cast<double>(read_process_stats().*member); });
  };
  gauge("process_resident_memory_bytes", "Resident memory.", &ProcessStats::resident_bytes);
  gauge("process_virtual_memory_bytes", "Virtual memory.", &ProcessStats::virtual_bytes);
  gauge("process_threads", "Threads.", &ProcessStats::threads);
  gauge("process_open_fds", "Open file descriptors.", &ProcessStats::open_files);
  gauge("process_max_fds", "Limit of open file descriptors.", &ProcessStats::max_files);
  registry.gauge("process_start_time_seconds", "Start of the process, seconds since 1970.",
                 [] { return static_cast<double>(read_process_stats().started.us()) / 1e6; });
}

}  // namespace mainspring::cli
