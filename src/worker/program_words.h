// The words between a program and its jobs: the job as JSON that it reads, the lines of JSON that
// it writes to fd 3, and how its end is told. See exec.h and host/queue_scripts.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/secret.h"
#include "env/processes.h"
#include "mainspring/context.h"
#include "mainspring/job.h"

namespace mainspring {

// About a step: what is its result, or what it is to be. See step_channel.h.
struct StepSaid {
  std::string name;
  std::string ask;  // comes back with the answer; up to kMaxNameBytes
  std::optional<std::string> result;
};

// What of a line was not understood.
struct SaidFault {
  RemarkFault fault = RemarkFault::not_json;
  std::string text;  // names the field, the value and the rule
};

// One line of fd 3, or the last word on each matter of several.
struct ProgramSaid {
  std::optional<double> progress;
  std::string progress_text;
  std::optional<std::string> checkpoint;
  std::optional<std::string> message;
  std::optional<std::string> result;
  std::optional<std::string> session_state;  // "" = null: there is none any more
  std::optional<std::string> error;
  std::optional<Duration> retry_after, open_breaker_for;
  std::optional<std::string> reason;  // of a program: why the job is dead
  std::optional<std::string> defer;   // why it is put aside; "" = not said
  std::optional<StepSaid> step;       // of a program
  // Of a child that takes job after job.
  std::optional<JobId> id;
  std::optional<std::string> dead;  // the reason
  std::optional<Duration> snooze;

  // What of the line is not understood. The rest of it counts.
  std::vector<SaidFault> faults;
  // What is wrong with a member that says how the attempt ended, so that its end is not known: of a
  // program defer, of a child id, error, dead, snooze and defer. "" = nothing.
  std::string bad_outcome;
  // A result or session state that cannot be kept, and would not be the next time: an attempt that
  // is complete makes the job dead.
  std::optional<Dead> unfit_result, unfit_state;
  bool bad_step = false;  // a program waits for an answer to a step that was not understood
};

enum class Speaker : std::uint8_t {
  program,  // runs for one job, its exit code says how it went: no id, dead, snooze
  child,    // takes job after job: no reason, step
};
// Never fails: what is not understood is in `faults`.
ProgramSaid parse_said(std::string_view line, Speaker speaker);
// The same of a line that is longer than kMaxLineBytes, by its beginning: none of its members
// count.
ProgramSaid parse_cut(std::string_view beginning, Speaker speaker);
inline constexpr std::size_t kMaxLineBytes = 2 << 20;

// Does a child's line say how a job ended, well or badly?
bool is_answer(const ProgramSaid& said);
Dead result_too_large(std::size_t bytes);

// Hands on what is no answer, and about no step. Faults are ignored, and so is what the context
// refuses for good. A session state that is too large becomes `unfit_state`. Errors: those of
// Context::send where the message would be good another time.
Result<void> report_said(ProgramSaid& said, Context& context);

// A line of JSON, with its '\n'.
// `job_token`: a member of that name; empty = none.
std::string job_json(const ClaimedJob& job, std::string_view idempotency_key,
                     const Secret& job_token = Secret());

ProgramEnd program_end_of(const ProcessEnd& end);
// "exit code 3", "killed by SIGKILL, peak memory 48.0 MiB".
std::string how_it_ended(const ProcessEnd& end);

std::string_view without_trailing_space(std::string_view text);

}  // namespace mainspring
