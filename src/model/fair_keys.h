// FairKeys: the order of the limit keys of a fair queue, by start-time fair queueing.
//
// A queue has a virtual time. Each key has a virtual time up to which it has been served. Each
// claimed job advances its key by cost * kShare / weight. The next job comes from the key with the
// lowest start time; that start time becomes the queue's virtual time. So keys with jobs get shares
// in proportion to their weights. A key that returns from idle starts at the queue's time, without
// credit or debt.
//
//   weight 1   a ──────────── a ──────────── a
//   weight 3   b ─── b ─── b ─── b ─── b ─── b
//
// Source: P. Goyal, H. Vin, H. Cheng, Start-time Fair Queueing, SIGCOMM 1996.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "mainspring/limits.h"

namespace mainspring {

class FairKeys {
 public:
  static constexpr double kShare = 1'000'000;  // virtual time per unit of cost at weight 1

  FairKeys() = default;
  FairKeys(std::int64_t now, std::map<std::string, std::int64_t, std::less<>> served)
      : now_(now), served_(std::move(served)) {}

  std::int64_t now() const { return now_; }
  // May omit keys whose time is not after now(): they start at now() anyway.
  const std::map<std::string, std::int64_t, std::less<>>& served() const { return served_; }
  // The virtual start time of a key's next job; "" = jobs without a key.
  std::int64_t start(std::string_view key) const;
  // Charges a key for a claimed job of this cost.
  void give(std::string_view key, const KeyLimits& limits, int cost);
  // Drops the keys that would start at now() anyway.
  void forget();

  friend bool operator==(const FairKeys&, const FairKeys&) = default;

 private:
  std::int64_t now_ = 0;
  std::map<std::string, std::int64_t, std::less<>> served_;
};

}  // namespace mainspring
