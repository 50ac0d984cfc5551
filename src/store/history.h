// The history: counts of what happened to jobs, per minute, queue and kind.
//
//   broker  counts in memory ── rows ─▶ Store::offer_history ─▶ written with the next batch
//   store   minutes │ hours, each as one row per kind, per queue and for everything
//   reader  Store::history(read) = one HistoryCounts per step
//
// A store adds rows to those that it has, so several nodes share the rows of a minute. It keeps at
// most kMaxHistoryQueues queues; what belongs to others is added to kHistoryOther.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mainspring/job.h"
#include "model/access.h"
#include "model/sketch.h"

namespace mainspring {

inline constexpr std::size_t kMaxHistoryQueues = 1000;
inline constexpr std::size_t kMaxHistoryKinds = 100;         // per queue
inline constexpr std::size_t kMaxHistorySeries = 5000;       // kinds of all queues
inline constexpr std::string_view kHistoryOther = "~other";  // no queue and no kind has this name
// Rows that one read may look at.
inline constexpr std::int64_t kMaxHistoryRows = 500'000;
inline constexpr Duration kHistoryMinute = std::chrono::minutes(1);
inline constexpr Duration kHistoryHour = std::chrono::hours(1);

struct HistoryCounts {
  std::int64_t enqueued = 0, started = 0, completed = 0, failed = 0, dead = 0, cancelled = 0;
  TimeSketch wait, run;
  void add(const HistoryCounts& other);
  bool empty() const {
    return (enqueued | started | completed | failed | dead | cancelled) == 0 && run.empty();
  }
  friend bool operator==(const HistoryCounts&, const HistoryCounts&) = default;
};

struct HistoryRow {
  WallTime at;  // start of the minute
  std::string queue, kind;
  HistoryCounts counts;
};
using HistoryRows = std::vector<HistoryRow>;
using HistoryRowsPtr = std::shared_ptr<const HistoryRows>;
enum class HistoryWrite : std::uint8_t {
  with_batch,  // if the batch writes anything else
  always,
};

// How long a store keeps minutes and hours.
struct HistoryKept {
  Duration minutes = std::chrono::hours(48);
  Duration hours = std::chrono::hours(24 * 90);
  Duration of(Duration step) const { return step < kHistoryHour ? minutes : hours; }
};

// The start of the step that `at` is in. Steps are counted from 1970-01-01T00:00:00Z.
constexpr WallTime step_start(WallTime at, Duration step) {
  const std::int64_t into = at.us() % step.count();
  return WallTime::from_us(at.us() - (into < 0 ? into + step.count() : into));
}

// A part of the history. `from` and `to` are multiples of `step`, which is whole minutes, or whole
// hours from one hour on.
struct HistoryRead {
  std::string queue, kind;  // "" = all
  WallTime from, to;        // from <= at < to
  Duration step = kHistoryHour;
  Within within{};  // queues outside do not count

  std::size_t points() const { return static_cast<std::size_t>((to - from) / step); }
  Duration span() const { return step < kHistoryHour ? kHistoryMinute : kHistoryHour; }
  // Whether it adds the rows of a stored series: see HistoryEntry.
  bool adds(std::string_view of_queue, std::string_view of_kind) const;
  // Whether it adds a row as the broker counts it.
  bool adds(const HistoryRow& row) const;
  // Errors: invalid_argument (the series have more than kMaxHistoryRows rows).
  Result<void> check_rows(std::size_t series) const;
  // Of `counts`, which has points() entries; nullptr = it is outside.
  HistoryCounts* find(std::vector<HistoryCounts>& counts, WallTime at) const;
};

// A row as a store keeps it.
struct HistoryEntry {
  Duration span;            // kHistoryMinute, kHistoryHour
  WallTime at;              // a multiple of it
  std::string queue, kind;  // kind "" = all of the queue; both "" = everything
  HistoryCounts counts;
};

// The queues and kinds that a store keeps rows of. Bounds their number.
class HistoryNames {
 public:
  struct Series {
    std::int64_t id = 0;    // as the store numbers them; 0 = not stored yet
    std::int64_t last = 0;  // hour of the newest row, microseconds
  };
  using Key = std::pair<std::string, std::string>;  // queue, kind; as of HistoryEntry

  void clear();
  Series& add(const std::string& queue, const std::string& kind, Series series);
  void remove(const std::string& queue, const std::string& kind);
  const std::map<Key, Series>& all() const { return all_; }
  Series* find(const std::string& queue, const std::string& kind);
  // Whether fold() would add a name.
  bool knows(const HistoryRows& rows) const;
  // What the rows add to what is kept, ordered by span, time, queue and kind. Adds the names.
  std::vector<HistoryEntry> fold(const HistoryRows& rows);

 private:
  Key bounded(const HistoryRow& row) const;
  std::map<Key, Series> all_;
  std::map<std::string, std::size_t, std::less<>> kinds_;  // by queue
  std::size_t leaves_ = 0;
};

// Of one queue, in a window of minutes.
struct RecentCount {
  WallTime first = WallTime::never();  // the first minute that has counts
  HistoryCounts counts;
  void add(WallTime at, const HistoryCounts& more) {
    first = std::min(first, at);
    counts.add(more);
  }
};
using RecentCounts = std::map<std::string, RecentCount, std::less<>>;  // by queue

// What the broker must learn of a job that no operation described.
struct JobFact {
  JobId id = 0;
  std::string queue, kind;
  JobState state = JobState::available;  // of a running job: running or available
  WallTime created_at;
  std::optional<WallTime> started_at, finished_at;  // of the last attempt; of the job
};

}  // namespace mainspring
