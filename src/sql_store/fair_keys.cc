// Fair keys: which key is next, and how far each key has been served.
//
// A claim looks once at the first jobs of each key that has any, and then at each of these fronts
// for each claimed job. Its cost grows with the number of keys with jobs, not with the jobs.
#include <algorithm>
#include <tuple>

#include "base/mutant.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/claim.h"

namespace mainspring::sql {
namespace {
constexpr std::size_t kForgetFairKeysAt = 64;  // forget keys only above this number
}

void FairFronts::add_free(std::int32_t kind, ReadyQueue& ready) {
  for (int priority = 0; priority <= kLowestPriority; ++priority) {
    const auto at = ready.lower_bound(ReadyKey(priority, WallTime(), 0));
    if (at == ready.end()) break;
    priority = at->priority();
    Front front{nullptr, kind, &ready, *at, *at, queue_.fair_keys.start("")};
    if (advance_free(front, at)) fronts_.push_back(front);
  }
}

void FairFronts::add_key(LimitKey& key, LimitKey::Which which, LimitKey::Line& line) {
  if (line.shown.empty()) return;
  const ReadyKey at = *line.shown.begin();
  fronts_.push_back({&key, which.first, &queue_.ready[which.first], at, place_now(queue_, at, now_),
                     queue_.fair_keys.start(key.key)});
}

FairFronts::Front* FairFronts::first() {
  const auto first =
      std::min_element(fronts_.begin(), fronts_.end(), [](const Front& a, const Front& b) {
        const int mine = a.place.priority(), other = b.place.priority();
        return std::tie(mine, a.start, a.place) < std::tie(other, b.start, b.place);
      });
  return first == fronts_.end() ? nullptr : &*first;
}

// Moves to the first job of its priority without a key, starting at `from`.
bool FairFronts::advance_free(Front& front, ReadyQueue::iterator from) const {
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
  const ReadyQueue& shown = front.key->lines.at(which).shown;
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
  const std::int64_t start = queue_.fair_keys.start(key == nullptr ? "" : key->key);
  for (Front& other : fronts_)
    other.start = other.key == key ? start : std::max(other.start, queue_.fair_keys.now());
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

void SqlStore::count_fair(QueueState& queue, std::string_view key, int cost) {
  if (key.empty() && MS_MUTANT(jobs_without_key_take_no_turn)) return;
  queue.fair_keys.give(key, queue.limits.per_key, cost);
  queue.served_keys.emplace(key);
  touch(queue);
}

void SqlStore::drop_fair_keys(QueueState& queue) {
  queue.fair_keys = {};
  queue.served_keys.clear();
  sql_->drop_fair_keys.bind(queue.id).run();
  sql_->update_fair_keys.bind(queue.id, nullptr).run();
}

void SqlStore::write_fair_keys(QueueState& queue) {
  const auto served_keys = std::exchange(queue.served_keys, {});
  if (MS_MUTANT(turns_not_kept)) return;
  const auto& served = queue.fair_keys.served();
  for (const std::string& key : served_keys) {
    const auto found = served.find(key);
    if (found != served.end()) sql_->upsert_fair_keys.bind(queue.id, key, found->second).run();
  }
  sql_->update_fair_keys.bind(queue.id, queue.fair_keys.now()).run();
  if (served.size() < std::max(queue.forget_fair_keys_at, kForgetFairKeysAt)) return;
  queue.fair_keys.forget();
  queue.forget_fair_keys_at = 2 * served.size();
  sql_->forget_fair_keys.bind(queue.id, queue.fair_keys.now()).run();
}

void SqlStore::load_fair_keys() {
  std::map<std::int64_t, std::map<std::string, std::int64_t, std::less<>>> served;
  Statement rows(db_, queries::limits::load_fair_keys);
  while (rows.step()) served[rows.integer(0)].emplace(rows.text(1), rows.integer(2));
  Statement queues(db_, queries::limits::load_fair_at);
  while (queues.step()) {
    const std::int64_t id = queues.integer(0);
    queue_by_id(id).fair_keys = FairKeys(queues.integer(1), std::move(served[id]));
  }
}

}  // namespace mainspring::sql
