// Control groups through their files; if several hierarchies can do an operation, the better one is
// used.
#include "env/cgroups.h"

#include <errno.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <utility>

#include "env/cgroup_owner.h"
#include "env/cgroup_tree.h"
#include "env/limits.h"

namespace mainspring {
namespace {

using Steady = std::chrono::steady_clock;
constexpr auto kGroupKillLimit = std::chrono::seconds(10);
constexpr auto kFreezeLimit = std::chrono::milliseconds(200);
constexpr auto kRemoveLimit = std::chrono::seconds(1);
constexpr int kLongestPause_ms = 16;
constexpr std::size_t kMaxGroupNameBytes = 128;
constexpr std::int64_t kPeriod_us = 100'000;  // over which a processor's share is counted
constexpr int kUsualWeight = 100;             // of version 2; version 1 calls it 1024 shares
constexpr int kUsualShares = 1024;
constexpr int kFewestShares = 2;
constexpr int kMaxWeight = 10'000;
constexpr int kMaxMoves = 5;             // into a group of this process's own
constexpr int kMaxCpuPercent = 100'000;  // 1,000 cores

// A group's directory in one hierarchy.
struct Part {
  int version = 1;
  std::vector<std::string> controllers;
  std::string directory;

  bool has(std::string_view controller) const {
    return std::find(controllers.begin(), controllers.end(), controller) != controllers.end();
  }
  std::string file(std::string_view name) const { return fmt::format("{}/{}", directory, name); }
};

// Waits a little, longer each time.
class Pause {
 public:
  void operator()() {
    poll(nullptr, 0, ms_);
    ms_ = std::min(ms_ * 2, kLongestPause_ms);
  }

 private:
  int ms_ = 1;
};

Error file_error(int number, std::string what) {
  std::string message = fmt::format("{}: {}", what, strerror(number));
  if (code_of(number) == ErrorCode::forbidden) {
    message += "; this process may not change control groups (systemd: Delegate=yes)";
  }
  return Error{.code = code_of(number), .message = std::move(message)};
}

bool good_name(std::string_view name) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kMaxGroupNameBytes && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), good);
}

Result<void> check_group_limits(const CgroupLimits& limits) {
  const auto low = [](std::string_view field, std::int64_t value, std::string_view rule) {
    return invalid(std::string(field), fmt::format("{} {}: must be {}", field, value, rule));
  };
  if (limits.memory_bytes && *limits.memory_bytes < 1) {
    return low("memory_bytes", *limits.memory_bytes, "at least 1");
  }
  if (limits.pids && *limits.pids < 1) return low("pids", *limits.pids, "at least 1");
  if (limits.cpu_percent && (*limits.cpu_percent < 1 || *limits.cpu_percent > kMaxCpuPercent)) {
    return low("cpu_percent", *limits.cpu_percent, fmt::format("1 to {}", kMaxCpuPercent));
  }
  if (limits.cpu_weight && (*limits.cpu_weight < 1 || *limits.cpu_weight > kMaxWeight)) {
    return low("cpu_weight", *limits.cpu_weight, fmt::format("1 to {}", kMaxWeight));
  }
  return {};
}

// Kills the processes in the directories of one group, and removes the directories.
class Killing {
 public:
  explicit Killing(const std::vector<Part>& parts) : parts_(parts) {}

  // Returns the pids of the processes that do not end; empty if all ended.
  std::vector<pid_t> run() {
    const auto deadline = Steady::now() + kGroupKillLimit;
    std::vector<pid_t> left = processes();
    for (Pause pause; !left.empty(); pause()) {
      if (Steady::now() >= deadline) return left;
      if (!kill_at_once()) kill_one_by_one();
      left = processes();
    }
    return {};
  }

