// HeldSession: a session and its running job, renewed until the session is released or lost.
#include "worker/held_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/session_shapes.h"
#include "base/mutant.h"
#include "base/mutex.h"
#include "mainspring/worker.h"
#include "worker/facts.h"
#include "worker/renewing.h"

namespace mainspring {
namespace {

Error lost_session_error(const SessionKey& session) {
  return Error{
      .code = ErrorCode::lease_lost,
      .message = fmt::format("session \"{}\" of {}: it has been lost", session.key, session.queue)};
}

}  // namespace

struct HeldSession::State {
  State(Jobs& jobs_, const Clock& clock_, std::string worker_, SessionKey session_, Token token_,
        Duration lease_)
      : jobs(jobs_),
        clock(clock_),
        worker(std::move(worker_)),
        session(std::move(session_)),
        token(token_),
        lease(lease_),
        renewing(clock, {.what = "session \"" + session.key + "\"",
                         .renew = [this] { return renew(); },
                         .also = [this] { renew_job(); },
                         .ends = jobs.leases_end()}) {}

  Result<Duration> renew();
  void renew_job() MS_EXCLUDES(mutex);
  void take(ClaimedJob job) MS_REQUIRES(mutex);
  // Refuses calls after the session is lost.
  Result<void> still_held() const;
  Result<void> release() MS_EXCLUDES(mutex);

  Jobs& jobs;
  const Clock& clock;
  const std::string worker;
  const SessionKey session;
  const Token token;
  const Duration lease;  // as requested

  Mutex mutex;
  std::string value MS_GUARDED_BY(mutex);
  std::optional<ClaimedJob> came_with MS_GUARDED_BY(mutex);  // the accept, for the first next()
  std::optional<Renewal> running MS_GUARDED_BY(mutex);       // the job that is not finished
  Renewing renewing;                                         // last member: its threads use others
};

Result<Duration> HeldSession::State::renew() {
  MS_TRY_ASSIGN(const SessionGrant grant,
                jobs.renew_session({.session = session, .token = token, .lease = lease}));
  return grant.lease;
}

// Ignores the result: the finish of a lost or cancelled job reports it.
void HeldSession::State::renew_job() {
  Renew renew{.worker = worker, .leases = {}, .lease = lease};
  {
    const MutexLock lock(mutex);
    if ((!running && !came_with) || MS_MUTANT(held_job_not_renewed)) return;
    renew.leases.push_back(running ? *running
                                   : Renewal{.id = came_with->id, .token = came_with->token});
  }
  (void)jobs.renew(std::move(renew));
}

void HeldSession::State::take(ClaimedJob job) {
  running = Renewal{.id = job.id, .token = job.token};
  value = job.session_state;
}

Result<void> HeldSession::State::still_held() const {
  if (!renewing.held()) return lost_session_error(session);
  return {};
}

Result<void> HeldSession::State::release() {
  if (!renewing.end()) return {};
  std::optional<Renewal> unfinished;
  {
    const MutexLock lock(mutex);
    unfinished = std::exchange(running, std::nullopt);
    if (came_with) unfinished = Renewal{.id = came_with->id, .token = came_with->token};
    came_with.reset();
  }
  if (renewing.lost()) return lost_session_error(session);
  if (unfinished && !MS_MUTANT(release_keeps_job)) {
    Finish back{.worker = worker, .results = {}};
    back.results.push_back({unfinished->id, unfinished->token, Snooze{}});
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
  return state_->renewing.lost();
}

std::stop_token HeldSession::stop_token() const {
  return state_->renewing.stop_token();
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
    Claim claim{.worker = s.worker, .queues = {session_queue(s.session)}, .lease = s.lease};
    claim.session_token = s.token;
    Result<ClaimResult> claimed = s.jobs.claim(std::move(claim), slice, s.renewing.stop_token());
    if (!claimed) {
      if (claimed.error().code == ErrorCode::lease_lost) s.renewing.lose();
      return std::move(claimed.error());
    }
    if (!claimed->jobs.empty()) {
      const MutexLock lock(s.mutex);
      s.take(claimed->jobs.front());
      return std::optional(std::move(claimed->jobs.front()));
    }
    MS_TRY(s.still_held());
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
                 .message = fmt::format("job {}: its lease was lost", job.id)};
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
  if (!put) {
    if (put.error().code == ErrorCode::lease_lost) s.renewing.lose();
    return put.error();
  }
  const MutexLock lock(s.mutex);
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

// Accepts the next free session. The answer's lease may be as old as the wait of the call. The
// broker measures the remaining lease from the answer, see Broker.
Result<Accepted> accept_next(Jobs& jobs, const Clock& clock, const std::string& worker,
                             const std::string& queue, const SessionOptions& options) {
  const Instant end = clock.now().instant + options.wait;
  const auto facts = process_facts("", WorkerOptions().language, 1);
  for (;;) {
    const Duration wait =
        std::clamp(end - clock.now().instant, Duration(0), Duration(kMaxClaimWait));
    Claim claim{.worker = worker, .queues = {accept_queue(queue)}, .lease = options.lease};
    claim.facts = facts;
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
  std::string worker = random.hex128();
  const Instant asked = clock.now().instant;
  MS_TRY_ASSIGN(Accepted accepted, accept(jobs, clock, worker, queue, options));
  // A grant by key is as old as the call; the wait for the next session is not part of its lease.
  const bool waited = options.key.empty();
  const Instant from = waited ? clock.now().instant : asked;
  auto state = std::make_shared<HeldSession::State>(
      jobs, clock, std::move(worker), accepted.grant.session, accepted.grant.token, options.lease);
  {
    const MutexLock lock(state->mutex);
    state->value = std::move(accepted.grant.state);
    if (accepted.job) state->came_with = std::move(accepted.job);
  }
  // The travel time of the answer is unknown, so the first renewal is sent at once.
  const auto first = waited ? Renewing::First::at_once : Renewing::First::in_time;
  if (auto started = state->renewing.start(from, accepted.grant.lease, first); !started) {
    (void)state->release();
    return started.error();
  }
  return HeldSession(std::move(state));
}

}  // namespace mainspring
