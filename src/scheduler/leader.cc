// Acquire, renew, lose, resign; every answer arrives later, on a thread of the broker.
#include "scheduler/leader.h"

#include <fmt/format.h>

#include "base/mutant.h"
#include "broker/broker.h"

namespace mainspring {
namespace {

constexpr Duration kAcquirePause = std::chrono::seconds(1);

}  // namespace

struct Leader::State {
  State(std::function<void()> changed_, Log& log_) : changed(std::move(changed_)), log(log_) {}

  void tell() MS_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    if (!closed && changed) changed();
  }

  Mutex mutex;
  std::function<void()> changed;
  Log& log;
  bool closed MS_GUARDED_BY(mutex) = false;
  bool stopped MS_GUARDED_BY(mutex) = false;
  bool acquiring MS_GUARDED_BY(mutex) = false;
  Broker::ParkId acquire_id MS_GUARDED_BY(mutex) = 0;
  bool renewing MS_GUARDED_BY(mutex) = false;
  Token term MS_GUARDED_BY(mutex) = 0;  // 0 = not leading
  Instant since MS_GUARDED_BY(mutex) = Instant::never();
  Instant until MS_GUARDED_BY(mutex);  // when the lease ends unless it is renewed
  Instant next_renew MS_GUARDED_BY(mutex);
  Instant not_before MS_GUARDED_BY(mutex);  // of the next acquire
};

Leader::Leader(Broker& broker, const Clock& clock, Log& log, LeaderOptions options,
               std::function<void()> changed)
    : broker_(broker),
      clock_(clock),
      log_(log),
      options_(std::move(options)),
      state_(std::make_shared<State>(std::move(changed), log)) {}

Leader::~Leader() {
  MutexLock lock(state_->mutex);
  state_->closed = true;
}

std::optional<Token> Leader::term(Instant now) const {
  MutexLock lock(state_->mutex);
  if (state_->term == 0 || (now >= state_->until && !MS_MUTANT(leader_never_expires)))
    return std::nullopt;
  return state_->term;
}

Instant Leader::leading_since(Instant now) const {
  MutexLock lock(state_->mutex);
  return state_->term == 0 || now >= state_->until ? Instant::never() : state_->since;
}

Instant Leader::step(Now now) {
  bool want = false, renew_now = false;
  Instant next = Instant::never();
  {
    State& s = *state_;
    MutexLock lock(s.mutex);
    if (s.stopped) return next;
    if (s.term != 0) {
      // An expired lease may still be ours if no node took it: the renewal shows it.
      if (!s.renewing && now.instant >= s.next_renew) {
        s.renewing = renew_now = true;
        s.next_renew = now.instant + options_.renew;
      }
      next = s.next_renew;
    } else if (!s.acquiring) {
      if (now.instant >= s.not_before) {
        s.acquiring = want = true;
      } else {
        next = s.not_before;
      }
    }
  }
  if (renew_now) renew(now.instant);
  if (want) acquire();
  return next;
}

void Leader::acquire() {
  AcquireLease request{
      .name = std::string(kLeadershipLease), .holder = options_.incarnation, .ttl = options_.lease};
  const auto id = broker_.submit_acquire(
      std::move(request), kMaxClaimWait,
      [this, state = state_, options = options_](OperationResult result) {
        Token unwanted = 0;
        {
          MutexLock lock(state->mutex);
          state->acquiring = false;
          if (state->closed) return;  // `this` is destroyed
          const Instant now = clock_.now().instant;
          if (const auto* grant = std::get_if<LeaseGrant>(&result)) {
            if (state->stopped) {
              unwanted = grant->token;
            } else {
              // From the start of its commit: this node may have stood still since.
              const Instant granted = std::min(now, broker_.last_commit());
              state->term = grant->token;
              state->since = granted;
              state->until = granted + options.lease;
              state->next_renew = granted + options.renew;
              state->log.info(
                  "is the leader: moves due jobs, fires schedules, rescues and prunes jobs",
                  {{"term", fmt::to_string(grant->token)}});
            }
          } else if (const auto& error = std::get<Error>(result);
                     error.code != ErrorCode::lease_held) {
            state->not_before = now + kAcquirePause;
          }
        }
        if (unwanted != 0) return release(unwanted);  // it crossed stop()
        state->tell();
      });
  MutexLock lock(state_->mutex);
  state_->acquire_id = id;
}

void Leader::renew(Instant now) {
  Token term = 0;
  {
    MutexLock lock(state_->mutex);
    term = state_->term;
  }
  RenewLease request{
      .name = std::string(kLeadershipLease), .holder = options_.incarnation, .token = term};
  broker_.submit(std::move(request), [state = state_, clock = &clock_, lease = options_.lease, term,
                                      sent = now](OperationResult result) {
    {
      MutexLock lock(state->mutex);
      state->renewing = false;
      if (state->closed || state->term != term) return;
      const auto* error = std::get_if<Error>(&result);
      if (error == nullptr) {
        state->until = std::max(state->until, sent + lease);
        return;
      }
      if (error->code != ErrorCode::lease_lost) {  // tried again soon
        state->next_renew = clock->now().instant + kAcquirePause;
      } else {
        state->log.warn("is no longer the leader: its lease expired",
                        {{"term", fmt::to_string(term)}});
        state->term = 0;
      }
    }
    state->tell();
  });
}

void Leader::lost(Token term) {
  {
    MutexLock lock(state_->mutex);
    if (state_->term != term) return;
    state_->log.warn("is no longer the leader: a write was refused",
                     {{"term", fmt::to_string(term)}});
    state_->term = 0;
  }
  state_->tell();
}

void Leader::release(Token term) {
  broker_.submit(
      ReleaseLease{
          .name = std::string(kLeadershipLease), .holder = options_.incarnation, .token = term},
      [](const OperationResult&) {});
}

void Leader::resign(std::string_view why, Duration stand_back, Instant now) {
  Token term = 0;
  {
    MutexLock lock(state_->mutex);
    term = std::exchange(state_->term, 0);
    state_->not_before = now + stand_back;
  }
  if (term == 0) return;
  log_.error("releases the leadership",
             {{"why", std::string(why)}, {"stands_back_for", format_duration(stand_back)}});
  release(term);
}

void Leader::stop() {
  Token term = 0;
  Broker::ParkId waiting = 0;
  {
    MutexLock lock(state_->mutex);
    if (state_->stopped) return;
    state_->stopped = true;
    term = std::exchange(state_->term, 0);
    if (state_->acquiring) waiting = state_->acquire_id;
  }
  if (waiting != 0) broker_.abandon(waiting);
  if (term != 0 && !MS_MUTANT(leader_keeps_lease_at_stop)) release(term);
}

}  // namespace mainspring
