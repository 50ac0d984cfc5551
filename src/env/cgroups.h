// Cgroups: limits for a program and all it starts, where the system has control groups that this
// process may use. Version 1 (a hierarchy per controller) and version 2 (one for all), each
// controller wherever it is.
//
//   /sys/fs/cgroup/memory/mainspring.3f9a1c…/pool/run      v1
//   /sys/fs/cgroup/…/mainspring.3f9a1c…/pool/run           v2
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring {

struct CgroupLimits {
  std::optional<std::int64_t> memory_bytes;
  std::optional<std::int64_t> pids;
  std::optional<int> cpu_percent;  // of one core
};

// One group. Movable handle; its end kills what is in it and removes it.
class Cgroup {
 public:
  virtual ~Cgroup() = default;
  // Where a process writes "0" to join: one file per hierarchy. For ProcessLimits::cgroup_procs.
  virtual const std::vector<std::string>& procs_files() const = 0;
  // Applies other limits. Errors: io_error.
  virtual Result<void> limit(const CgroupLimits& limits) = 0;
  // KILL to all in it and below, also those that are being made (frozen first where that is
  // possible). Waits until they are gone, for up to 10 s. Errors: timeout.
  virtual Result<void> kill_all() = 0;
  virtual std::optional<Duration> cpu_time() const = 0;         // nullopt = not accounted
  virtual std::optional<std::int64_t> memory_peak() const = 0;  // bytes
  virtual std::int64_t oom_kills() const = 0;
  // A group inside. v1 memory and pids and v2 limit the children together by the parent's.
  // Errors: io_error, conflict (exists and is not empty).
  virtual Result<std::unique_ptr<Cgroup>> make(const std::string& name,
                                               const CgroupLimits& limits) = 0;
};

struct CgroupController {
  std::string name;  // "memory", "pids", "cpu", "cpuacct", "freezer"
  bool active = false;
  std::string detail;  // "v1", "v2", or why not
};

class Cgroups {
 public:
  // Looks at `mounts` (the text of /proc/self/mountinfo) and /proc/self/cgroup, makes a group named
  // `name` below this process's own in every hierarchy that lets it, and kills and removes what an
  // earlier process of the same name left there. Never fails: without any group, root() is nullptr.
  static Cgroups open(const std::string& name);
  Cgroup* root() const { return root_.get(); }
  const std::vector<CgroupController>& controllers() const { return controllers_; }

 private:
  std::unique_ptr<Cgroup> root_;
  std::vector<CgroupController> controllers_;
};

}  // namespace mainspring
