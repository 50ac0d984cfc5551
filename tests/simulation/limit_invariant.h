// CONC: a store never gives more jobs of a queue than its limits allow, also with crashes and
// changes of the limits.
//
//   CONC-1  after a claim no more slots of a queue's concurrency are taken than it has, and the
//           reported number is that of the running jobs
//   CONC-2  no more jobs start than the rate allows: in any window, in each aligned window, or from
//           the bucket, by its kind; a change of the rate resets the count
//   CONC-3  after a claim that gives a job no more slots of its limit_key are taken than it has
//   CONC-4  no more jobs with a limit_key start than the rate per key allows
//   CONC-5  a claim gives no more slots than requested, and returns the cost of each job
//
// A job takes the slots of its kind's cost, at most all slots of a limit. Concurrency counts
// running jobs by the current costs, a rate counts started jobs by the costs at their start. The
// rules are implemented here a second time, after docs/guides/limits.md: stores and model share
// theirs.
#pragma once

#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/limits.h"
#include "store/store.h"

namespace mainspring::simulation {

inline const std::string kLimitQueue = "limited";

// The cost of a job of that kind.
std::int64_t cost_of(const QueueLimits& limits, const std::string& kind);
// The running jobs of a queue; nullopt = the server is dying.
std::optional<std::vector<Job>> running_in(const std::string& queue, const Store& store);
// The slots that the jobs with this limit_key ("" = all) take, each at most `slots`.
std::int64_t slots_taken(const std::vector<Job>& running, const std::string& limit_key,
                         const QueueLimits& limits, int slots);

// The jobs started under one rate, of a queue or of a limit key.
class Begins {
 public:
  void add(const RateLimit& rate, WallTime at, std::int64_t cost);
  // For the last start. "" = no more than the rate allows.
  std::string check(const RateLimit& rate, WallTime now) const;

 private:
  struct Begin {
    WallTime at;
    std::int64_t slots = 1;
  };
  std::string check_bucket(const RateLimit& rate) const;

  std::deque<Begin> begins_;
};

class LimitInvariant {
 public:
  explicit LimitInvariant(std::string queue) : queue_(std::move(queue)) {}
  // Called after each batch of `store`; without a report its outcome is unknown. `steady` = the
  // wall clock is never set, so that rates can be judged. "" = the invariant holds.
  std::string applied(std::span<const Operation> batch, const BatchReport* report,
                      const Store& store, WallTime now, bool steady);
  std::int64_t at_bound() const { return at_bound_; }  // claims that took the last slot
  std::int64_t keys_at_bound() const { return keys_at_bound_; }
  std::int64_t closed() const { return closed_; }  // claims that used a rate up
  std::int64_t keys_closed() const { return keys_closed_; }
  std::int64_t heavy() const { return heavy_; }    // given jobs that cost more than one slot,
  std::int64_t capped() const { return capped_; }  // and more than a limit has

 private:
  struct Given {
    JobId id = 0;
    std::int64_t cost = 1;
    std::string key{};
  };
  bool changes(const Operation& operation, const OperationResult* result);
  std::string take(const Claim& claim, const ClaimResult& result, WallTime now);
  void take_keys(const Store& store, WallTime now);
  std::string check_asked(const Claim& claim, const ClaimResult& result) const;
  std::string check_slots(const QueueStats& queue, const Store& store);
  std::string check_keys(int slots, const std::vector<Job>& running);
  std::string check_rates(const Store& store, WallTime now);
  void note_capped(std::int64_t cost, int all) { capped_ += cost > all ? 1 : 0; }

  const std::string queue_;
  QueueLimits limits_;  // as set last
  Begins begins_;       // under its rate
  std::map<std::string, Begins> of_key_;
  std::vector<Given> given_;  // by the batch
  bool unknown_ = false;      // a change of the limits has no answer
  std::int64_t at_bound_ = 0, closed_ = 0, keys_at_bound_ = 0, keys_closed_ = 0, heavy_ = 0,
               capped_ = 0;
};

}  // namespace mainspring::simulation
