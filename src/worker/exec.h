// The exec handler: runs a program in any language for each job, without a shell.
//
//   standard input   the job as JSON: {"id","queue","kind","args","attempt","max_attempts",…}
//   environment      this process's without MAINSPRING_*, plus MAINSPRING_JOB_ID, _QUEUE, _KIND,
//                    _ATTEMPT, _MAX_ATTEMPTS, _TOKEN, _CORRELATION_ID, _REPLY_TO, _SESSION,
//                    _PRIORITY, _IDEMPOTENCY_KEY (the same in every attempt), _RESULT_FD=3,
//                    _ANSWER_FD=4, and the variables of program_access.h
//   fd 3             lines of JSON: {"progress":{"value":0.5,"text":"…"}} {"checkpoint":…}
//                    {"session_state":…} (kept if the exit code is 0 or 65; null: remove it)
//                    {"message":…} {"result":…} {"error":"…"} {"retry_after":"30s"}
//                    {"open_breaker_for":"2m"}
//                    {"reason":"…"}, also several members in one line. Invalid members are ignored
//                    and reported (Context::ignore), and the exit code decides. Exceptions: an
//                    invalid defer is a retry; if the job completes, a result or session state
//                    that cannot be stored makes it dead
//   fd 3 and 4       steps: see step_channel.h
//   exit code        0 complete · 75 retry · 65 dead · any other, or a signal: retry
//   result           from fd 3; else the last line of standard output that is JSON; else that line
//                    as a JSON string; else none
//   error            from fd 3; else the last lines of standard error; else how it ended
//
// The program has its own session and process group. At its time limit, a cancel, a lost lease and
// a shutdown it gets TERM, later KILL with all its descendants. Processes that it leaves running
// are killed.
//
// A program that cannot be started (missing, busy, not executable, no such directory or user, no
// descriptors, processes or memory) is the worker's trouble: see start_failure.h.
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
  // How many of the last bytes of standard output and of standard error are kept; the rest is only
  // counted. A last line of standard output that does not fit makes the job dead.
  std::size_t output_cap_bytes = kMaxResultBytes + (64 << 10);
  // Between TERM and KILL.
  Duration kill_grace = std::chrono::seconds(10);
  // The same when the worker shuts down, as it must fit into graceful_stop; or has lost its lease,
  // as the program must end before another worker gets the job.
  Duration hurried_kill_grace = std::chrono::seconds(4);
  ProgramAccess access;  // to the server
  // Called before each run; may change the spec. An error is one of the start. nullptr = no change.
  std::function<Result<void>(ProcessSpec&)> prepare;

  std::vector<Error> validate() const;
};

// `processes` outlives the handler.
Handler exec_handler(Processes& processes, ExecOptions options);

// Splits "convert -resize '200x 200' \"a b\".jpg" into words. Blanks separate words; '…' is taken
// literally; so is "…", except that \" and \\ are a quote and a backslash; \x outside quotes is x.
// Variables, globs, pipes and redirections are not supported: their characters are ordinary.
// Errors: invalid_argument (a quote is not closed, no word).
Result<std::vector<std::string>> split_command(std::string_view text);

inline constexpr int kExitDead = 65;  // EX_DATAERR

}  // namespace mainspring
