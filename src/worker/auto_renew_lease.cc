// AutoRenewLease: a named lease that is renewed until it is released or lost.
#include "worker/auto_renew_lease.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "base/mutant.h"
#include "base/mutex.h"
#include "env/processes.h"
#include "worker/renewing.h"

namespace mainspring {
namespace {

// Between tries to acquire while the server is unreachable.
constexpr Duration kLeaseRetryPause = std::chrono::milliseconds(500);

Error lost_error(const std::string& name) {
  return Error{.code = ErrorCode::lease_lost,
               .message = fmt::format("lease {}: it has been lost", name)};
}

}  // namespace

struct AutoRenewLease::State {
  State(Jobs& jobs_, const Clock& clock_, std::string name_, std::string holder_,
        std::function<void()> on_lost)
      : jobs(jobs_),
        clock(clock_),
        name(std::move(name_)),
        holder(std::move(holder_)),
        renewing(clock, {.what = "lease " + name,
                         .renew = [this] { return renew({}); },
                         .on_lost = std::move(on_lost),
                         .ends = jobs.leases_end()}) {}

  Result<Duration> renew(std::optional<std::string> json);
  Result<void> set_value(std::string json) MS_EXCLUDES(mutex);
  Result<void> release();

  Jobs& jobs;
  const Clock& clock;
  const std::string name;
  const std::string holder;
  Token token = 0;

  Mutex mutex;
  std::string value MS_GUARDED_BY(mutex);
  Renewing renewing;  // the last member: its threads use the others
};

Result<Duration> AutoRenewLease::State::renew(std::optional<std::string> json) {
  MS_TRY_ASSIGN(
      const LeaseGrant grant,
      jobs.renew_lease(
          {.name = name, .holder = holder, .token = token, .ttl = {}, .value = std::move(json)}));
  return grant.ttl;
}

Result<void> AutoRenewLease::State::set_value(std::string json) {
  if (!json.empty()) MS_TRY(check_json("value", json));
  if (!renewing.held()) return lost_error(name);
  const Instant sent = clock.now().instant;
  const Result<Duration> granted = renew(json);
  if (!granted) {
    if (granted.error().code == ErrorCode::lease_lost) renewing.lose();
    return granted.error();
  }
  renewing.renewed(sent, *granted);
  const MutexLock lock(mutex);
  value = std::move(json);
  return {};
}

Result<void> AutoRenewLease::State::release() {
  if (!renewing.end()) return {};
  if (renewing.lost()) return lost_error(name);
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
  return state_->renewing.lost();
}

std::stop_token AutoRenewLease::stop_token() const {
  return state_->renewing.stop_token();
}

Result<void> AutoRenewLease::release() {
  return state_->release();
}

namespace {

struct Granted {
  LeaseGrant grant;
  Instant sent;  // before the request that granted it
};

// Waits for the lease, with as many requests as needed.
Result<Granted> wait_for_grant(Jobs& jobs, const Clock& clock, const AcquireLease& request,
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
      // The request waited at the server, so the age of the grant is unknown. Ask again.
      const Result<LeaseGrant> again =
          jobs.renew_lease({request.name, request.holder, grant->token, {}, {}});
      if (again) {
        grant->ttl = again->ttl;
        return Granted{std::move(*grant), now};
      }
      grant = again.error();
      if (again.error().code == ErrorCode::lease_lost) continue;  // the grant had expired
    }
    const bool again = info(grant.error().code).retryable != Retryable::no;
    if (!again || now >= end || options.stop.stop_requested()) return grant.error();
    if (grant.error().code == ErrorCode::lease_held && now - sent >= wait / 2) continue;
    const MutexLock lock(mutex);
    if (!options.stop.stop_requested()) wake.wait_for(mutex, std::min(kLeaseRetryPause, end - now));
  }
}

}  // namespace

Result<AutoRenewLease> acquire(Jobs& jobs, const Clock& clock, Random& random, std::string name,
                               LeaseOptions options) {
  const std::string holder = fmt::format("{}:{}", process_name(), random.hex128());
  auto state = std::make_shared<AutoRenewLease::State>(jobs, clock, name, holder,
                                                       std::move(options.on_lost));
  MS_TRY_ASSIGN(
      Granted granted,
      wait_for_grant(jobs, clock, {.name = name, .holder = holder, .ttl = options.ttl}, options));
  state->token = granted.grant.token;
  {
    const MutexLock lock(state->mutex);
    state->value = std::move(granted.grant.value);
  }
  if (auto started = state->renewing.start(granted.sent, granted.grant.ttl); !started) {
    (void)state->release();
    return started.error();
  }
  return AutoRenewLease(std::move(state));
}

}  // namespace mainspring
