// QueueScripts: runs the script of a queue folder for the jobs of its queue.
//
// One process per job, as `mainspring work --exec` (docs/guides/scripts.md), or with "persistent":
// true long-lived children that take one job after another:
//
//   to the child     a line of JSON per job on standard input: {"id","kind","args","attempt",…};
//                    "job_token" if the server requires tokens
//   from the child   lines of JSON on fd 3: {"id":42,"result":…}   it is complete
//                    {"id":42,"error":"…","retry_after":"30s"?}    a failed attempt; with
//                    "open_breaker_for":"2m", as snooze, it opens the breaker of its queue
//                    {"id":42,"dead":"reason","error":"…"?}  {"id":42,"snooze":"5m"}
//                    {"id":42,"progress":{…}} {"id":42,"checkpoint":…} {"id":42,"message":…}
//                                                  reports, not the end
//                    {"id":42,"session_state":…}   with an answer or before it: stored unless the
//                    attempt fails
//   its output       goes to the folder's log
//
// A child has one job at a time. If a child ends or its answer is invalid, the job's attempt fails
// and the child is replaced, with growing pauses if that repeats. Other invalid lines are ignored
// and reported (Context::ignore). A job that is over its time limit, cancelled, or whose lease is
// lost ends its child: TERM, later KILL; later answers are ignored. min children are kept ready, up
// to max are started while jobs wait. Children beyond min end after kIdle: their standard input is
// closed, and after stopping_wait_time they get TERM.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/secret.h"
#include "env/clock.h"
#include "env/processes.h"
#include "mainspring/worker.h"
#include "telemetry/log.h"

namespace mainspring {

struct PersistentOptions {
  // How to start a child: argv, environment, directory, limits, output (called on the child's
  // thread). Called for each child.
  std::function<Result<ProcessSpec>()> spec;
  // Returns a token for the queue, which is sent with each job: see program_access.h. nullptr =
  // none.
  std::function<Result<Secret>(const std::string& queue, const std::string& folder, Duration limit)>
      job_token;
  int min_children = 0;
  int max_children = 1;
  Duration stopping_wait_time = std::chrono::seconds(5);
  Duration idle = std::chrono::seconds(60);
};

class PersistentPool {
 public:
  // All outlive it.
  PersistentPool(Processes& processes, const Clock& clock, Log& log, PersistentOptions options);
  ~PersistentPool();  // ends the children; waits

  // Starts min_children. May be called once.
  void start();
  // The handler of a worker with at least max_children slots. Waits for a free child.
  HandlerResult handle(const ClaimedJob& job, Context& context);
  int children() const;
  std::int64_t started() const;  // children started so far

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
