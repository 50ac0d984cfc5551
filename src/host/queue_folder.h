// QueueFolder: runs a folder's script for the jobs of the queue with the folder's name.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "host/job_runner.h"
#include "host/queue_scripts.h"
#include "worker/exec.h"
#include "worker/worker.h"

namespace mainspring {

class QueueFolder final : public JobRunner {
 public:
  QueueFolder(HostParts& host, std::string name);
  ~QueueFolder() override;

  JobView view() const override;

 private:
  void serve(const JobFolder& folder, std::stop_token stop) override;
  // One process per job.
  Handler exec(const JobFolder& folder, std::shared_ptr<JobLog> log);
  PersistentOptions persistent(const JobFolder& folder, std::shared_ptr<JobLog> log);
  // Sets the slots by demand, until the result is destroyed; nullptr = they are fixed.
  std::shared_ptr<void> by_demand(const JobFolder& folder, WorkerRuntime& runtime);
  // Sets directory, isolation and log of a process that is about to start. Resources of that
  // process alone are owned by the spec's functions, and end with them.
  Result<void> prepare(const JobFolder& folder, ProcessSpec& spec,
                       const std::shared_ptr<JobLog>& log);

  const std::string name_;
  mutable Mutex mutex_;
  WorkerRuntime* runtime_ MS_GUARDED_BY(mutex_) = nullptr;
  PersistentPool* pool_ MS_GUARDED_BY(mutex_) = nullptr;
  std::vector<std::string> copies_ MS_GUARDED_BY(mutex_);  // working copies in use
};

}  // namespace mainspring
