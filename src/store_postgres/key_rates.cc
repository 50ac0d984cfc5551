// Rates per key: what has started of each limit key, and when the first closed key opens.
//
// A claim has locked the queue's row, and with it the rows of its keys. The queue's row contains
// when the first closed key opens, and every node has a copy of the row. The leader opens the queue
// for waiting claims (OpenQueues), and then finds when the next key opens.
#include "base/mutant.h"
#include "store_postgres/fast_path.h"

namespace mainspring::pg {
namespace {
constexpr int kMaxOpened = 1000;  // queues, at once
}

// May omit keys of which nothing has started.
KeyMeters PostgresStore::meters_of(const QueueInfo& queue, const std::vector<std::string>& keys) {
  KeyMeters meters;
  if (!queue.limits.per_key.rate) return meters;
  const Texts names(keys.begin(), keys.end());
  const Rows rows = ask(key_sql_.meters, params(std::int64_t{queue.id}, names));
  for (int i = 0; i < rows.size(); ++i)
    meters.emplace(rows.string(i, 0), RateMeter::parse(rows.text(i, 1)));
  return meters;
}

// Counts the starts of each key.
void PostgresStore::count_started(const QueueInfo& queue, const std::map<std::string, int>& keys) {
  const KeyLimits& limits = queue.limits.per_key;
  std::vector<std::string> names, texts;
  for (const auto& [key, n] : keys) names.push_back(key);
  KeyMeters meters = meters_of(queue, names);
  OptInts opens_at;
  Ints forgotten_at;
  std::optional<WallTime> first;
  for (const auto& [key, n] : keys) {
    RateMeter& meter = meters[key];
    meter.take(*limits.rate, now_.wall, n);
    texts.push_back(meter.text());
    const auto next = mainspring::next_key_opening(queue.limits, meter, now_.wall);
    opens_at.push_back(next ? std::optional(next->at.us()) : std::nullopt);
    forgotten_at.push_back((meter.as_new_at(*limits.rate) + kKeyMeterKept).us());
    if (next && (!first || next->at < *first)) first = next->at;
  }
  if (MS_MUTANT(key_meters_not_kept)) return;
  write(key_sql_.write_meters,
        params(std::int64_t{queue.id}, Texts(names.begin(), names.end()),
               Texts(texts.begin(), texts.end()), opens_at, forgotten_at, wall()));
  note_opening(queue, first);
}

void PostgresStore::note_opening(const QueueInfo& queue, std::optional<WallTime> at) {
  if (!at || (queue.keys_open_at && *queue.keys_open_at <= *at)) return;
  queues_by_id_.at(queue.id)->keys_open_at = at;
  write(key_sql_.keys_open_at, params(std::int64_t{queue.id}, at->us()));
  write(sql_.raise_version, params("queues"));
  copies_of_batch_ = true;
  after_.queues = true;
}

// Finds keys that are due and opens them for the next cost that fits. False: there are more.
bool PostgresStore::open_for_costs(const QueueInfo& queue) {
  if (queue.limits.costs.empty()) return true;
  const Rows due = ask(key_sql_.due_meters, params(std::int64_t{queue.id}, wall(), kMaxOpened));
  std::vector<std::string> names;
  OptInts opens_at;
  for (int i = 0; i < due.size(); ++i) {
    const auto next =
        mainspring::next_key_opening(queue.limits, RateMeter::parse(due.text(i, 1)), now_.wall);
    names.push_back(due.string(i, 0));
    opens_at.push_back(next ? std::optional(next->at.us()) : std::nullopt);
  }
  if (names.empty()) return true;
  write(key_sql_.meters_open_at,
        params(std::int64_t{queue.id}, Texts(names.begin(), names.end()), opens_at));
  return due.size() < kMaxOpened;
}

bool PostgresStore::open_keys() {
  const Rows due = ask(key_sql_.due_keys, params(wall(), kMaxOpened));
  for (int i = 0; i < due.size(); ++i) {
    QueueInfo& queue = locked_queue(due.string(i, 0));
    const bool all = open_for_costs(queue);
    const Rows next = ask(key_sql_.next_key_opening, params(std::int64_t{queue.id}, wall()));
    queue.keys_open_at.reset();
    if (const auto at = next.maybe(0, 0)) queue.keys_open_at = WallTime::from_us(*at);
    if (!all) queue.keys_open_at = now_.wall;
    changed_queue(queue);
    if (!MS_MUTANT(key_never_opens)) open_queue(queue);
  }
  return due.size() == kMaxOpened;
}

}  // namespace mainspring::pg
