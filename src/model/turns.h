// KeyTurns: how far each limit key of a fair queue has been served: start-time fair queueing.
//
// A queue has a virtual time, and each key a virtual time up to which it has been served. A job
// that is given advances its key by its cost * kTurn / weight. The next is of the key whose turn
// starts first; the queue's time is the start of the turn that was given last. So keys that have
// jobs get shares in proportion to their weights, and one that comes back from idle starts at the
// queue's time: it has saved nothing up, and owes nothing.
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

class KeyTurns {
 public:
  static constexpr double kTurn = 1'000'000;  // of a key of weight 1, in virtual time

  KeyTurns() = default;
  KeyTurns(std::int64_t now, std::map<std::string, std::int64_t, std::less<>> served)
      : now_(now), served_(std::move(served)) {}

  std::int64_t now() const { return now_; }
  // Keys that are not ahead of now() may be missing: they start there anyway.
  const std::map<std::string, std::int64_t, std::less<>>& served() const { return served_; }
  // When the next turn of a key starts; "" = of the jobs without one.
  std::int64_t start(std::string_view key) const;
  // It gets one, for a job of that cost.
  void give(std::string_view key, const KeyLimits& limits, int cost);
  // Drops the keys that start at now() anyway.
  void forget();

  friend bool operator==(const KeyTurns&, const KeyTurns&) = default;

 private:
  std::int64_t now_ = 0;
  std::map<std::string, std::int64_t, std::less<>> served_;
};

}  // namespace mainspring
