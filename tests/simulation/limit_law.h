// CONC: a store never gives more jobs of a queue than its limits allow, whatever dies and whoever
// changes them meanwhile.
//
//   CONC-1  a claim leaves no more slots of its concurrency taken than the queue has; what it says
//           of them is what runs takes
//   CONC-2  no more begin than the rate allows: in any window, in each aligned window, or out of
//           the bucket, as its kind says; what begins behind a change of the rate counts anew
//   CONC-3  a claim that gives a job leaves no more slots of its limit_key taken than there are
//   CONC-4  no more begin with a limit_key than the rate per key allows
//   CONC-5  a claim gives no more slots than it asks for, and says of each job what it costs
//
// A job takes as many slots as its kind costs, and of a limit at most all: of a concurrency what
// runs takes by the costs as they are now, of a rate what began took by those of then. The rules
// stand here a second time, in the words of docs/guides/limits.md: stores and model share theirs.
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

// What a job of that kind costs.
std::int64_t cost_of(const QueueLimits& limits, const std::string& kind);
// What runs in a queue, by its kinds and limit keys; nullopt = the server is dying.
std::optional<std::vector<Job>> running_in(const std::string& queue, const Store& store);
// What those of them take that have this limit_key ("" = all), of so many slots.
std::int64_t slots_taken(const std::vector<Job>& running, const std::string& limit_key,
                         const QueueLimits& limits, int slots);

// What began under one rate, of a queue or of a limit key.
class Begins {
 public:
  void add(const RateLimit& rate, WallTime at, std::int64_t cost);
  // Of the last. "" = no more than the rate allows.
  std::string check(const RateLimit& rate, WallTime now) const;

 private:
  struct Begin {
    WallTime at;
    std::int64_t slots = 1;
  };
  std::string check_bucket(const RateLimit& rate) const;

  std::deque<Begin> begins_;
};

class LimitLaw {
 public:
  explicit LimitLaw(std::string queue) : queue_(std::move(queue)) {}
  // Behind each batch of `store`; without a report nobody knows whether it happened. `steady` = the
  // wall clock is not set by anybody, so that rates can be judged. "" = the law holds.
  std::string applied(std::span<const Operation> batch, const BatchReport* report,
                      const Store& store, WallTime now, bool steady);
  std::int64_t at_bound() const { return at_bound_; }  // claims that took the last room
  std::int64_t keys_at_bound() const { return keys_at_bound_; }
  std::int64_t closed() const { return closed_; }  // claims that used a rate up
  std::int64_t keys_closed() const { return keys_closed_; }
  std::int64_t heavy() const { return heavy_; }    // jobs given that cost more than one slot,
  std::int64_t capped() const { return capped_; }  // and more than a limit that they met has

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
  QueueLimits limits_;  // as they were set last
  Begins begins_;       // under its rate
  std::map<std::string, Begins> of_key_;
  std::vector<Given> given_;  // by the batch
  bool unknown_ = false;      // a change of the limits has no answer
  std::int64_t at_bound_ = 0, closed_ = 0, keys_at_bound_ = 0, keys_closed_ = 0, heavy_ = 0,
               capped_ = 0;
};

}  // namespace mainspring::simulation
