// ChangeHintSet merges change hints (ChangeHints) into one bounded set without duplicates.
//
// Over its limit of queues or leases the set becomes `everything`: shorter, and still correct. Of
// cancels and ended jobs the set keeps the first ones up to the limit. Dropped hints only delay
// their detection.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "store/shared_store.h"

namespace mainspring {

class ChangeHintSet {
 public:
  static constexpr std::size_t kMaxQueues = 1000;
  static constexpr std::size_t kMaxReleased = 1000;
  static constexpr std::size_t kMaxCancels = 500;
  static constexpr std::size_t kMaxCommands = 500;
  static constexpr std::size_t kMaxEnded = 100;

  void add(const ChangeHints& what) {
    queues_.insert(what.queues.begin(), what.queues.end());
    released_.insert(what.released.begin(), what.released.end());
    add(cancels_, what.cancels, kMaxCancels);
    for (const CommandNotice& one : what.commands) {
      if (commands_.size() < kMaxCommands || commands_.contains(one.worker))
        commands_[one.worker] = one.command;  // the last one counts
    }
    add(ended_, what.ended, kMaxEnded);
    add(ended_reported_, what.ended_reported, kMaxEnded);
    next_due_ = std::min(next_due_, what.next_due);
    catalog_ = catalog_ || what.catalog;
    everything_ = everything_ || what.everything || queues_.size() > kMaxQueues ||
                  released_.size() > kMaxReleased;
    if (!everything_) return;
    queues_.clear();
    released_.clear();
  }
  bool empty() const {
    return queues_.empty() && released_.empty() && cancels_.empty() && commands_.empty() &&
           ended_.empty() && ended_reported_.empty() && next_due_ == WallTime::never() &&
           !catalog_ && !everything_;
  }
  bool everything() const { return everything_; }
  // Returns the set and leaves it empty.
  ChangeHints take() {
    const ChangeHintSet all = std::exchange(*this, ChangeHintSet());
    std::vector<CommandNotice> commands;
    for (const auto& [worker, command] : all.commands_) commands.push_back({worker, command});
    return {.queues = {all.queues_.begin(), all.queues_.end()},
            .released = {all.released_.begin(), all.released_.end()},
            .cancels = {all.cancels_.begin(), all.cancels_.end()},
            .commands = std::move(commands),
            .ended = {all.ended_.begin(), all.ended_.end()},
            .ended_reported = {all.ended_reported_.begin(), all.ended_reported_.end()},
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
  std::map<std::string, WorkerCommand> commands_;
  std::set<JobId> ended_, ended_reported_;
  WallTime next_due_ = WallTime::never();
  bool catalog_ = false;
  bool everything_ = false;
};

}  // namespace mainspring
