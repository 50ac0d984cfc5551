// Operations of people and programs on job folders: see host/control.h.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "api/json.h"
#include "host/deploy.h"
#include "host/job_host_impl.h"

namespace mainspring {
namespace {

namespace fs = std::filesystem;

}  // namespace

Error JobHost::Impl::no_job(JobType type, const std::string& name) const {
  std::string message = fmt::format("{} job \"{}\": does not exist", to_string(type), name);
  for (const JobType other : {JobType::continuous, JobType::triggered, JobType::queue}) {
    if (!entries.contains({other, name})) continue;
    message += fmt::format("; {} is a {} job", name, to_string(other));
    break;
  }
  return Error{.code = ErrorCode::not_found, .message = std::move(message)};
}

std::string JobHost::Impl::directory_of(JobType type, const std::string& name) const {
  MutexLock lock(mutex);
  const auto found = entries.find({type, name});
  if (found != entries.end()) return found->second.folder.directory;
  return fmt::format("{}/{}/{}", options.roots.front(), folder_of(type), name);
}

Result<JobFolder> JobHost::Impl::folder(JobType type, const std::string& name) const {
  MutexLock lock(mutex);
  const auto found = entries.find({type, name});
  if (found != entries.end()) return found->second.folder;
  const auto missing = book.find_missing({type, name}, clock.now());
  if (!missing) return no_job(type, name);
  return Error{
      .code = ErrorCode::not_found,
      .message = fmt::format("{} job \"{}\": its folder is missing, it was last seen at {}; "
                             "restore the folder, or remove the job",
                             to_string(type), name, format_wall_time(missing->seen))};
}

std::optional<JobView> JobHost::Impl::missing_view(const HostKey& key) const {
  JobView view;
  if (entries.contains(key)) return std::nullopt;
  view.missing = book.find_missing(key, clock.now());
  if (!view.missing) return std::nullopt;
  std::tie(view.folder.type, view.folder.name) = key;
  view.folder.settings_json = "{}";
  view.status = ContinuousStatus::stopped;
  view.error =
      fmt::format("its folder has been missing since {}; its data is kept until {}",
                  format_wall_time(view.missing->seen), format_wall_time(view.missing->kept_until));
  if (key.first == JobType::triggered) add_latest_run(view);
  return view;
}

void JobHost::Impl::add_latest_run(JobView& view) const {
  const std::string& name = view.folder.name;
  const auto latest = RunHistory(job_data_path(options, JobType::triggered, name)).latest();
  if (!latest) return;
  if (auto run = triggered.run_of(name, *latest)) view.latest_run = std::move(*run);
  if (view.latest_run) view.job = view.latest_run->job;
}

std::string JobHost::Impl::why_not(const JobFolder& folder) const {
  std::string why = folder.error_of(options.strict);
  return why.empty() ? host_file_error : why;
}

Result<void> JobHost::Impl::check_runnable(const JobFolder& folder) const {
  std::string why;
  {
    MutexLock lock(mutex);
    why = why_not(folder);
  }
  if (why.empty() && folder.settings.freeze) {
    why = "is frozen; remove \"freeze\" from its settings";
  }
  if (why.empty()) return {};
  return Error{
      .code = ErrorCode::conflict,
      .message = fmt::format("{} job \"{}\": {}", to_string(folder.type), folder.name, why)};
}

JobView JobHost::Impl::view_of(const HostKey& key, const HostEntry& entry) const {
  JobView view;
  if (entry.runner) view = entry.runner->view();
  view.folder = entry.folder;
  view.pool = entry.folder.settings.pool.empty() ? "default" : entry.folder.settings.pool;
  view.frozen = entry.folder.settings.freeze;
  if (!entry.unknown.empty()) {
    view.folder.warnings.insert(view.folder.warnings.begin(),
                                "its folder cannot be read now: " + entry.unknown);
  }
  if (key.first == JobType::triggered) {
    add_latest_run(view);
    view.error = triggered.start_trouble(key.second);
  }
  const auto pools = isolation.pools();
  if (std::string why = why_not(entry.folder); !why.empty()) view.error = std::move(why);
  if (view.error.empty() && std::find(pools.begin(), pools.end(), view.pool) == pools.end()) {
    view.error = fmt::format("pool \"{}\": must be defined in host.json", view.pool);
  }
  return view;
}

HostView JobHost::view() {
  HostView view;
  view.instance = impl_->parts.instance;
  view.directory = impl_->options.roots.front();
  view.stopped = impl_->options.variables.stopped;
  view.strict = impl_->options.strict;
  view.layers = impl_->isolation.layers();
  view.running = impl_->triggered.running();
  MutexLock lock(impl_->mutex);
  view.problems = impl_->directory_problems;
  for (const auto& [root, why] : impl_->watch_problems) view.problems.push_back(why);
  for (const auto& [key, why] : impl_->folder_problems) view.problems.push_back(why);
  view.missing = static_cast<int>(impl_->book.missing_keys().size());
  for (const std::string& warning : impl_->host_file_warnings) {
    view.problems.push_back("host.json: " + warning);
  }
  for (const auto& [key, entry] : impl_->entries) {
    if (key.first == JobType::continuous) ++view.continuous;
    if (key.first == JobType::triggered) ++view.triggered;
    if (key.first == JobType::queue) ++view.queues;
    if (entry.runner) {
      const JobView job = entry.runner->view();
      if (key.first == JobType::continuous && job.status == ContinuousStatus::running) {
        ++view.running;
      }
      view.running += job.children;
    }
    if (impl_->options.strict) continue;
    for (const std::string& warning : entry.folder.warnings) {
      view.problems.push_back(fmt::format("{}: {}", key.second, warning));
    }
  }
  return view;
}

std::vector<JobView> JobHost::list(std::optional<JobType> type) {
  std::vector<JobView> views;
  MutexLock lock(impl_->mutex);
  for (const auto& [key, entry] : impl_->entries) {
    if (!type || key.first == *type) views.push_back(impl_->view_of(key, entry));
  }
  for (const HostKey& key : impl_->book.missing_keys()) {
    if (type && key.first != *type) continue;
    if (auto view = impl_->missing_view(key)) views.push_back(std::move(*view));
  }
  std::stable_sort(views.begin(), views.end(), [](const JobView& a, const JobView& b) {
    return std::tie(a.folder.type, a.folder.name) < std::tie(b.folder.type, b.folder.name);
  });
  return views;
}

Result<JobView> JobHost::find(JobType type, const std::string& name) {
  MutexLock lock(impl_->mutex);
  const auto found = impl_->entries.find({type, name});
  if (found != impl_->entries.end()) return impl_->view_of(found->first, found->second);
  if (auto missing = impl_->missing_view({type, name})) return std::move(*missing);
  return impl_->no_job(type, name);
}

std::uint64_t JobHost::version() {
  return impl_->version.load();
}

// -- deploying

Result<JobView> JobHost::Impl::deployed(JobType type, const std::string& name,
                                        Result<JobFolder> result) {
  if (!result) return std::move(result.error());
  scan_one({type, name});
  changed();
  MutexLock lock(mutex);
  const auto found = entries.find({type, name});
  if (found == entries.end()) return no_job(type, name);
  return view_of(found->first, found->second);
}

Result<JobView> JobHost::deploy_file(JobType type, const std::string& name,
                                     const std::string& file_name, std::string_view content) {
  return impl_->deployed(
      type, name,
      mainspring::deploy_file(type, impl_->directory_of(type, name), file_name, content,
                              impl_->script_hosts, {.strict_webjobs = impl_->options.strict}));
}

Result<JobView> JobHost::deploy_zip(JobType type, const std::string& name, std::string_view zip) {
  return impl_->deployed(
      type, name,
      mainspring::deploy_zip(type, impl_->directory_of(type, name), zip, impl_->script_hosts,
                             {.strict_webjobs = impl_->options.strict}));
}

Result<std::string> JobHost::settings(JobType type, const std::string& name) {
  MS_TRY_ASSIGN(const JobFolder folder, impl_->folder(type, name));
  if (!folder.readable) return Error{.code = ErrorCode::conflict, .message = folder.error};
  return folder.settings_json;
}

Result<void> JobHost::put_settings(JobType type, const std::string& name, std::string_view json) {
  MS_TRY_ASSIGN(const JobFolder folder, impl_->folder(type, name));
  JsonReader in(json, JsonReader::Unknown::skip);
  if (!in.members([&](std::string_view) { return in.skip(); }) || !in.end()) {
    return invalid("settings", "settings.job: must be a JSON object: " + in.error().message);
  }
  const Understood<JobSettings> understood = parse_job_settings(json);
  const std::string& schedule = understood.value.schedule_error;
  const std::string& error = understood.error.empty() ? schedule : understood.error;
  if (!error.empty() && !impl_->options.strict) {
    return invalid("settings", "settings.job: " + error);
  }
  MS_TRY(write_file_atomically(folder.script_dir + "/" + folder.settings_file, json));
  impl_->scan_one({type, name});
  impl_->changed();
  return {};
}

// -- triggered

Result<std::string> JobHost::run(const std::string& name, const std::string& arguments,
                                 const std::string& trigger) {
  MS_TRY_ASSIGN(const JobFolder folder, impl_->folder(JobType::triggered, name));
  MS_TRY(impl_->check_runnable(folder));
  return impl_->triggered.run(name, arguments, trigger);
}

Result<void> JobHost::cancel_run(const std::string& name) {
  return impl_->triggered.cancel(name);
}

Result<std::vector<RunRecord>> JobHost::history(const std::string& name) {
  return impl_->triggered.history(name);
}

Result<RunRecord> JobHost::run_of(const std::string& name, const std::string& id) {
  return impl_->triggered.run_of(name, id);
}

// -- continuous

Result<void> JobHost::stop_job(const std::string& name) {
  MS_TRY_ASSIGN(const JobFolder folder, impl_->folder(JobType::continuous, name));
  if (auto written = write_file_atomically(folder.script_dir + "/disable.job", ""); !written) {
    return Error{.code = ErrorCode::conflict, .message = written.error().message};
  }
  impl_->scan_one({JobType::continuous, name});
  return {};
}

Result<void> JobHost::start_job(const std::string& name) {
  MS_TRY_ASSIGN(const JobFolder folder, impl_->folder(JobType::continuous, name));
  MS_TRY(impl_->check_runnable(folder));
  std::error_code problem;
  fs::remove(folder.script_dir + "/disable.job", problem);
  if (problem) {
    return Error{
        .code = ErrorCode::conflict,
        .message = fmt::format("{}/disable.job: {}", folder.script_dir, problem.message())};
  }
  impl_->scan_one({JobType::continuous, name});
  // A job that waits for its restart starts now.
  MS_TRY_ASSIGN(const JobView view, find(JobType::continuous, name));
  if (view.status == ContinuousStatus::pending_restart && view.job != 0) {
    (void)impl_->parts.jobs.retry({view.job});
  }
  return {};
}

Result<int> JobHost::port(const std::string& name) {
  MS_TRY_ASSIGN(const JobView view, find(JobType::continuous, name));
  if (view.port != 0) return view.port;
  return Error{.code = ErrorCode::not_found,
               .message = fmt::format("continuous job \"{}\": is not running", name)};
}

// -- logs

std::shared_ptr<JobLog> JobHost::Impl::open_log(JobType type, const std::string& name,
                                                const std::string& run) {
  if (type != JobType::triggered) return logs.find(type, name);
  return triggered.log_of(name, run);
}

// The log of a job that has not run since this host started: a reader waits for a run. nullptr =
// there is no such job, or the host stops.
std::shared_ptr<JobLog> JobHost::Impl::log_to_come(JobType type, const std::string& name) {
  {
    MutexLock lock(mutex);
    if (stopping || !entries.contains({type, name})) return nullptr;
  }
  auto log = logs.open(type, name);
  return log ? std::move(*log) : nullptr;
}

Result<std::string> JobHost::Impl::log_path(JobType type, const std::string& name,
                                            const std::string& run) {
  if (type != JobType::triggered) {
    MutexLock lock(mutex);
    if (!entries.contains({type, name}) && !book.is_missing({type, name})) {
      return no_job(type, name);
    }
    return job_log_path(options, type, name);
  }
  if (auto good = time_of_run_id(run); !good) {
    return Error{.code = ErrorCode::not_found,
                 .message = fmt::format("triggered job \"{}\": there is no run \"{}\"; see "
                                        "mainspring jobs-host history",
                                        name, run)};
  }
  return RunHistory(job_data_path(options, type, name)).log_path(run);
}

namespace {

// The requested run: "" = the latest.
Result<std::string> run_or_latest(const HostOptions& options, JobType type, const std::string& name,
                                  const std::string& run) {
  if (type != JobType::triggered || !run.empty()) return run;
  MS_TRY(check_name("name", name));
  const auto latest = RunHistory(job_data_path(options, type, name)).latest();
  if (latest) return *latest;
  return Error{.code = ErrorCode::not_found,
               .message = fmt::format("triggered job \"{}\": has no runs", name)};
}

}  // namespace

Result<LogText> JobHost::log(JobType type, const std::string& name, const std::string& run,
                             std::int64_t position, std::size_t max) {
  MS_TRY_ASSIGN(const std::string id, run_or_latest(impl_->options, type, name, run));
  MS_TRY_ASSIGN(const std::string path, impl_->log_path(type, name, id));
  auto text = read_log(path, position, max);
  if (text || text.error().code != ErrorCode::not_found) return text;
  // The log is empty so far.
  if (type == JobType::triggered) MS_TRY(impl_->triggered.run_of(name, id));
  return LogText{.next = std::max<std::int64_t>(position, 0), .at_end = true};
}

Result<JobHost::Watch> JobHost::watch_log(JobType type, const std::string& name,
                                          const std::string& run, std::int64_t position,
                                          std::function<void()> changed) {
  MS_TRY_ASSIGN(const std::string id, run_or_latest(impl_->options, type, name, run));
  std::shared_ptr<JobLog> log = impl_->open_log(type, name, id);
  if (!log && type != JobType::triggered) log = impl_->log_to_come(type, name);
  if (!log && !log_ended(type, name, id) && type == JobType::triggered) {
    Watch watch = impl_->triggered.watch_begin(id, changed);
    // It started or ended meanwhile.
    if (impl_->open_log(type, name, id) || log_ended(type, name, id)) changed();
    return watch;
  }
  if (!log) {
    MS_TRY(impl_->log_path(type, name, id));
    // The log of a finished run is complete. Other logs are opened again by the next start.
    if (type == JobType::triggered) changed();
    return Watch();
  }
  const std::uint64_t number = log->notify(position, std::move(changed));
  return Watch(nullptr, [log, number](void*) { log->forget(number); });
}

bool JobHost::log_ended(JobType type, const std::string& name, const std::string& run) {
  if (type != JobType::triggered) return !impl_->folder(type, name);
  const auto id = run_or_latest(impl_->options, type, name, run);
  if (!id) return true;
  const std::shared_ptr<JobLog> log = impl_->open_log(type, name, *id);
  if (log) return log->closed();
  // A run that waits for its slot has no log yet; a run on another host has none here. (Checked
  // after the log: a run whose log was closed before is seen as ended.)
  const auto seen = impl_->triggered.run_of(name, *id);
  return !seen || (seen->status != RunStatus::initializing && seen->status != RunStatus::running);
}

namespace {

Error no_data_file(std::string_view path) {
  return Error{.code = ErrorCode::not_found,
               .message = fmt::format("data file \"{}\": does not exist", path.substr(0, 200))};
}

// The place of a relative path below the data directory. Errors: not_found, if it leads out of it.
Result<fs::path> place_of_data(const HostOptions& options, std::string_view path) {
  std::error_code problem;
  while (path.ends_with('/')) path.remove_suffix(1);
  const fs::path base = fs::weakly_canonical(options.data + "/data", problem);
  fs::path wanted = fs::weakly_canonical(base / fs::path(path).relative_path(), problem);
  if (problem || !wanted.native().starts_with(base.native() + "/")) return no_data_file(path);
  return wanted;
}

}  // namespace

Result<std::vector<DataEntry>> JobHost::data_directory(std::string_view path) {
  MS_TRY_ASSIGN(const fs::path wanted, place_of_data(impl_->options, path));
  std::vector<DataEntry> out;
  std::error_code problem;
  fs::directory_iterator entries(wanted, problem);
  if (problem) return no_data_file(path);
  for (; entries != fs::directory_iterator(); entries.increment(problem)) {
    if (problem) return no_data_file(path);
    struct stat status {};
    if (::lstat(entries->path().c_str(), &status) != 0) continue;  // removed since
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) continue;
    if (out.size() == kMaxDataEntries) {
      return Error{.code = ErrorCode::too_large,
                   .message = fmt::format("data directory \"{}\": has more than {} entries", path,
                                          kMaxDataEntries)};
    }
    const bool directory = S_ISDIR(status.st_mode);
    out.push_back({.name = entries->path().filename(),
                   .directory = directory,
                   .bytes = directory ? 0 : static_cast<std::uint64_t>(status.st_size),
                   .changed_at = WallTime::from_us(status.st_mtim.tv_sec * 1'000'000 +
                                                   status.st_mtim.tv_nsec / 1000)});
  }
  std::sort(out.begin(), out.end(),
            [](const DataEntry& x, const DataEntry& y) { return x.name < y.name; });
  return out;
}

