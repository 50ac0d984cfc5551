// The slots: run handlers and convert their results to outcomes.
#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "api/json.h"
#include "api/session_shapes.h"
#include "api/step_key.h"
#include "base/assert.h"
#include "base/fnv.h"
#include "base/mutant.h"
#include "model/trace_context.h"
#include "worker/start_failure.h"
#include "worker/state.h"

namespace mainspring {
namespace {

// A handler's view of its attempt.
class AttemptContext final : public Context {
 public:
  AttemptContext(WorkerRuntime::State& state, Attempt& attempt)
      : state_(state), attempt_(attempt) {}

  const ClaimedJob& job() const override { return attempt_.job; }

  std::string idempotency_key() const override {
    if (std::string key = step_key_of(attempt_.job.headers); !key.empty()) return key;
    // The id alone could be the same in two stores, so other fields of the job are included.
    std::uint64_t h = kFnvBasis;
    const auto add = [&h](std::string_view text) {
      h = fnv1a(std::string_view("\0", 1), fnv1a(text, h));  // separator
    };
    add(attempt_.job.queue);
    add(attempt_.job.kind);
    add(attempt_.job.args);
    return fmt::format("ms-{}-{:016x}", attempt_.job.id, h);
  }

  std::stop_token stop_token() const override { return attempt_.stop.get_token(); }
  StopReason stop_reason() const override { return attempt_.reason.load(); }

  void progress(double value, std::string_view text) override {
    Progress progress{value >= 0 ? std::min(value, 1.0) : 0,  // 0 also for NaN
                      std::string(cut_text(text, kMaxProgressTextBytes))};
    MutexLock lock(state_.mutex);
    attempt_.progress = std::move(progress);
    state_.report(attempt_);
  }

  Result<void> checkpoint(std::string json) override {
    if (json.size() > kMaxCheckpointBytes) {
      return Error{.code = ErrorCode::too_large,
                   .message = fmt::format("checkpoint has {} bytes: must be at most {}",
                                          json.size(), kMaxCheckpointBytes),
                   .field = "checkpoint"};
    }
    MS_TRY(check_json("checkpoint", json));
    MutexLock lock(state_.mutex);
    attempt_.checkpoint = std::move(json);
    state_.report(attempt_);
    return {};
  }

  Result<void> set_session_state(std::string json) override {
    if (attempt_.job.session.empty()) {
      return Error{
          .code = ErrorCode::conflict,
          .message = fmt::format("job {} has no session whose state it could set", attempt_.job.id),
          .field = "session_state"};
    }
    MS_TRY(check_session_state("session_state", json));
    MutexLock lock(state_.mutex);
    attempt_.session_state = std::move(json);
    return {};
  }

  Result<void> send(std::string json) override {
    if (json.size() > kMaxMessageBytes) {
      return Error{.code = ErrorCode::too_large,
                   .message = fmt::format("message has {} bytes: must be at most {}", json.size(),
                                          kMaxMessageBytes),
                   .field = "message"};
    }
    MS_TRY(check_json("message", json));
    return state_.say(attempt_, std::move(json));
  }

  void ignore(RemarkFault fault, std::string_view text) override {
    state_.ignore(attempt_, fault, text);
  }

  Result<void> flush() override { return state_.flush(attempt_); }

  Result<std::optional<std::string>> recall(std::string_view name) override {
    MS_TRY(check_memo_name("step", name));
    return state_.recall(attempt_, name);
  }

  Result<void> remember(std::string_view name, std::string json) override {
    MS_TRY(check_memo_name("step", name));
    if (json.size() > kMaxMemoBytes) {
      return Error{.code = ErrorCode::too_large,
                   .message = fmt::format("the result of step {} has {} bytes: must be at most {}",
                                          name, json.size(), kMaxMemoBytes),
                   .field = "step"};
    }
    MS_TRY(check_json("step", json));
    return state_.remember(attempt_, {std::string(name), std::move(json)});
  }

