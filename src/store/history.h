// The history: counts of job events per minute, queue and kind.
//
//   broker  counts in memory ── rows ─▶ Store::offer_history ─▶ written with the next batch
//   store   minutes │ hours, each as one row per kind, per queue and for everything
//   reader  Store::history(read) = one HistoryCounts per step
//
// A store adds new rows to the rows it has, so several nodes share the rows of a minute. It keeps
// at most kMaxHistoryQueues queues and adds the counts of further queues to kHistoryOther.
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
inline constexpr std::string_view kHistoryOther = "~other";  // reserved: not a queue or kind
// The maximum number of rows that one read examines.
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

// The start of the step that contains `at`. Steps are counted from 1970-01-01T00:00:00Z.
constexpr WallTime step_start(WallTime at, Duration step) {
  const std::int64_t into = at.us() % step.count();
  return WallTime::from_us(at.us() - (into < 0 ? into + step.count() : into));
}

// A query of the history. `from` and `to` are multiples of `step`. `step` is a multiple of a
// minute, and from one hour on a multiple of an hour.
struct HistoryRead {
  std::string queue, kind;  // "" = all
  WallTime from, to;        // from <= at < to
  Duration step = kHistoryHour;
  Within within{};  // queues outside do not count

  std::size_t points() const { return static_cast<std::size_t>((to - from) / step); }
  Duration span() const { return step < kHistoryHour ? kHistoryMinute : kHistoryHour; }
  // Whether the read includes the rows of a stored series: see HistoryEntry.
  bool adds(std::string_view of_queue, std::string_view of_kind) const;
  // Whether the read includes a row as the broker counts it.
  bool adds(const HistoryRow& row) const;
  // Errors: invalid_argument (the series have more than kMaxHistoryRows rows).
  Result<void> check_rows(std::size_t series) const;
  // The entry for `at` in `counts`, which has points() entries; nullptr if `at` is outside.
  HistoryCounts* find(std::vector<HistoryCounts>& counts, WallTime at) const;
};

// A row as stored.
struct HistoryEntry {
  Duration span;            // kHistoryMinute, kHistoryHour
  WallTime at;              // a multiple of it
  std::string queue, kind;  // kind "" = all of the queue; both "" = everything
  HistoryCounts counts;
};

// The queues and kinds that have rows in a store. Limits their number.
class HistoryNames {
 public:
  struct Series {
    std::int64_t id = 0;    // as the store numbers them; 0 = not stored yet
    std::int64_t last = 0;  // hour of the newest row, microseconds
  };
  using Key = std::pair<std::string, std::string>;  // queue, kind: as in HistoryEntry

  void clear();
  Series& add(const std::string& queue, const std::string& kind, Series series);
  void remove(const std::string& queue, const std::string& kind);
  const std::map<Key, Series>& all() const { return all_; }
  Series* find(const std::string& queue, const std::string& kind);
  // Whether all names in `rows` are known. If false, fold() adds a name.
  bool knows(const HistoryRows& rows) const;
  // Converts `rows` to the entries to add to the stored rows, ordered by span, time, queue and
  // kind. Adds new names.
  std::vector<HistoryEntry> fold(const HistoryRows& rows);

 private:
  Key bounded(const HistoryRow& row) const;
  std::map<Key, Series> all_;
  std::map<std::string, std::size_t, std::less<>> kinds_;  // by queue
  std::size_t leaves_ = 0;
};

// Counts of one queue over a window of minutes.
struct RecentCount {
  WallTime first = WallTime::never();  // the first minute that has counts
  HistoryCounts counts;
  void add(WallTime at, const HistoryCounts& more) {
    first = std::min(first, at);
    counts.add(more);
  }
};
using RecentCounts = std::map<std::string, RecentCount, std::less<>>;  // by queue

// Facts about a job that no operation or result described to the broker.
struct JobFact {
  JobId id = 0;
  std::string queue, kind;
  JobState state = JobState::available;  // of a running job: running or available
  WallTime created_at;
  std::optional<WallTime> started_at, finished_at;  // of the last attempt; of the job
};

}  // namespace mainspring
