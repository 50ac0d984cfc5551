// HistoryCounter: the counts of this broker for the history, until a commit has written them.
//
//   batches ──▶ counts of the current minute ── take() ──▶ Store::offer_history ──▶ written()
//          └──▶ jobs to look up ── look_up()/looked_up(): queue, kind and state from the store
//
// Most counts come from operations and their results. A job that was created, ended or lost without
// an operation, or that this broker did not give to a worker, is looked up later, many in one read.
// So a batch costs no read.
//
// A crash loses unwritten counts: at most those between two writes, see due(). A batch whose commit
// was lost together with its answer may or may not be counted.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "store/store.h"

namespace mainspring {

// Not thread-safe: the broker calls it under its mutex.
class HistoryCounter {
 public:
  // Jobs that wait to be looked up; more are not counted.
  static constexpr std::size_t kMaxLookUps = 100'000;
  static constexpr std::size_t kLookUpsAtOnce = 5'000;
  // Pause between two writes, and the addition for each kind of a queue: it takes about 25 us.
  static constexpr Duration kWriteEvery = std::chrono::seconds(1);
  static constexpr Duration kWriteEveryPerRow = std::chrono::milliseconds(5);
  // Pause after a batch that wrote nothing.
  static constexpr Duration kTryAgain = std::chrono::milliseconds(100);

  // Counts of one kind in one queue. Valid as long as its pointer is held.
  struct Series {
    std::string queue, kind;
    WallTime minute;       // of `counts`
    HistoryCounts counts;  // not taken yet
    bool touched = false;  // it is in touched_
  };
  using SeriesPtr = std::shared_ptr<Series>;
  SeriesPtr series(const std::string& queue, const std::string& kind);
  // The counts of the minute of `now`.
  HistoryCounts& at(Series& series, WallTime now);

  void enqueued(const Enqueue& asked, const EnqueueResult& result, WallTime now);
  // A job that no Enqueue created. Counted now if `known`, else when it is claimed or looked up.
  void made(JobId id, const SeriesPtr& known, WallTime now);
  void claimed(JobId id, const SeriesPtr& of);
  // An attempt of a job failed that is not known here.
  void failed(JobId id, WallTime now);
  // A job ended, and its state is not known. `lost`: a rescue may have ended it.
  enum class Lost : std::uint8_t { no, maybe };
  void ended(JobId id, const SeriesPtr& known, Lost lost, WallTime now);

  bool wants_look_up() const { return !unknown_.empty(); }
  struct Unknown {
    SeriesPtr known;
    bool made = false, failed = false, ended = false;
    Lost lost = Lost::no;
    WallTime at;
  };
  using LookUps = std::unordered_map<JobId, Unknown>;
  LookUps look_up();
  void looked_up(LookUps asked, const std::vector<JobFact>& facts);
  void give_back(LookUps asked);  // the store could not be read

  bool due(Instant now) const { return now >= due_at_; }
  bool empty() const { return touched_.empty() && closed_.empty(); }
  // Takes all counts; they are in flight until written() or not_written(). nullptr = none.
  HistoryRowsPtr take();
  void written(Instant now);
  enum class Tried : std::uint8_t { nothing_to_write, failed, outcome_unknown };
  void not_written(Tried how, Instant now);
  // Grows with each take() and with its end: odd while rows are in flight.
  std::uint64_t takes() const { return takes_; }
  // Counts that no commit has written, including those in flight.
  HistoryRows unwritten() const;
  std::int64_t dropped() const { return dropped_; }

 private:
  void close(Series& series);
  Unknown* unknown(JobId id, WallTime now);
  void settle(const Unknown& one, const JobFact* fact);

  std::map<std::pair<std::string, std::string>, SeriesPtr> series_;
  std::vector<Series*> touched_;  // that may have counts
  HistoryRows closed_;            // of past minutes
  HistoryRowsPtr on_its_way_;
  std::uint64_t takes_ = 0;
  Instant due_at_;
  LookUps unknown_;
  std::int64_t dropped_ = 0;
};

}  // namespace mainspring
