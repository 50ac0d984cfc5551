// HeldJob: one job that is renewed until it is finished, returned or lost.
#include "worker/held_job.h"

#include <fmt/format.h>

#include "api/json.h"
#include "api/shapes.h"
#include "base/mutex.h"
#include "mainspring/worker.h"
#include "model/callback.h"
#include "worker/facts.h"
#include "worker/renewing.h"

namespace mainspring {
namespace {

Error lost_job_error(JobId id) {
  return Error{.code = ErrorCode::lease_lost,
               .message = fmt::format("job {}: its lease was lost", id)};
}

// Checks payloads that are copied into JSON unchanged.
Result<void> check_payloads(const Complete& complete) {
  if (!complete.result.empty()) MS_TRY(check_json("result", complete.result));
  for (std::size_t i = 0; i < complete.next.size(); ++i) {
    const NewJob& job = complete.next[i];
    const std::string field = fmt::format("next[{}].", i);
    MS_TRY(check_json(field + "args", job.args));
    if (!job.headers.empty()) MS_TRY(check_json(field + "headers", job.headers));
    for (const FollowUp& next : job.follow_ups) {
      if (!next.data.empty()) MS_TRY(check_json(field + "then", next.data));
    }
  }
  return validate_next(complete.next);
}

// Applies the same checks as a server's input decoder.
Result<Finish> checked(const Finish& finish) {
  if (const auto* complete = std::get_if<Complete>(&finish.results.front().outcome))
    MS_TRY(check_payloads(*complete));
  std::string body;
  encode_finish_request(finish, nullptr, body);
  MS_TRY_ASSIGN(FinishRequest request, decode_finish_request(body));
  if (!request.refused.empty()) return std::move(request.refused.front().part.error);
  return std::move(request.operation);
}

}  // namespace

struct HeldJob::State {
  State(Jobs& jobs_, const Clock& clock, std::string worker_, ClaimedJob job_, Duration lease_)
      : jobs(jobs_),
        worker(std::move(worker_)),
        job(std::move(job_)),
        lease(lease_),
        renewing(clock, {.what = fmt::format("job {}", job.id),
                         .renew = [this] { return renew(); },
                         .on_lost = [this] { stop.request_stop(); },
                         .ends = jobs.leases_end()}) {}

  Result<Duration> renew() MS_EXCLUDES(mutex);
  Result<FinishStatus> report(Finish finish);
  void give_back() MS_EXCLUDES(mutex);

  Jobs& jobs;
  const std::string worker;
  const ClaimedJob job;
  const Duration lease;  // as requested
  std::stop_source stop;

  Mutex mutex;
  bool cancelled MS_GUARDED_BY(mutex) = false;
  bool ended MS_GUARDED_BY(mutex) = false;  // finished, or known to be lost
  Renewing renewing;                        // the last member: its threads use the others
};

Result<Duration> HeldJob::State::renew() {
  Renew request{.worker = worker, .leases = {}, .lease = lease};
  request.leases.push_back({.id = job.id, .token = job.token, .progress = {}, .checkpoint = {}});
  MS_TRY_ASSIGN(const RenewResult result, jobs.renew(std::move(request)));
  if (!result.cancel.empty()) {
    {
      const MutexLock lock(mutex);
      cancelled = true;
    }
    stop.request_stop();
  }
  if (result.renewed.empty()) return lost_job_error(job.id);
  return result.renewed.front().lease;
}

Result<FinishStatus> HeldJob::State::report(Finish finish) {
  MS_TRY_ASSIGN(const FinishResult done, jobs.finish(std::move(finish)));
  return done.results.empty() ? FinishStatus::not_found : done.results.front();
}

void HeldJob::State::give_back() {
  {
    const MutexLock lock(mutex);
    if (ended) return;
    ended = true;
  }
  (void)renewing.end();
  if (renewing.lost()) return;
  Finish back{.worker = worker, .results = {}};
  back.results.push_back({job.id, job.token, given_back(job)});
  (void)report(std::move(back));  // if this fails, the lease expires
}

HeldJob::HeldJob(std::shared_ptr<State> state) : state_(std::move(state)) {}

HeldJob::~HeldJob() {
  if (state_) state_->give_back();
}

HeldJob::HeldJob(HeldJob&&) noexcept = default;

HeldJob& HeldJob::operator=(HeldJob&& other) noexcept {
  if (this == &other) return *this;
  if (state_) state_->give_back();
  state_ = std::move(other.state_);
  return *this;
}

const ClaimedJob& HeldJob::job() const {
  return state_->job;
}

bool HeldJob::lost() const {
  return state_->renewing.lost();
}

bool HeldJob::cancel_requested() const {
  const MutexLock lock(state_->mutex);
  return state_->cancelled;
}

std::stop_token HeldJob::stop_token() const {
  return state_->stop.get_token();
}

Result<void> HeldJob::finish(Outcome outcome) {
  State& s = *state_;
  {
    const MutexLock lock(s.mutex);
    if (s.ended) {
      return Error{.code = ErrorCode::conflict,
                   .message = fmt::format("job {} was already finished", s.job.id)};
    }
  }
  Finish finish{.worker = s.worker, .results = {}};
  finish.results.push_back({s.job.id, s.job.token, std::move(outcome)});
  MS_TRY_ASSIGN(finish, checked(finish));
  MS_TRY_ASSIGN(const FinishStatus status, s.report(std::move(finish)));
  {
    const MutexLock lock(s.mutex);
    s.ended = true;
  }
  (void)s.renewing.end();
  if (status != FinishStatus::ok) return lost_job_error(s.job.id);
  return {};
}

Result<HeldJob> hold_job(Jobs& jobs, const Clock& clock, Random& random, JobId id,
                         ClaimOptions options) {
  if (options.lease < kMinLease || options.lease > kMaxLease) {
    return invalid("lease",
                   fmt::format("lease {}: must be {} to {}", format_duration(options.lease),
                               format_duration(kMinLease), format_duration(kMaxLease)));
  }
  // A claim also needs the queue.
  MS_TRY_ASSIGN(const Job job, jobs.get(id));
  MS_TRY(check_not_reserved("queue", job.queue));
  std::string worker = random.hex128();
  Claim claim{.worker = worker, .queues = {job.queue}, .lease = options.lease};
  claim.job = id;
  claim.facts = process_facts("", WorkerOptions().language, 1);
  const Instant asked = clock.now().instant;
  MS_TRY_ASSIGN(ClaimResult claimed, jobs.claim(std::move(claim), Duration(0), {}));
  if (claimed.jobs.empty()) {
    return Error{.code = ErrorCode::unavailable,
                 .message = fmt::format("job {}: the engine is stopping, or returned no job", id)};
  }
  ClaimedJob& got = claimed.jobs.front();
  const Duration granted = got.lease;
  auto state = std::make_shared<HeldJob::State>(jobs, clock, std::move(worker), std::move(got),
                                                options.lease);
  if (auto started = state->renewing.start(asked, granted); !started) {
    state->give_back();
    return started.error();
  }
  return HeldJob(std::move(state));
}

}  // namespace mainspring
