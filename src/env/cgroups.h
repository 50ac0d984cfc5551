// Cgroups: limits for a program and all it starts, where the system has control groups that this
// process may use. Version 1 (a hierarchy per controller) and version 2 (one for all), each
// controller wherever it is.
//
//   /sys/fs/cgroup/memory/mainspring-host.3f9a1c…/pool/run      v1
//   /sys/fs/cgroup/…/mainspring-host.3f9a1c…/pool/run           v2
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring {

// Absent = unlimited. One whose controller is not active (see Cgroups::controllers) is left out.
struct CgroupLimits {
  std::optional<std::int64_t> memory_bytes;
  std::optional<std::int64_t> pids;
  std::optional<int> cpu_percent;  // of one core
  // Share of the processors under contention, 1 to 10,000; 100 = the default of every group. It
  // keeps others more responsive than nice does: programs in many sessions count as one group.
  std::optional<int> cpu_weight;
};

// One group. The destructor kills its processes and removes it.
class Cgroup {
 public:
  virtual ~Cgroup() = default;
  // Where a process writes "0" to join: one file per hierarchy. For ProcessLimits::cgroup_procs.
  virtual const std::vector<std::string>& procs_files() const = 0;
  // Applies other limits. Errors: invalid_argument (out of range), forbidden, io_error (refused:
  // memory below what is in use, in v1 also more of a processor than the parent has).
  virtual Result<void> limit(const CgroupLimits& limits) = 0;
  // Kills all processes in it and below, also those being forked (freezes them first if possible).
  // Waits until they are gone, for up to 10 s. Errors: timeout.
  virtual Result<void> kill_all() = 0;
  virtual std::optional<Duration> cpu_time() const = 0;         // nullopt = not accounted
  virtual std::optional<std::int64_t> memory_peak() const = 0;  // bytes
  // Processes that the kernel killed for want of memory, in it and below, removed groups included.
  virtual std::int64_t oom_kills() const = 0;
  // A group inside. The parent's limits hold for its children together. Programs join either a
  // group or groups inside it: in v2 one with groups inside takes none.
  // Errors: invalid_argument (name or limits), conflict (exists and is not empty), forbidden,
  // io_error.
  virtual Result<std::unique_ptr<Cgroup>> make(const std::string& name,
                                               const CgroupLimits& limits) = 0;
};

struct CgroupController {
  std::string name;  // "memory", "pids", "cpu", "cpuacct", "freezer"
  bool active = false;
  std::string detail;  // "v1", "v2", or why not
};

// Where Cgroups::open looks, and how groups are made and removed (0 or an errno): the kernel's, or
// a directory that imitates it.
struct CgroupSources {
  std::string mounts;                                     // the text of /proc/self/mountinfo
  std::string own;                                        // that of /proc/self/cgroup
  std::function<int(const std::string&)> make_directory;  // empty = mkdir(2)
  std::function<int(const std::string&)> remove_directory;
};

class Cgroups {
 public:
  // Reads /proc/self/mountinfo and /proc/self/cgroup. Creates a group named `name` (1 to 128 of
  // A-Z a-z 0-9 . _ -) below this process's own in every hierarchy that allows it. Kills and
  // removes what an earlier process with the same name left there. Also removes empty groups of
  // dead processes whose names are equal up to the first dot. In v2 a group with processes cannot
  // delegate controllers, so this process moves from its group to "<name>.self" below it, if it is
  // the only process there. Never fails: without any group, root() is nullptr.
  static Cgroups open(const std::string& name);
  static Cgroups open(const std::string& name, const CgroupSources& sources);
  Cgroup* root() const { return root_.get(); }
  const std::vector<CgroupController>& controllers() const { return controllers_; }
  int dead_removed() const { return dead_removed_; }  // groups of others, over all hierarchies

 private:
  std::unique_ptr<Cgroup> root_;
  std::vector<CgroupController> controllers_;
  int dead_removed_ = 0;
};

}  // namespace mainspring
