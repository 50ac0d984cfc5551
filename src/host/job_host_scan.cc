// Compares the folders with what runs: loads, restarts and ends jobs.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "env/private_files.h"
#include "host/files.h"
#include "host/job_host_impl.h"

namespace mainspring {
namespace {

// Pause before unreadable directories are read again.
constexpr Duration kUnknownPause = std::chrono::seconds(1);
// If a file restarts a job this often, each time within kOwnWriteTime, the job itself writes it.
constexpr int kOwnWrites = 4;
constexpr Duration kOwnWriteTime = std::chrono::seconds(30);
constexpr int kOwnWriteScans = 12;  // scans in a row in which it has changed

HostKey key_of(const JobFolder& folder) {
  return {folder.type, folder.name};
}

}  // namespace

// An invalid host.json changes nothing. At the start it holds back all jobs: its pools limit the
// resources that they may use.
void JobHost::Impl::read_host_file() {
  struct stat status {};
  // Its disk is not mounted.
  if (::stat(options.roots.front().c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return;
  const std::string path = options.roots.front() + "/host.json";
  const auto text = read_whole_file(path, kMaxSettingsBytes);
  std::optional<std::string> read;
  if (text) read = text->value_or("");
  {
    MutexLock lock(mutex);
    if (read && read == host_file_text) return;
    host_file_text = read;
  }
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

// A folder is loaded when its content has not changed for the quiet period: since the last event,
// or between two scans with the same result.
bool JobHost::Impl::is_settled(const HostKey& key, const FolderSignature& fresh,
                               const ScanScope& scope) {
  if (scope.at_once) return true;
  // Events of a job that runs in its folder are ignored: the job may write there all the time.
  if (!is_in_place(key)) {
    if (scope.settled.contains(key)) return true;
    if (dirty.contains(key)) return false;  // examined again when its events have ended
  }
  const Instant now = clock.now().instant;
  std::string digest = fresh.digest();
  const auto [one, is_new] = pending.try_emplace(key, PendingFolder{digest, now});
  if (is_new || one->second.digest != digest) {
    one->second.digest = std::move(digest);
    one->second.since = now;
    if (is_in_place(key)) note_change(key, one->second, fresh);
  }
  return one->second.since + options.quiet <= now;
}

void JobHost::Impl::consider(const JobFolder& folder, const ScanScope& scope, const Found& found) {
  const HostKey key = key_of(folder);
  FolderSignature fresh = sign(key, folder);
  {
    MutexLock lock(mutex);
    const auto entry = entries.find(key);
    book.kept(key, clock.now());
    if (entry != entries.end()) {
      HostEntry& loaded = entry->second;
      // The same name in a later directory does not replace a folder that is unreadable for now.
      if (loaded.folder.directory != folder.directory) {
        for (const Found::Unlisted& one : found.unlisted) {
          if (one.directory != parent_of(loaded.folder.directory)) continue;
          loaded.unknown = one.why;
          return;
        }
      }
      loaded.absent_since.reset();
      loaded.unknown.clear();
      if (!fresh.unread.empty()) {
        loaded.unknown = fmt::format("cannot read {}/{}", folder.directory, fresh.unread.front());
      }
      keep_unread(fresh, loaded.signature);
      if (fresh == loaded.signature) {
        pending.erase(key);
        return;
      }
    }
    if (!is_settled(key, fresh, scope)) return;
    pending.erase(key);
  }
  load(key, folder.directory, std::move(fresh));
}

bool JobHost::Impl::is_in_place(const HostKey& key) const {
  const auto entry = entries.find(key);
  return entry != entries.end() && entry->second.deployed;
}

// For a job that runs in its folder, only the deployed files: the job writes other files there.
FolderSignature JobHost::Impl::sign(const HostKey& key, const JobFolder& folder) {
  std::optional<DeployedFiles> deployed;
  {
    MutexLock lock(mutex);
    const auto entry = entries.find(key);
    if (entry != entries.end()) deployed = entry->second.deployed;
  }
  if (!deployed) return sign_folder(folder.directory);
  if (is_named_run(folder.run_file)) deployed->paths.merge(fixed_files_of(folder));
  FolderSignature fresh = sign_files(folder.directory, deployed->paths);
  const bool other = fresh.inode != 0 && !deployed->is_of(fresh);
  return other ? sign_folder(folder.directory) : fresh;
}

// Reduces the signature to the deployed files.
DeployedFiles JobHost::Impl::deployed_files(const HostKey& key, const JobFolder& folder,
                                            FolderSignature& signature) {
  const std::string path = deployed_files_path(options, key.first, key.second);
  std::optional<DeployedFiles> known;
  {
    MutexLock lock(mutex);
    const auto entry = entries.find(key);
    if (entry != entries.end()) known = entry->second.deployed;
  }
  if (!known) known = read_deployed_files(path);
  const bool is_new = !known || !known->is_of(signature);
  DeployedFiles files = is_new ? deployed_files_of(signature) : std::move(*known);
  files.paths.merge(fixed_files_of(folder));
  std::erase_if(signature.entries, [&](const auto& entry) {
    return !entry.first.empty() && !files.paths.contains(entry.first);
  });
  if (!is_new) return files;
  (void)make_private_directories(parent_of(path));
  if (auto written = write_deployed_files(path, files); !written) {
    log_.warn(
        "the list of a job's files cannot be written: after a restart of the host all files "
        "in its folder count",
        {{"job", key.second}, {"why", written.error().message}});
  }
  return files;
}

// A job that writes to one of its deployed files must not restart itself forever.
void JobHost::Impl::note_cause(HostEntry& entry, const FolderSignature& fresh) {
  const Instant now = clock.now().instant;
  const std::string cause = first_change(entry.signature, fresh);
  const bool again = cause == entry.cause && now - entry.caused_at < kOwnWriteTime + options.quiet;
  entry.causes = again ? entry.causes + 1 : 1;
  entry.cause = cause;
  entry.caused_at = now;
  if (entry.causes < kOwnWrites || !entry.deployed) return;
  if (fixed_files_of(entry.folder).contains(cause)) return;
  ignore_file(entry, cause);
}

// A file that changes without a pause would hide all other changes.
void JobHost::Impl::note_change(const HostKey& key, PendingFolder& one,
                                const FolderSignature& fresh) {
  HostEntry& entry = entries.at(key);
  const std::string file = first_change(one.seen, fresh);
  one.seen = fresh;
  if (++one.changes < kOwnWriteScans) return;
  one.changes = 0;
  if (!fixed_files_of(entry.folder).contains(file)) ignore_file(entry, file);
}

void JobHost::Impl::ignore_file(HostEntry& entry, const std::string& file) {
  if (entry.deployed->paths.erase(file) == 0) return;
  entry.signature.entries.erase(file);
  log_.warn(
      "a file in a job folder keeps changing, probably because the job writes it; it is ignored "
      "until the host restarts",
      {{"job", entry.folder.name}, {"file", file}});
}

// The signature was taken before: later changes are found by the next scan.
void JobHost::Impl::load(const HostKey& key, const std::string& directory,
                         FolderSignature signature) {
  auto read = read_job_folder(key.first, directory, script_hosts);
  std::optional<DeployedFiles> deployed;
  bool was_in_place = false;
  {
    MutexLock lock(mutex);
    was_in_place = is_in_place(key);
    const auto entry = entries.find(key);
    if (entry != entries.end() && was_in_place) note_cause(entry->second, signature);
  }
  if (read && read->in_place()) {
    deployed = deployed_files(key, *read, signature);
  } else if (was_in_place) {
    signature = sign_folder(directory);  // it had only the deployed files
  }
  auto polled = read ? polled_paths(*read, signature) : decltype(HostEntry::polled)();
  const Now now = clock.now();
  MutexLock lock(mutex);
  if (!read) {
    pending[key] = {.digest = "", .since = now.instant};
    return;
  }
  const JobFolder& folder = *read;
  HostEntry& entry = entries[key];
  if (!entry.folder.name.empty()) {
    log_.info("a job folder has changed",
              {{"job", folder.name}, {"file", first_change(entry.signature, signature)}});
  }
  if (!options.strict) {
    for (const std::string& warning : folder.warnings) {
      log_.warn("settings.job", {{"job", folder.name}, {"warning", warning}});
    }
  }
  entry.folder = folder;
  entry.signature = std::move(signature);
  entry.deployed = std::move(deployed);
  entry.polled = std::move(polled);
  entry.absent_since.reset();
  book.seen(key, now);
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
  // A job of that name may still be ending: the new folder starts after that, as two runs would
  // write to one log.
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

// The folder is unreadable now: its job continues as it is.
void JobHost::Impl::keep_unknown(const HostKey& key, const std::string& why) {
  MutexLock lock(mutex);
  pending.erase(key);
  const auto entry = entries.find(key);
  if (entry == entries.end()) return;
  entry->second.unknown = why;
  entry->second.absent_since.reset();
}

// Does not wait for runs to end: that may take as long as their settings allow, and all other
// changes of folders would wait too.
void JobHost::Impl::absent(const HostKey& key, bool at_once) {
  const Now now = clock.now();
  {
    MutexLock lock(mutex);
    pending.erase(key);
    const auto entry = entries.find(key);
    if (entry == entries.end()) {
      if (!book.contains(key) || !book.missing(key, now)) return;
    } else {
      HostEntry& loaded = entry->second;
      loaded.unknown.clear();
      if (!loaded.absent_since) loaded.absent_since = now.instant;
      if (!at_once && *loaded.absent_since + options.quiet > now.instant) return;
      if (loaded.runner) {
        loaded.runner->set(std::nullopt, JobRunner::Why::removed);
        leaving[key].runner = std::move(loaded.runner);
      }
      entries.erase(entry);
      (void)book.missing(key, now);
    }
    changed();
  }
  log_.warn("a job folder is missing; the data of its job is kept",
            {{"job", key.second},
             {"type", std::string(to_string(key.first))},
             {"at_least_for", format_duration(options.retention)}});
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
    if (job.with_data) book.forget(key);
    leaving.erase(key);
    wake.notify_all();
  }
}

void JobHost::Impl::give_triggered() {
  TriggeredFolders given;
  {
    MutexLock lock(mutex);
    for (const auto& [key, entry] : entries) {
      if (key.first != JobType::triggered) continue;
      given.folders.push_back(entry.folder);
      given.folders.back().error = why_not(entry.folder);
      if (!entry.unknown.empty()) given.unreadable.insert(key.second);
    }
    for (const HostKey& key : book.missing_keys()) {
      if (key.first == JobType::triggered) given.missing.insert(key.second);
    }
  }
  triggered.set(std::move(given));
}

void JobHost::Impl::scan(const ScanScope& scope) {
  MutexLock one(refresh_mutex);
  {
    MutexLock lock(mutex);
    if (stopping) return;
  }
  const Found found =
      scope.all
          ? discover(options.roots, script_hosts)
          : discover_some(options.roots, {scope.keys.begin(), scope.keys.end()}, script_hosts);
  std::set<HostKey> there;
  for (const JobFolder& folder : found.jobs) {
    there.insert(key_of(folder));
    consider(folder, scope, found);
  }
  for (const Found::LeftOut& left : found.left_out) {
    there.insert(left.key);
    if (left.unknown) {
      keep_unknown(left.key, left.why);
    } else {
      absent(left.key, scope.at_once);
      MutexLock lock(mutex);
      book.kept(left.key, clock.now());
    }
  }
  std::set<HostKey> others = scope.keys;
  if (scope.all) {
    MutexLock lock(mutex);
    for (const auto& [key, entry] : entries) others.insert(key);
    for (const auto& [key, folder] : pending) others.insert(key);
    for (const HostKey& key : book.keys()) others.insert(key);
  }
  for (const HostKey& key : others) {
    if (there.contains(key)) continue;
    if (const Found::Unlisted* const why = found.find_unlisted(key.first)) {
      keep_unknown(key, why->why);
    } else {
      absent(key, scope.at_once);
    }
  }
  give_triggered();
  report(found, scope);
  save_book(false);
}

void JobHost::Impl::report(const Found& found, const ScanScope& scope) {
  std::vector<std::pair<std::string, bool>> fresh;  // with: it could not be read
  {
    MutexLock lock(mutex);
    std::map<HostKey, std::string> before = folder_problems;
    const std::vector<std::string> directories_before = directory_problems;
    if (scope.all) {
      folder_problems.clear();
      directory_problems.clear();
      some_unknown = false;
    }
    for (const HostKey& key : scope.keys) folder_problems.erase(key);
    for (const Found::LeftOut& left : found.left_out) {
      some_unknown = some_unknown || left.unknown;
      folder_problems[left.key] = left.why;
      if (before[left.key] != left.why) fresh.emplace_back(left.why, left.unknown);
    }
    for (const Found::Unlisted& one : found.unlisted) {
      some_unknown = true;
      directory_problems.push_back(one.why);
      if (std::count(directories_before.begin(), directories_before.end(), one.why) == 0) {
        fresh.emplace_back(one.why, true);
      }
    }
    for (const std::string& why : found.misplaced) {
      directory_problems.push_back(why);
      if (std::count(directories_before.begin(), directories_before.end(), why) == 0) {
        fresh.emplace_back(why, false);
      }
    }
    if (some_unknown) {
      const Instant soon = clock.now().instant + std::max(options.quiet, kUnknownPause);
      rescan_at = std::min(rescan_at, soon);
    }
  }
  for (const auto& [why, unknown] : fresh) {
    log_.warn(unknown ? "job folders cannot be read: their jobs continue as they are"
                      : "this is not a job",
              {{"why", why}});
  }
}

}  // namespace mainspring
