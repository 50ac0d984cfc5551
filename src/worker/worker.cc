// Start and stop of the worker's threads.
#include "worker/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/assert.h"
#include "worker/facts.h"
#include "worker/state.h"

namespace mainspring {
namespace {
// How often stop() logs what it is waiting for.
constexpr Duration kStopComplaint = std::chrono::seconds(5);
}  // namespace

WorkerRuntime::State::State(Jobs& jobs_, const Clock& clock_, Random& random_, Log& log_,
                            WorkerOptions options_)
    : jobs(jobs_),
      clock(clock_),
      random(random_),
      log(log_),
      options(std::move(options_)),
      incarnation(random_.hex128()),
      singletons(jobs_, clock_, random_, options.lease, options.slots),
      facts(new_facts()) {}

Duration Pauses::next(const Error& error) {
  const auto bound = static_cast<std::uint64_t>(limit_.count());
  Duration pause(static_cast<std::int64_t>(random_.below(bound) + bound / 8));
  limit_ = std::min(limit_ * 2, kLongestPause);
  return std::max(pause, Duration(std::chrono::milliseconds(error.retry_after_ms)));
}

Result<void> WorkerRuntime::State::start() {
  if (auto errors = options.validate(); !errors.empty()) return errors.front();
  if (kinds.empty() && !any) {
    return invalid("kinds", "worker: must have a handler before it is started");
  }
  for (const auto& [name, kind] : kinds) {
    if (!kind.options.singleton.empty()) MS_TRY(check_singleton(kind.options.singleton));
  }
  if (any && !any->options.singleton.empty()) MS_TRY(check_singleton(any->options.singleton));
  {
    MutexLock lock(mutex);
    if (started) {
      return Error{.code = ErrorCode::conflict,
                   .message = "worker: has already been started; create another one"};
    }
    started = true;
    reported_at = clock.now().instant;
  }
  if (auto all = start_threads(); !all) {
    stop();  // the threads that did start
    return all;
  }
  return {};
}

Result<void> WorkerRuntime::State::start_threads() {
  MutexLock stop_lock(stop_mutex);
  {
    MutexLock lock(mutex);
    if (stopping) return {};  // stopped before it started
  }
  const auto limited = [](const Kind& kind) { return kind.options.concurrency > 0; };
  kinds_limited = (any && limited(*any)) || std::any_of(kinds.begin(), kinds.end(),
                                                        [&](auto& k) { return limited(k.second); });
  try {
    for (int i = 0; i < options.slots; ++i) slots.emplace_back([this] { run_slot(); });
    renewer = std::thread([this] { run_renewer(); });
    watcher = std::thread([this] { run_watcher(); });
    finisher = std::thread([this] { run_finisher(); });
    claimer = std::thread([this] { run_claimer(); });
  } catch (const std::system_error& e) {
    return Error{.code = ErrorCode::io_error,
                 .message = fmt::format("starting the {} threads of a worker: {}",
                                        options.slots + 4, e.what())};
  }
  return {};
}

void WorkerRuntime::State::request_stop() {
  std::stop_source claim;
  {
    MutexLock lock(mutex);
    if (stopping) return;
    stopping = true;
    const Instant now = clock.now().instant;
    tell_at = now + options.graceful_stop * 4 / 5;
    give_up_at = now + options.graceful_stop;
    give_back_ready();
    claimer_cv.notify_all();
    watcher_cv.notify_all();
    finisher_cv.notify_all();
    claim = claim_stop;
  }
  claim.request_stop();
}

void WorkerRuntime::State::stop() {
  request_stop();
  MutexLock stop_lock(stop_mutex);
  if (claimer.joinable()) claimer.join();
  {
    MutexLock lock(mutex);
    while (running > 0) {
      ended_cv.wait_for(mutex, kStopComplaint);
      if (running > 0 && clock.now().instant >= give_up_at) {
        log.warn("waiting for handlers that ignore their stop token",
                 {{"handlers", fmt::to_string(running)}});
      }
    }
    slots_end = true;
    slots_cv.notify_all();
  }
  for (std::thread& slot : slots) slot.join();
  slots.clear();
  {
    MutexLock lock(mutex);
    finisher_end = true;
    finisher_cv.notify_all();
  }
  if (finisher.joinable()) finisher.join();
  {
    MutexLock lock(mutex);
    leases_end = true;
    renewer_cv.notify_all();
    watcher_cv.notify_all();
  }
  if (renewer.joinable()) renewer.join();
  if (watcher.joinable()) watcher.join();
}

WorkerStats WorkerRuntime::State::snapshot() {
  MutexLock lock(mutex);
  WorkerStats out = stats;
  out.running = running;
  out.waiting = static_cast<int>(ready.size());
  return out;
}

WorkerRuntime::WorkerRuntime(Jobs& jobs, const Clock& clock, Random& random, Log& log,
                             WorkerOptions options)
    : state_(std::make_unique<State>(jobs, clock, random, log, std::move(options))) {}

WorkerRuntime::~WorkerRuntime() {
  stop();
}

void WorkerRuntime::on(std::string kind, Handler handler, KindOptions options) {
  state_->kinds[std::move(kind)] = Kind{std::move(handler), std::move(options)};
}

void WorkerRuntime::on_any(Handler handler, KindOptions options) {
  state_->any = Kind{std::move(handler), std::move(options)};
}

void WorkerRuntime::on_refused(std::function<void(const Error&)> refused) {
  state_->when_refused = std::move(refused);
}

void WorkerRuntime::claim_with(ClaimCall call) {
  state_->claim_call = std::move(call);
}

Result<void> WorkerRuntime::start() {
  return state_->start();
}

void WorkerRuntime::request_stop() {
  state_->request_stop();
}

void WorkerRuntime::stop() {
  state_->stop();
}

const std::string& WorkerRuntime::incarnation() const {
  return state_->incarnation;
}

std::string WorkerRuntime::start_trouble() const {
  MutexLock lock(state_->mutex);
  return state_->start_failures == 0 ? "" : state_->start_error;
}

std::optional<Error> WorkerRuntime::start_failure() const {
  std::string why = start_trouble();
  if (why.empty()) return std::nullopt;
  return Error{.code = ErrorCode::overloaded,  // exit code 75: try again
               .message = std::move(why) + "; its job was given back"};
}

void WorkerRuntime::set_slots(int slots) {
  state_->set_slots(slots);
}

WorkerStats WorkerRuntime::stats() const {
  return state_->snapshot();
}

}  // namespace mainspring
