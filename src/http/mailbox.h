// Mailbox: where answers from other threads (the broker's, the readers') wait for an io thread.
//
// However many answers one commit gives, the io thread is woken once: only the first mail in an
// empty box posts. A ticket names the exchange that a mail is for; when that has ended (its peer
// went away) nobody is found under the ticket and the mail is dropped.
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
// The answer to an enqueue whose caller waits. The job is watched from its commit on; `watch` ends
// that.
struct WatchedEnqueue {
  OperationResult result;
  std::shared_ptr<void> watch;
};
struct WatchFired {};
struct StreamReady {};
struct StreamRead {
  StreamPiece piece;
  std::shared_ptr<void> watch;  // after a piece of nothing
  Pool pool = Pool::host;       // where the watch may end
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

  // The owner announces a mail that will come exactly once, by deliver().
  void expect() { ++expected_; }
  // Whoever was given a pointer to the box delivers through it; the box lives until the last
  // expected mail, even if its owner has gone.
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
  // For mails that may never come; the sender holds a shared_ptr to the box.
  void deliver_unexpected(Mail mail) MS_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (!closed_) push(std::move(mail));
  }
  // Owner only: everything that is here. `into` should be empty; its room is used again.
  void take(std::vector<Mail>& into) MS_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    into.swap(mails_);
    woken_ = false;
  }
  // Owner only: nothing is kept or woken from now on.
  void close(std::shared_ptr<Mailbox> self) MS_EXCLUDES(mutex_) {
    std::vector<Mail> dropped;  // not under the lock: the end of a watch takes locks of its own
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
