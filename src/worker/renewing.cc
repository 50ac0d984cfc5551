// Renewing: one thread that renews, and one that watches the clock.
#include "worker/renewing.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/mutant.h"

namespace mainspring {
namespace {

constexpr Duration kRetryPause = std::chrono::milliseconds(500);  // after a call without an answer
// The longest sleep, so that a suspend of the machine is noticed soon after it: the clock counts
// suspended time, waits do not.
constexpr Duration kLongestLook = std::chrono::seconds(1);
// If the watcher's last check is older than this, the process stood still. Then it asks for a while
// before it treats the lease as ended.
constexpr Duration kLongGap = std::chrono::seconds(3);
constexpr Duration kTimeToAsk = std::chrono::seconds(5);

}  // namespace

Duration lease_margin(Duration ttl) {
  return std::min(ttl / 6, Duration(std::chrono::seconds(5)));
}

Result<void> Renewing::start(Instant sent, Duration granted, First first) {
  {
    const MutexLock lock(mutex_);
    note(sent, granted);
    if (first == First::at_once) renew_at_ = Instant();
  }
  try {
    renewer_ = std::thread([this] { run_renewer(); });
    watcher_ = std::thread([this] { run_watcher(); });
  } catch (const std::system_error& e) {
    return Error{.code = ErrorCode::io_error,
                 .message = fmt::format("{}: starting its threads: {}", calls_.what, e.what())};
  }
  return {};
}

void Renewing::note(Instant sent, Duration granted) {
  const Instant from = MS_MUTANT(renewal_measured_from_answer) ? clock_.now().instant : sent;
  granted_ = granted;
  renew_at_ = from + granted / 3;
  lost_at_ = std::max(lost_at_, from + (granted - lease_margin(granted)));
  watcher_cv_.notify_one();
}

void Renewing::note_loss() {
  if (lost_) return;
  lost_ = true;
  watcher_cv_.notify_one();
  renewer_cv_.notify_one();
}

void Renewing::run_renewer() {
  mutex_.lock();
  while (held_now()) {
    const Instant now = clock_.now().instant;
    if (now < renew_at_) {
      renewer_cv_.wait_for(mutex_, std::min(renew_at_ - now, kLongestLook));
      continue;
    }
    mutex_.unlock();
    const Result<Duration> granted = calls_.renew();
    mutex_.lock();
    if (granted) {
      note(now, *granted);
    } else if (granted.error().code == ErrorCode::lease_lost) {
      note_loss();
    } else {
      renew_at_ = clock_.now().instant + std::min(kRetryPause, granted_ / 12);
    }
    if (!held_now() || !calls_.also) continue;
    mutex_.unlock();
    calls_.also();
    mutex_.lock();
  }
  mutex_.unlock();
}

void Renewing::look_after_standstill(Instant now) {
  const Instant before = std::exchange(looked_at_, now);
  if (before == Instant::never() || now - before <= kLongGap) return;
  if (calls_.ends == LeasesEnd::elsewhere) return;
  lost_at_ = std::max(lost_at_, now + kTimeToAsk);
  renew_at_ = now;
  renewer_cv_.notify_one();
}

void Renewing::run_watcher() {
  mutex_.lock();
  while (held_now()) {
    const Instant now = clock_.now().instant;
    look_after_standstill(now);
    const bool over = calls_.ends != LeasesEnd::here && now >= lost_at_;
    if (over) {
      note_loss();
    } else {
      const Duration left = now >= lost_at_ ? kLongestLook : lost_at_ - now;
      watcher_cv_.wait_for(mutex_, std::min(left, kLongestLook));
    }
  }
  // A loss that the renewer detects during end() is still reported.
  const bool tell = lost_;
  mutex_.unlock();
  if (!tell) return;
  stop_.request_stop();
  if (calls_.on_lost) calls_.on_lost();
}

void Renewing::renewed(Instant sent, Duration granted) {
  const MutexLock lock(mutex_);
  note(sent, granted);
}

void Renewing::lose() {
  const MutexLock lock(mutex_);
  note_loss();
}

bool Renewing::end() {
  {
    const MutexLock lock(mutex_);
    if (ended_) return false;
    ended_ = true;
    renewer_cv_.notify_one();
    watcher_cv_.notify_one();
  }
  if (renewer_.joinable()) renewer_.join();
  if (watcher_.joinable()) watcher_.join();
  return true;
}

bool Renewing::lost() const {
  const MutexLock lock(mutex_);
  return lost_;
}

bool Renewing::held() const {
  const MutexLock lock(mutex_);
  return held_now();
}

}  // namespace mainspring
