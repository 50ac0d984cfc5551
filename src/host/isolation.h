// Isolation: what each child of the job host is fenced in with, and which fences this system has.
//
// Every child gets a session and process group of its own under a keeper (env/processes.h), no
// descriptors, an environment of its own, no core files, no new privileges; where control groups
// can be made, one for each run inside one for its pool; and a lower priority than the server.
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

// What the control group of a run that has ended knows of that. Before the group goes.
void add_of_group(ProcessEnd& end, const Cgroup& group);

class Isolation {
 public:
  // `id` tells this host's children from others': it is in their environment and in the names of
  // their groups. Ends what an earlier process with this id left running, first.
  Isolation(const HostOptions& options, std::string id, Log& log);

  // Pools and the allow-list of host.json; for runs that begin from now on, and the limits of the
  // pools at once.
  void configure(HostFile file);
  PoolSettings pool(const std::string& name) const;
  std::vector<std::string> pools() const;  // "default" among them

  // Fills in limits and the beginning of the environment. The group lives as long as the run; it
  // is nullptr where there is none. Errors: invalid_argument (the pool is not defined), io_error (a
  // limit was asked for that needs a control group, and there is none that can keep it).
  Result<std::unique_ptr<Cgroup>> fence(const JobFolder& folder, ProcessSpec& spec);

  std::vector<LayerView> layers() const;
  int ended_leftovers() const { return ended_leftovers_; }

  // Children run at this niceness unless they or their pool say otherwise, so that work does not
  // take the server's time.
  static constexpr int kNice = 10;
  // All of them together, where there is a control group: their share of the processors when the
  // server wants them too, of 100. Nice alone does not keep the server quick: programs in sessions
  // of their own are groups of their own to the kernel (tests/host/partition_report.py measures).
  static constexpr int kCpuWeight = 10;

 private:
  // For a job that runs as another user: its home and names, and a directory that it may write in.
  Result<void> become_user(const JobFolder& folder, ProcessSpec& spec) const;
  std::vector<std::string> environment_of(const JobFolder& folder) const MS_REQUIRES(mutex_);
  Result<Cgroup*> pool_group(const std::string& name, const PoolSettings& settings)
      MS_REQUIRES(mutex_);

  const HostOptions& options_;
  const std::string id_;
  Log& log_;
  int ended_leftovers_ = 0;
  Cgroups cgroups_;
  mutable Mutex mutex_;
  HostFile file_ MS_GUARDED_BY(mutex_);
  std::map<std::string, std::unique_ptr<Cgroup>> groups_ MS_GUARDED_BY(mutex_);  // of pools
  std::uint64_t runs_ MS_GUARDED_BY(mutex_) = 0;
};

// Does a name of the environment match one of the patterns? "AWS_*" matches what begins with AWS_.
bool allowed_name(std::string_view name, const std::vector<std::string>& patterns);

}  // namespace mainspring
