// Detects changes of job folders: by inotify, by comparing paths, by reading all folders again.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "host/job_host_impl.h"

namespace mainspring {
namespace {

// How often calls that the engine did not accept are repeated.
constexpr Duration kTend = std::chrono::seconds(30);
constexpr Duration kWatchWait = std::chrono::hours(1);
constexpr Duration kShortestPoll = std::chrono::milliseconds(10);
constexpr Duration kLongestPoll = std::chrono::seconds(1);
// Pause before data of missing jobs that is still in use is deleted.
constexpr Duration kDeletePause = std::chrono::milliseconds(250);
constexpr Duration kShortestRescan = std::chrono::seconds(1);

// nullopt = it cannot be read now. A missing path has an identity of zeros.
std::optional<PathIdentity> identity_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return PathIdentity{};
    return std::nullopt;
  }
  PathIdentity identity{.device = status.st_dev, .inode = status.st_ino, .mode = status.st_mode};
  if (S_ISREG(status.st_mode)) {
    identity.size = status.st_size;
    identity.changed_ns =
        std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  }
  return identity;
}

}  // namespace

std::vector<std::pair<std::string, PathIdentity>> polled_paths(const JobFolder& folder,
                                                               const FolderSignature& signature) {
  std::vector<std::string> paths = {folder.directory, folder.script_dir + "/" + folder.run_file};
  if (folder.script_dir != folder.directory) paths.push_back(folder.script_dir);
  for (const std::string& link : signature.links) paths.push_back(folder.directory + "/" + link);
  std::vector<std::pair<std::string, PathIdentity>> out;
  for (const std::string& path : paths) {
    if (const auto identity = identity_of(path)) out.emplace_back(path, *identity);
  }
  return out;
}

std::vector<PathIdentity> JobHost::Impl::identities_of(const std::string& root) const {
  std::vector<PathIdentity> out = {identity_of(root).value_or(PathIdentity{})};
  for (const JobType type : {JobType::continuous, JobType::triggered, JobType::queue}) {
    out.push_back(
        identity_of(fmt::format("{}/{}", root, folder_of(type))).value_or(PathIdentity{}));
  }
  return out;
}

// The root may be created later, removed, mounted over, or be a link whose target changes.
void JobHost::Impl::watch_root(const std::string& root) {
  std::string logged;
  for (;;) {
    const std::vector<PathIdentity> identities = identities_of(root);
    auto watch = FileWatch::open(root);
    if (!watch && watch.error().message != logged) {
      logged = watch.error().message;
      log_.warn(watch.error().code == ErrorCode::not_found
                    ? "the directory of job folders does not exist; its jobs start when it does"
                    : "a directory of jobs cannot be watched; it is read regularly instead",
                {{"directory", root}, {"why", logged}});
    }
    MutexLock lock(mutex);
    if (stopping) return;
    if (!watch) {
      watch_problems[root] = watch.error().message;
      if (watch.error().code == ErrorCode::not_found) {
        unwatched.erase(root);
      } else if (unwatched.insert(root).second) {
        all_dirty = true;
        wake.notify_all();
      }
      wake.wait_for(mutex, options.root_retry);
      if (stopping) return;
      continue;
    }
    logged.clear();
    watch_problems.erase(root);
    unwatched.erase(root);
    watches[root] = watch->get();
    root_identities[root] = identities;
    all_dirty = true;  // changes before the watch started
    wake.notify_all();
    mutex.unlock();
    bool again = false;
    while (!again) {
      const auto changes = (*watch)->wait(2, kWatchWait);
      if (changes) on_changes(*changes);
      again = !changes || changes->gone || identities_of(root) != identities;
      MutexLock lock_again(mutex);
      if (stopping) break;
    }
    mutex.lock();
    watches.erase(root);
  }
}

void JobHost::Impl::on_changes(const FileWatch::Changes& changes) {
  const Instant now = clock.now().instant;
  MutexLock lock(mutex);
  all_dirty = all_dirty || changes.all || changes.gone;
  for (const std::string& entry : changes.entries) {
    if (entry == "host.json") {
      host_file_dirty = true;
      continue;
    }
    const std::size_t slash = entry.find('/');
    if (slash == std::string::npos) {
      all_dirty = true;
      continue;
    }
    for (JobType type : {JobType::continuous, JobType::triggered, JobType::queue}) {
      if (entry.substr(0, slash) != folder_of(type)) continue;
      const HostKey key{type, entry.substr(slash + 1)};
      // A job that runs in its folder may write there without a pause.
      if (!is_in_place(key)) dirty.erase(key);
      dirty.try_emplace(key, now);
    }
  }
  wake.notify_all();
}

