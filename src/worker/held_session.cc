// HeldSession: renews until it is released or lost.
#include "worker/held_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <thread>

#include "api/session_shapes.h"
#include "base/mutant.h"
#include "base/mutex.h"
#include "worker/auto_renew_lease.h"

namespace mainspring {
namespace {

constexpr Duration kRetryPause = std::chrono::milliseconds(500);  // after one without an answer
// At the longest, so that sleep of the whole machine is noticed soon after it: waits do not count
// it, the clock does.
constexpr Duration kLongestLook = std::chrono::seconds(1);

Error lost_error(const SessionKey& session) {
  return Error{
      .code = ErrorCode::lease_lost,
      .message = fmt::format("session \"{}\" of {}: it has been lost", session.key, session.queue)};
}

}  // namespace

struct HeldSession::State {
  State(Jobs& jobs_, const Clock& clock_, std::string worker_)
      : jobs(jobs_), clock(clock_), worker(std::move(worker_)) {}

  Result<void> start() MS_EXCLUDES(mutex);
  void run_renewer() MS_EXCLUDES(mutex);
  void run_watcher() MS_EXCLUDES(mutex);
  void renew_job() MS_REQUIRES(mutex);
  void renewed(Instant sent, Duration granted) MS_REQUIRES(mutex);
  void lose() MS_REQUIRES(mutex);
  void take(ClaimedJob job) MS_REQUIRES(mutex);
  // Refuses what comes too late.
  Result<void> still_held() MS_EXCLUDES(mutex);
  Result<void> release() MS_EXCLUDES(mutex);

  Jobs& jobs;
  const Clock& clock;
  const std::string worker;
  SessionKey session;
  Token token = 0;
  Duration lease{0};  // as asked for
  std::stop_source stop;

