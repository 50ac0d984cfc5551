// ScriptChild: one long-lived child of a PersistentPool, and its output lines.
//
// Three threads use it: the child's own, in Processes::run, fills the inbox; the handler of its job
// empties the inbox; the pool's thread ends the child. The pool's mutex guards all shared state.
#pragma once

#include <atomic>
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

// The parts of a pool that its children need.
struct ScriptPoolShared {
  Mutex mutex;
  CondVar changed;  // any state below, of any child
};

class ScriptChild {
 public:
  // Lines that wait for the handler. At the limit the child's thread waits, and so does the child.
  static constexpr std::size_t kMaxInbox = 64;
  static constexpr std::size_t kMaxInboxBytes = 4 << 20;  // one more line may follow

  struct Line {
    std::string text;
    bool cut = false;  // it was over the limit: this is its start
    ProgramSaid said() const;
  };
  struct Mail {
    std::deque<Line> lines;
    std::size_t bytes = 0;                  // of them
    std::optional<Result<ProcessEnd>> end;  // it has ended; no lines come after `lines`
  };

  explicit ScriptChild(ScriptPoolShared& shared) : shared_(shared) {}
  ~ScriptChild();  // the child has ended, or was never started

  // Runs it on a thread of its own. Errors: io_error. `at_end` is called on that thread, without
  // the mutex, before it counts as ended. `at_remark` is called for the first line without a job
  // that is not an answer; the line is ignored.
  Result<void> start(Processes& processes, ProcessSpec spec,
                     std::function<void(const Result<ProcessEnd>&)> at_end,
                     std::function<void(const SaidFault&)> at_remark);

  // For the handler: writes a line, at the child's reading speed. Returns false if the child has
  // ended, or `token` was stopped first.
  bool write_line(std::string_view line, const std::stop_token& token);
  // Waits for mail, or until `token` is stopped; then the mail is empty.
  Mail wait(const std::stop_token& token);
  // Returns whether it has read nothing of the last written line, of `size` bytes.
  bool unread(std::size_t size) const;
  // Sends TERM, later KILL. Waits until it has ended.
  Result<ProcessEnd> end_now();

  // Wakes write_line and wait; for stop callbacks, without the mutex.
  void wake();
  void close_input();
  void request_stop() { stop_.request_stop(); }
  void join() { thread_.join(); }

  // Guarded by the pool's mutex.
  bool busy = true;              // a handler uses it
  bool ready = true;             // false while it is being started
  bool retired = false;          // gets no more jobs
  bool spoke_up = false;         // sent an answer without a job
  bool ended = false;            // its thread can be joined
  bool useful = false;           // it has answered a job
  std::atomic<bool> ran{false};  // its program was started; without the mutex
  std::int64_t idle_turn =
      0;  // a number that grows with each child that becomes idle; 0 = it never was
  Instant idle_since;
  std::optional<Instant> stop_at;  // when to signal it if closing its input was not enough
  // Drops its remaining mail. Returns true if that contains an answer, which belongs to no job.
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
  Mail mail_;                                        // guarded by the pool's mutex
};

}  // namespace mainspring
