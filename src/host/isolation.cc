// Isolates children as far as this system allows.
#include "host/isolation.h"

#include <errno.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/mutant.h"
#include "env/accounts.h"
#include "env/leftovers.h"
#include "env/private_files.h"
#include "host/files.h"

namespace mainspring {
namespace {

constexpr Duration kLeftoversLimit = std::chrono::seconds(10);

// Variables of the server's environment that every job may see: paths of programs and home
// directories, the language, and WebJobs variables, including connection strings.
const std::vector<std::string> kAllowed = {"PATH",
                                           "HOME",
                                           "USER",
                                           "LOGNAME",
                                           "SHELL",
                                           "LANG",
                                           "LANGUAGE",
                                           "LC_*",
                                           "TZ",
                                           "TMPDIR",
                                           "XDG_*",
                                           "SSL_CERT_*",
                                           "WEBSITE_*",
                                           "WEBJOBS_*",
                                           "AzureWebJobs*",
                                           "AzureJobs*",
                                           "APPSETTING_*",
                                           "SQLCONNSTR_*",
                                           "SQLAZURECONNSTR_*",
                                           "MYSQLCONNSTR_*",
                                           "POSTGRESQLCONNSTR_*",
                                           "CUSTOMCONNSTR_*"};

constexpr std::string_view kAppSetting = "APPSETTING_";

std::string_view name_of(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

template <class T>
std::optional<T> first(const std::optional<T>& a, const std::optional<T>& b) {
  return a ? a : b;
}

template <class T>
std::optional<T> least(const std::optional<T>& a, const std::optional<T>& b) {
  return a && b ? std::min(a, b) : first(a, b);
}

CgroupLimits group_limits(const ChildLimits& limits) {
  return {
      .memory_bytes = limits.memory_bytes, .pids = limits.pids, .cpu_percent = limits.cpu_percent};
}

bool active(const Cgroups& cgroups, std::string_view controller) {
  return std::any_of(cgroups.controllers().begin(), cgroups.controllers().end(),
                     [&](const CgroupController& c) { return c.name == controller && c.active; });
}

}  // namespace

void add_of_group(ProcessEnd& end, const Cgroup& group) {
  if (const auto peak = group.memory_peak()) end.peak_memory = peak;
  end.oom = group.oom_kills() > 0;
}

bool allowed_name(std::string_view name, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    if (pattern.ends_with('*')) {
      return name.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
    }
    return name == pattern;
  });
}

Isolation::Isolation(const HostOptions& options, std::string id, Log& log)
    : options_(options), id_(std::move(id)), log_(log) {
  const auto ended = end_marked("MAINSPRING_HOST=" + id_, kLeftoversLimit);
  if (!ended) {
    log_.warn("processes of an earlier host could not be ended", {{"why", ended.error().message}});
  } else if (*ended > 0) {
    log_.warn("ended processes of an earlier host", {{"processes", fmt::to_string(*ended)}});
  }
  cgroups_ = Cgroups::open("mainspring-host." + id_);
  if (cgroups_.dead_removed() > 0) {
    log_.info("removed empty control groups of hosts that are dead",
              {{"groups", fmt::to_string(cgroups_.dead_removed())}});
  }
  if (cgroups_.root() == nullptr || options_.strict) return;
  if (auto good = cgroups_.root()->limit({.cpu_weight = kCpuWeight}); !good) {
    log_.warn("the jobs' share of the processors could not be set",
              {{"why", good.error().message}});
  }
}

void Isolation::configure(HostFile file) {
  MutexLock lock(mutex_);
  file_ = std::move(file);
  for (auto& [name, group] : groups_) {
    const auto found = file_.pools.find(name);
    const CgroupLimits limits =
        found == file_.pools.end() ? CgroupLimits{} : group_limits(found->second.limits);
    if (auto good = group->limit(limits); !good) {
      log_.warn("the limits of a pool could not be changed",
                {{"pool", name}, {"why", good.error().message}});
    }
  }
}

PoolSettings Isolation::pool(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto found = file_.pools.find(name);
  return found == file_.pools.end() ? PoolSettings{} : found->second;
}

std::vector<std::string> Isolation::pools() const {
  MutexLock lock(mutex_);
  std::vector<std::string> names = {"default"};
  for (const auto& [name, pool] : file_.pools) {
    if (name != "default") names.push_back(name);
  }
  return names;
}

