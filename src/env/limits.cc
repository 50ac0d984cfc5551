// Limits of a program: checked, resolved and opened in the parent.
#include "env/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "env/accounts.h"

namespace mainspring {
namespace {

constexpr std::int64_t kMaxLimit = std::numeric_limits<std::int64_t>::max();
// A program that continues after SIGXCPU at its soft limit is killed this much later.
constexpr rlim_t kCpuGraceSeconds = 5;
constexpr std::int64_t kFewestFiles = 4;  // 0 to 3 are given to it
constexpr int kMostGroups = 65536;        // NGROUPS_MAX of Linux

Result<void> in_range(std::string_view field, std::optional<std::int64_t> value, std::int64_t low,
                      std::int64_t high) {
  if (!value || (*value >= low && *value <= high)) return {};
  const std::string name = fmt::format("limits.{}", field);
  const std::string rule =
      high == kMaxLimit ? fmt::format("at least {}", low) : fmt::format("{} to {}", low, high);
  return invalid(name, fmt::format("{} {}: must be {}", name, *value, rule));
}

Result<void> check_process_limits(const ProcessLimits& limits) {
  MS_TRY(in_range("nice", limits.nice, -20, 19));
  MS_TRY(in_range("cpu_seconds", limits.cpu_seconds, 1, kMaxLimit));
  MS_TRY(in_range("address_space_bytes", limits.address_space_bytes, 1, kMaxLimit));
  MS_TRY(in_range("file_bytes", limits.file_bytes, 0, kMaxLimit));
  MS_TRY(in_range("open_files", limits.open_files, kFewestFiles, kMaxLimit));
  MS_TRY(in_range("processes", limits.processes, 1, kMaxLimit));
  return in_range("umask", limits.umask, 0, 0777);
}

std::string_view resource_field(int resource) {
  switch (resource) {
    case RLIMIT_CPU:
      return "cpu_seconds";
    case RLIMIT_AS:
      return "address_space_bytes";
    case RLIMIT_FSIZE:
      return "file_bytes";
    case RLIMIT_NOFILE:
      return "open_files";
    case RLIMIT_NPROC:
      return "processes";
    default:
      return "no_core";
  }
}

Error step_error(std::string field, std::string what, int number, std::string_view advice) {
  const ErrorCode code = code_of(number);
  std::string message = fmt::format("{}: {}", what, strerror(number));
  if (code == ErrorCode::forbidden) message += fmt::format("; {}", advice);
  return Error{.code = code, .message = std::move(message), .field = std::move(field)};
}

}  // namespace

ErrorCode code_of(int number) {
  if (number == EACCES || number == EPERM || number == EROFS) return ErrorCode::forbidden;
  return ErrorCode::io_error;
}

Result<PreparedLimits> PreparedLimits::make(const ProcessLimits& limits) {
  MS_TRY(check_process_limits(limits));
  PreparedLimits out;
  MS_TRY(out.open_groups(limits));
  out.add_resource_limits(limits);
  if (!limits.user.empty()) MS_TRY(out.find_user(limits.user));
  out.plan_.set_nice = limits.nice.has_value();
  out.plan_.nice = limits.nice.value_or(0);
  out.plan_.umask = limits.umask.value_or(-1);
  out.plan_.no_new_privs = limits.no_new_privs;
  return out;
}

Result<void> PreparedLimits::open_groups(const ProcessLimits& limits) {
  for (const std::string& path : limits.cgroup_procs) {
    Fd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file) {
      return step_error("limits.cgroup_procs", fmt::format("control group \"{}\"", path), errno,
                        "it must be writable for this process");
    }
    group_fds_.push_back(file.get());
    group_files_.push_back(std::move(file));
  }
  return {};
}

void PreparedLimits::add_resource_limits(const ProcessLimits& limits) {
  const auto add = [this](int resource, std::optional<std::int64_t> value, rlim_t more = 0) {
    if (!value) return;
    const auto soft = static_cast<rlim_t>(*value);
    resources_.push_back({resource, soft, soft + more});
  };
  add(RLIMIT_CPU, limits.cpu_seconds, kCpuGraceSeconds);
  add(RLIMIT_AS, limits.address_space_bytes);
  add(RLIMIT_FSIZE, limits.file_bytes);
  add(RLIMIT_NOFILE, limits.open_files);
  add(RLIMIT_NPROC, limits.processes);
  if (limits.no_core) add(RLIMIT_CORE, 0);
}

Result<void> PreparedLimits::find_user(const std::string& user) {
  MS_TRY_ASSIGN(const Account account, find_account(user, "limits.user"));
  // A process that already runs as that user has its groups, and may not set them.
  if (account.uid == geteuid() && account.uid == getuid() && account.uid != 0) return {};
  int count = 64;
  groups_.resize(64);
  while (getgrouplist(account.name.c_str(), account.gid, groups_.data(), &count) < 0) {
    if (count > kMostGroups) {
      return invalid("limits.user",
                     fmt::format("limits.user \"{}\": is in over {} groups", user, kMostGroups));
    }
    count = std::max(count, static_cast<int>(groups_.size()) * 2);
    groups_.resize(static_cast<std::size_t>(count));
  }
  groups_.resize(static_cast<std::size_t>(count));
  plan_.change_user = true;
  plan_.uid = account.uid;
  plan_.gid = account.gid;
  return {};
}

keeper::Limits PreparedLimits::plan() const {
  keeper::Limits plan = plan_;
  plan.groups_to_join = group_fds_.data();
  plan.groups_to_join_count = group_fds_.size();
  plan.resources = resources_.data();
  plan.resource_count = resources_.size();
  plan.user_groups = groups_.data();
  plan.user_group_count = groups_.size();
  return plan;
}

Error PreparedLimits::error(const ProcessLimits& limits, const keeper::Record& record) const {
  const auto which = static_cast<std::size_t>(record.which);
  switch (record.report) {
    case keeper::Report::cgroup_failed:
      return step_error("limits.cgroup_procs",
                        fmt::format("joining the control group \"{}\"", limits.cgroup_procs[which]),
                        record.value, "this process may not move a program there");
    case keeper::Report::nice_failed:
      return step_error("limits.nice", fmt::format("limits.nice {}", limits.nice.value_or(0)),
                        record.value, "only root may set it below the current one");
    case keeper::Report::limit_failed: {
      const keeper::ResourceLimit& limit = resources_[which];
      const std::string field = fmt::format("limits.{}", resource_field(limit.resource));
      return step_error(field, fmt::format("{} {}", field, limit.soft), record.value,
                        "only root may set it above the current hard limit");
    }
    case keeper::Report::user_failed:
      return step_error(
          "limits.user", fmt::format("limits.user \"{}\"", limits.user), record.value,
          "run this process as root (or with CAP_SETUID and CAP_SETGID), or leave user empty");
    default:
      return step_error("limits.no_new_privs", "limits.no_new_privs", record.value,
                        "the kernel does not let this process");
  }
}

}  // namespace mainspring
