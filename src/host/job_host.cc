// Finding folders, following their changes, and handing them to who runs them.
#include "host/job_host.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "env/private_files.h"
#include "host/deploy.h"
#include "host/files.h"
#include "host/job_host_impl.h"

namespace mainspring {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMaxSignatureFiles = 100'000;
// How often what the engine did not take is tried again.
constexpr Duration kTend = std::chrono::seconds(30);
constexpr Duration kWatchWait = std::chrono::hours(1);

std::string path_of(const std::vector<std::string>& environment) {
  for (const std::string& entry : environment) {
    if (entry.starts_with("PATH=")) return entry.substr(5);
  }
  return "/usr/local/bin:/usr/bin:/bin";
}

// What tells a folder's content from an earlier one's: names, sizes, times, modes.
std::string signature_of(const std::string& directory) {
  std::vector<std::string> lines;
  std::error_code problem;
  fs::recursive_directory_iterator it(directory, problem);
  for (; !problem && it != fs::recursive_directory_iterator(); it.increment(problem)) {
    std::error_code ignored;
    const fs::file_status status = it->symlink_status(ignored);
    const bool file = fs::is_regular_file(status);
    const auto time = file ? it->last_write_time(ignored).time_since_epoch().count() : 0;
    lines.push_back(fmt::format("{} {} {} {:o} {}", it->path().native(),
                                static_cast<int>(status.type()), file ? it->file_size(ignored) : 0,
                                static_cast<unsigned>(status.permissions()), time));
    if (lines.size() > kMaxSignatureFiles) break;
  }
  std::sort(lines.begin(), lines.end());
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The host's identity: made once, kept in its data directory.
Result<std::string> read_id(const std::string& data, Random& random) {
  const std::string path = data + "/id";
  std::string id = read_text(path);
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
      parts{options,
            jobs,
            processes,
            clock,
            random,
            log,
            isolation,
            ticker,
            logs,
            id.substr(0, 8),
            instance6(options.variables)},
      script_hosts(find_script_hosts(path_of(options.environment))),
      triggered(parts, registry) {
  registry.gauge("mainspring_host_running", "Runs of triggered job folders under way",
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
  impl_->refresh_all(true);
}

void JobHost::Impl::start() {
  {
    MutexLock lock(mutex);
    if (started || stopping) return;
    started = true;
  }
  for (const std::string& root : options.roots) remove_deployment_leftovers(root);
  triggered.read_remembered_schedules();
  read_host_file();
  std::vector<bool> missing;
  std::error_code ignored;
  for (const std::string& root : options.roots) {
    missing.push_back(!fs::is_directory(root, ignored));
  }
  remove_old_data(discover(options.roots, script_hosts));
  refresh_all(true);
  threads.emplace_back([this] { control(); });
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const bool was_missing = missing[i];
    threads.emplace_back(
        [this, root = options.roots[i], was_missing] { watch_root(root, was_missing); });
  }
}

void JobHost::Impl::stop() {
  std::vector<JobRunner*> runners, leavers;
  {
    MutexLock lock(mutex);
    if (!stopping) {
      stopping = true;
      for (FileWatch* watch : watches) watch->wake();
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
}

// -- following changes

void JobHost::Impl::watch_root(const std::string& root, bool missing) {
  bool told = false;
  for (;;) {
    auto watch = FileWatch::open(root);
    if (!watch && !told) {
      log_.info("a directory of jobs cannot be watched now; it is looked for again and again",
                {{"directory", root}, {"why", watch.error().message}});
    }
    told = !watch;
    const Found found = missing && watch ? discover({root}, script_hosts) : Found{};
    missing = !watch;
    const Instant now = clock.now().instant;
    MutexLock lock(mutex);
    if (stopping) return;
    if (!watch) {
      wake.wait_for(mutex, options.root_retry);
      if (stopping) return;
      continue;
    }
    watches.push_back(watch->get());
    // It has only just been made: what is in it may still be being copied.
    for (const JobFolder& folder : found.jobs) dirty[{folder.type, folder.name}] = now;
    all_dirty = true;  // what happened before the watch began
    wake.notify_all();
    mutex.unlock();
    bool gone = false;
    while (!gone) {
      const auto changes = (*watch)->wait(2, kWatchWait);
      if (changes) on_changes(*changes);
      gone = !changes || changes->gone;
      MutexLock again(mutex);
      if (stopping) break;
    }
    mutex.lock();
    std::erase(watches, watch->get());
  }
}

void JobHost::Impl::on_changes(const FileWatch::Changes& changes) {
  const Instant now = clock.now().instant;
  MutexLock lock(mutex);
  all_dirty = all_dirty || changes.all || changes.gone;
  for (const std::string& entry : changes.entries) {
    if (entry == "host.json") host_file_dirty = true;
    const std::size_t slash = entry.find('/');
    if (slash == std::string::npos) {
      all_dirty = true;
      continue;
    }
    for (JobType type : {JobType::continuous, JobType::triggered, JobType::queue}) {
      if (entry.substr(0, slash) == folder_of(type)) dirty[{type, entry.substr(slash + 1)}] = now;
    }
  }
  wake.notify_all();
}

void JobHost::Impl::control() {
  Instant tend_at = clock.now().instant + kTend;
  mutex.lock();
  while (!stopping) {
    const Instant now = clock.now().instant;
    const bool left = some_left;
    bool due = all_dirty || host_file_dirty;
    Instant next = tend_at;
    for (const auto& [key, at] : dirty) {
      if (at + options.quiet <= now) due = true;
      next = std::min(next, at + options.quiet);
    }
    if (left) {
      mutex.unlock();
      see_off();
      mutex.lock();
    } else if (due) {
      const bool file = host_file_dirty || all_dirty;
      all_dirty = host_file_dirty = false;
      mutex.unlock();
      if (file) read_host_file();
      refresh_all(false);
      mutex.lock();
      std::erase_if(dirty, [&](const auto& one) { return one.second + options.quiet <= now; });
    } else if (now >= tend_at) {
      tend_at = now + kTend;
      mutex.unlock();
      triggered.tend();
      mutex.lock();
    } else {
      wake.wait_for(mutex, next - now);
    }
  }
  mutex.unlock();
}

bool JobHost::Impl::quiet(const HostKey& key, Instant now) {
  MutexLock lock(mutex);
  const auto found = dirty.find(key);
  return found == dirty.end() || found->second + options.quiet <= now;
}

// -- taking up what is there

// One that cannot be used changes nothing. At the start it holds back all jobs: pools limit what
// they may do to the machine.
void JobHost::Impl::read_host_file() {
  std::error_code problem;
  if (!fs::is_directory(options.roots.front(), problem)) return;  // its disk is not mounted
  const std::string path = options.roots.front() + "/host.json";
  const auto text = read_whole_file(path, kMaxSettingsBytes);
  Understood<HostFile> file;
  if (text && text->has_value()) file = parse_host_file(**text);
  if (!text) {
    file.error = text.error().message;
    file.warnings.push_back(file.error);
  }
  const bool good = file.error.empty();
  if (good) isolation.configure(std::move(file.value));
  MutexLock lock(mutex);
  if (file.warnings != host_file_warnings) {
    for (const std::string& warning : file.warnings) {
      log_.warn("host.json", {{"file", path}, {"warning", warning}});
    }
  }
  host_file_warnings = std::move(file.warnings);
  host_file_used = host_file_used || good;
  std::string error = host_file_used ? "" : "host.json: " + file.error;
  if (error == host_file_error) return;
  host_file_error = std::move(error);
  for (auto& [key, entry] : entries) apply(entry);
  changed();
}

void JobHost::Impl::take_up(const JobFolder& folder, const std::string& signature,
                            std::vector<HostKey>& seen) {
  const HostKey key{folder.type, folder.name};
  seen.push_back(key);
  MutexLock lock(mutex);
  HostEntry& entry = entries[key];
  const bool is_new = entry.folder.name.empty();
  if (!is_new && entry.signature == signature) return;
  if (!options.strict) {
    for (const std::string& warning : folder.warnings) {
      log_.warn("settings.job", {{"job", folder.name}, {"warning", warning}});
    }
  }
  entry.folder = folder;
  entry.signature = signature;
  changed();
  if (folder.type != JobType::triggered && !entry.runner) entry.runner = new_runner(key);
  apply(entry);
}

void JobHost::Impl::apply(HostEntry& entry) {
  if (!entry.runner) return;
  const JobFolder& folder = entry.folder;
  const bool asleep = folder.disabled || folder.settings.freeze || options.variables.stopped ||
                      !why_not(folder).empty();
  if (asleep) {
    entry.runner->set(std::nullopt, JobRunner::Why::disabled);
  } else {
    entry.runner->set(folder, JobRunner::Why::changed);
  }
}

std::unique_ptr<JobRunner> JobHost::Impl::new_runner(const HostKey& key) {
  // One of that name may still be ending: then it goes on with the new folder after that, as two
  // would write to one log.
  if (const auto old = leaving.find(key); old != leaving.end()) {
    std::unique_ptr<JobRunner> runner = std::move(old->second.runner);
    leaving.erase(old);
    return runner;
  }
  std::unique_ptr<JobRunner> runner;
  if (key.first == JobType::continuous) {
    auto job = std::make_unique<ContinuousJob>(parts, key.second);
    job->on_change = [this] { changed(); };
    runner = std::move(job);
  } else {
    runner = std::make_unique<QueueFolder>(parts, key.second);
  }
  runner->on_rest = [this] {
    MutexLock lock(mutex);
    some_left = true;
    wake.notify_all();
  };
  return runner;
}

// Does not wait for runs to end: that may take as long as their settings say, and everything else
// that happens to folders would wait too.
void JobHost::Impl::drop_missing(const std::vector<HostKey>& seen, bool everything) {
  std::vector<HostKey> gone;
  const Instant now = clock.now().instant;
  {
    MutexLock lock(mutex);
    for (auto it = entries.begin(); it != entries.end();) {
      const bool there = std::find(seen.begin(), seen.end(), it->first) != seen.end();
      const auto touched = dirty.find(it->first);
      const bool settled =
          everything || touched == dirty.end() || touched->second + options.quiet <= now;
      if (there || !settled) {
        ++it;
        continue;
      }
      gone.push_back(it->first);
      if (it->second.runner) {
        it->second.runner->set(std::nullopt, JobRunner::Why::removed);
        leaving[it->first].runner = std::move(it->second.runner);
      }
      it = entries.erase(it);
      changed();
    }
  }
  for (const HostKey& key : gone) {
    log_.info("a job folder is gone", {{"job", key.second}});
  }
}

void JobHost::Impl::see_off() {
  MutexLock one(refresh_mutex);
  std::vector<HostKey> left;
  {
    MutexLock lock(mutex);
    some_left = false;
    for (const auto& [key, job] : leaving) {
      if (job.runner->resting()) left.push_back(key);
    }
  }
  for (const HostKey& key : left) {
    LeavingJob job;
    {
      MutexLock lock(mutex);
      job = std::move(leaving[key]);
    }
    job.runner.reset();
    logs.close(key.first, key.second);
    if (job.with_data) remove_job_data(options, key.first, key.second);
    MutexLock lock(mutex);
    leaving.erase(key);
    wake.notify_all();
  }
}

void JobHost::Impl::give_triggered() {
  std::vector<JobFolder> folders;
  {
    MutexLock lock(mutex);
    for (const auto& [key, entry] : entries) {
      if (key.first != JobType::triggered) continue;
      folders.push_back(entry.folder);
      folders.back().error = why_not(entry.folder);
    }
  }
  triggered.set(std::move(folders));
}

// `everything`: also what changed a moment ago.
void JobHost::Impl::refresh_all(bool everything) {
  MutexLock one(refresh_mutex);
  {
    MutexLock lock(mutex);
    if (stopping) return;
  }
  const Instant now = clock.now().instant;
  const Found found = discover(options.roots, script_hosts);
  std::vector<HostKey> seen;
  for (const JobFolder& folder : found.jobs) {
    const HostKey key{folder.type, folder.name};
    if (everything || quiet(key, now)) {
      take_up(folder, signature_of(folder.directory), seen);
    } else {
      seen.push_back(key);
    }
  }
  drop_missing(seen, everything);
  give_triggered();
  report(found.problems);
}

void JobHost::Impl::report(const std::vector<std::string>& found) {
  std::vector<std::string> fresh;
  {
    MutexLock lock(mutex);
    for (const std::string& text : found) {
      if (std::find(problems.begin(), problems.end(), text) == problems.end()) {
        fresh.push_back(text);
      }
    }
    problems = found;
  }
  for (const std::string& text : fresh) log_.warn("a folder is no job", {{"why", text}});
}

// The data of jobs whose folders went away while no host ran. Not where a directory of jobs is
// missing as a whole: it may be a disk that is not mounted yet.
void JobHost::Impl::remove_old_data(const Found&) {
  std::error_code problem;
  for (const std::string& root : options.roots) {
    if (!fs::is_directory(root, problem)) return;
  }
  for (JobType type : {JobType::continuous, JobType::triggered, JobType::queue}) {
    const std::string data = fmt::format("{}/data/jobs/{}", options.data, folder_of(type));
    for (fs::directory_iterator it(data, problem), end; !problem && it != end;
         it.increment(problem)) {
      const std::string name = it->path().filename().string();
      const bool there =
          std::any_of(options.roots.begin(), options.roots.end(), [&](const std::string& root) {
            std::error_code ignored;
            return fs::exists(fmt::format("{}/{}/{}", root, folder_of(type), name), ignored);
          });
      if (there) continue;
      remove_job_data(options, type, name);
    }
  }
}

}  // namespace mainspring