 private:
  std::vector<pid_t> processes() const {
    std::vector<pid_t> out;
    for (const Part& part : parts_) {
      const std::vector<pid_t> more = cgroup::processes_below(part.directory);
      out.insert(out.end(), more.begin(), more.end());
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  // cgroup.kill also reaches processes that are being forked. Source: cgroup-v2.rst. It does not
  // reach processes that are in the group of another hierarchy only.
  bool kill_at_once() const {
    for (const Part& part : parts_) {
      if (part.version != 2 || cgroup::write(part.file("cgroup.kill"), "1") != 0) continue;
      return cgroup::processes_below(part.directory).size() == processes().size();
    }
    return false;
  }

  // While the processes are frozen, none can fork, and no pid is reused. Without freezing, the pids
  // limit at least keeps them from forking while they are killed.
  void kill_one_by_one() const {
    const Part* pids = freeze() ? nullptr : part_with("pids");
    std::string before;
    if (pids != nullptr) {
      before = cgroup::read(pids->file("pids.max")).value_or("max");
      cgroup::write(pids->file("pids.max"), "0");
    }
    for (const pid_t pid : processes()) kill(pid, SIGKILL);
    if (pids != nullptr) cgroup::write(pids->file("pids.max"), before);
    for (const Part& part : parts_) {
      // v1 keeps killed processes until they are thawed.
      if (part.has("freezer")) cgroup::write(part.file("freezer.state"), "THAWED");
      if (part.version == 2) cgroup::write(part.file("cgroup.freeze"), "0");
    }
  }

  const Part* part_with(std::string_view controller) const {
    for (const Part& part : parts_) {
      if (part.has(controller)) return &part;
    }
    return nullptr;
  }

  bool freeze() const {
    const auto deadline = Steady::now() + kFreezeLimit;
    bool any = false;
    for (const Part& part : parts_) {
      std::function<bool()> frozen;
      if (part.version == 2 && cgroup::write(part.file("cgroup.freeze"), "1") == 0) {
        frozen = [&] { return cgroup::read_entry(part.file("cgroup.events"), "frozen") == 1; };
      } else if (part.has("freezer") && cgroup::write(part.file("freezer.state"), "FROZEN") == 0) {
        frozen = [&] {
          return cgroup::read(part.file("freezer.state")).value_or("").starts_with("FROZEN");
        };
      }
      if (!frozen) continue;
      for (Pause pause; !frozen() && Steady::now() < deadline;) pause();
      any = any || frozen();
    }
    return any;
  }

  const std::vector<Part>& parts_;
};

// How directories of groups are made and removed.
struct Io {
  std::function<int(const std::string&)> make, remove;

  explicit Io(const CgroupSources& sources)
      : make(sources.make_directory), remove(sources.remove_directory) {
    if (!make) {
      make = [](const std::string& path) { return mkdir(path.c_str(), 0755) == 0 ? 0 : errno; };
    }
    if (!remove) {
      remove = [](const std::string& path) { return rmdir(path.c_str()) == 0 ? 0 : errno; };
    }
  }

  // The kernel takes a moment to release a group whose last process was killed.
  void remove_all(const std::string& directory) const {
    const auto deadline = Steady::now() + kRemoveLimit;
    for (Pause pause; cgroup::exists(directory) && Steady::now() < deadline; pause()) {
      cgroup::each_group(directory, [this](const std::string& group) { remove(group); });
      if (!cgroup::exists(directory)) return;
    }
  }
};

using SharedCount = std::shared_ptr<std::atomic<std::int64_t>>;

class FileGroup final : public Cgroup {
 public:
  FileGroup(std::string name, std::vector<Part> parts, std::shared_ptr<const Io> io,
            SharedCount above, std::vector<Fd> owners = {})
      : name_(std::move(name)),
        parts_(std::move(parts)),
        io_(std::move(io)),
        above_(std::move(above)),
        owners_(std::move(owners)) {
    for (const Part& part : parts_) procs_files_.push_back(part.file("cgroup.procs"));
  }

  ~FileGroup() override {
    Killing(parts_).run();
    const Part* memory = part_of("memory");
    if (above_ && memory != nullptr && memory->version == 1) *above_ += oom_kills();
    for (const Part& part : parts_) io_->remove_all(part.directory);
  }

  const std::vector<std::string>& procs_files() const override { return procs_files_; }
  Result<void> limit(const CgroupLimits& limits) override;
  Result<void> kill_all() override;
  std::optional<Duration> cpu_time() const override;
  std::optional<std::int64_t> memory_peak() const override;
  std::int64_t oom_kills() const override;
  Result<std::unique_ptr<Cgroup>> make(const std::string& name,
                                       const CgroupLimits& limits) override;

 private:
  // The part with a controller; v1 first, where the presence of the controller means it is active.
  const Part* part_of(std::string_view controller) const {
    for (const Part& part : parts_) {
      if (part.has(controller)) return &part;
    }
    return nullptr;
  }
  Result<void> set(const Part& part, std::string_view file, const std::string& value) const;
  Result<void> limit_memory(std::optional<std::int64_t> bytes);
  Result<void> limit_cpu(std::optional<int> percent);
  Result<void> weigh_cpu(std::optional<int> weight);
  Result<void> give_on(const Part& part) const;
  Result<void> make_empty(const std::vector<Part>& parts, const std::string& name) const;

  const std::string name_;
  const std::vector<Part> parts_;
  const std::shared_ptr<const Io> io_;
  const SharedCount above_;       // the parent's counters, as v1 drops counters with a group
  const std::vector<Fd> owners_;  // locks that show that this process is alive
  const SharedCount removed_ = std::make_shared<std::atomic<std::int64_t>>(0);
  std::vector<std::string> procs_files_;
  CgroupLimits limits_;
};

Result<void> FileGroup::set(const Part& part, std::string_view file,
                            const std::string& value) const {
  if (const int error = cgroup::write(part.file(file), value); error != 0) {
    return file_error(error, fmt::format("control group \"{}\": writing {} to {}", name_, value,
                                         part.file(file)));
  }
  return {};
}

Result<void> FileGroup::limit(const CgroupLimits& limits) {
  MS_TRY(check_group_limits(limits));
  if (limits.memory_bytes != limits_.memory_bytes) MS_TRY(limit_memory(limits.memory_bytes));
  if (limits.pids != limits_.pids) {
    if (const Part* part = part_of("pids"); part != nullptr) {
      MS_TRY(set(*part, "pids.max", limits.pids ? fmt::to_string(*limits.pids) : "max"));
    }
    limits_.pids = limits.pids;
  }
  if (limits.cpu_percent != limits_.cpu_percent) MS_TRY(limit_cpu(limits.cpu_percent));
  if (limits.cpu_weight != limits_.cpu_weight) MS_TRY(weigh_cpu(limits.cpu_weight));
  return {};
}

// Swap counts too: else a program at its limit would continue slowly.
Result<void> FileGroup::limit_memory(std::optional<std::int64_t> bytes) {
  const Part* part = part_of("memory");
  if (part != nullptr && part->version == 2) {
    MS_TRY(set(*part, "memory.max", bytes ? fmt::to_string(*bytes) : "max"));
    if (cgroup::exists(part->file("memory.swap.max"))) {
      MS_TRY(set(*part, "memory.swap.max", bytes ? "0" : "max"));
    }
  } else if (part != nullptr) {
    const std::string value = fmt::to_string(bytes.value_or(-1));
    const std::string_view both = "memory.memsw.limit_in_bytes";
    const bool counts_both = cgroup::exists(part->file(both));
    // Memory with swap may never be less than memory: raised first, lowered last.
    if (counts_both) (void)set(*part, both, value);
    MS_TRY(set(*part, "memory.limit_in_bytes", value));
    if (counts_both) MS_TRY(set(*part, both, value));
  }
  limits_.memory_bytes = bytes;
  return {};
}

Result<void> FileGroup::limit_cpu(std::optional<int> percent) {
  const Part* part = part_of("cpu");
  const std::int64_t quota = percent ? *percent * kPeriod_us / 100 : -1;
  if (part != nullptr && part->version == 2) {
    MS_TRY(
        set(*part, "cpu.max",
            percent ? fmt::format("{} {}", quota, kPeriod_us) : fmt::format("max {}", kPeriod_us)));
  } else if (part != nullptr) {
    MS_TRY(set(*part, "cpu.cfs_period_us", fmt::to_string(kPeriod_us)));
    // v1 refuses more than a group above has with EINVAL, in a container with a limit for example.
    // The limit above holds then.
    const int error = cgroup::write(part->file("cpu.cfs_quota_us"), fmt::to_string(quota));
    const bool less_above = error == EINVAL && percent.has_value();
    if (error != 0) {
      MS_TRY(set(*part, "cpu.cfs_quota_us", fmt::to_string(less_above ? -1 : quota)));
    }
  }
  limits_.cpu_percent = percent;
  return {};
}

Result<void> FileGroup::weigh_cpu(std::optional<int> weight) {
  const Part* part = part_of("cpu");
  const int value = weight.value_or(kUsualWeight);
  if (part != nullptr && part->version == 2) {
    MS_TRY(set(*part, "cpu.weight", fmt::to_string(value)));
  } else if (part != nullptr) {
    const int shares = std::max(kFewestShares, value * kUsualShares / kUsualWeight);
    MS_TRY(set(*part, "cpu.shares", fmt::to_string(shares)));
  }
  limits_.cpu_weight = weight;
  return {};
}

Result<void> FileGroup::kill_all() {
  const std::vector<pid_t> left = Killing(parts_).run();
  if (left.empty()) return {};
  return Error{.code = ErrorCode::timeout,
               .message = fmt::format("control group \"{}\": processes {} do not end after KILL",
                                      name_, fmt::join(left, ", "))};
}

std::optional<Duration> FileGroup::cpu_time() const {
  if (const Part* part = part_of("cpuacct"); part != nullptr) {
    const auto ns = cgroup::read_number(part->file("cpuacct.usage"));
    if (ns) return Duration(*ns / 1000);
  }
  for (const Part& part : parts_) {
    if (part.version != 2) continue;
    if (const auto us = cgroup::read_entry(part.file("cpu.stat"), "usage_usec")) {
      return Duration(*us);
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> FileGroup::memory_peak() const {
  const Part* part = part_of("memory");
  if (part == nullptr) return std::nullopt;
  return cgroup::read_number(
      part->file(part->version == 2 ? "memory.peak" : "memory.max_usage_in_bytes"));
}

std::int64_t FileGroup::oom_kills() const {
  const Part* part = part_of("memory");
  if (part == nullptr) return 0;
  if (part->version == 2) {  // includes the groups inside, also removed ones
    return cgroup::read_entry(part->file("memory.events"), "oom_kill").value_or(0);
  }
  std::int64_t count = *removed_;
  cgroup::each_group(part->directory, [&count](const std::string& group) {
    count += cgroup::read_entry(group + "/memory.oom_control", "oom_kill").value_or(0);
  });
  return count;
}

// v2: a group has the files of a controller only if its parent delegates the controller.
Result<void> FileGroup::give_on(const Part& part) const {
  if (part.version != 2) return {};
  for (const std::string& controller : part.controllers) {
    const int error = cgroup::write(part.file("cgroup.subtree_control"), "+" + controller);
    if (error == EBUSY) {
      return Error{.code = ErrorCode::io_error,
                   .message = fmt::format("control group \"{}\": has processes of its own, and can "
                                          "have no groups inside",
                                          name_)};
    }
    if (error != 0) {
      return file_error(error, fmt::format("control group \"{}\": enabling \"{}\" for its children",
                                           name_, controller));
    }
  }
  return {};
}

Result<void> FileGroup::make_empty(const std::vector<Part>& parts, const std::string& name) const {
  for (const Part& part : parts) {
    if (!cgroup::processes_below(part.directory).empty()) {
      return Error{
          .code = ErrorCode::conflict,
          .message = fmt::format("control group \"{}\": exists, with processes in it", name)};
    }
    io_->remove_all(part.directory);
    if (const int error = io_->make(part.directory); error != 0) {
      return file_error(error, fmt::format("creating the control group \"{}\"", part.directory));
    }
  }
  return {};
}

Result<std::unique_ptr<Cgroup>> FileGroup::make(const std::string& name,
                                                const CgroupLimits& limits) {
  if (!good_name(name)) {
    return invalid("name",
                   fmt::format("control group \"{}\": a name must be 1 to {} of A-Z a-z 0-9 "
                               ". _ -, and not begin with a dot",
                               name, kMaxGroupNameBytes));
  }
  MS_TRY(check_group_limits(limits));
  std::vector<Part> parts = parts_;
  for (Part& part : parts) part.directory += "/" + name;
  for (const Part& part : parts_) MS_TRY(give_on(part));
  if (auto made = make_empty(parts, name_ + "/" + name); !made) {
    if (made.error().code != ErrorCode::conflict) {
      for (const Part& part : parts) io_->remove(part.directory);
    }
    return made.error();
  }
  auto group = std::make_unique<FileGroup>(name_ + "/" + name, std::move(parts), io_, removed_);
  MS_TRY(group->limit(limits));
  return std::unique_ptr<Cgroup>(std::move(group));
}

// One call of Cgroups::open.
class Opening {
 public:
  Opening(const std::string& name, const CgroupSources& sources)
      : name_(name), sources_(sources), io_(std::make_shared<const Io>(sources)) {}

  std::unique_ptr<Cgroup> run(std::vector<CgroupController>& controllers, int& dead_removed) {
    for (const char* name : {"memory", "pids", "cpu", "cpuacct", "freezer"}) {
      controllers.push_back({name, false, "not mounted"});
    }
    controllers_ = &controllers;
    if (!good_name(name_)) {
      for (CgroupController& controller : controllers) {
        controller.detail = fmt::format("\"{}\" is not a valid group name", name_);
      }
      return nullptr;
    }
    std::vector<cgroup::Hierarchy> found = cgroup::find(sources_);
    // v1 first: a controller is in one hierarchy only, and v2's general means are second best.
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.version < b.version; });
    end_leftovers(found);
    std::vector<Part> parts;
    for (const cgroup::Hierarchy& hierarchy : found) {
      if (!hierarchy.own.empty()) {
        dead_removed += cgroup::remove_dead(base(hierarchy), name_, io_->remove);
      }
      add(hierarchy, parts);
    }
    if (parts.empty()) return nullptr;
    return std::make_unique<FileGroup>(name_, std::move(parts), io_, nullptr, std::move(owners_));
  }

 private:
  // Where our group is created: in v2 an earlier call may have moved this process one level down.
  std::string base(const cgroup::Hierarchy& hierarchy) const {
    std::string own = hierarchy.own;
    const std::string self = "/" + name_ + ".self";
    if (hierarchy.version == 2 && own.ends_with(self)) own.resize(own.size() - self.size());
    return own;
  }

  void end_leftovers(const std::vector<cgroup::Hierarchy>& found) const {
    std::vector<Part> parts;
    std::vector<Fd> owners;  // held until all is removed
    for (const cgroup::Hierarchy& hierarchy : found) {
      if (hierarchy.own.empty()) continue;
      const std::string directory = base(hierarchy) + "/" + name_;
      Fd& owner = owners.emplace_back();
      if (!cgroup::exists(directory) || !cgroup::take_over(directory, owner)) continue;
      parts.push_back({hierarchy.version, hierarchy.controllers, directory});
    }
    Killing(parts).run();
    for (const Part& part : parts) io_->remove_all(part.directory);
  }

  void say(std::string_view name, bool active, const std::string& detail) {
    for (CgroupController& controller : *controllers_) {
      if (controller.name == name && !controller.active) {
        controller.active = active;
        controller.detail = detail;
      }
    }
  }

  void add(const cgroup::Hierarchy& hierarchy, std::vector<Part>& parts) {
    const std::string version = fmt::format("v{}", hierarchy.version);
    const std::string above = base(hierarchy);
    std::vector<std::string> names = hierarchy.controllers;
    if (hierarchy.version == 2) names = {"memory", "pids", "cpu", "cpuacct", "freezer"};
    std::string problem;
    Part part{hierarchy.version, hierarchy.controllers, above + "/" + name_};
    Fd owner;
    if (hierarchy.own.empty()) {
      problem = fmt::format("{}: this process's group is not below the mount point", version);
    } else if (const int error = cgroup::make_owned(part.directory, io_->make, owner); error != 0) {
      problem = fmt::format("{}: creating a group in {}: {}", version, above, strerror(error));
    }
    if (!problem.empty()) {
      for (const std::string& name : names) say(name, false, problem);
      return;
    }
    if (hierarchy.version == 2) give_on(above, part);
    for (const std::string& name : part.controllers) say(name, true, version);
    parts.push_back(std::move(part));
    owners_.push_back(std::move(owner));
  }

  // v2: the controllers of the new group; CPU time and freezing need none.
  void give_on(const std::string& above, Part& part) {
    for (const char* name : {"memory", "pids", "cpu"}) say(name, false, "v2: not available here");
    for (const std::string& name : cgroup::offered(above)) {
      int error = cgroup::write(above + "/cgroup.subtree_control", "+" + name);
      if (error == EBUSY && defer_one(above)) {
        error = cgroup::write(above + "/cgroup.subtree_control", "+" + name);
      }
      if (error == 0) {
        part.controllers.push_back(name);
      } else if (error == EBUSY) {
        say(name, false,
            fmt::format("v2: other processes share the group {}; start this process in its own "
                        "group (systemd: a unit with Delegate=yes)",
                        above));
      } else {
        say(name, false,
            fmt::format("v2: enabling it for children of {}: {}", above, strerror(error)));
      }
    }
    if (cgroup::exists(part.file("cpu.stat"))) say("cpuacct", true, "v2");
    if (cgroup::exists(part.file("cgroup.freeze"))) say("freezer", true, "v2");
  }

  bool defer_one(const std::string& above) const {
    if (cgroup::processes_in(above) != std::vector<pid_t>{getpid()}) return false;
    const std::string self = fmt::format("{}/{}.self", above, name_);
    for (int tries = 0; tries < kMaxMoves; ++tries) {  // while empty, others may remove it as dead
      const int made = io_->make(self);
      if (made != 0 && made != EEXIST) return false;
      if (const int error = cgroup::write(self + "/cgroup.procs", "0"); error != ENOENT) {
        return error == 0;
      }
    }
    return false;
  }

  const std::string& name_;
  const CgroupSources& sources_;
  const std::shared_ptr<const Io> io_;
  std::vector<CgroupController>* controllers_ = nullptr;
  std::vector<Fd> owners_;
};

}  // namespace

Cgroups Cgroups::open(const std::string& name) {
  return open(name, {.mounts = cgroup::read("/proc/self/mountinfo").value_or(""),
                     .own = cgroup::read("/proc/self/cgroup").value_or(""),
                     .make_directory = {},
                     .remove_directory = {}});
}

Cgroups Cgroups::open(const std::string& name, const CgroupSources& sources) {
  Cgroups out;
  out.root_ = Opening(name, sources).run(out.controllers_, out.dead_removed_);
  return out;
}

}  // namespace mainspring
