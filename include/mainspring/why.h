// Why: the gate that holds a job back now.
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
  time,             // its run_at, or the pause after a failure, is in the future
  earlier_run,      // an earlier run of the same schedule has not ended
  quarantine,       // its workers were lost: it waits to run alone
  deferred,         // its worker deferred it: a claim by id or an operator continues it
  session_head,     // another job is at the head of its session
  session_stopped,  // a job of its session died, which blocks or parks the session
  session_held,     // a worker holds its session, and only that worker gets the job
  queue_paused,     // its queue is paused
  concurrency,      // its queue is at its concurrency limit
  key_concurrency,  // its limit_key is at its concurrency limit
  key_rate,         // its limit_key is at its rate limit
  breaker,          // the breaker of its queue is open or half open
  rate,             // its queue is at its rate limit
  no_worker,        // no known worker takes its queue
  busy_workers,     // all workers that take its queue are full
  claim,            // it is about to be claimed
};
std::string_view to_string(Gate gate);
std::optional<Gate> parse_gate(std::string_view text);

struct Why {
  Gate gate = Gate::claim;
  std::string text;               // a sentence for people
  std::optional<WallTime> until;  // when the gate opens by itself, if known
  // Of a job in the ready queue: how many jobs are before it, at most kMaxAhead, and when it is
  // expected to start, if recent jobs of its queue have ended.
  std::optional<std::int64_t> ahead{};
  std::optional<WallTime> estimated_start{};
};
inline constexpr std::int64_t kMaxAhead = 10'000;

}  // namespace mainspring
