// AutoRenewLease: renews until it is released or lost.
#include "worker/auto_renew_lease.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <thread>

#include "api/json.h"
#include "base/mutant.h"
#include "base/mutex.h"
#include "env/processes.h"

namespace mainspring {
namespace {

// After a renewal that got no answer, and between tries to acquire while a server is away.
constexpr Duration kRetryPause = std::chrono::milliseconds(500);
// At the longest, so that sleep of the whole machine is noticed soon after it: waits do not count
// it, the clock does.
constexpr Duration kLongestLook = std::chrono::seconds(1);

Error lost_error(const std::string& name) {
  return Error{.code = ErrorCode::lease_lost,
               .message = fmt::format("lease {}: it has been lost", name)};
}

}  // namespace

Duration lease_margin(Duration ttl) {
  return std::min(ttl / 6, Duration(std::chrono::seconds(5)));
}

struct AutoRenewLease::State {
  State(Jobs& jobs_, const Clock& clock_, std::string name_, std::string holder_)
      : jobs(jobs_), clock(clock_), name(std::move(name_)), holder(std::move(holder_)) {}

  Result<void> start() MS_EXCLUDES(mutex);
  void run_renewer() MS_EXCLUDES(mutex);
  void run_watcher() MS_EXCLUDES(mutex);
  void renewed(Instant sent, Duration granted) MS_REQUIRES(mutex);
  void lose() MS_REQUIRES(mutex);
  Result<void> set_value(std::string json) MS_EXCLUDES(mutex);
  Result<void> release() MS_EXCLUDES(mutex);

  Jobs& jobs;
  const Clock& clock;
  const std::string name;
  const std::string holder;
  Token token = 0;
  Duration ttl{0};
  std::function<void()> on_lost;
  std::stop_source stop;

