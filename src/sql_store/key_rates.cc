// Rates per key: what has started of each limit key, and when the key opens again.
//
// A key that its rate has closed is full: its jobs are hidden (limit_keys.cc). Before each batch,
// the keys that are due are opened, so that operations need not check the clock for each key.
// Waiting claims are notified by OpenQueues; the scheduler runs it when the first closed key with
// jobs opens. A meter is written with the batch that changes it, and dropped when it has long
// equalled a new one.
#include <algorithm>

#include "base/mutant.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/store_impl.h"

namespace mainspring::sql {
namespace {
constexpr int kForgetMeters = 100;  // at most with one batch
}  // namespace

void SqlStore::count_started(LimitKey& key, int cost) {
  QueueState& queue = *key.queue;
  const auto& rate = queue.limits.per_key.rate;
  if (!rate) return;
  key.meter.take(*rate, now_.wall, begins_of(cost, *rate));
  touched_meters_.emplace(&queue, key.key);
  note_key_rate(key);
  if (!MS_MUTANT(keys_share_meter)) return;
  for (auto& [name, other] : queue.limit_keys) {
    if (other.get() == &key) continue;
    other->meter = key.meter;
    note_key_rate(*other);
    other->settle(), note_opening(*other);
  }
}

// Does not show or hide jobs; the caller does.
void SqlStore::note_key_rate(LimitKey& key) {
  const KeyLimits& limits = key.queue->limits.per_key;
  if (!limits.rate) return;
  const auto was = std::exchange(
      key.opening, mainspring::next_key_opening(key.queue->limits, key.meter, now_.wall));
  key.opens_at.reset();
  if (key.opening && key.opening->begins == 1) key.opens_at = key.opening->at;
  if (key.opening != was) touched_keys_.emplace_back(key.queue, key.key);
  const WallTime as_new = key.meter.as_new_at(*limits.rate);
  const WallTime end = as_new == WallTime() ? WallTime::never() : as_new + kKeyMeterKept;
  if (end == key.forgotten_at) return;
  key_ends_.erase({key.forgotten_at, &key});
  key.forgotten_at = end;
  if (end != WallTime::never()) key_ends_.emplace(end, &key);
}

void SqlStore::note_opening(LimitKey& key) {
  const WallTime at = key.opening && !key.lines.empty() ? key.opening->at : WallTime::never();
  if (at == key.wakes_at) return;
  key_openings_.erase({key.wakes_at, &key});
  key.wakes_at = at;
  if (at != WallTime::never()) key_openings_.emplace(at, &key);
}

void SqlStore::open_keys() {
  std::vector<LimitKey*> changed;
  const bool back = now_.wall < latest_wall_;
  latest_wall_ = std::max(latest_wall_, now_.wall);
  if (std::exchange(clock_is_back_, back) || back) {  // meters may give other answers
    for (const auto& [at, key] : key_ends_) changed.push_back(key);
  } else {
    for (const auto& [at, key] : key_openings_) {
      if (at > now_.wall) break;
      changed.push_back(key);
    }
  }
  for (LimitKey* key : changed) {
    const auto awaited = key->opening;
    note_key_rate(*key);
    key->settle();
    note_opening(*key);
    if (!awaited || key->lines.empty()) continue;
    if (key->opening && key->opening->begins <= awaited->begins) continue;
    // The clock may have been set back, which opened it: then the wait was for a later time.
    const WallTime at = std::min(awaited->at, now_.wall);
    WallTime& first = opened_keys_.emplace(key->queue->name, at).first->second;
    first = std::min(first, at);
  }
}

void SqlStore::tell_of_keys() {
  for (const auto& [name, at] : std::exchange(opened_keys_, {})) {
    if (!MS_MUTANT(key_never_opens)) open_queue(*find_queue(name));
  }
}

// Forgets all cached openings.
void SqlStore::doubt_keys() {
  for (const QueueState& queue : queue_states_) {
    if (queue.limits.per_key.rate) opened_keys_.emplace(queue.name, now_.wall);
  }
}

WallTime SqlStore::next_key_opening() const {
  WallTime next = key_openings_.empty() ? WallTime::never() : key_openings_.begin()->first;
  for (const auto& [name, at] : opened_keys_) next = std::min(next, at);
  return next;
}

// A changed rate starts at zero.
void SqlStore::drop_key_meters(QueueState& queue) {
  sql_->drop_key_meters.bind(queue.id).run();
  std::vector<std::string> names;
  for (auto& [name, key] : queue.limit_keys) {
    names.push_back(name);
    key_ends_.erase({key->forgotten_at, key.get()});
    key->forgotten_at = WallTime::never();
    key->meter = {};
    if (std::exchange(key->opens_at, std::nullopt)) touched_keys_.emplace_back(&queue, name);
    key->opening.reset();
    touched_meters_.erase({&queue, name});
  }
  settle_keys(queue, names);
  opened_keys_.erase(queue.name);
}

void SqlStore::write_key_meters() {
  for (const auto& [queue, name] : std::exchange(touched_meters_, {})) {
    const auto found = queue->limit_keys.find(name);
    if (found == queue->limit_keys.end() || MS_MUTANT(key_meters_not_kept)) continue;
    sql_->upsert_key_meter.bind(queue->id, name, found->second->meter.text()).run();
  }
  for (int n = 0; n < kForgetMeters && !key_ends_.empty(); ++n) {
    const auto [at, key] = *key_ends_.begin();
    if (at > now_.wall) break;
    sql_->delete_key_meter.bind(key->queue->id, key->key).run();
    key->meter = {};
    note_key_rate(*key);
    settle_key(*key);
  }
}

void SqlStore::load_key_meters() {
  key_openings_.clear(), key_ends_.clear(), touched_meters_.clear(), opened_keys_.clear();
  latest_wall_ = now_.wall, clock_is_back_ = false;
  Statement rows(db_, queries::limits::load_key_meters);
  while (rows.step()) {
    LimitKey& key = limit_key_of(queue_by_id(rows.integer(0)), rows.text(1));
    key.meter = RateMeter::parse(rows.text(2));
    const auto& rate = key.queue->limits.per_key.rate;
    if (rate) latest_wall_ = std::max(latest_wall_, key.meter.last_begin(*rate));
    note_key_rate(key);
  }
}

}  // namespace mainspring::sql
