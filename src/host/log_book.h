// LogBook: the open logs of continuous jobs and queue folders, one JobLog for each, shared by
// writers and followers.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "env/clock.h"
#include "host/job_log.h"
#include "host/options.h"

namespace mainspring {

class LogBook {
 public:
  LogBook(const HostOptions& options, const Clock& clock, std::string instance)
      : options_(options), clock_(clock), instance_(std::move(instance)) {}

  // Opened at first use, and kept. Errors: io_error, storage_full.
  Result<std::shared_ptr<JobLog>> open(JobType type, const std::string& name);
  // nullptr if it is not open.
  std::shared_ptr<JobLog> find(JobType type, const std::string& name) const;
  // The job is gone: notifies followers.
  void close(JobType type, const std::string& name);
  void close_all();

 private:
  const HostOptions& options_;
  const Clock& clock_;
  const std::string instance_;
  mutable Mutex mutex_;
  std::map<std::pair<JobType, std::string>, std::shared_ptr<JobLog>> logs_ MS_GUARDED_BY(mutex_);
};

}  // namespace mainspring
