// The threads that watch folders.
#include "folders/folder_watcher.h"

#include <fmt/format.h>

#include <algorithm>

#include "broker/broker.h"
#include "broker/trigger_calls.h"
#include "folders/folder.h"

namespace mainspring {

// One folder and its thread.
struct FolderWatcher::Watched {
  Watched(FolderWatcher& watcher, const TriggerInfo& info)
      : owner(watcher),
        name(info.trigger.name),
        source(*info.trigger.folder),
        version(info.version),
        folder(source),
        thread([this](std::stop_token stop) { run(std::move(stop)); }) {}
  ~Watched() {
    thread.request_stop();
    if (thread.joinable()) thread.join();
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  void run(std::stop_token stop);
  void watch(const std::stop_token& stop, FolderEvents& events,
             const std::optional<DirectoryIdentity>& identity);
  void fire_ready();
  bool fire(const Folder::Ready& file);
  void pause(const std::stop_token& stop);
  void complain(const Error& error);

  FolderWatcher& owner;
  const std::string name;
  const FolderSource source;
  const std::int64_t version;
  Folder folder;
  std::string complained;  // the last logged reason, so that each new one is logged once
  Mutex mutex;
  CondVar stopping;
  std::jthread thread;
};

void FolderWatcher::Watched::complain(const Error& error) {
  if (error.message == complained) return;
  complained = error.message;
  owner.log_.warn("a folder cannot be watched", {{"trigger", name}, {"message", error.message}});
}

void FolderWatcher::Watched::pause(const std::stop_token& stop) {
  std::stop_callback on_stop(stop, [this] {
    MutexLock lock(mutex);
    stopping.notify_all();
  });
  MutexLock lock(mutex);
  if (!stop.stop_requested()) stopping.wait_for(mutex, kRetry);
}

void FolderWatcher::Watched::run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    const auto identity = identity_of_directory(source.path);
    auto events = FolderEvents::open(source.path);
    if (events) {
      watch(stop, **events, identity);
    } else {
      complain(events.error());
    }
    if (!stop.stop_requested()) pause(stop);
  }
}

// Runs until the folder is gone or replaced, or the thread should stop.
void FolderWatcher::Watched::watch(const std::stop_token& stop, FolderEvents& events,
                                   const std::optional<DirectoryIdentity>& identity) {
  std::stop_callback on_stop(stop, [&events] { events.wake(); });
  Instant scan_at;
  while (!stop.stop_requested()) {
    Instant now = owner.clock_.now().instant;
    if (now >= scan_at) {
      if (const auto scanned = folder.scan(now); !scanned) return complain(scanned.error());
      scan_at = now + kScan;
    }
    fire_ready();
    now = owner.clock_.now().instant;
    // Mounts, and links above the folder, change without an event.
    if (const auto seen = identity_of_directory(source.path); seen && seen != identity) return;
    const Instant next = std::min({scan_at, folder.next(), now + kCompare});
    const auto arrived = events.wait(next > now ? next - now : Duration(0));
    if (!arrived) return complain(arrived.error());
    if (arrived->gone) return;
    now = owner.clock_.now().instant;
    for (const std::string& file : arrived->names) folder.arrived(file, now);
    if (arrived->all) scan_at = now;
  }
}

void FolderWatcher::Watched::fire_ready() {
  const Instant now = owner.clock_.now().instant;
  bool good = true;
  for (const Folder::Ready& file : folder.take_ready(now)) {
    good = good && fire(file);
    // Files after one that could not be fired wait too: they fire in order of arrival.
    if (!good) folder.again(file, now + kRetry);
  }
}

bool FolderWatcher::Watched::fire(const Folder::Ready& file) {
  const std::string path = folder.path_of(file.name);
  FireTriggerRequest event;
  event.event = event_of_file(path, file.version);
  event.file = json_of_file(path, file.name, file.version);
  const auto fired = fire_event(owner.broker_, name, event, {.made_at = file.version.changed_at});
  if (!fired) {
    complain(fired.error());
    return false;
  }
  if (!fired->duplicate) owner.fired_total_.add();
  folder.fired(file);
  return true;
}

FolderWatcher::FolderWatcher(Broker& broker, const Clock& clock, Log& log, Registry& registry,
                             Options options)
    : broker_(broker),
      clock_(clock),
      log_(log),
      options_(std::move(options)),
      fired_total_(
          registry.counter("mainspring_folder_files_fired_total", "Files that fired a trigger.")) {}

FolderWatcher::~FolderWatcher() {
  stop();
}

void FolderWatcher::start() {
  runner_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
}

void FolderWatcher::stop() {
  if (!runner_.joinable()) return;
  runner_.request_stop();
  runner_.join();
}

void FolderWatcher::run(std::stop_token stop) {
  std::stop_callback on_stop(stop, [this] {
    MutexLock lock(mutex_);
    stopping_.notify_all();
  });
  std::optional<std::pair<std::int64_t, bool>> seen;
  while (!stop.stop_requested()) {
    const std::pair now(options_.commits ? options_.commits() : 0, options_.leads());
    if ((!options_.commits || seen != now) && look()) seen = now;
    MutexLock lock(mutex_);
    if (!stop.stop_requested()) stopping_.wait_for(mutex_, options_.look);
  }
  watched_.clear();
}

bool FolderWatcher::is_ours(const TriggerInfo& info) const {
  if (!info.trigger.folder || info.paused) return false;
  if (!check_watch_roots(info.trigger, broker_.watch_roots())) return false;
  const std::string& node = info.trigger.folder->node;
  return node.empty() ? options_.leads() : node == options_.host;
}

// Starts threads for new folders, and restarts those of changed ones.
bool FolderWatcher::look() {
  const auto triggers = broker_.triggers("", kMaxTriggers);
  if (!triggers) return false;  // keep the current watches
  std::map<std::string, const TriggerInfo*> ours;
  for (const TriggerInfo& info : *triggers) {
    if (is_ours(info)) ours.emplace(info.trigger.name, &info);
  }
  std::erase_if(watched_, [&](const auto& entry) {
    const auto found = ours.find(entry.first);
    return found == ours.end() || found->second->version != entry.second->version;
  });
  for (const auto& [name, info] : ours) {
    if (watched_.contains(name)) continue;
    if (watched_.size() >= kMaxFolders) {
      if (!std::exchange(too_many_, true)) {
        log_.warn("too many folders to watch: some are ignored",
                  {{"at_most", fmt::to_string(kMaxFolders)}});
      }
      return true;
    }
    watched_.emplace(name, std::make_unique<Watched>(*this, *info));
  }
  return true;
}

}  // namespace mainspring
