// Feeds the watchdog of a service manager, and reports the progress of the start.
#include "cli/watchdog.h"

#include <fmt/format.h>

#include <atomic>

namespace mainspring::cli {
namespace {

constexpr Duration kNoticeEvery = std::chrono::seconds(5);
// The time that each notice asks for: more than the interval, with a margin for a slow machine.
constexpr Duration kMoreStart = std::chrono::seconds(60);

std::int64_t seconds_of(Duration time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time).count();
}

}  // namespace

// Shared with the loop, which may call after the watchdog was destroyed.
struct Watchdog::Ping {
  std::atomic<bool> turned{false};
};

Watchdog::Watchdog(const ServiceManager& manager, std::vector<Loop> loops, const Clock& clock,
                   Log& log)
    : manager_(manager), clock_(clock), log_(log) {
  for (Loop& loop : loops) loops_.push_back({.loop = std::move(loop)});
}

Watchdog::~Watchdog() {
  stop();
}

void Watchdog::start() {
  if (interval() > Duration(0)) thread_ = std::thread([this] { run(); });
}

void Watchdog::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Watchdog::release() {
  MutexLock lock(mutex_);
  released_ = true;
}

void Watchdog::run() {
  for (;;) {
    (void)step(clock_.now());
    MutexLock lock(mutex_);
    if (!stopping_) changed_.wait_for(mutex_, interval());
    if (stopping_) return;
  }
}

bool Watchdog::step(Now now) {
  bool all = true;
  {
    MutexLock lock(mutex_);
    if (released_) {
      manager_.feed_watchdog();
      return true;
    }
  }
  // Asks each loop, also when an earlier one is late.
  for (Watched& watched : loops_) all = has_turned(watched, now) && all;
  if (all) manager_.feed_watchdog();
  return all;
}

bool Watchdog::has_turned(Watched& watched, Now now) {
  const bool first = watched.ping == nullptr;
  if (!first && !watched.ping->turned) {
    if (!watched.late) {
      log_.warn(
          "a thread of the server does not respond; the service manager restarts the server unless "
          "it recovers",
          {{"loop", watched.loop.name},
           {"seconds", fmt::to_string(seconds_of(now.instant - watched.asked_at))},
           {"limit_seconds", fmt::to_string(seconds_of(manager_.watchdog()))}});
      manager_.status(watched.loop.name + " does not respond");
    }
    watched.late = true;
    return false;
  }
  if (watched.late) {
    log_.info("the thread responds again", {{"loop", watched.loop.name}});
    manager_.status(watched.loop.name + " responds again");
    watched.late = false;
  }
  watched.ping = std::make_shared<Ping>();
  watched.asked_at = now.instant;
  watched.loop.ping([ping = watched.ping] { ping->turned = true; });
  return !first;
}

StartNotice::StartNotice(const ServiceManager& manager, std::string what, const Clock& clock)
    : manager_(manager), what_(std::move(what)), clock_(clock) {
  if (manager_.is_there()) thread_ = std::thread([this] { run(); });
}

StartNotice::~StartNotice() {
  {
    MutexLock lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void StartNotice::run() {
  const Instant began = clock_.now().instant;
  for (;;) {
    const std::int64_t seconds = seconds_of(clock_.now().instant - began);
    manager_.extend_start(kMoreStart,
                          seconds == 0 ? what_ : fmt::format("{}: {} s so far", what_, seconds));
    MutexLock lock(mutex_);
    if (!done_) changed_.wait_for(mutex_, kNoticeEvery);
    if (done_) return;
  }
}

}  // namespace mainspring::cli
