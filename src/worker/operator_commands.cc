// What an operator asked a worker to do: the server says so in its answers.
#include "worker/state.h"

namespace mainspring {
namespace {

// How often a quiet worker asks whether it may claim again, unless a renewal says so before.
constexpr Duration kQuietLook = std::chrono::seconds(5);

}  // namespace

void WorkerRuntime::State::obey(WorkerCommand command) {
  if (stopping) return;
  const bool stop = command == WorkerCommand::stop && options.stops_on_command;
  if (stop && !std::exchange(stop_obeyed, true)) {
    stop_wanted = true;
    watcher_cv.notify_one();
  }
  const bool wanted = command != WorkerCommand::none;
  if (wanted == quiet || stop_obeyed) return;
  quiet = wanted;
  if (quiet) {
    log.info("quiet: claiming no more jobs until resumed");
    // A claim that waits at another node of the server could still get jobs.
    claim_ends = true;
    watcher_cv.notify_one();
  } else {
    log.info("resumed: claiming jobs again");
    claimer_cv.notify_all();
  }
}

void WorkerRuntime::State::stay_quiet() {
  const Instant until = clock.now().instant + kQuietLook;
  for (Instant now; !stopping && quiet && (now = clock.now().instant) < until;)
    claimer_cv.wait_for(mutex, until - now);
  if (stopping || !quiet) return;
  mutex.unlock();
  const Result<RenewResult> answer = ask_for_command();
  mutex.lock();
  if (answer) obey(answer->command);
}

Result<RenewResult> WorkerRuntime::State::ask_for_command() {
  Renew ask{.worker = incarnation, .lease = options.lease};
  if (!server_is_older) ask.stuck = stuck.load();
  Result<RenewResult> answer = jobs.renew(ask);
  if (answer || !leaves_trouble_out(answer.error())) return answer;
  ask.stuck.reset();
  return jobs.renew(std::move(ask));
}

// On the watcher's thread, without the lock.
void WorkerRuntime::State::stop_on_command() {
  log.info("stopping at the request of an operator");
  request_stop();
  if (options.on_stop_command) options.on_stop_command();
}

}  // namespace mainspring
