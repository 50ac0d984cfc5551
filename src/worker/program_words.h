// The words between a program and its jobs: the job as JSON that it reads, the lines of JSON that
// it writes to fd 3, and how its end is told. See exec.h and host/queue_scripts.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

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
};

enum class Speaker : std::uint8_t {
  program,  // runs for one job, its exit code says how it went: no id, dead, snooze
  child,    // takes job after job: no reason, step
};
// Errors: invalid_argument, too_large.
Result<ProgramSaid> parse_said(std::string_view line, Speaker speaker);

// Hands on what is no answer, and about no step. Errors: those of Context::checkpoint, send and
// set_session_state.
Result<void> report_said(ProgramSaid& said, Context& context);

// A line of JSON, with its '\n'.
std::string job_json(const ClaimedJob& job, std::string_view idempotency_key);

ProgramEnd program_end_of(const ProcessEnd& end);
// "exit code 3", "killed by SIGKILL, peak memory 48.0 MiB".
std::string how_it_ended(const ProcessEnd& end);

std::string_view without_trailing_space(std::string_view text);

}  // namespace mainspring
