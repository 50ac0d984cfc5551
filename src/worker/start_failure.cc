// A worker whose program cannot be started: it gives jobs back, pauses, and tries again.
#include "worker/start_failure.h"

#include <algorithm>

#include "base/mutant.h"
#include "worker/facts.h"
#include "worker/state.h"

namespace mainspring {
namespace {

constexpr std::string_view kStartField = "program start";  // Error::field; no other error has it
constexpr Duration kFirstStartPause = std::chrono::seconds(1);
constexpr Duration kLongestStartPause = std::chrono::minutes(1);
constexpr int kMaxDoublings = 6;

}  // namespace

Error start_failure(Error error) {
  if (error.code != ErrorCode::too_large) error.field = kStartField;
  return error;
}

bool is_start_failure(const Error& error) {
  return error.field == kStartField && !MS_MUTANT(start_failure_burns_attempt);
}

Duration start_pause(int failures) {
  return std::min(kLongestStartPause,
                  kFirstStartPause * (1 << std::clamp(failures - 1, 0, kMaxDoublings)));
}

std::shared_ptr<const WorkerFacts> WorkerRuntime::State::new_facts() const {
  const bool trouble = start_failures > 0;
  auto made = process_facts(
      options.version, options.language + std::string(trouble ? kCannotStart : ""), options.slots);
  if (server_is_older) return made;
  if (trouble) made->trouble = cut_text(start_error, kMaxTroubleBytes);
  for (char& c : made->trouble) {
    if ((c >= 0 && c < ' ') || c == 0x7f) c = ' ';  // the server refuses control characters
  }
  made->stuck = stuck;
  return made;
}

void WorkerRuntime::State::cannot_start(const Error& error) {
  const Instant now = clock.now().instant;
  if (now < start_again_at) return;  // a program of the same time
  const Duration pause = start_pause(++start_failures);
  start_again_at = now + pause;
  start_error = error.message;
  facts = new_facts();
  log.warn("a program cannot be started; its job goes back, and no more are claimed for now",
           {{"error", error.message}, {"pause", format_duration(pause)}});
  give_back_ready();
  if (finisher_waits) finisher_cv.notify_one();
  claim_ends = true;
  watcher_cv.notify_one();
}

void WorkerRuntime::State::program_ended(Instant started_at) {
  if (start_failures == 0 || started_at < start_again_at) return;
  start_failures = 0;
  facts = new_facts();
  log.info("programs can be started again");
  claim_ends = true;  // the next one reports it
  watcher_cv.notify_one();
}

void WorkerRuntime::State::await_claim() {
  const std::int64_t current = stats.claims;
  while (claiming && stats.claims == current) claimed_cv.wait(mutex);
}

void WorkerRuntime::State::wait_to_start() {
  for (Instant now; !stopping && (now = clock.now().instant) < start_again_at;)
    claimer_cv.wait_for(mutex, start_again_at - now);
}

}  // namespace mainspring
