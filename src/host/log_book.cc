// The open logs of a host.
#include "host/log_book.h"

namespace mainspring {

Result<std::shared_ptr<JobLog>> LogBook::open(JobType type, const std::string& name) {
  MutexLock lock(mutex_);
  std::shared_ptr<JobLog>& log = logs_[{type, name}];
  if (!log) {
    MS_TRY_ASSIGN(log, JobLog::open({.path = job_log_path(options_, type, name),
                                     .instance = instance_,
                                     .roll_bytes = options_.log_roll_bytes,
                                     .generations = options_.strict ? 1 : options_.log_generations,
                                     .cap_lines = options_.strict ? 200 : 0},
                                    clock_));
  }
  return log;
}

std::shared_ptr<JobLog> LogBook::find(JobType type, const std::string& name) const {
  MutexLock lock(mutex_);
  const auto found = logs_.find({type, name});
  return found == logs_.end() ? nullptr : found->second;
}

void LogBook::close(JobType type, const std::string& name) {
  std::shared_ptr<JobLog> log;
  {
    MutexLock lock(mutex_);
    const auto found = logs_.find({type, name});
    if (found == logs_.end()) return;
    log = std::move(found->second);
    logs_.erase(found);
  }
  if (log) log->close();
}

void LogBook::close_all() {
  std::map<std::pair<JobType, std::string>, std::shared_ptr<JobLog>> logs;
  {
    MutexLock lock(mutex_);
    logs.swap(logs_);
  }
  for (auto& [key, log] : logs) {
    if (log) log->close();
  }
}

}  // namespace mainspring
