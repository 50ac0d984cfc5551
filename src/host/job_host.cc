// Opening, starting and stopping a job host.
#include "host/job_host.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "env/private_files.h"
#include "host/deploy.h"
#include "host/files.h"
#include "host/job_host_impl.h"

namespace mainspring {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMaxIdBytes = 4096;

std::string path_of(const std::vector<std::string>& environment) {
  for (const std::string& entry : environment) {
    if (entry.starts_with("PATH=")) return entry.substr(5);
  }
  return "/usr/local/bin:/usr/bin:/bin";
}

// The host's identity: created once, kept in its data directory.
Result<std::string> read_id(const std::string& data, Random& random) {
  const std::string path = data + "/id";
  MS_TRY_ASSIGN(const auto text, read_whole_file(path, kMaxIdBytes));
  std::string id = text.value_or("");
  while (!id.empty() && (id.back() == '\n' || id.back() == '\r')) id.pop_back();
  const bool good = id.size() == 32 && id.find_first_not_of("0123456789abcdef") == id.npos;
  if (good) return id;
  id = random.hex128();
  MS_TRY(write_file_atomically(path, id + "\n", 0600));
  return id;
}

Result<int> lock_data(const std::string& data) {
  if (const int problem = make_traversable_directories(data); problem != 0)
    return file_error("make host_data", data, problem);
  const std::string path = data + "/lock";
  const int fd = open_private(path, O_RDWR | O_CREAT);
  if (fd < 0) {
    return Error{.code = ErrorCode::io_error,
                 .message = fmt::format("host_data \"{}\": cannot be written: {}", data,
                                        describe_access(path))};
  }
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  close(fd);
  return Error{.code = ErrorCode::conflict,
               .message = fmt::format("host_data \"{}\": another job host has it open", data)};
}

}  // namespace

JobHost::Impl::Impl(HostOptions options_, Jobs& jobs, Processes& processes, const Clock& clock_,
                    Random& random, Log& log, Registry& registry, std::string id, int lock_fd_)
    : options(std::move(options_)),
      clock(clock_),
      log_(log),
      lock_fd(lock_fd_),
      isolation(options, id, log),
      ticker(clock),
      logs(options, clock, instance6(options.variables)),
      slots([&jobs] { return jobs.queues(); },
            [this](const std::string& pool) { return isolation.pool(pool).slots; }, log),
      parts{options,   jobs,   processes, clock, random,          log,
            isolation, ticker, logs,      slots, id.substr(0, 8), instance6(options.variables)},
      script_hosts(find_script_hosts(path_of(options.environment))),
      triggered(parts, registry),
      book(options.data + "/folders.json", options.retention) {
  registry.gauge("mainspring_host_folders_missing",
                 "Job folders that are missing; their data is kept.", [this] {
                   MutexLock lock(mutex);
                   return static_cast<std::int64_t>(book.missing_keys().size());
                 });
  registry.gauge("mainspring_host_running", "Current runs of triggered job folders.",
                 [this] { return triggered.running(); });
  triggered.on_change = [this] { changed(); };
  triggered.on_end = [this](const std::string& name, const RunRecord& run) {
    if (hooks) hooks->publish("TriggeredJobFinished", run_json(run, name, "", clock.now().wall));
  };
}

JobHost::Impl::~Impl() {
  stop();
  close(lock_fd);
}

Result<std::unique_ptr<JobHost>> JobHost::open(HostOptions options, Jobs& jobs,
                                               Processes& processes, const Clock& clock,
                                               Random& random, Log& log, Registry& registry) {
  if (auto errors = options.validate(); !errors.empty()) return errors.front();
  for (std::string* path : {&options.data, &options.roots.front()}) {
    std::error_code problem;
    const fs::path whole = fs::absolute(*path, problem);
    if (problem) return file_error("find the absolute path of", *path, problem.value());
    *path = whole.lexically_normal().string();
    while (path->size() > 1 && path->ends_with('/')) path->pop_back();
  }
  MS_TRY_ASSIGN(const int lock_fd, lock_data(options.data));
  Result<std::string> id = read_id(options.data, random);
  if (!id) {
    close(lock_fd);
    return std::move(id.error());
  }
  const std::string hooks_path = options.data + "/hooks.json";
  std::vector<std::string> outgoing_allow = options.outgoing_allow;
  auto impl = std::make_unique<Impl>(std::move(options), jobs, processes, clock, random, log,
                                     registry, *id, lock_fd);
  MS_TRY_ASSIGN(impl->hooks,
                Hooks::open(hooks_path, clock, random, log, std::move(outgoing_allow)));
  return std::unique_ptr<JobHost>(new JobHost(std::move(impl)));
}

JobHost::JobHost(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
JobHost::~JobHost() = default;

void JobHost::start() {
  impl_->start();
}
void JobHost::stop() {
  impl_->stop();
}
void JobHost::refresh() {
  impl_->scan({.all = true, .at_once = true});
}

void JobHost::Impl::start() {
  {
    MutexLock lock(mutex);
    if (started || stopping) return;
    started = true;
  }
  for (const std::string& root : options.roots) remove_deployment_leftovers(root);
  triggered.read_remembered_schedules();
  read_book();
  read_host_file();
  scan({.all = true, .at_once = true});
  threads.emplace_back([this] { control(); });
  for (const std::string& root : options.roots) {
    threads.emplace_back([this, root] { watch_root(root); });
  }
}

void JobHost::Impl::stop() {
  std::vector<JobRunner*> runners, leavers;
  {
    MutexLock lock(mutex);
    if (!stopping) {
      stopping = true;
      for (const auto& [root, watch] : watches) watch->wake();
      wake.notify_all();
    }
  }
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  {
    MutexLock lock(mutex);
    for (auto& [key, entry] : entries) {
      if (entry.runner) runners.push_back(entry.runner.get());
    }
    for (auto& [key, job] : leaving) {
      if (job.runner) leavers.push_back(job.runner.get());
    }
  }
  for (JobRunner* runner : runners) runner->set(std::nullopt, JobRunner::Why::shutdown);
  triggered.stop();
  for (JobRunner* runner : runners) runner->end(JobRunner::Why::shutdown);
  for (JobRunner* runner : leavers) runner->end(JobRunner::Why::removed);
  logs.close_all();
  hooks.reset();
  if (std::exchange(book_is_read, false)) save_book(true);
}

}  // namespace mainspring
