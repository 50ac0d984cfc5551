// BRK: a breaker holds the jobs of its queues back while what they depend on is not well.
//
//   BRK-1  from when it opens (by failures, by what a handler asks for, by hand) until its time is
//          over, or somebody closes it, nothing of its queues begins, and it says that it is open
//   BRK-2  half open, no more of what has begun since run at once than it has room for: its probes,
//          and twice as many whenever as many as that have succeeded
//   BRK-3  when that comes to kBreakerFullRoom it is closed, and says so
//
// The rules stand here a second time, in the words of breaker.h: stores and model share theirs.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "store/store.h"

namespace mainspring::simulation {

inline const std::string kBreaker = "service";
// That name it, most of the time; others may too.
inline const std::vector<std::string> kBreakerQueues = {"calls", "letters"};

class BreakerLaw {
 public:
  // Behind each batch of `store`; without a report nobody knows whether it happened. `steady` = the
  // wall clock is not set by anybody, so that failures in a time can be counted. "" = the law
  // holds.
  std::string applied(std::span<const Operation> batch, const BatchReport* report,
                      const Store& store, WallTime now, bool steady);
  std::int64_t opened() const { return opened_; }      // by failures, or by what handlers asked for
  std::int64_t reopened() const { return reopened_; }  // by a probe
  std::int64_t at_room() const { return at_room_; }    // half open, claims that left no room
  std::int64_t closed() const { return closed_; }      // by probes

 private:
  enum class Phase { unknown, closed, open, half_open };
  struct Attempt {
    std::string queue;
    Token token = 0;
    int opening = 0;  // how often it had opened, or been closed by hand, when the attempt began
  };

  std::string see(const Operation& operation, const OperationResult& result, WallTime now);
  bool is_behind(const std::string& queue) const;
  std::string given(const std::vector<ClaimedJob>& jobs, WallTime now);
  void ended(const Finish& finish, const FinishResult& result, WallTime now);
  void failed(const Attempt& attempt, WallTime now);
  void succeeded(const Attempt& attempt);
  void open(WallTime until);
  void changed(const SetQueueLimits& change);
  std::string check_room(const Store& store);
  std::string check_told(const Store& store, WallTime now);
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
  std::map<JobId, Attempt> attempts_;  // of every queue: it may come to name the breaker
  std::int64_t opened_ = 0, reopened_ = 0, at_room_ = 0, closed_ = 0;
};

}  // namespace mainspring::simulation