  Mutex mutex;
  CondVar renewer_cv, watcher_cv;
  std::string value MS_GUARDED_BY(mutex);
  Instant renew_at MS_GUARDED_BY(mutex);
  Instant lost_at MS_GUARDED_BY(mutex);
  bool lost MS_GUARDED_BY(mutex) = false;
  bool ended MS_GUARDED_BY(mutex) = false;  // release has begun
  std::thread renewer, watcher;
};

Result<void> AutoRenewLease::State::start() {
  try {
    renewer = std::thread([this] { run_renewer(); });
    watcher = std::thread([this] { run_watcher(); });
  } catch (const std::system_error& e) {
    (void)release();
    return Error{.code = ErrorCode::io_error,
                 .message = fmt::format("lease {}: starting its threads: {}", name, e.what())};
  }
  return {};
}

void AutoRenewLease::State::renewed(Instant sent, Duration granted) {
  const Instant from = MS_MUTANT(renewal_reckoned_from_answer) ? clock.now().instant : sent;
  ttl = granted;
  renew_at = from + granted / 3;
  lost_at = std::max(lost_at, from + (granted - lease_margin(granted)));
  watcher_cv.notify_one();
}

void AutoRenewLease::State::lose() {
  if (lost) return;
  lost = true;
  watcher_cv.notify_one();
  renewer_cv.notify_one();
}

void AutoRenewLease::State::run_renewer() {
  mutex.lock();
  while (!ended && !lost) {
    const Instant now = clock.now().instant;
    if (now < renew_at) {
      renewer_cv.wait_for(mutex, std::min(renew_at - now, kLongestLook));
      continue;
    }
    mutex.unlock();
    const Result<LeaseGrant> grant =
        jobs.renew_lease({.name = name, .holder = holder, .token = token, .ttl = {}, .value = {}});
    mutex.lock();
    if (grant) {
      renewed(now, grant->ttl);
    } else if (grant.error().code == ErrorCode::lease_lost) {
      lose();
    } else {
      renew_at = clock.now().instant + std::min(kRetryPause, ttl / 12);
    }
  }
  mutex.unlock();
}

void AutoRenewLease::State::run_watcher() {
  mutex.lock();
  while (!ended && !lost) {
    const Instant now = clock.now().instant;
    if (now >= lost_at) {
      lose();
    } else {
      watcher_cv.wait_for(mutex, std::min(lost_at - now, kLongestLook));
    }
  }
  // A loss that the renewer finds while a release begins is told all the same.
  const bool tell = lost;
  mutex.unlock();
  if (!tell) return;
  stop.request_stop();
  if (on_lost) on_lost();
}

Result<void> AutoRenewLease::State::set_value(std::string json) {
  if (!json.empty()) MS_TRY(check_json("value", json));
  {
    MutexLock lock(mutex);
    if (lost || ended) return lost_error(name);
  }
  const Instant sent = clock.now().instant;
  const Result<LeaseGrant> grant =
      jobs.renew_lease({.name = name, .holder = holder, .token = token, .ttl = {}, .value = json});
  MutexLock lock(mutex);
  if (!grant) {
    if (grant.error().code == ErrorCode::lease_lost) lose();
    return grant.error();
  }
  value = std::move(json);
  renewed(sent, grant->ttl);
  return {};
}

Result<void> AutoRenewLease::State::release() {
  {
    MutexLock lock(mutex);
    if (ended) return {};
    ended = true;
    renewer_cv.notify_one();
    watcher_cv.notify_one();
  }
  if (renewer.joinable()) renewer.join();
  if (watcher.joinable()) watcher.join();
  {
    MutexLock lock(mutex);
    if (lost) return lost_error(name);
  }
  if (MS_MUTANT(lease_release_forgotten)) return {};
  return jobs.release_lease({.name = name, .holder = holder, .token = token, .value = {}});
}

AutoRenewLease::AutoRenewLease(std::shared_ptr<State> state) : state_(std::move(state)) {}

AutoRenewLease::~AutoRenewLease() {
  if (state_) (void)state_->release();
}

AutoRenewLease::AutoRenewLease(AutoRenewLease&&) noexcept = default;

AutoRenewLease& AutoRenewLease::operator=(AutoRenewLease&& other) noexcept {
  if (this == &other) return *this;
  if (state_) (void)state_->release();
  state_ = std::move(other.state_);
  return *this;
}

const std::string& AutoRenewLease::name() const {
  return state_->name;
}

Token AutoRenewLease::token() const {
  return state_->token;
}

std::string AutoRenewLease::value() const {
  MutexLock lock(state_->mutex);
  return state_->value;
}

Result<void> AutoRenewLease::set_value(std::string json) {
  return state_->set_value(std::move(json));
}

bool AutoRenewLease::lost() const {
  MutexLock lock(state_->mutex);
  return state_->lost;
}

std::stop_token AutoRenewLease::stop_token() const {
  return state_->stop.get_token();
}

Result<void> AutoRenewLease::release() {
  return state_->release();
}

namespace {

struct Granted {
  LeaseGrant grant;
  Instant sent;  // before the request whose answer says how long it is for
};

// Waits for the lease, over as many requests as that takes.
Result<Granted> wait_for_lease(Jobs& jobs, const Clock& clock, const AcquireLease& request,
                               const LeaseOptions& options) {
  const Instant end = clock.now().instant + options.wait;
  Mutex mutex;
  CondVar wake;
  const std::stop_callback on_stop(options.stop, [&] {
    const MutexLock lock(mutex);
    wake.notify_all();
  });
  for (;;) {
    const Instant sent = clock.now().instant;
    const Duration wait = std::clamp(end - sent, Duration(0), kMaxClaimWait);
    Result<LeaseGrant> grant = jobs.acquire_lease(request, wait, options.stop);
    const Instant now = clock.now().instant;
    if (grant && now - sent < grant->ttl / 6) return Granted{std::move(*grant), sent};
    if (grant) {
      // It was waited for: how old the grant is, nobody knows. The next answer says it.
      const Result<LeaseGrant> again =
          jobs.renew_lease({request.name, request.holder, grant->token, {}, {}});
      if (again) {
        grant->ttl = again->ttl;
        return Granted{std::move(*grant), now};
      }
      grant = again.error();
      if (again.error().code == ErrorCode::lease_lost) continue;  // it came too late
    }
    const bool again = info(grant.error().code).retryable != Retryable::no;
    if (!again || now >= end || options.stop.stop_requested()) return grant.error();
    if (grant.error().code == ErrorCode::lease_held && now - sent >= wait / 2) continue;
    const MutexLock lock(mutex);
    if (!options.stop.stop_requested()) wake.wait_for(mutex, std::min(kRetryPause, end - now));
  }
}

}  // namespace

Result<AutoRenewLease> acquire(Jobs& jobs, const Clock& clock, Random& random, std::string name,
                               LeaseOptions options) {
  const std::string holder = fmt::format("{}:{}", process_name(), random.hex128());
  auto state = std::make_shared<AutoRenewLease::State>(jobs, clock, name, holder);
  MS_TRY_ASSIGN(
      Granted granted,
      wait_for_lease(jobs, clock, {.name = name, .holder = holder, .ttl = options.ttl}, options));
  state->token = granted.grant.token;
  state->on_lost = std::move(options.on_lost);
  {
    MutexLock lock(state->mutex);
    state->value = std::move(granted.grant.value);
    state->renewed(granted.sent, granted.grant.ttl);
  }
  MS_TRY(state->start());
  return AutoRenewLease(std::move(state));
}

}  // namespace mainspring
