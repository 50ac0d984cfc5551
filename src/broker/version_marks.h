// VersionMarks: the worker versions that this node has seen, and those whose mark is not made yet.
//
// The store keeps one mark for each text, so a node that starts asks once for each version that it
// sees. Bounded: at most one mark per kGap, kMaxKnown texts, kMaxWaiting waiting marks.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <string>

#include "store/mark_operations.h"
#include "store/operations.h"

namespace mainspring {

// "Python worker 1.4"; without a language "worker 1.4".
inline std::string mark_text_of(const WorkerFacts& facts) {
  const std::string language = facts.language.substr(0, facts.language.find(' '));
  return language + (language.empty() ? "worker " : " worker ") + facts.version;
}

class VersionMarks {
 public:
  static constexpr Duration kGap = std::chrono::seconds(1);
  static constexpr Duration kRetryGap = std::chrono::seconds(10);
  static constexpr std::size_t kMaxKnown = static_cast<std::size_t>(kMaxMarks);
  static constexpr std::size_t kMaxWaiting = 100;

  // A claim of `worker` reported facts that it had not reported before.
  void note(const std::string& worker, const WorkerFacts& facts) {
    if (facts.version.empty() || waiting_.size() >= kMaxWaiting) return;
    std::string text = mark_text_of(facts);
    if (!check_mark_text(text)) return;
    if (known_.size() >= kMaxKnown) known_.clear();
    if (!known_.insert(text).second) return;
    waiting_.push_back({.text = std::move(text),
                        // Not the name of a person: the worker says it of itself.
                        .by = "worker " + (facts.host.empty() ? worker : facts.host),
                        .source = MarkSource::worker});
  }
  // The next mark, if its time has come.
  std::optional<AddMark> take(Instant now) {
    if (waiting_.empty() || now < next_) return std::nullopt;
    AddMark mark = std::move(waiting_.front());
    waiting_.pop_front();
    next_ = now + kGap;
    return mark;
  }
  void retry(AddMark mark, Instant now) {
    waiting_.push_front(std::move(mark));
    next_ = std::max(next_, now + kRetryGap);
  }
  // When take() has one; never = none waits.
  Instant next() const { return waiting_.empty() ? Instant::never() : next_; }

 private:
  std::set<std::string> known_;
  std::deque<AddMark> waiting_;
  Instant next_;
};

}  // namespace mainspring
