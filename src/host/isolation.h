// Isolation: how each child of the job host is isolated, and which means this system has.
//
// Every child gets a session and process group of its own under a keeper (env/processes.h), no
// inherited descriptors, its own environment, no core files, no new privileges; if control groups
// are available, one for each run inside one for its pool; and a lower priority than the server.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "env/cgroups.h"
#include "env/processes.h"
#include "host/control.h"
#include "host/options.h"
#include "telemetry/log.h"

namespace mainspring {

// Adds what the run's control group knows about its end. Call before the group is removed.
void add_of_group(ProcessEnd& end, const Cgroup& group);

class Isolation {
 public:
  // `id` distinguishes this host's children: it is in their environment and in the names of their
  // groups. First ends processes that an earlier host with this id left running.
  Isolation(const HostOptions& options, std::string id, Log& log);

  // Sets the pools and the allow-list of host.json: for later runs; limits of pools apply at once.
  void configure(HostFile file);
  PoolSettings pool(const std::string& name) const;
  std::vector<std::string> pools() const;  // including "default"

  // Sets limits and the base environment. The returned group lives as long as the run; nullptr = no
  // group. Errors: invalid_argument (the pool is not defined), forbidden (the pool does not take
  // the folder; the user is above the ceiling), io_error (a limit requires a control group, and
  // none is available for it).
  Result<std::unique_ptr<Cgroup>> fence(const JobFolder& folder, ProcessSpec& spec);

  std::vector<LayerView> layers() const;

  // Children run at this niceness unless they or their pool set another, so that they do not take
  // the server's CPU time.
  static constexpr int kNice = 10;
  // Share of the processors of all children together, of 100, when the server needs them too; with
  // a control group. Nice alone does not keep the server fast: the kernel treats programs in
  // sessions of their own as separate groups (tests/host/partition_report.py measures).
  static constexpr int kCpuWeight = 10;

 private:
  // The user that a job runs as: "" = the server's. The user of the pool, otherwise of the server's
  // options, is a ceiling: a folder may name another only if that is root.
  Result<std::string> user_of(const ChildLimits& own, const PoolSettings& pool) const;
  // For a job that runs as another user: its home, its names, and a directory that it can write to.
  Result<void> become_user(const JobFolder& folder, ProcessSpec& spec) const;
  std::vector<std::string> environment_of(const JobFolder& folder) const MS_REQUIRES(mutex_);
  Result<Cgroup*> pool_group(const std::string& name, const PoolSettings& settings)
      MS_REQUIRES(mutex_);

  const HostOptions& options_;
  const std::string id_;
  Log& log_;
  Cgroups cgroups_;
  mutable Mutex mutex_;
  HostFile file_ MS_GUARDED_BY(mutex_);
  std::map<std::string, std::unique_ptr<Cgroup>> groups_ MS_GUARDED_BY(mutex_);  // of pools
  std::uint64_t runs_ MS_GUARDED_BY(mutex_) = 0;
};

// Returns whether a variable name matches one of the patterns. "AWS_*" is a prefix.
bool allowed_name(std::string_view name, const std::vector<std::string>& patterns);

}  // namespace mainspring