  Mutex mutex;
  CondVar renewer_cv, watcher_cv;
  std::string value MS_GUARDED_BY(mutex);
  std::optional<ClaimedJob> came_with MS_GUARDED_BY(mutex);  // the accept, for the first next()
  std::optional<Renewal> running MS_GUARDED_BY(mutex);       // the job that is not finished
  Instant renew_at MS_GUARDED_BY(mutex);
  Instant lost_at MS_GUARDED_BY(mutex);
  bool lost MS_GUARDED_BY(mutex) = false;
  bool ended MS_GUARDED_BY(mutex) = false;  // release has begun
  std::thread renewer, watcher;
};

Result<void> HeldSession::State::start() {
  try {
    renewer = std::thread([this] { run_renewer(); });
    watcher = std::thread([this] { run_watcher(); });
  } catch (const std::system_error& e) {
    (void)release();
    return Error{
        .code = ErrorCode::io_error,
        .message = fmt::format("session \"{}\": starting its threads: {}", session.key, e.what())};
  }
  return {};
}

void HeldSession::State::renewed(Instant sent, Duration granted) {
  renew_at = sent + granted / 3;
  lost_at = std::max(lost_at, sent + (granted - lease_margin(granted)));
  watcher_cv.notify_one();
}

void HeldSession::State::lose() {
  if (lost) return;
  lost = true;
  watcher_cv.notify_one();
  renewer_cv.notify_one();
}

// What it answers is not heeded: a job that is lost or cancelled is told so by its finish.
void HeldSession::State::renew_job() {
  if ((!running && !came_with) || MS_MUTANT(held_job_not_renewed)) return;
  Renew renew{.worker = worker, .leases = {}, .lease = lease};
  renew.leases.push_back(running ? *running
                                 : Renewal{.id = came_with->id, .token = came_with->token});
  mutex.unlock();
  (void)jobs.renew(std::move(renew));
  mutex.lock();
}

void HeldSession::State::run_renewer() {
  mutex.lock();
  while (!ended && !lost) {
    const Instant now = clock.now().instant;
    if (now < renew_at) {
      renewer_cv.wait_for(mutex, std::min(renew_at - now, kLongestLook));
      continue;
    }
    mutex.unlock();
    const Result<SessionGrant> grant =
        jobs.renew_session({.session = session, .token = token, .lease = lease});
    mutex.lock();
    if (grant) {
      renewed(now, grant->lease);
    } else if (grant.error().code == ErrorCode::lease_lost) {
      lose();
    } else {
      renew_at = clock.now().instant + std::min(kRetryPause, lease / 12);
    }
    if (!ended && !lost) renew_job();
  }
  mutex.unlock();
}

void HeldSession::State::run_watcher() {
  mutex.lock();
  while (!ended && !lost) {
    const Instant now = clock.now().instant;
    if (now >= lost_at) {
      lose();
    } else {
      watcher_cv.wait_for(mutex, std::min(lost_at - now, kLongestLook));
    }
  }
  const bool tell = lost;
  mutex.unlock();
  if (tell) stop.request_stop();
}

void HeldSession::State::take(ClaimedJob job) {
  running = Renewal{.id = job.id, .token = job.token};
  value = job.session_state;
}

Result<void> HeldSession::State::still_held() {
  MutexLock lock(mutex);
  if (lost || ended) return lost_error(session);
  return {};
}

Result<void> HeldSession::State::release() {
  std::optional<ClaimedJob> unused;
  {
    MutexLock lock(mutex);
    if (ended) return {};
    ended = true;
    unused = std::exchange(came_with, std::nullopt);
    renewer_cv.notify_one();
    watcher_cv.notify_one();
  }
  if (renewer.joinable()) renewer.join();
  if (watcher.joinable()) watcher.join();
  {
    MutexLock lock(mutex);
    if (lost) return lost_error(session);
  }
  if (unused) {
    Finish back{.worker = worker, .results = {}};
    back.results.push_back({unused->id, unused->token, Snooze{}});
    (void)jobs.finish(std::move(back));
  }
  return jobs.release_session({.session = session, .token = token});
}

HeldSession::HeldSession(std::shared_ptr<State> state) : state_(std::move(state)) {}

HeldSession::~HeldSession() {
  if (state_) (void)state_->release();
}

HeldSession::HeldSession(HeldSession&&) noexcept = default;

HeldSession& HeldSession::operator=(HeldSession&& other) noexcept {
  if (this == &other) return *this;
  if (state_) (void)state_->release();
  state_ = std::move(other.state_);
  return *this;
}

const std::string& HeldSession::queue() const {
  return state_->session.queue;
}
const std::string& HeldSession::key() const {
  return state_->session.key;
}
Token HeldSession::token() const {
  return state_->token;
}

bool HeldSession::lost() const {
  MutexLock lock(state_->mutex);
  return state_->lost;
}

std::stop_token HeldSession::stop_token() const {
  return state_->stop.get_token();
}

Result<std::optional<ClaimedJob>> HeldSession::next(Duration wait) {
  State& s = *state_;
  MS_TRY(s.still_held());
  {
    MutexLock lock(s.mutex);
    if (s.running) {
      return Error{.code = ErrorCode::conflict,
                   .message = fmt::format("session \"{}\": job {} has not been finished",
                                          s.session.key, s.running->id)};
    }
    if (s.came_with) {
      std::optional<ClaimedJob> first = std::exchange(s.came_with, std::nullopt);
      s.take(*first);
      return first;
    }
  }
  const Instant end = s.clock.now().instant + wait;
  for (;;) {
    const Duration slice =
        std::clamp(end - s.clock.now().instant, Duration(0), Duration(kMaxClaimWait));
    Claim claim{.worker = s.worker, .queues = {session_line(s.session)}, .lease = s.lease};
    claim.session_token = s.token;
    Result<ClaimResult> claimed = s.jobs.claim(std::move(claim), slice, s.stop.get_token());
    MutexLock lock(s.mutex);
    if (!claimed) {
      if (claimed.error().code == ErrorCode::lease_lost) s.lose();
      return std::move(claimed.error());
    }
    if (!claimed->jobs.empty()) {
      s.take(claimed->jobs.front());
      return std::optional(std::move(claimed->jobs.front()));
    }
    if (s.lost || s.ended) return lost_error(s.session);
    if (s.clock.now().instant >= end) return std::optional<ClaimedJob>();
  }
}

Result<void> HeldSession::finish(const ClaimedJob& job, Outcome outcome,
                                 std::optional<std::string> session_state) {
  State& s = *state_;
  if (session_state) MS_TRY(check_session_state("session_state", *session_state));
  Finish finish{.worker = s.worker, .results = {}};
  finish.results.push_back({job.id, job.token, std::move(outcome), session_state});
  MS_TRY_ASSIGN(const FinishResult done, s.jobs.finish(std::move(finish)));
  MutexLock lock(s.mutex);
  if (s.running && s.running->id == job.id) s.running.reset();
  if (done.results.empty() || done.results.front() != FinishStatus::ok) {
    return Error{.code = ErrorCode::lease_lost,
                 .message = fmt::format("job {}: it was not ours any more", job.id)};
  }
  if (session_state) s.value = std::move(*session_state);
  return {};
}

std::string HeldSession::state() const {
  MutexLock lock(state_->mutex);
  return state_->value;
}

Result<void> HeldSession::set_state(std::string json) {
  State& s = *state_;
  MS_TRY(check_session_state("state", json));
  MS_TRY(s.still_held());
  const auto put =
      s.jobs.put_session_state({.session = s.session, .token = s.token, .state = json});
  MutexLock lock(s.mutex);
  if (!put) {
    if (put.error().code == ErrorCode::lease_lost) s.lose();
    return put.error();
  }
  s.value = std::move(json);
  return {};
}

Result<void> HeldSession::release() {
  return state_->release();
}

namespace {

struct Accepted {
  SessionGrant grant;
  std::optional<ClaimedJob> job;
};

// The next free one. What it waited for in one call may be as old as the wait: a lease that is left
// is reckoned from the answer, see Broker.
Result<Accepted> accept_next(Jobs& jobs, const Clock& clock, const std::string& worker,
                             const std::string& queue, const SessionOptions& options) {
  const Instant end = clock.now().instant + options.wait;
  for (;;) {
    const Duration wait =
        std::clamp(end - clock.now().instant, Duration(0), Duration(kMaxClaimWait));
    Claim claim{.worker = worker, .queues = {accept_line(queue)}, .lease = options.lease};
    MS_TRY_ASSIGN(ClaimResult result, jobs.claim(std::move(claim), wait, options.stop));
    if (result.session) {
      Accepted out{.grant = std::move(*result.session), .job = {}};
      if (!result.jobs.empty()) out.job = std::move(result.jobs.front());
      return out;
    }
    if (clock.now().instant >= end || options.stop.stop_requested()) {
      return Error{.code = ErrorCode::lease_held,
                   .message = fmt::format("queue {}: no free session has a job", queue)};
    }
  }
}

Result<Accepted> accept(Jobs& jobs, const Clock& clock, const std::string& worker,
                        const std::string& queue, const SessionOptions& options) {
  if (options.key.empty()) return accept_next(jobs, clock, worker, queue, options);
  MS_TRY_ASSIGN(SessionGrant grant,
                jobs.accept_session(
                    {.worker = worker, .session = {queue, options.key}, .lease = options.lease}));
  return Accepted{.grant = std::move(grant), .job = {}};
}

}  // namespace

Result<HeldSession> hold_session(Jobs& jobs, const Clock& clock, Random& random,
                                 const std::string& queue, SessionOptions options) {
  auto state = std::make_shared<HeldSession::State>(jobs, clock, random.hex128());
  state->lease = options.lease;
  const Instant asked = clock.now().instant;
  MS_TRY_ASSIGN(Accepted accepted, accept(jobs, clock, state->worker, queue, options));
  // A grant by key is as old as the call; a wait for the next one is not part of its lease.
  const Instant from = options.key.empty() ? clock.now().instant : asked;
  state->session = accepted.grant.session;
  state->token = accepted.grant.token;
  {
    MutexLock lock(state->mutex);
    state->value = std::move(accepted.grant.state);
    if (accepted.job) state->came_with = std::move(accepted.job);
    state->renewed(from, accepted.grant.lease);
    // How long the answer was on its way, nobody knows: the first renewal, at once, says it.
    if (options.key.empty()) state->renew_at = Instant();
  }
  MS_TRY(state->start());
  return HeldSession(std::move(state));
}

}  // namespace mainspring
