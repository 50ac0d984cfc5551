// The protocol between a program and its jobs: the job as JSON that the program reads, the lines of
// JSON that it writes to fd 3, and the description of its end. See exec.h and host/queue_scripts.h.
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

// A question about a step's result, or the result itself. See step_channel.h.
struct StepSaid {
  std::string name;
  std::string ask;  // is returned with the answer; up to kMaxNameBytes
  std::optional<std::string> result;
};

// An invalid part of a line.
struct SaidFault {
  RemarkFault fault = RemarkFault::not_json;
  std::string text;  // names the field, the value and the rule
};

// One line of fd 3, or the last value of each member of several lines.
struct ProgramSaid {
  std::optional<double> progress;
  std::string progress_text;
  std::optional<std::string> checkpoint;
  std::optional<std::string> message;
  std::optional<std::string> result;
  std::optional<std::string> session_state;  // "" = null: remove it
  std::optional<std::string> error;
  std::optional<Duration> retry_after, open_breaker_for;
  std::optional<std::string> reason;  // of a program: why the job is dead
  std::optional<std::string> defer;   // why it is deferred; "" = no reason
  std::optional<StepSaid> step;       // of a program
  // Of a child process that takes one job after another:
  std::optional<JobId> id;
  std::optional<std::string> dead;  // the reason
  std::optional<Duration> snooze;

  // The invalid parts of the line. The rest of it counts.
  std::vector<SaidFault> faults;
  // Set if a member that reports the outcome is invalid, so that the outcome is unknown. Of a
  // program: defer; of a child: id, error, dead, snooze and defer. "" = valid.
  std::string bad_outcome;
  // Set if a result or session state cannot be stored, now or in a retry: then completing the job
  // makes it dead.
  std::optional<Dead> unfit_result, unfit_state;
  bool bad_step = false;  // a program waits for the answer to an invalid step question
};

enum class Speaker : std::uint8_t {
  program,  // runs for one job; its exit code is the outcome: no id, dead, snooze
  child,    // takes one job after another: no reason, step
};
// Never fails: invalid parts are in `faults`.
ProgramSaid parse_said(std::string_view line, Speaker speaker);
// Like parse_said, for the start of a line that is longer than kMaxLineBytes: none of its members
// count.
ProgramSaid parse_cut(std::string_view beginning, Speaker speaker);
inline constexpr std::size_t kMaxLineBytes = 2 << 20;

// Returns whether a child's line reports the outcome of a job.
bool is_answer(const ProgramSaid& said);
Dead result_too_large(std::size_t bytes);

// Passes on all members except outcomes and steps. Ignores faults, and members that the context
// refuses permanently. A session state that is too large becomes `unfit_state`. Errors: those of
// Context::send that a retry could avoid.
Result<void> report_said(ProgramSaid& said, Context& context);

// One line of JSON, including its '\n'. `job_token`: a member of that name; empty = none.
std::string job_json(const ClaimedJob& job, std::string_view idempotency_key,
                     const Secret& job_token = Secret());

ProgramEnd program_end_of(const ProcessEnd& end);
// "exit code 3", "killed by SIGKILL, peak memory 48.0 MiB".
std::string how_it_ended(const ProcessEnd& end);

std::string_view without_trailing_space(std::string_view text);

}  // namespace mainspring
