// Handlers that run on after their time limit or the loss of their lease: the worker reports how
// many. They keep their slots, so a worker whose slots are all taken by them claims nothing.
#include <algorithm>

#include "worker/state.h"

namespace mainspring {
namespace {

// How often a worker without a free slot reports: it sends neither claims nor renewals.
constexpr Duration kStuckReport = std::chrono::seconds(10);

}  // namespace

void WorkerRuntime::State::look_for_stuck(Instant now) {
  int count = 0;
  stuck_slots = 0;
  for (const AttemptPtr& attempt : overdue) {
    if (attempt->stuck_at > now) {
      watcher_wake = std::min(watcher_wake, attempt->stuck_at);
      continue;
    }
    ++count;
    stuck_slots += attempt->slots;
  }
  if (stuck.exchange(count) == count) return;
  if (stuck_slots >= slot_limit) {
    give_back_ready();  // nothing here would run what was claimed ahead
    if (finisher_waits) finisher_cv.notify_one();
  }
  facts = new_facts();
  stuck_told_at = Instant();
  claim_ends = true;  // the next one reports it
  watcher_cv.notify_one();
  claimer_cv.notify_all();
}

bool WorkerRuntime::State::leaves_trouble_out(const Error& error) {
  if (error.field != "stuck" && error.field != "trouble") return false;
  if (server_is_older.exchange(true)) return false;
  MutexLock lock(mutex);
  facts = new_facts();
  log.warn(
      "the server does not know the fields \"trouble\" and \"stuck\"; they are left out: "
      "upgrade the server",
      {{"message", error.message}});
  return true;
}

void WorkerRuntime::State::await_room() {
  const Instant now = clock.now().instant;
  if (stuck > 0 && now >= stuck_told_at + kStuckReport) {
    stuck_told_at = now;
    mutex.unlock();
    const Result<RenewResult> answer = ask_for_command();
    mutex.lock();
    if (answer) obey(answer->command);
    return;
  }
  claimer_waits = true;
  claimer_cv.wait_for(mutex, stuck > 0 ? stuck_told_at + kStuckReport - now : kForever);
  claimer_waits = false;
}

}  // namespace mainspring
