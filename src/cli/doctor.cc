// doctor: kernel, file system, limits, clock, sandbox, certificates, database, server.
#include "cli/doctor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "api/json.h"
#include "cli/exposure.h"
#include "cli/handlers.h"
#include "cli/shared_store.h"
#include "cli/shown_health.h"
#include "cli/support.h"
#include "cli/version.h"
#include "env/cgroup_tree.h"
#include "env/clock.h"
#include "env/fd.h"
#include "env/host.h"
#include "env/private_files.h"
#include "store_postgres/inspect.h"
#include "tls/tls.h"

namespace mainspring::cli {
namespace {

// pidfd_open needs 5.3, close_range 5.9: the job host and workers use them to end programs safely.
constexpr int kGoodKernel = 5'009;
constexpr std::uintmax_t kLeastFree = 512ULL << 20;
constexpr Duration kSlowSync = 50ms;
constexpr int kSyncs = 10;
constexpr std::int64_t kOtherFiles = 512;  // besides connections
constexpr Duration kSoon = 24h * 14;
constexpr Duration kAskServer = 3s;

Finding finding(std::string name, PartState state, std::string message, std::string advice = "") {
  return {std::move(name), state, std::move(message), std::move(advice)};
}

Finding kernel_finding() {
  utsname name{};
  if (uname(&name) != 0) return finding("kernel", PartState::warn, "unknown");
  int major = 0, minor = 0;
  const bool known = std::sscanf(name.release, "%d.%d", &major, &minor) == 2;
  const std::string text = fmt::format("{} {}", name.sysname, name.release);
  if (known && major * 1000 + minor < kGoodKernel) {
    return finding("kernel", PartState::warn, text,
                   "use Linux 5.9 or later: older kernels end the children of programs less "
                   "reliably");
  }
  return finding("kernel", PartState::ok, text);
}

struct FileSystem {
  unsigned long type;
  std::string_view name;
  std::string_view problem;  // "" = good
};
constexpr FileSystem kFileSystems[] = {
    {0xef53, "ext4", ""},
    {0x58465342, "xfs", ""},
    {0x9123683e, "btrfs", ""},
    {0x2fc12fc1, "zfs", ""},
    {0x01021994, "tmpfs", "its files are gone after a restart of the machine"},
    {0x858458f6, "ramfs", "its files are gone after a restart of the machine"},
    {0x6969, "nfs", "SQLite's locks and syncs are not reliable on network file systems"},
    {0xff534d42, "cifs", "SQLite's locks and syncs are not reliable on network file systems"},
    {0xfe534d42, "smb2", "SQLite's locks and syncs are not reliable on network file systems"},
    {0x794c7630, "overlayfs", "it is a layer of a container and is removed with it"},
};

// The directory, or its nearest existing parent.
std::string existing(const std::string& directory) {
  std::error_code ignored;
  std::filesystem::path path = std::filesystem::absolute(directory, ignored);
  while (!path.empty() && !std::filesystem::exists(path, ignored)) {
    const std::filesystem::path above = path.parent_path();
    if (above == path) break;
    path = above;
  }
  return path.string();
}

Finding file_system_finding(const std::string& directory) {
  struct statfs info {};
  if (statfs(directory.c_str(), &info) != 0) {
    return finding("file system", PartState::fail,
                   fmt::format("{}: {}", directory, std::strerror(errno)),
                   "make --data a directory that this user can read and write");
  }
  const auto type = static_cast<unsigned long>(info.f_type);
  const auto known = std::find_if(std::begin(kFileSystems), std::end(kFileSystems),
                                  [&](const FileSystem& one) { return one.type == type; });
  if (known == std::end(kFileSystems))
    return finding("file system", PartState::ok, fmt::format("type {:#x}", type));
  if (known->problem.empty())
    return finding("file system", PartState::ok, std::string(known->name));
  return finding("file system", PartState::warn, fmt::format("{}: {}", known->name, known->problem),
                 "put the data directory on a local ext4 or xfs file system");
}

Finding space_finding(const std::string& directory) {
  std::error_code problem;
  const auto space = std::filesystem::space(directory, problem);
  if (problem) return finding("disk space", PartState::warn, problem.message());
  const std::string text = fmt::format("{} MiB free", space.available >> 20);
  if (space.available < kLeastFree)
    return finding("disk space", PartState::warn, text, "keep at least 512 MiB free");
  return finding("disk space", PartState::ok, text);
}

Finding access_finding(const std::string& data) {
  struct stat info {};
  if (stat(data.c_str(), &info) != 0) {
    const std::string above = existing(data);
    if (access(above.c_str(), W_OK | X_OK) == 0)
      return finding("data directory", PartState::ok, data + " is created at the first start");
    return finding("data directory", PartState::fail, describe_access(above),
                   "create the directory for the user that runs the server");
  }
  if (access(data.c_str(), R_OK | W_OK | X_OK) != 0) {
    const std::string advice =
        errno == EROFS ? "mount its file system for writing" : "run as the directory's owner";
    return finding("data directory", PartState::fail, describe_access(data), advice);
  }
  if ((info.st_mode & 0077) != 0) {
    return finding(
        "data directory", PartState::warn,
        fmt::format("{} has mode {:04o}: other users can read jobs", data, info.st_mode & 07777),
        fmt::format("chmod 700 {}", data));
  }
  return finding("data directory", PartState::ok, data);
}

// The files of a store that is there. Another user who ran a command on it may own some.
std::optional<Finding> store_files_finding(const std::string& data) {
  constexpr int kMostFiles = 1000;  // a store has a dozen
  std::error_code problem;
  std::filesystem::directory_iterator files(data, problem);
  const std::filesystem::directory_iterator end;
  for (int i = 0; !problem && files != end && i < kMostFiles; files.increment(problem), ++i) {
    struct stat info {};
    const std::string path = files->path().string();
    if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (access(path.c_str(), R_OK | W_OK) == 0) continue;
    if (errno == EROFS) return std::nullopt;  // the directory's finding says so
    return finding("store files", PartState::fail, describe_access(path),
                   "give the files to the user that runs the server: chown -R");
  }
  return std::nullopt;
}

// Settings that name a file with a secret. The server refuses one that other users can read.
void add_secret_files(const Options& options, std::vector<Finding>& out) {
  const std::pair<std::string_view, const std::string*> files[] = {
      {"callback_key_file", &options.callback_key_file},
      {"first_token_file", &options.first_token_file},
      {"store_file", &options.store_file},
      {"tls_key", &options.tls_key},
      {"token_file", &options.token_file}};
  int good = 0;
  bool bad = false;
  for (const auto& [name, path] : files) {
    if (*path == "none") continue;
    struct stat info {};
    if (stat(path->c_str(), &info) != 0 || access(path->c_str(), R_OK) != 0) {
      bad = true;
      const std::string why = errno == ENOENT ? *path + " does not exist" : describe_access(*path);
      out.push_back(finding("secret files", PartState::fail, fmt::format("{}: {}", name, why),
                            "create the file, readable by the user that runs the server only"));
    } else if (S_ISREG(info.st_mode) && is_exposed(info)) {
      bad = true;
      out.push_back(finding("secret files", PartState::fail,
                            fmt::format("{}: {} has mode {:04o}: other users can read it", name,
                                        *path, info.st_mode & 07777),
                            fmt::format("chmod 600 {}", *path)));
    } else {
      ++good;
    }
  }
  if (good > 0 && !bad)
    out.push_back(finding("secret files", PartState::ok, counted(good, "file") + ", private"));
}

// The median of a few synced writes to a temporary file.
Finding sync_finding(const std::string& directory) {
  std::string path = directory + "/.mainspring-doctor-XXXXXX";
  const Fd file(mkostemp(path.data(), O_CLOEXEC));
  if (file.get() < 0)
    return finding("disk sync", PartState::warn,
                   "cannot be measured: " + describe_access(directory));
  (void)unlink(path.c_str());
  const SystemClock clock;
  const std::array<char, 4096> block{};
  std::vector<Duration> times;
  for (int i = 0; i < kSyncs; ++i) {
    const Instant begin = clock.now().instant;
    const bool good =
        pwrite(file.get(), block.data(), block.size(), 0) == static_cast<ssize_t>(block.size()) &&
        fdatasync(file.get()) == 0;
    if (!good) {
      return finding("disk sync", PartState::fail,
                     fmt::format("fdatasync: {}", std::strerror(errno)), "check the disk");
    }
    times.push_back(clock.now().instant - begin);
  }
  std::sort(times.begin(), times.end());
  const Duration median = times[times.size() / 2];
  const std::string text =
      fmt::format("{:.1f} ms per synced write", static_cast<double>(median.count()) / 1e3);
  if (median > kSlowSync)
    return finding("disk sync", PartState::warn, text,
                   "use a faster disk: each commit waits for it");
  return finding("disk sync", PartState::ok, text);
}

// `whose`: the server, or this shell where no server answers.
Finding files_finding(std::string_view whose, std::int64_t files, std::int64_t connections) {
  const std::int64_t wanted = connections + kOtherFiles;
  const std::string text = files == 0 ? fmt::format("{}: unlimited", whose)
                                      : fmt::format("{}: at most {}", whose, files);
  if (files == 0 || files >= wanted) return finding("open files", PartState::ok, text);
  return finding("open files", PartState::warn,
                 fmt::format("{}; {} connections need {}", text, connections, wanted),
                 fmt::format("set LimitNOFILE={} in the unit, or lower max_connections", wanted));
}

// A server raises its soft limit as far as the hard limit.
Finding shell_files_finding(const Options& options) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return finding("open files", PartState::warn, "the limit is not known");
  const bool unlimited = limit.rlim_max == RLIM_INFINITY;
  return files_finding("this shell", unlimited ? 0 : static_cast<std::int64_t>(limit.rlim_max),
                       options.max_connections);
}

Finding clock_finding() {
  const auto synchronised = clock_synchronised();
  if (!synchronised)
    return finding("clock", PartState::warn, "it is not known whether it is synchronised");
  if (*synchronised) return finding("clock", PartState::ok, "synchronised");
  return finding("clock", PartState::warn, "not synchronised with a time server",
                 "run chrony or systemd-timesyncd; in a container, on the host");
}

// Checks what job folders need for memory limits and for ending all children of a run.
Finding sandbox_finding() {
  constexpr std::size_t kMost = 4 << 20;
  const auto mounts = read_file("/proc/self/mountinfo", kMost);
  const auto own = read_file("/proc/self/cgroup", kMost);
  CgroupSources sources;
  if (mounts) sources.mounts = *mounts;
  if (own) sources.own = *own;
  const std::vector<cgroup::Hierarchy> all = cgroup::find(sources);
  std::vector<std::string> of_v1;
  for (const cgroup::Hierarchy& one : all) {
    const bool usable = one.version == 1 && !one.own.empty() && access(one.own.c_str(), W_OK) == 0;
    if (usable) of_v1.insert(of_v1.end(), one.controllers.begin(), one.controllers.end());
  }
  if (!of_v1.empty()) {
    return finding("sandbox", PartState::ok,
                   fmt::format("control groups v1 with {}", fmt::join(of_v1, ", ")));
  }
  for (const cgroup::Hierarchy& one : all) {
    if (one.version != 2 || one.own.empty()) continue;
    if (access(one.own.c_str(), W_OK) != 0) {
      return finding("sandbox", PartState::warn,
                     fmt::format("control group {} is not writable: job folders run without "
                                 "memory and process limits",
                                 one.own),
                     "set Delegate=yes in the unit");
    }
    const auto offered = cgroup::offered(one.own);
    if (offered.empty()) {
      return finding("sandbox", PartState::warn,
                     "the control group offers no controllers: job folders run without memory "
                     "and process limits",
                     "set Delegate=yes in the unit");
    }
    return finding("sandbox", PartState::ok,
                   fmt::format("control group v2 with {}", fmt::join(offered, ", ")));
  }
  return finding("sandbox", PartState::warn,
                 "no control group v2: job folders run without memory and process limits",
                 "boot with the unified hierarchy (systemd.unified_cgroup_hierarchy=1)");
}

Finding certificate_finding(const Options& options) {
  const auto opened = TlsServer::open(
      {.certificate_file = options.tls_cert,
       .key_file = options.tls_key,
       .client_ca_file = options.tls_client_ca == "none" ? std::string() : options.tls_client_ca,
       .client_optional = options.tls_clients == "optional"});
  if (!opened)
    return finding("certificate", PartState::fail, opened.error().message,
                   "fix tls_cert and tls_key; `mainspring tls` makes certificates");
  const WallTime end = (*opened)->expires_at();
  const std::string text = "valid until " + format_wall_time(end);
  if (end - SystemClock().now().wall < kSoon)
    return finding("certificate", PartState::warn, text, "renew it; the server loads it by itself");
  return finding("certificate", PartState::ok, text);
}

void add_database(const Options& options, std::vector<Finding>& out) {
  const auto postgres = postgres_options(options);
  if (!postgres) {
    out.push_back(finding("database", PartState::fail, postgres.error().message, "fix --store"));
    return;
  }
  const auto info = inspect_postgres_store(*postgres);
  if (!info) {
    out.push_back(finding("database", PartState::fail, info.error().message,
                          "check the address, the user and the network"));
    return;
  }
  out.push_back(finding("database", PartState::ok,
                        fmt::format("PostgreSQL {}.{}", info->server_version / 10'000,
                                    info->server_version % 10'000)));
  const auto setting = [&](const std::string& name) {
    const auto found = info->settings.find(name);
    return found == info->settings.end() ? std::string() : found->second;
  };
  const auto demand = [&](const std::string& name, const std::string& good, std::string why) {
    const std::string is = setting(name);
    if (is.empty() || is == good) return;
    out.push_back(finding("database", PartState::fail, fmt::format("{} = {}: {}", name, is, why),
                          fmt::format("set {} = {}", name, good)));
  };
  demand("fsync", "on", "acknowledged jobs may be lost in a crash");
  demand("full_page_writes", "on", "a crash may damage the database");
  demand("autovacuum", "on", "tables grow without bound");
  if (info->durability.synchronous_commit == "off") {
    out.push_back(finding("database", PartState::fail,
                          "synchronous_commit = off: acknowledged jobs may be lost in a crash",
                          "set synchronous_commit = on for this user or database"));
  }
  if (info->durability.read_only)
    out.push_back(
        finding("database", PartState::fail, "the server is read-only", "connect to the primary"));
}

// The limits of the server, and its parts that are not ok.
void add_health(const Options& options, const Result<std::string>& body,
                std::vector<Finding>& out) {
  const auto health = body ? decode_health(*body) : Result<ShownHealth>(body.error());
  if (!health) {
    out.push_back(finding("server", PartState::fail, health.error().message,
                          "`mainspring health` shows the parts"));
    return;
  }
  if (health->limits) {
    const auto [files, connections] = *health->limits;
    // A server lowers the default of max_connections to what its open files allow.
    const bool lowered = connections + kOtherFiles >= files;
    out.push_back(files_finding(
        "the server", files,
        lowered ? std::max<std::int64_t>(connections, options.max_connections) : connections));
  } else {
    out.push_back(finding("open files", PartState::warn,
                          health->parts.empty()
                              ? "this token may not read the limits of the server"
                              : "the server does not report its limits: it is an older version",
                          health->parts.empty() ? "use a token with the scope read" : ""));
  }
  for (const ShownPart& part : health->parts) {
    if (part.status == "ok") continue;
    const bool fails = part.core && part.status == to_string(PartState::fail);
    out.push_back(finding("server", fails ? PartState::fail : PartState::warn,
                          part.name + ": " + part.message));
  }
}

void add_server(const Invocation& invocation, std::vector<Finding>& out) {
  auto options = client_options(invocation);
  if (!options) {
    out.push_back(finding("server", PartState::fail, options.error().message));
    return;
  }
  options->connect_timeout = options->read_timeout = kAskServer;
  options->retry_for = Duration(0);
  SystemRandom random;
  const auto client = Client::open(std::move(*options), random);
  const auto version =
      client ? (*client)->request("GET", "/v1/version", "") : Result<std::string>(client.error());
  if (!version) {
    out.push_back(shell_files_finding(invocation.options));
    out.push_back(finding("server", PartState::ok,
                          "not asked: " + version.error().message + " (" +
                              without_password(invocation.options.server) + ")"));
    return;
  }
  const bool same = version->find(fmt::format("\"{}\"", kVersion)) != std::string::npos;
  out.push_back(same ? finding("server", PartState::ok, fmt::format("version {}", kVersion))
                     : finding("server", PartState::warn,
                               fmt::format("another version than this program, {}", kVersion),
                               "use the same version for both"));
  add_health(invocation.options, (*client)->request("GET", "/healthz?verbose=true", ""), out);
}

Colour colour_of_state(PartState state) {
  if (state == PartState::ok) return Colour::green;
  return state == PartState::warn ? Colour::yellow : Colour::red;
}

}  // namespace

std::vector<Finding> examine(const Invocation& invocation) {
  const Options& options = invocation.options;
  std::vector<Finding> out;
  for (const std::string& mistake : invocation.mistakes) {
    out.push_back(finding("settings", PartState::fail, mistake,
                          "fix it: the other checks use the default of this setting"));
  }
  out.push_back(kernel_finding());
  if (has_shared_store(options)) {
    add_database(options, out);
  } else {
    const std::string there = existing(options.data);
    out.push_back(access_finding(options.data));
    if (auto files = store_files_finding(options.data)) out.push_back(std::move(*files));
    out.push_back(file_system_finding(there));
    out.push_back(space_finding(there));
    out.push_back(sync_finding(there));
  }
  out.push_back(clock_finding());
  out.push_back(sandbox_finding());
  add_secret_files(options, out);
  if (has_tls(options)) out.push_back(certificate_finding(options));
  add_server(invocation, out);
  return out;
}

std::string finding_json(const Finding& found) {
  std::string line;
  JsonWriter w(line);
  w.begin_object().key("name").string(found.name);
  w.key("status").string(to_string(found.state)).key("message").string(found.message);
  if (!found.advice.empty()) w.key("advice").string(found.advice);
  w.end_object();
  return line;
}

Result<int> run_doctor(const Invocation& invocation, Io& io) {
  bool failed = false;
  for (const Finding& found : examine(invocation)) {
    failed = failed || found.state == PartState::fail;
    if (invocation.json) {
      print_line(io, finding_json(found));
      continue;
    }
    const std::string state(to_string(found.state));
    constexpr std::size_t kIndent = 21, kUnlimited = 1 << 20;
    const std::size_t width = io.width > 0 ? static_cast<std::size_t>(io.width) : kUnlimited;
    io.out(fmt::format("{}{}  {:<14} {}", coloured(io, state, colour_of_state(found.state)),
                       std::string(4 - state.size(), ' '), found.name,
                       wrapped(printable(found.message), kIndent, width).substr(kIndent)));
    if (!found.advice.empty()) {
      io.out(fmt::format("{:{}}→ {}", "", kIndent,
                         wrapped(found.advice, kIndent + 2, width).substr(kIndent + 2)));
    }
  }
  return failed ? 1 : kExitOk;
}

}  // namespace mainspring::cli
