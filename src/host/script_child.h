// ScriptChild: one long-lived child of a PersistentPool, and what it says.
//
// Three threads meet here: the child's own, in Processes::run, which fills the inbox; the handler
// of its job, which empties it; and the pool's, which ends it. All that they share is guarded by
// the pool's mutex.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "env/fd.h"
#include "env/processes.h"
#include "worker/program_words.h"

namespace mainspring {

// What of a pool its children need.
struct ScriptPoolShared {
  Mutex mutex;
  CondVar changed;  // anything below, of any child
};

class ScriptChild {
 public:
  // Lines that wait for the handler. Then the child's thread waits, and so does the child.
  static constexpr std::size_t kMaxInbox = 64;
  static constexpr std::size_t kMaxInboxBytes = 4 << 20;  // one more line may follow

  struct Line {
    std::string text;
    bool cut = false;  // it was over the limit: this is its beginning
    ProgramSaid said() const;
  };
  struct Mail {
    std::deque<Line> lines;
    std::size_t bytes = 0;                  // of them
    std::optional<Result<ProcessEnd>> end;  // it has ended; nothing comes after `lines`
  };

  explicit ScriptChild(ScriptPoolShared& shared) : shared_(shared) {}
  ~ScriptChild();  // the child has ended, or was never started

  // Runs it on a thread of its own. Errors: io_error. `at_end` is called on that thread, without
  // the mutex, before it counts as ended; `at_remark` for the first line that it writes without a
  // job and that is no answer: the line is ignored.
  Result<void> start(Processes& processes, ProcessSpec spec,
                     std::function<void(const Result<ProcessEnd>&)> at_end,
                     std::function<void(const SaidFault&)> at_remark);

  // From the handler. Gives it a line, as fast as it reads. False: it has ended, or `token` was
  // stopped first.
  bool write_line(std::string_view line, const std::stop_token& token);
  // Waits for mail, or until `token` is stopped: then it is empty.
  Mail wait(const std::stop_token& token);
  // Whether it has read nothing of a line of `size` bytes, the last that was written.
  bool unread(std::size_t size) const;
  // TERM, later KILL. Waits until it has ended.
  Result<ProcessEnd> end_now();

  // Wakes write_line and wait; for stop callbacks, without the mutex.
  void wake();
  void close_input();
  void request_stop() { stop_.request_stop(); }
  void join() { thread_.join(); }

  // Guarded by the pool's mutex.
  bool busy = true;       // a handler has it
  bool ready = true;      // else it is being started
  bool retired = false;   // gets no more jobs
  bool spoke_up = false;  // answered when it was not asked
  bool ended = false;     // its thread can be joined
  bool useful = false;    // it has answered a job
  std::int64_t idle_turn =
      0;  // grows with each time that one of the pool became idle; 0 = it never was
  Instant idle_since;
  std::optional<Instant> stop_at;  // when the closed input is not enough
  // Ends what is left of its mail. True if that holds an answer: to no job.
  bool drop_mail();

 private:
  void take_line(Line line);
  void speaks_up(const Line& line);
  void take_end(Result<ProcessEnd> end);

  ScriptPoolShared& shared_;
  Fd read_, write_, wake_;
  std::stop_source stop_;
  std::thread thread_;
  std::function<void(const SaidFault&)> at_remark_;  // of the child's thread; empty = called
  Mail mail_;  // guarded by the pool's mutex
};

}  // namespace mainspring
