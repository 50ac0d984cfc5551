// The exec handler: runs a program for each job, in any language, without a shell.
//
//   standard input   the job as JSON: {"id","queue","kind","args","attempt","max_attempts",…}
//   environment      this process's without MAINSPRING_*, plus MAINSPRING_JOB_ID, _QUEUE, _KIND,
//                    _ATTEMPT, _MAX_ATTEMPTS, _TOKEN, _CORRELATION_ID, _REPLY_TO, _SESSION,
//                    _PRIORITY, _IDEMPOTENCY_KEY (the same in every attempt), _RESULT_FD=3,
//                    _ANSWER_FD=4, and what program_access.h has
//   fd 3             lines of JSON: {"progress":{"value":0.5,"text":"…"}} {"checkpoint":…}
//                    {"session_state":…} (kept if it ends with 0 or 65; null: none any more)
//                    {"message":…} {"result":…} {"error":"…"} {"retry_after":"30s"}
//                    {"open_breaker_for":"2m"}
//                    {"reason":"…"}, also several members in one line. What is not understood is
//                    ignored and reported (Context::ignore), and the exit code decides; but a
//                    defer that is not understood is a retry, and a result or session state that
//                    cannot be kept makes a job that is complete dead
//   fd 3 and 4       steps: see step_channel.h
//   exit code        0 complete · 75 retry · 65 dead · any other, or a signal: retry
//   result           from fd 3; else the last line of standard output that is JSON; else that line
//                    as a JSON string; else none
//   error            from fd 3; else the last lines of standard error; else how it ended
//
// The program has a session and process group of its own. At its time limit, cancel, lost lease and
// shutdown it gets TERM, later KILL with all it has started. What it leaves running when it ends is
// killed.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "env/processes.h"
#include "mainspring/worker.h"
#include "worker/program_access.h"

namespace mainspring {

struct ExecOptions {
  std::vector<std::string> argv;
  std::string directory;  // "" = this process's
  // Kept of the end of each of standard output and error; the rest is counted. A last line of
  // standard output that does not fit makes the job dead.
  std::size_t output_cap_bytes = kMaxResultBytes + (64 << 10);
  // Between TERM and KILL.
  Duration kill_grace = std::chrono::seconds(10);
  // The same when the worker is shutting down, which has to fit into its graceful_stop, or has lost
  // its lease, where the program is to be gone before another worker gets the job.
  Duration hurried_kill_grace = std::chrono::seconds(4);
  ProgramAccess access;  // to the server
  // Called before each run with what is about to be started: to change it. An error fails the
  // attempt. nullptr = nothing is changed.
  std::function<Result<void>(ProcessSpec&)> prepare;

  std::vector<Error> validate() const;
};

// `processes` outlives the handler.
Handler exec_handler(Processes& processes, ExecOptions options);

// "convert -resize '200x 200' \"a b\".jpg" into words: blanks separate; '…' takes everything as it
// is; "…" too, but \" and \\ are a quote and a backslash; \x outside of quotes is x. No variables,
// globs, pipes or redirections: those characters are ordinary. Errors: invalid_argument (a quote
// is not closed, nothing in it).
Result<std::vector<std::string>> split_command(std::string_view text);

inline constexpr int kExitRetry = 75;  // EX_TEMPFAIL
inline constexpr int kExitDead = 65;   // EX_DATAERR

}  // namespace mainspring