// Mounts, and links above a folder or out of it, change without an event.
void JobHost::Impl::poll_paths() {
  std::map<std::string, std::vector<PathIdentity>> roots;
  std::map<HostKey, std::vector<std::pair<std::string, PathIdentity>>> folders;
  {
    MutexLock lock(mutex);
    roots = root_identities;
    for (const auto& [key, entry] : entries) folders[key] = entry.polled;
  }
  for (auto it = roots.begin(); it != roots.end();) {
    std::vector<PathIdentity> fresh = identities_of(it->first);
    const bool same = fresh == it->second;
    it->second = std::move(fresh);
    it = same ? roots.erase(it) : std::next(it);
  }
  for (auto it = folders.begin(); it != folders.end();) {
    bool same = true;
    for (auto& [path, identity] : it->second) {
      const auto fresh = identity_of(path);
      if (!fresh || *fresh == identity) continue;
      identity = *fresh;
      same = false;
    }
    it = same ? folders.erase(it) : std::next(it);
  }
  const Instant now = clock.now().instant;
  MutexLock lock(mutex);
  for (auto& [root, identities] : roots) {
    root_identities[root] = std::move(identities);
    all_dirty = true;
    if (const auto watch = watches.find(root); watch != watches.end()) watch->second->wake();
  }
  for (auto& [key, polled] : folders) {
    const auto entry = entries.find(key);
    if (entry == entries.end() || entry->second.polled.size() != polled.size()) continue;
    entry->second.polled = std::move(polled);
    dirty[key] = now;
  }
}

Instant JobHost::Impl::next_due(Instant now) {
  if (all_dirty || host_file_dirty || some_left) return now;
  Instant next = rescan_at;
  for (const auto& [key, at] : dirty) next = std::min(next, at + options.quiet);
  for (const auto& [key, one] : pending) next = std::min(next, one.since + options.quiet);
  for (const auto& [key, entry] : entries) {
    if (entry.absent_since) next = std::min(next, *entry.absent_since + options.quiet);
  }
  return next;
}

std::optional<ScanScope> JobHost::Impl::take_due(Instant now) {
  ScanScope scope{.all = all_dirty || now >= rescan_at};
  if (scope.all) {
    all_dirty = false;
    // No event reports that an unreadable or unwatched directory can be read again.
    const bool hurry = some_unknown || !unwatched.empty();
    rescan_at = now + (hurry ? std::min(options.rescan, std::max(options.quiet, kShortestRescan))
                             : options.rescan);
  }
  for (const auto& [key, at] : dirty) {
    if (at + options.quiet <= now) scope.settled.insert(key);
  }
  std::erase_if(dirty, [&](const auto& one) { return scope.settled.contains(one.first); });
  scope.keys = scope.settled;
  for (const auto& [key, one] : pending) {
    if (one.since + options.quiet <= now) scope.keys.insert(key);
  }
  for (const auto& [key, entry] : entries) {
    if (entry.absent_since && *entry.absent_since + options.quiet <= now) scope.keys.insert(key);
  }
  if (!scope.all && scope.keys.empty()) return std::nullopt;
  return scope;
}

void JobHost::Impl::control() {
  const Duration poll = std::clamp<Duration>(options.quiet / 4, kShortestPoll, kLongestPoll);
  Instant poll_at = clock.now().instant + poll;
  Instant tend_at = clock.now().instant + kTend;
  mutex.lock();
  while (!stopping) {
    const Now time = clock.now();
    const Instant now = time.instant;
    const bool left = some_left, file = std::exchange(host_file_dirty, false);
    const bool delete_now = book.next_due(time) <= now;
    if (left) {
      mutex.unlock();
      see_off();
      mutex.lock();
    } else if (file) {
      mutex.unlock();
      read_host_file();
      mutex.lock();
      all_dirty = true;
    } else if (const auto scope = take_due(now)) {
      mutex.unlock();
      if (scope->all) read_host_file();
      scan(*scope);
      mutex.lock();
    } else if (now >= poll_at) {
      poll_at = now + poll;
      mutex.unlock();
      poll_paths();
      mutex.lock();
    } else if (now >= tend_at || (delete_now && now >= delete_at)) {
      if (now >= tend_at) tend_at = now + kTend;
      delete_at = now + kDeletePause;
      mutex.unlock();
      triggered.tend();
      delete_due();
      save_book(false);
      mutex.lock();
    } else {
      Instant next = std::min({next_due(now), poll_at, tend_at});
      const Instant deletion = std::max(book.next_due(time), delete_at);
      next = std::min(next, deletion);
      wake.wait_for(mutex, next - now);
    }
  }
  mutex.unlock();
}

}  // namespace mainspring
