// Why: which gate holds a job back now, for whoever asks why it does not run.
//
//   auto why = engine.why(id);
//   fmt::print("{}: {}\n", to_string(why->gate), why->text);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mainspring/time.h"

namespace mainspring {

enum class Gate {
  ended,            // it is completed, cancelled or dead
  running,          // nothing holds it
  time,             // its run_at, or the pause after a failure, has not come
  earlier_run,      // of the same schedule, which has not ended
  quarantine,       // its workers were lost with it: it waits for its turn to run alone
  deferred,         // its worker put it aside: a claim that names it, or an operator, goes on
  session_turn,     // another job of its session has the turn
  session_stopped,  // a job of its session died, which blocks or parks it
  session_held,     // a worker holds its session, and only it gets the job
  queue_paused,     // somebody paused it
  concurrency,      // as many jobs of its queue run as may run at once
  key_concurrency,  // as many jobs of its queue with its limit_key run as may run at once
  key_rate,         // as many with its limit_key have begun as may begin in the time
  breaker,          // what its queue depends on is thought to be unwell
  rate,             // as many of its queue have begun as may begin in the time
  no_worker,        // nobody who was heard of lately takes its queue
  busy_workers,     // all who take its queue have as much as they want
  claim,            // it is about to be claimed
};
std::string_view to_string(Gate gate);
std::optional<Gate> parse_gate(std::string_view text);

struct Why {
  Gate gate = Gate::claim;
  std::string text;               // a sentence for people
  std::optional<WallTime> until;  // when the gate opens by itself, if that is known
  // Of a job that waits for its turn in the line: how many are before it, at most kMaxAhead, and
  // about when it begins, if its queue's jobs were seen to end.
  std::optional<std::int64_t> ahead{};
  std::optional<WallTime> estimated_start{};
};
inline constexpr std::int64_t kMaxAhead = 10'000;

}  // namespace mainspring