std::vector<std::string> Isolation::environment_of(const JobFolder& folder) const {
  std::vector<std::string> out;
  std::set<std::string_view> names;
  const std::map<std::string, std::string>& own = folder.settings.environment;
  for (const std::string& entry : options_.environment) {
    const std::string_view name = name_of(entry);
    if (name.starts_with("MAINSPRING_") || own.contains(std::string(name))) continue;
    if (options_.strict || MS_MUTANT(host_whole_environment) || allowed_name(name, kAllowed) ||
        allowed_name(name, file_.environment_allow) ||
        allowed_name(name, folder.settings.environment_allow)) {
      out.push_back(entry);
      names.insert(name);
    }
  }
  // A job sees an application setting by its own name too.
  for (const std::string& entry : options_.environment) {
    if (!entry.starts_with(kAppSetting)) continue;
    const std::string_view setting = std::string_view(entry).substr(kAppSetting.size());
    const std::string_view name = name_of(setting);
    if (name.empty() || name.starts_with("MAINSPRING_") || own.contains(std::string(name)))
      continue;
    if (names.insert(name).second) out.emplace_back(setting);
  }
  for (const auto& [name, value] : own) out.push_back(fmt::format("{}={}", name, value));
  out.push_back("MAINSPRING_HOST=" + id_);
  return out;
}

Result<std::string> Isolation::user_of(const ChildLimits& own, const PoolSettings& pool) const {
  const std::string ceiling = pool.limits.user.value_or(options_.user);
  const std::string user = own.user.value_or(ceiling);
  if (geteuid() != 0) return user;  // every other user is refused later
  const auto uid_of = [](const std::string& name) -> Result<uid_t> {
    MS_TRY_ASSIGN(const Account account, find_account(name, "limits.user"));
    return account.uid;
  };
  const auto refuse = [&](std::string_view rule) {
    return Error{.code = ErrorCode::forbidden,
                 .message = fmt::format("limits.user \"{}\": {}", user, rule)};
  };
  if (ceiling.empty() && !MS_MUTANT(host_folder_as_root)) {
    return refuse("the server runs as root: set --jobs-user, or limits.user of the pool");
  }
  if (user.empty()) return user;
  MS_TRY_ASSIGN(const uid_t uid, uid_of(user));
  if (user != ceiling && !ceiling.empty()) {
    MS_TRY_ASSIGN(const uid_t most, uid_of(ceiling));
    if (most != 0 && most != uid) return refuse(fmt::format("must be \"{}\"", ceiling));
  }
  if (uid != 0 || MS_MUTANT(host_folder_as_root)) return user;
  if (!options_.user.empty()) {
    MS_TRY_ASSIGN(const uid_t server, uid_of(options_.user));
    if (server == 0) return "";
  }
  return refuse("is root, which needs --jobs-user root");
}

Result<void> Isolation::become_user(const JobFolder& folder, ProcessSpec& spec) const {
  MS_TRY_ASSIGN(const Account account, find_account(spec.limits.user, "limits.user"));
  if (account.uid == geteuid() || geteuid() != 0) return {};  // without root it is refused later
  const std::string parent = user_data_path(options_, folder.type, folder.name);
  const std::string directory = fmt::format("{}/{}", parent, account.uid);
  // Its parent belongs to the server, so that no other user can replace it.
  if (const int problem = make_traversable_directories(parent); problem != 0)
    return file_error("make", parent, problem);
  if ((mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) ||
      lchown(directory.c_str(), account.uid, account.gid) != 0) {
    return file_error("make", directory, errno);
  }
  std::erase_if(spec.environment,
                [](const std::string& entry) { return name_of(entry) == "WEBJOBS_DATA_PATH"; });
  const auto set = [&](std::string_view name, const std::string& value) {
    if (folder.settings.environment.contains(std::string(name))) return;
    spec.environment.push_back(fmt::format("{}={}", name, value));
  };
  spec.environment.push_back("WEBJOBS_DATA_PATH=" + directory);
  set("HOME", account.home);
  set("USER", account.name);
  set("LOGNAME", account.name);
  set("SHELL", account.shell);
  return {};
}