 private:
  WorkerRuntime::State& state_;
  Attempt& attempt_;
};

}  // namespace

const Attempt* WorkerRuntime::State::waits_for_slots() const {
  const auto next = std::find_if(ready.begin(), ready.end(), [](const AttemptPtr& attempt) {
    return !attempt->lost && !attempt->kind->full();
  });
  if (next == ready.end()) return nullptr;
  // A job that costs more than the limit runs alone.
  if (slots_taken == 0 || (*next)->slots <= slot_limit - slots_taken) return nullptr;
  return next->get();
}

AttemptPtr WorkerRuntime::State::take_ready() {
  if (waits_for_slots() != nullptr) return nullptr;
  for (auto it = ready.begin(); it != ready.end();) {
    if (kinds_limited && !(*it)->lost && (*it)->kind->full()) {
      ++it;
      continue;
    }
    AttemptPtr attempt = std::move(*it);
    it = ready.erase(it);  // usually the first
    slots_ready -= attempt->slots;
    if (!attempt->lost) return attempt;
    leave(*attempt->kind);
    if (claimer_waits) claimer_cv.notify_one();
  }
  return nullptr;
}

// Wakes one slot at a time. That slot wakes the next when it has taken a job and there are more:
// jobs of microseconds are done by the first few slots, instead of all slots competing for them.
void WorkerRuntime::State::wake_slot() {
  if (idle_slots == 0 || slot_waking || ready.empty()) return;
  slot_waking = true;
  slots_cv.notify_one();
}

HandlerResult WorkerRuntime::State::call_handler(Attempt& attempt) {
  AttemptContext context(*this, attempt);
  const auto threw = [&](std::string message) {
    log.error("a handler threw an exception; the attempt failed",
              {{"job", fmt::to_string(attempt.job.id)},
               {"queue", attempt.job.queue},
               {"kind", attempt.job.kind},
               {"attempt", fmt::to_string(attempt.job.attempt)},
               {"exception", message}});
    return Error{.code = ErrorCode::internal, .message = std::move(message)};
  };
  const TraceScope trace(trace_headers_of(attempt.job.headers));
  try {
    return attempt.kind->handler(attempt.job, context);
  } catch (const std::exception& e) {
    return threw(e.what());
  } catch (...) {
    return threw("the handler threw an unknown exception");
  }
}

HandlerResult WorkerRuntime::State::call_alone(const AttemptPtr& attempt) {
  const std::string& pattern = attempt->kind->options.singleton;
  if (pattern.empty() || MS_MUTANT(singleton_runs_beside)) return call_handler(*attempt);
  const Result<std::string> name = singleton_name(pattern, attempt->job.args);
  if (!name) return Outcome(Dead{"singleton", name.error().message});
  const auto on_lost = [this, attempt] {
    MutexLock lock(mutex);
    tell(attempt, StopReason::lease_lost);
  };
  Result<Singletons::Entry> entry = singletons.enter(*name, on_lost, attempt->stop.get_token());
  if (!entry) return std::move(entry.error());
  if (const Duration* pause = std::get_if<Duration>(&*entry)) return Outcome(Snooze{*pause});
  return call_handler(*attempt);  // the destructor of the entry releases the lease
}

Outcome WorkerRuntime::State::failure(const Attempt& attempt, std::string message,
                                      std::optional<Duration> after, const ProgramEnd& program) {
  switch (attempt.reason.load()) {
    case StopReason::cancelled:
      return CancelJob{};  // the reason is that of the cancel request
    case StopReason::shutdown:
    case StopReason::lease_lost:
      return given_back(attempt.job);
    case StopReason::timeout:
      message = fmt::format("over its time limit of {}: {}", format_duration(attempt.job.timeout),
                            message);
      break;
    case StopReason::none:
      break;
  }
  const RetryPolicy& policy = attempt.kind->options.retry;
  if (policy.max_attempts > 0 && attempt.job.attempt >= policy.max_attempts) {
    const bool forgotten = MS_MUTANT(last_attempt_forgets_program_end);
    return Dead{"max_attempts", std::move(message), forgotten ? ProgramEnd() : program};
  }
  if (!after) after = policy.delay(attempt.job.id, attempt.job.attempt);
  return Retry{.error = std::move(message), .after = after, .program = program};
}

std::optional<Outcome> WorkerRuntime::State::weigh(const Attempt& attempt, HandlerResult&& result) {
  if (attempt.confirmed) return std::nullopt;
  if (!result && is_start_failure(result.error())) return given_back(attempt.job);
  if (!result) return failure(attempt, std::move(result.error().message), {}, {});
  Outcome& outcome = *result;
  // Refused messages must be reported.
  if (attempt.not_sent && std::holds_alternative<Complete>(outcome)) {
    return failure(attempt, "a message could not be sent: " + attempt.not_sent->message, {}, {});
  }
  if (std::holds_alternative<Defer>(outcome) && !attempt.job.session.empty())
    return failure(attempt, "a job of a session cannot be deferred", {}, {});
  if (Retry* retry = std::get_if<Retry>(&outcome)) {
    const std::optional<Duration> open_breaker_for = retry->open_breaker_for;
    Outcome failed = failure(attempt, std::move(retry->error), retry->after, retry->program);
    if (Retry* again = std::get_if<Retry>(&failed)) again->open_breaker_for = open_breaker_for;
    return failed;
  }
  if (const Complete* complete = std::get_if<Complete>(&outcome)) {
    if (complete->result.size() > kMaxResultBytes) {
      return Dead{"result_too_large", fmt::format("the result has {} bytes: must be at most {}",
                                                  complete->result.size(), kMaxResultBytes)};
    }
    if (!complete->result.empty()) {
      if (auto good = check_json("result", complete->result); !good) {
        return Dead{"bad_result", good.error().message};
      }
    }
    if (auto good = validate_next(complete->next); !good)
      return Dead{"bad_next", good.error().message};
  }
  return std::move(outcome);
}

void WorkerRuntime::State::conclude(const AttemptPtr& attempt, std::optional<Outcome> outcome) {
  --running;
  slots_taken -= attempt->slots;
  leave(*attempt->kind);
  --attempt->kind->running;
  if (const auto it = active.find(attempt->job.id); it != active.end() && it->second == attempt) {
    active.erase(it);
  }
  if (attempt->stuck_at != Instant::never() && std::erase(overdue, attempt) > 0)
    look_for_stuck(clock.now().instant);
  if (!outcome) {
    ++stats.stale;
  } else {
    done.push_back({attempt->job.id, attempt->job.token, std::move(*outcome),
                    std::move(attempt->session_state)});
    if (finisher_waits) finisher_cv.notify_one();
  }
  if (claimer_waits) claimer_cv.notify_one();
  if (running == 0) ended_cv.notify_all();
}

void WorkerRuntime::State::run_slot() {
  mutex.lock();
  for (;;) {
    AttemptPtr attempt = take_ready();
    if (attempt == nullptr) {
      if (slots_end) break;
      ++idle_slots;
      slots_cv.wait(mutex);
      --idle_slots;
      slot_waking = false;
      continue;
    }
    ++running;
    slots_taken += attempt->slots;
    ++attempt->kind->running;
    const Instant begin = clock.now().instant;
    attempt->started = true;
    Duration limit = attempt->job.timeout;
    if (const Duration own = attempt->kind->options.timeout; own > Duration(0)) {
      limit = std::min(limit, own);
    }
    attempt->job.timeout = limit;
    attempt->time_limit = begin + limit;
    wake_by(*attempt);
    wake_slot();
    mutex.unlock();

    HandlerResult result = call_alone(attempt);
    const auto took_us = static_cast<double>((clock.now().instant - begin).count());
    const bool complete = result && std::holds_alternative<Complete>(*result);
    flush_last(*attempt, complete);
    const bool failed =
        !result || std::holds_alternative<Retry>(*result) || (complete && attempt->not_sent);

    std::optional<Error> not_started;
    if (!result && is_start_failure(result.error())) not_started = result.error();
    std::optional<Outcome> outcome = weigh(*attempt, std::move(result));
    mutex.lock();
    not_started ? cannot_start(*not_started) : program_ended(begin);
    if (not_started) await_claim();  // the pause begins before the outcome is reported
    handler_us = handler_us < 0 ? took_us : handler_us + (took_us - handler_us) / 16;
    if (failed && !MS_MUTANT(failed_attempt_leaves_state)) attempt->session_state.reset();
    conclude(attempt, std::move(outcome));
  }
  mutex.unlock();
}

}  // namespace mainspring