Result<std::string> JobHost::data_file(std::string_view path, std::size_t max) {
  std::error_code problem;
  MS_TRY_ASSIGN(const fs::path wanted, place_of_data(impl_->options, path));
  if (!fs::is_regular_file(wanted, problem) || problem) return no_data_file(path);
  const std::uintmax_t bytes = fs::file_size(wanted, problem);
  if (problem) return no_data_file(path);
  if (bytes > max) {
    return Error{.code = ErrorCode::too_large,
                 .message = fmt::format("data file \"{}\" has {} bytes: must be at most {}", path,
                                        bytes, max)};
  }
  MS_TRY_ASSIGN(LogText text, read_log(wanted.native(), 0, max));
  return std::move(text.text);
}

// -- hooks

Result<std::pair<HookView, bool>> JobHost::add_hook(const std::string& url,
                                                    const std::string& event, bool insecure_ssl) {
  return impl_->hooks->add(url, event, insecure_ssl);
}
std::vector<HookView> JobHost::hooks() {
  return impl_->hooks->list();
}
Result<void> JobHost::remove_hook(const std::string& id) {
  return impl_->hooks->remove(id);
}
void JobHost::publish(const std::string& event, std::string_view json) {
  impl_->hooks->publish(event, json);
}

}  // namespace mainspring