Result<Cgroup*> Isolation::pool_group(const std::string& name, const PoolSettings& settings) {
  if (cgroups_.root() == nullptr) return nullptr;
  std::unique_ptr<Cgroup>& group = groups_[name];
  if (!group) {
    MS_TRY_ASSIGN(group, cgroups_.root()->make("pool-" + name, group_limits(settings.limits)));
  }
  return group.get();
}

Result<std::unique_ptr<Cgroup>> Isolation::fence(const JobFolder& folder, ProcessSpec& spec) {
  MutexLock lock(mutex_);
  const std::string pool_name = folder.settings.pool.empty() ? "default" : folder.settings.pool;
  const auto found = file_.pools.find(pool_name);
  if (found == file_.pools.end() && pool_name != "default") {
    return invalid("pool", fmt::format("pool \"{}\": must be defined in host.json", pool_name));
  }
  const PoolSettings pool = found == file_.pools.end() ? PoolSettings{} : found->second;
  if (!pool.folders.empty() && !allowed_name(folder.name, pool.folders)) {
    return Error{.code = ErrorCode::forbidden,
                 .message = fmt::format("pool \"{}\": does not take the folder \"{}\"", pool_name,
                                        folder.name)};
  }
  const ChildLimits& own = folder.settings.limits;
  const ChildLimits& shared = pool.limits;

  spec.limits.no_core = true;
  spec.limits.no_new_privs = !options_.strict;
  if (!options_.strict) spec.limits.nice = kNice;
  if (own.nice) {
    spec.limits.nice = std::max(*own.nice, shared.nice.value_or(0));
  } else if (shared.nice) {
    spec.limits.nice = shared.nice;
  }
  spec.limits.open_files = least(own.open_files, shared.open_files);
  spec.limits.file_bytes = least(own.file_bytes, shared.file_bytes);
  MS_TRY_ASSIGN(spec.limits.user, user_of(own, pool));
  if (!spec.limits.user.empty()) MS_TRY(become_user(folder, spec));
  // Variables set by the host take precedence over the server's environment.
  for (std::string& entry : environment_of(folder)) {
    const std::string_view name = name_of(entry);
    const bool set = std::any_of(spec.environment.begin(), spec.environment.end(),
                                 [&](const std::string& other) { return name_of(other) == name; });
    if (!set) spec.environment.push_back(std::move(entry));
  }

  const auto needs = [&](bool wanted, std::string_view controller,
                         std::string_view limit) -> Result<void> {
    if (!wanted || active(cgroups_, controller)) return {};
    return Error{
        .code = ErrorCode::io_error,
        .message = fmt::format(
            "limit {}: the server cannot create a control group for it; see /healthz", limit)};
  };
  MS_TRY(needs(first(own.memory_bytes, shared.memory_bytes).has_value(), "memory", "memory"));
  MS_TRY(needs(first(own.pids, shared.pids).has_value(), "pids", "pids"));
  MS_TRY(needs(first(own.cpu_percent, shared.cpu_percent).has_value(), "cpu", "cpu_percent"));
  MS_TRY_ASSIGN(Cgroup * group, pool_group(pool_name, pool));
  if (group == nullptr) return nullptr;
  MS_TRY_ASSIGN(auto run,
                group->make(fmt::format("{}-{}", folder.name, ++runs_), group_limits(own)));
  spec.limits.cgroup_procs = run->procs_files();
  return run;
}

std::vector<LayerView> Isolation::layers() const {
  std::vector<LayerView> layers = {
      {.name = "process_group", .active = true, .detail = "a session of its own, under a keeper"},
      {.name = "descriptors", .active = true, .detail = "none are inherited"},
      {.name = "rlimits", .active = true, .detail = "no core files; files and sizes by settings"},
      {.name = "no_new_privs",
       .active = !options_.strict,
       .detail = options_.strict ? "off by strict_webjobs" : ""},
      {.name = "environment",
       .active = !options_.strict,
       .detail = options_.strict ? "off by strict_webjobs" : "an allow-list"},
      {.name = "user",
       .active = geteuid() == 0,
       .detail = geteuid() == 0 ? "by --jobs-user, pool and settings" : "the server is not root"},
      {.name = "leftovers", .active = true, .detail = "found by their environment at the start"}};
  for (const CgroupController& controller : cgroups_.controllers()) {
    layers.push_back({.name = "cgroup_" + controller.name,
                      .active = controller.active,
                      .detail = controller.detail});
  }
  return layers;
}

}  // namespace mainspring
