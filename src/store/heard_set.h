// HeardSet: folds what was heard, or is to be told, into one: each name once, and bounded.
//
// Beyond a bound of queues or leases it stands for everything, which is shorter and still right. Of
// cancels and of ended jobs the first are kept: the others are noticed without it, only later.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "store/shared_store.h"

namespace mainspring {

class HeardSet {
 public:
  static constexpr std::size_t kMaxQueues = 1000;
  static constexpr std::size_t kMaxReleased = 1000;
  static constexpr std::size_t kMaxCancels = 500;
  static constexpr std::size_t kMaxEnded = 100;

  void add(const Heard& what) {
    queues_.insert(what.queues.begin(), what.queues.end());
    released_.insert(what.released.begin(), what.released.end());
    add(cancels_, what.cancels, kMaxCancels);
    add(ended_, what.ended, kMaxEnded);
    add(ended_told_, what.ended_told, kMaxEnded);
    next_due_ = std::min(next_due_, what.next_due);
    catalog_ = catalog_ || what.catalog;
    everything_ = everything_ || what.everything || queues_.size() > kMaxQueues ||
                  released_.size() > kMaxReleased;
    if (!everything_) return;
    queues_.clear();
    released_.clear();
  }
  bool empty() const {
    return queues_.empty() && released_.empty() && cancels_.empty() && ended_.empty() &&
           ended_told_.empty() && next_due_ == WallTime::never() && !catalog_ && !everything_;
  }
  bool everything() const { return everything_; }
  // All of it; nothing is left.
  Heard take() {
    const HeardSet all = std::exchange(*this, HeardSet());
    return {.queues = {all.queues_.begin(), all.queues_.end()},
            .released = {all.released_.begin(), all.released_.end()},
            .cancels = {all.cancels_.begin(), all.cancels_.end()},
            .ended = {all.ended_.begin(), all.ended_.end()},
            .ended_told = {all.ended_told_.begin(), all.ended_told_.end()},
            .next_due = all.next_due_,
            .catalog = all.catalog_,
            .everything = all.everything_};
  }

 private:
  template <class T>
  static void add(std::set<T>& to, const std::vector<T>& more, std::size_t most) {
    for (const T& one : more) {
      if (to.size() >= most) break;
      to.insert(one);
    }
  }

  std::set<std::string> queues_;
  std::set<std::string> released_;
  std::set<CancelNotice> cancels_;
  std::set<JobId> ended_, ended_told_;
  WallTime next_due_ = WallTime::never();
  bool catalog_ = false;
  bool everything_ = false;
};

}  // namespace mainspring
