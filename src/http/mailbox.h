// Mailbox: answers of other threads (the broker's, the readers') that wait for an io thread.
//
// One commit wakes the io thread at most once, for any number of answers: only the first mail in an
// empty box posts. A ticket identifies the exchange of a mail. If the exchange has ended because
// its peer disconnected, the ticket is invalid and the mail is dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "base/mutex.h"
#include "http/exchange.h"

namespace mainspring::http {

using Ticket = std::uint64_t;  // slot and generation of a connection; 0 = none

struct ClaimAnswer {
  OperationResult result;
};
// The answer to an enqueue whose caller waits. The job is watched from its commit on; destroying
// `watch` ends the watch.
struct WatchedEnqueue {
  OperationResult result;
  std::shared_ptr<void> watch;
};
struct WatchFired {};
struct StreamReady {};
struct StreamRead {
  StreamPiece piece;
  std::shared_ptr<void> watch;  // after an empty piece
  Pool pool = Pool::host;       // the threads on which the watch may end
};
struct Mail {
  Ticket ticket = 0;
  std::variant<OperationResult, ClaimAnswer, Reply, Plan, Result<Job>, WatchFired, WatchedEnqueue,
               StreamReady, StreamRead>
      content;
};

class Mailbox {
 public:
  // `wake` makes the io thread call take() soon. Called under the box's lock, from every thread.
  explicit Mailbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  // The owner announces one mail; deliver() sends it exactly once.
  void expect() { ++expected_; }
  // Senders call it through a plain pointer. The box lives until the last expected mail, even after
  // its owner.
  void deliver(Mail mail) MS_EXCLUDES(mutex_) {
    std::shared_ptr<Mailbox> last;
    MutexLock lock(mutex_);
    ++received_;
    if (closed_) {
      if (received_ == expected_at_close_) last = std::move(self_);
    } else {
      push(std::move(mail));
    }
  }
  // For mails that may never be sent; the sender holds a shared_ptr to the box.
  void deliver_unexpected(Mail mail) MS_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (!closed_) push(std::move(mail));
  }
  // Owner only: takes all mails. `into` should be empty; its memory is reused.
  void take(std::vector<Mail>& into) MS_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    into.swap(mails_);
    woken_ = false;
  }
  // Owner only: later mails are dropped and wake nothing.
  void close(std::shared_ptr<Mailbox> self) MS_EXCLUDES(mutex_) {
    std::vector<Mail> dropped;  // destroyed without the lock: the end of a watch takes other locks
    MutexLock lock(mutex_);
    closed_ = true;
    dropped.swap(mails_);
    expected_at_close_ = expected_;
    if (received_ < expected_) self_ = std::move(self);
  }

 private:
  void push(Mail mail) MS_REQUIRES(mutex_) {
    mails_.push_back(std::move(mail));
    if (!woken_) wake_();
    woken_ = true;
  }

  const std::function<void()> wake_;
  std::uint64_t expected_ = 0;  // owner's thread only
  Mutex mutex_;
  std::vector<Mail> mails_ MS_GUARDED_BY(mutex_);
  std::uint64_t received_ MS_GUARDED_BY(mutex_) = 0;
  std::uint64_t expected_at_close_ MS_GUARDED_BY(mutex_) = 0;
  bool woken_ MS_GUARDED_BY(mutex_) = false;
  bool closed_ MS_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Mailbox> self_ MS_GUARDED_BY(mutex_);
};

}  // namespace mainspring::http
