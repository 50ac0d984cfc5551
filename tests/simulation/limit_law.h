// CONC: a store never gives more jobs of a queue than its limits allow, whatever dies and whoever
// changes them meanwhile.
//
//   CONC-1  a claim leaves no more of them running than may run at once
//   CONC-2  no more begin than the rate allows: in any window, in each aligned window, or out of
//   the
//           bucket, as its kind says; what begins behind a change of the rate counts anew
//   CONC-3  a claim that gives a job leaves no more with its limit_key running than may
#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "mainspring/limits.h"
#include "store/store.h"

namespace mainspring::simulation {

inline const std::string kLimitQueue = "limited";

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

 private:
  std::string check_keys(const std::vector<ClaimedJob>& given, int bound, const Store& store);
  std::string check_rate(WallTime now) const;
  std::string check_bucket() const;

  const std::string queue_;
  std::optional<RateLimit> rate_;
  std::deque<WallTime> begins_;  // under that rate
  bool unknown_ = false;         // a change of the limits has no answer
  std::int64_t at_bound_ = 0, closed_ = 0, keys_at_bound_ = 0;
};

}  // namespace mainspring::simulation
