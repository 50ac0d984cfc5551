// Steps of the election. The table is asked without the lock: it may take seconds.
#include "cluster/election.h"

#include <fmt/format.h>

#include <utility>

namespace mainspring {
namespace {

constexpr Duration kTryAgain = std::chrono::seconds(1);
// Nodes that see the same end of a leader do not raise the term at the same moment.
constexpr Duration kPause = std::chrono::milliseconds(100);

}  // namespace

Election::Election(Options options, LeaderTable& table, Leadership& leadership, Random& random,
                   std::function<void()> changed)
    : options_(std::move(options)),
      table_(table),
      leadership_(leadership),
      random_(random),
      changed_(std::move(changed)) {}

Instant Election::step(Now now) {
  bool waited = false, lost = false;
  std::int64_t known = 0;
  Reach reach = Reach::answers;
  {
    const MutexLock lock(mutex_);
    lost = state_ == State::following && reach_ != Reach::answers;
    if (stopped_ || state_ == State::leading || (state_ == State::following && !lost))
      return Instant::never();
    if (now.instant < due_) return due_;
    waited = state_ == State::waiting;
    known = row_.term;
    reach = reach_;
  }
  if (waited) return lead(now);
  const auto row = table_.read();
  if (!row) return again(now);
  if (row->node == 0) return take_over(*row, "no node led", now);
  if (row->successor == options_.node)
    return take_over(*row, fmt::format("node {} stopped", row->node), now);
  if (row->node == options_.node)
    return take_over(*row, fmt::format("node {} started again", row->node), now);
  if (!lost || row->term != known) return follow(*row);
  return take_over(
      *row,
      fmt::format("node {} {}", row->node, reach == Reach::refused ? "ended" : "did not answer"),
      now);
}

Instant Election::follow(const LeaderRow& row) {
  {
    const MutexLock lock(mutex_);
    state_ = State::following;
    row_ = row;
    reach_ = Reach::answers;
  }
  show(row, false);
  return Instant::never();
}

Instant Election::take_over(const LeaderRow& row, std::string why, Now now) {
  const auto raised = table_.raise({.term = row.term + 1,
                                    .node = options_.node,
                                    .address = options_.address,
                                    .why = std::move(why)});
  if (!raised || !*raised) return again(now);
  // A leader that named its successor, or none, answers nothing any more.
  const bool at_once = row.node == 0 || row.successor == options_.node || (*raised)->old_is_gone;
  {
    const MutexLock lock(mutex_);
    row_ = (*raised)->row;
    state_ = State::waiting;
    confirmed_ = now.instant;
    due_ = at_once ? now.instant : now.instant + options_.confirm;
    if (!at_once) return due_;
  }
  return lead(now);
}

Instant Election::lead(Now now) {
  LeaderRow row;
  {
    const MutexLock lock(mutex_);
    state_ = State::leading;
    // Another node may have raised the term meanwhile: the next read finds out.
    if (due_ > confirmed_) confirmed_ = now.instant - options_.confirm;
    row = row_;
  }
  show(row, true);
  return Instant::never();
}

Instant Election::again(Now now) {
  const MutexLock lock(mutex_);
  if (state_ != State::following) state_ = State::unknown;
  return due_ = now.instant + kTryAgain / 2 + pause(kTryAgain / 2);
}

void Election::note(std::int64_t term, Reach reach, Instant since) {
  {
    const MutexLock lock(mutex_);
    if (state_ != State::following || row_.term != term || reach_ == reach) return;
    const Instant due = reach == Reach::refused ? since + pause(kPause) : since + options_.silence;
    due_ = reach_ == Reach::answers ? due : std::min(due_, due);
    reach_ = reach;
    if (reach == Reach::answers) return;
  }
  changed_();
}

void Election::confirmed(std::int64_t term, Instant at) {
  const MutexLock lock(mutex_);
  if (state_ == State::leading && row_.term == term && at > confirmed_) confirmed_ = at;
}

void Election::raised(std::int64_t from, std::int64_t to) {
  LeaderRow row;
  {
    const MutexLock lock(mutex_);
    if (state_ != State::leading || row_.term != from) return;
    row_.term = to;
    row = row_;
  }
  show(row, true);
}

void Election::lost(std::int64_t term) {
  LeaderRow row;
  {
    const MutexLock lock(mutex_);
    if ((state_ != State::leading && state_ != State::waiting) || row_.term != term) return;
    state_ = State::unknown;
    due_ = {};
    row = {.term = term, .why = "another node raised the term"};
  }
  show(row, false);
  changed_();
}

std::int64_t Election::own_term() const {
  const MutexLock lock(mutex_);
  return state_ == State::leading || state_ == State::waiting ? row_.term : 0;
}

bool Election::may_answer(Instant now) const {
  const MutexLock lock(mutex_);
  return state_ == State::leading && now < confirmed_ + options_.confirm;
}

bool Election::confirm(Now now) {
  std::int64_t term = 0;
  {
    const MutexLock lock(mutex_);
    if (state_ != State::leading) return false;
    term = row_.term;
  }
  const auto row = table_.read();
  if (!row) return false;
  if (row->term != term) {
    lost(term);
    return false;
  }
  confirmed(term, now.instant);
  return may_answer(now.instant);
}

void Election::hand_over(std::int64_t successor) {
  std::int64_t term = 0;
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    if (state_ != State::leading && state_ != State::waiting) return;
    state_ = State::unknown;
    term = row_.term;
  }
  // If the database does not answer, the other nodes find out that this one is gone.
  (void)table_.hand_over(term, successor);
  show({.term = term, .why = "this node stops"}, false);
}

void Election::show(const LeaderRow& row, bool is_me) {
  leadership_.set({.term = row.term,
                   .node = row.node,
                   .address = row.address,
                   .since = row.since,
                   .is_me = is_me,
                   .why = row.why});
}

Duration Election::pause(Duration most) {
  return Duration(
      static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(most.count()) + 1)));
}

}  // namespace mainspring
