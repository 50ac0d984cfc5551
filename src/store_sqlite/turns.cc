// Fair keys: whose turn it is, and how far each key has been served.
//
// A claim looks once at the first jobs of each key that has any, and then at each of these for each
// job that it gives: its cost grows with the keys that have jobs, not with the jobs.
#include <algorithm>
#include <tuple>

#include "base/mutant.h"
#include "store_sqlite/claim.h"

namespace mainspring::sqlite {
namespace {
constexpr std::size_t kForgetTurnsAt = 64;  // keys that are known at least before any is forgotten
}

void FairFronts::add_free(std::int32_t kind, ReadyLine& line) {
  for (int priority = 0; priority <= kLowestPriority; ++priority) {
    const auto at = line.lower_bound(ReadyKey(priority, WallTime(), 0));
    if (at == line.end()) break;
    priority = at->priority();
    Front front{nullptr, kind, &line, *at, *at, queue_.turns.start("")};
    if (advance_free(front, at)) fronts_.push_back(front);
  }
}

void FairFronts::add_key(LimitKey& key, LimitKey::Which which, LimitKey::Line& line) {
  if (line.shown.empty()) return;
  const ReadyKey at = *line.shown.begin();
  fronts_.push_back({&key, which.first, &queue_.ready[which.first], at, place_now(queue_, at, now_),
                     queue_.turns.start(key.key)});
}

FairFronts::Front* FairFronts::first() {
  const auto first =
      std::min_element(fronts_.begin(), fronts_.end(), [](const Front& a, const Front& b) {
        const int mine = a.place.priority(), other = b.place.priority();
        return std::tie(mine, a.start, a.place) < std::tie(other, b.start, b.place);
      });
  return first == fronts_.end() ? nullptr : &*first;
}

// To the first job without a key of its priority, from there on.
bool FairFronts::advance_free(Front& front, ReadyLine::iterator from) const {
  const int priority = front.at.priority();
  while (from != front.line->end() && from->priority() == priority && keyed_.contains(from->id()))
    ++from;
  if (from == front.line->end() || from->priority() != priority) return false;
  front.at = *from;
  front.place = place_now(queue_, front.at, now_);
  return true;
}

bool FairFronts::advance_key(Front& front) const {
  const LimitKey::Which which(front.kind, front.at.priority());
  front.key->show(which, front.at);
  const ReadyLine& shown = front.key->lines.at(which).shown;
  const auto next = shown.upper_bound(front.at);
  if (next == shown.end()) return false;
  front.at = *next;
  front.place = place_now(queue_, front.at, now_);
  return true;
}

void FairFronts::pass(Front& front) {
  LimitKey* const key = front.key;
  const bool full = key != nullptr && key->is_full();
  const bool left =
      !full && (key == nullptr ? advance_free(front, front.line->upper_bound(front.at))
                               : advance_key(front));
  const std::int64_t start = queue_.turns.start(key == nullptr ? "" : key->key);
  for (Front& other : fronts_)
    other.start = other.key == key ? start : std::max(other.start, queue_.turns.now());
  if (full) {
    std::erase_if(fronts_, [key](const Front& other) { return other.key == key; });
  } else if (!left) {
    front = fronts_.back();
    fronts_.pop_back();
  }
}

void FairFronts::drop_key(const Front& front) {
  std::erase_if(fronts_, [key = front.key](const Front& other) { return other.key == key; });
}

void SqliteStore::count_turn(QueueState& queue, std::string_view key, int cost) {
  if (key.empty() && MS_MUTANT(jobs_without_key_take_no_turn)) return;
  queue.turns.give(key, queue.limits.per_key, cost);
  queue.turned.emplace(key);
  touch(queue);
}

void SqliteStore::drop_turns(QueueState& queue) {
  queue.turns = {};
  queue.turned.clear();
  sql_->drop_turns.bind(queue.id).run();
  sql_->update_turns.bind(queue.id, nullptr).run();
}

void SqliteStore::write_turns(QueueState& queue) {
  const auto turned = std::exchange(queue.turned, {});
  if (MS_MUTANT(turns_not_kept)) return;
  const auto& served = queue.turns.served();
  for (const std::string& key : turned) {
    const auto found = served.find(key);
    if (found != served.end()) sql_->upsert_turn.bind(queue.id, key, found->second).run();
  }
  sql_->update_turns.bind(queue.id, queue.turns.now()).run();
  if (served.size() < std::max(queue.forget_turns_at, kForgetTurnsAt)) return;
  queue.turns.forget();
  queue.forget_turns_at = 2 * served.size();
  sql_->forget_turns.bind(queue.id, queue.turns.now()).run();
}

void SqliteStore::load_turns() {
  std::map<std::int64_t, std::map<std::string, std::int64_t, std::less<>>> served;
  Statement rows(*db_, "SELECT queue, key, at FROM turns");
  while (rows.step()) served[rows.integer(0)].emplace(rows.text(1), rows.integer(2));
  Statement queues(*db_, "SELECT id, turns_at FROM queues WHERE turns_at IS NOT NULL");
  while (queues.step()) {
    const std::int64_t id = queues.integer(0);
    queue_by_id(id).turns = KeyTurns(queues.integer(1), std::move(served[id]));
  }
}

}  // namespace mainspring::sqlite
