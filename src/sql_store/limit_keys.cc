// Limits per key: which jobs with a limit_key are in the ready queue of their queue.
//
// A claim must not walk past the jobs of a key at its limit, however many they are. So a key keeps
// its own available jobs, by kind and priority. Of each kind and priority, only the first job is in
// the queue's ready queue, and only while the key has capacity:
//
//   ready queue         7 (free)   9 (acme)   12 (free)   15 (globex)
//   acme, hidden                   10, 11, 13, 14 …
//   globex, hidden                 16
//
// A key is kept while it has available or running jobs, or its meter is not new: see key_rates.cc.
#include "base/assert.h"
#include "base/mutant.h"
#include "sql_store/store_impl.h"

namespace mainspring::sql {

LimitKey& SqlStore::limit_key_of(QueueState& queue, std::string_view key) {
  auto& found = queue.limit_keys[std::string(key)];
  if (!found)
    found = std::make_unique<LimitKey>(LimitKey{.key = std::string(key), .queue = &queue});
  return *found;
}

std::string SqlStore::limit_key_of(JobId id) {
  Statement& row = sql_->select_limit_key.bind(id);
  ResetGuard guard(row);
  MS_ASSERT(row.step() && !row.is_null(0), "a job whose row says so has a limit_key");
  return std::string(row.text(0));
}

bool LimitKey::is_full() const {
  if (opens_at) return true;
  const auto& most = queue->limits.per_key.concurrency;
  return most && slots_taken() >= *most && !MS_MUTANT(limit_per_key_ignored);
}

// Moves the first hidden job to the ready queue, unless a job after `after` is shown already.
void LimitKey::show(Which which, std::optional<ReadyKey> after) {
  Line& line = lines[which];
  const auto there = after ? line.shown.upper_bound(*after) : line.shown.begin();
  if (there != line.shown.end() || line.hidden.empty()) return;
  const auto first = line.hidden.begin();
  line.shown.insert(*first);
  queue->ready[which.first].insert(*first);
  line.hidden.erase(first);
}

void LimitKey::hide(Which which, ReadyQueue::iterator one) {
  Line& line = lines[which];
  queue->ready[which.first].erase(*one);
  line.hidden.insert(*one);
  line.shown.erase(one);
}

void LimitKey::settle() {
  for (auto& [which, line] : lines) {
    if (!is_full()) show(which, {});
    while (is_full() && !line.shown.empty()) hide(which, line.shown.begin());
  }
}

void SqlStore::enter_key(const HotRow& hot, const ReadyKey& at) {
  LimitKey& key = limit_key_of(*hot.queue, limit_key_of(hot.id));
  add_to_key(key, hot.kind, at);
}

void SqlStore::add_to_key(LimitKey& key, std::int32_t kind, const ReadyKey& at) {
  const LimitKey::Which which(kind, at.priority());
  LimitKey::Line& line = key.lines[which];
  keyed_.emplace(at.id(), &key);
  key.queue->keyed_times.insert(ReadyKey(0, at.run_at(), at.id()));
  note_work(*key.queue);
  note_key_rate(key);
  const bool first = line.shown.empty() || at < *line.shown.rbegin();
  if (key.is_full() || !first) {
    line.hidden.insert(at);
    key.settle();
    return note_opening(key);
  }
  line.shown.insert(at);
  key.queue->ready[kind].insert(at);
  if (line.shown.size() > 1) key.hide(which, std::prev(line.shown.end()));
  note_opening(key);
}

LimitKey& SqlStore::take_from_key(const ReadyKey& at, std::int32_t kind) {
  const auto found = keyed_.find(at.id());
  MS_ASSERT(found != keyed_.end(), "an available job with a limit_key is listed under it");
  LimitKey& key = *found->second;
  keyed_.erase(found);
  LimitKey::Line& line = key.lines.at({kind, at.priority()});
  line.hidden.erase(at);
  line.shown.erase(at);
  key.queue->keyed_times.erase(ReadyKey(0, at.run_at(), at.id()));
  return key;
}

// nullptr = the job has no limit key.
LimitKey* SqlStore::key_of_ready(const QueueState& queue, JobId id) const {
  if (queue.limit_keys.empty()) return nullptr;
  const auto found = keyed_.find(id);
  return found == keyed_.end() ? nullptr : found->second;
}

void SqlStore::leave_key(const HotRow& hot, const ReadyKey& at) {
  LimitKey& key = take_from_key(at, hot.kind);
  hot.queue->ready[hot.kind].erase(at);
  settle_key(key);
}

// A job of the key starts: the caller removes it from the ready queue.
void SqlStore::begin_of_key(const ReadyKey& at, Lease& lease) {
  LimitKey& key = take_from_key(at, lease.kind);
  const int cost = cost_of(*key.queue, lease.kind);
  lease.limit_key = &key;
  ++key.running;
  key.extra += extra_of_key(key, cost);
  touched_keys_.emplace_back(key.queue, key.key);
  count_started(key, cost);
}

void SqlStore::end_of_key(Lease& lease) {
  LimitKey& key = *lease.limit_key;
  MS_ASSERT(key.running > 0, "a job of the key is running");
  --key.running;
  key.extra -= extra_of_key(key, cost_of(*key.queue, lease.kind));
  touched_keys_.emplace_back(key.queue, key.key);
  if (MS_MUTANT(end_leaves_key_closed)) return;
  if (key.queue->limits.per_key.concurrency) key.queue->made_available = true;
  touch(*key.queue);
  settle_key(key);
}

// Shows and hides the key's jobs as needed; removes the key if it is unused.
void SqlStore::settle_key(LimitKey& key) {
  key.settle();
  std::erase_if(key.lines, [](const auto& line) {
    return line.second.shown.empty() && line.second.hidden.empty();
  });
  note_opening(key);
  const bool known = key.running > 0 || !key.lines.empty() || key.opens_at;
  if (!known && key.forgotten_at == WallTime::never()) key.queue->limit_keys.erase(key.key);
}

// After a claim. `keys` may contain a key several times; the first call may remove the key.
void SqlStore::settle_keys(QueueState& queue, const std::vector<std::string>& keys) {
  for (const std::string& name : keys) {
    const auto found = queue.limit_keys.find(name);
    if (found != queue.limit_keys.end()) settle_key(*found->second);
  }
}

void SqlStore::settle_all_keys(QueueState& queue) {
  for (auto& [name, key] : queue.limit_keys) key->settle(), note_opening(*key);
}

// Readers need no entry for a key without running jobs whose rate is open.
void SqlStore::publish_key(const LimitKey& key) {
  const std::pair<std::string, std::string> name(key.queue->name, key.key);
  if (key.running == 0 && !key.opening) {
    published_keys_.erase(name);
    return;
  }
  const bool costs = !key.queue->limits.costs.empty();
  published_keys_[name] = {.running = key.running,
                           .opens_at = key.opens_at,
                           .slots_taken = key.slots_taken(),
                           .meter = costs ? key.meter : RateMeter()};
}

void SqlStore::publish_keys() {
  if (republish_) {
    published_keys_.clear();
    for (const QueueState& queue : queue_states_) {
      for (const auto& [name, key] : queue.limit_keys) publish_key(*key);
    }
  }
  for (const auto& [queue, name] : std::exchange(touched_keys_, {})) {
    const auto found = queue->limit_keys.find(name);
    if (found != queue->limit_keys.end()) {
      publish_key(*found->second);
    } else {
      published_keys_.erase({queue->name, name});
    }
  }
}

Result<LimitKeyInfo> SqlStore::limit_key(const std::string& queue, const std::string& key) const {
  MutexLock lock(published_mutex_);
  const auto found = published_keys_.find({queue, key});
  return found == published_keys_.end() ? LimitKeyInfo() : found->second;
}

}  // namespace mainspring::sql
