// BRK: a breaker holds the jobs of its queues back while the service that they depend on fails.
//
//   BRK-1  from when it opens (by failures, by a handler's request, by hand) until its time is over
//          or an operator closes it, no job of its queues starts, and it reports that it is open
//   BRK-2  half open, no more of the jobs started since then run at once than its room: first its
//          probes, and twice that number each time all of them have succeeded
//   BRK-3  when the room reaches kBreakerFullRoom it is closed and reports so
//
// The rules are implemented here a second time, after breaker.h: stores and model share theirs.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "store/store.h"

namespace mainspring::simulation {

inline const std::string kBreaker = "service";
// Queues that name the breaker most of the time; others may, too.
inline const std::vector<std::string> kBreakerQueues = {"calls", "letters"};

class BreakerInvariant {
 public:
  // Called after each batch of `store`; without a report its outcome is unknown. `steady` = the
  // wall clock is never set, so that failures within a time can be counted. "" = the invariant
  // holds.
  std::string applied(std::span<const Operation> batch, const BatchReport* report,
                      const Store& store, WallTime now, bool steady);
  std::int64_t opened() const { return opened_; }      // by failures, or by a handler's request
  std::int64_t reopened() const { return reopened_; }  // by a probe
  std::int64_t at_room() const { return at_room_; }    // half open, claims that left no room
  std::int64_t closed() const { return closed_; }      // by probes

 private:
  enum class Phase { unknown, closed, open, half_open };
  struct Attempt {
    std::string queue;
    Token token = 0;
    int opening = 0;  // how often it had opened, or been closed by hand, when the attempt started
  };

  std::string see(const Operation& operation, const OperationResult& result, WallTime now);
  bool is_protected(const std::string& queue) const;
  std::string given(const std::vector<ClaimedJob>& jobs, WallTime now);
  void ended(const Finish& finish, const FinishResult& result, WallTime now);
  void failed(const Attempt& attempt, WallTime now);
  void succeeded(const Attempt& attempt);
  void open(WallTime until);
  void changed(const SetQueueLimits& change);
  std::string check_room(const Store& store);
  std::string check_reported(const Store& store, WallTime now);
  void learn(const Store& store, WallTime now);

  Phase phase_ = Phase::unknown;
  bool steady_ = true;
  bool gave_ = false;  // the batch
  bool just_closed_ = false;
  BreakerSettings settings_;
  std::map<std::string, bool> behind_;  // queues that name it, or did
  WallTime last_, until_;
  Duration length_{0};
  int opening_ = 0, room_ = 0, succeeded_ = 0;
  std::vector<WallTime> failures_;
  std::map<JobId, Attempt> attempts_;  // of every queue: it may name the breaker later
  std::int64_t opened_ = 0, reopened_ = 0, at_room_ = 0, closed_ = 0;
};

}  // namespace mainspring::simulation
