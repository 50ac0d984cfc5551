// Names of job types and statuses of the job host.
#include <array>

#include "host/control.h"

namespace mainspring {

std::string_view to_string(JobType type) {
  static constexpr std::array<std::string_view, 3> kNames = {"continuous", "triggered", "queue"};
  return kNames[static_cast<std::size_t>(type)];
}

std::optional<JobType> parse_job_type(std::string_view text) {
  for (JobType type : {JobType::continuous, JobType::triggered, JobType::queue}) {
    if (to_string(type) == text) return type;
  }
  return std::nullopt;
}

std::string_view folder_of(JobType type) {
  return type == JobType::queue ? "queues" : to_string(type);
}

std::string_view to_string(ContinuousStatus status) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "Initializing", "Starting", "Running",   "Success",         "PendingRestart",
      "Stopped",      "Stopping", "Disabling", "InactiveInstance"};
  return kNames[static_cast<std::size_t>(status)];
}

}  // namespace mainspring
