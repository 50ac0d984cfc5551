// The state that the SQLite store keeps in memory: the order of available jobs, leases, counters.
// It is derived from the database, and rebuilt at open and after a failed commit.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/breaker.h"
#include "model/fair_keys.h"
#include "model/rate.h"
#include "model/slots.h"
#include "sql_store/body_cache.h"
#include "sql_store/running_jobs.h"
#include "store/store.h"

namespace mainspring::sql {

// Position of an available job in its ready queue: 16 bytes, ordered by (priority, run_at, id).
class ReadyKey {
 public:
  ReadyKey(int priority, WallTime run_at, JobId id)
      : rank_((static_cast<std::uint64_t>(priority) << 60) |
              static_cast<std::uint64_t>(run_at.us())),
        packed_(id * 2) {}
  JobId id() const { return packed_ >> 1; }
  // Never claimed and without special fields: a claim need not read its row. Not part of the order.
  bool fresh() const { return (packed_ & 1) != 0; }
  ReadyKey& set_fresh(bool fresh) {
    packed_ = id() * 2 + (fresh ? 1 : 0);
    return *this;
  }
  int priority() const { return static_cast<int>(rank_ >> 60); }
  WallTime run_at() const {
    return WallTime::from_us(static_cast<std::int64_t>(rank_ & ((1ULL << 60) - 1)));
  }
  friend bool operator<(const ReadyKey& a, const ReadyKey& b) {
    return a.rank_ != b.rank_ ? a.rank_ < b.rank_ : a.id() < b.id();
  }

 private:
  std::uint64_t rank_;
  std::int64_t packed_;  // id; the lowest bit is `fresh`
};
// Available jobs of one queue and kind. Kinds are separate, so that a claim for some kinds never
// walks past others.
using ReadyQueue = std::set<ReadyKey>;

struct QueueState;

// The jobs of a queue with the same limit_key: see limit_keys.cc.
struct LimitKey {
  // Available jobs of a kind and priority. Shown jobs are also in the ready queue, and precede the
  // hidden ones. None is shown while the key is full; otherwise the first, and jobs before it that
  // expired unclaimed. Per priority, because ageing may put an older job of a lower priority first.
  struct Line {
    ReadyQueue shown, hidden;
  };
  std::string key;
  QueueState* queue = nullptr;
  std::int64_t running = 0;
  std::int64_t extra = 0;                      // slots of running jobs beyond one each
  RateMeter meter{};                           // of the queue's rate per key
  std::optional<WallTime> opens_at{};          // closed by its rate until this time
  std::optional<RateOpening> opening{};        // when the rate admits more
  WallTime wakes_at = WallTime::never();       // its place in key_openings_: it has jobs
  WallTime forgotten_at = WallTime::never();   // its place in key_ends_: its meter is not new
  using Which = std::pair<std::int32_t, int>;  // kind, priority
  std::map<Which, Line> lines{};
  bool is_full() const;
  std::int64_t slots_taken() const { return running + extra; }
  void show(Which which, std::optional<ReadyKey> after);
  void hide(Which which, ReadyQueue::iterator one);
  void settle();  // shows and hides jobs by its capacity
};

// What waits if the first job of a stream does not fit: nothing, the job, its limit key, its queue,
// or the whole claim.
enum class Waits : std::uint8_t { no, job, key, queue, claim };

struct Breaker {
  std::string name;
  BreakerSettings settings;
  BreakerMeter meter;
  bool touched = false;                          // must be written with this batch
  BreakerState reported = BreakerState::closed;  // state before that
  std::vector<QueueState*> queues{};             // queues that use it
};
struct PublishedBreaker {
  BreakerSettings settings;
  BreakerMeter meter;
  std::vector<std::string> queues{};
};

// Counters of a queue, as stored in `job_counts`.
struct JobCounts {
  std::int64_t enqueued = 0, pruned = 0, expired = 0;
  std::array<std::int64_t, kJobStateCount> counts{};
  std::int64_t& operator[](JobState s) { return counts[static_cast<std::size_t>(s)]; }
};

// A searchable path of a queue: its row.
struct SearchPath {
  std::int64_t id = 0, queue = 0;
  std::string path;
  JobId above = 0;
  bool removed = false;
};

struct QueueState {
  std::int64_t id = 0;
  std::string name;
  bool paused = false;
  std::optional<QueuePause> pause;  // while it is paused
  std::optional<Duration> retention_completed, retention_dead;
  QueueLimits limits;
  RateMeter meter;                       // of limits.rate
  Breaker* breaker = nullptr;            // of limits.breaker
  std::optional<WallTime> opens_at;      // when more than now may start: OpenQueues
  std::int64_t extra = 0;                // slots of running jobs beyond one each
  bool limits_changed = false;           // these three must be written with this batch
  std::vector<std::int64_t> search_ids;  // rows of its searchable paths,
  std::vector<std::vector<std::string>> search_paths;  // and their names
  FairKeys fair_keys;                                  // of fair keys
  std::set<std::string> served_keys;                   // keys to be written with this batch
  std::size_t forget_fair_keys_at = 0;                 // forget keys above this number
  JobCounts job_counts;
  // Since when the queue is empty, and `job_counts.enqueued` at that time: see ForgetQueues. A
  // removed queue does not exist until more jobs are enqueued or it gets settings.
  std::optional<WallTime> empty_since;
  std::int64_t empty_at = 0;
  bool removed = false;
  bool is_removed() const { return removed && job_counts.enqueued == empty_at; }
  std::map<std::int32_t, ReadyQueue> ready;  // by kind; may contain empty ones
  // The subset of ready jobs that belong to sessions, with their kinds: used by claims of the
  // accept queue.
  std::map<ReadyKey, std::int32_t> ready_sessions;
  std::unordered_map<std::string, std::unique_ptr<LimitKey>> limit_keys;
  ReadyQueue quarantine;                // quarantined jobs that wait
  JobId released = 0;                   // the quarantined job that may start, or is running
  ReadyQueue keyed_times;               // available jobs of keys, as of priority 0
  bool has_work = false;                // it is in queues_with_work_
  bool touched = false;                 // job_counts must be written with this batch
  bool made_available = false;          // a job became available in this batch
  bool made_session_available = false;  // one of them is a session job
  QueueStats* published = nullptr;
  bool has_ready() const;
  bool is_closed() const;  // gives no job, as far as known without a clock
  std::int64_t slots_taken() const;
  int begins_awaited() const;                    // until opens_at; 0 = no claim waits
  std::optional<WallTime> closed_until() const;  // by its rate
  std::optional<WallTime> oldest() const;
  WallTime next_release() const;  // when its quarantine may release a job, if none is released
  JobId first_to_release(WallTime now) const;
};

// One claim that returned jobs: the common part of their leases.
struct Grant {
  Token token = 0;  // of the first job; the row in `grants`
  std::string worker;
  WallTime claimed_at;
  Instant claimed_instant;  // start of time limits; reset by a restart
  int remaining = 0;        // leases that have not ended
  std::shared_ptr<const RunningGrant> shown{};
};

// Two counters in jobs.flags: sql/sqlite/0001_schema.sql explains them.
inline constexpr int kLostUnit = 2097152, kLostFlags = kMaxLost * kLostUnit;
inline constexpr int kUnstartedUnit = (kMaxLost + 1) * kLostUnit,
                     kUnstartedFlags = kMaxUnstartedLosses * kUnstartedUnit;

struct Lease {
  Token token = 0;
  Grant* grant = nullptr;
  Instant expires_at;
  Duration length{0};  // the longest that was asked for
  Duration kept{0};    // the longest that a renewal returned; 0 = never renewed
  Duration timeout = kForever;
  WallTime run_at;
  QueueState* queue = nullptr;
  std::int64_t session = 0;  // its row; 0 = none
  LimitKey* limit_key = nullptr;
  std::int64_t version = 0;
  std::int32_t kind = 0;
  int priority = 5;
  int attempt = 0;  // this one
  int max_attempts = 0;
  int flags = 0;       // of the job's row
  bool noted = false;  // it has a row in lease_notes
  bool cancel_requested = false;
  std::string cancel_reason;
  Duration longest() const { return std::max(length, kept); }
  bool is_unstarted() const;  // never renewed: its worker may not have started the attempt
  bool over_limit(Instant now) const;
};

// A named lock (lease). A free lease without a value is kept until `ends`, so that its release can
// be repeated.
struct NamedLease {
  enum class State : std::uint8_t { held, released, expired };
  State state = State::held;
  std::string holder;  // the present or last one
  Token token = 0;
  Duration ttl{0};   // as last requested
  Duration kept{0};  // on disk: the longest time this holder asked for
  Instant ends;      // held: its expiry; released: when it is dropped
  WallTime since;
  std::string value;
  bool held(Instant now) const { return state == State::held && ends > now; }
};

// Key of a session: queue and session key.
using SessionPlace = std::pair<std::int64_t, std::string_view>;
struct HashSessionPlace {
  std::size_t operator()(const SessionPlace& place) const {
    return std::hash<std::string_view>()(place.second) ^
           std::hash<std::uint64_t>()(static_cast<std::uint64_t>(place.first) * 0x9e3779b97f4a7c15);
  }
};

// A session. In memory are the held sessions, and many that recent batches used.
struct Session {
  std::int64_t id = 0;
  QueueState* queue = nullptr;
  std::string key;
  std::int64_t jobs = 0;  // live jobs
  JobId head = 0;
  SessionStop stop = SessionStop::none;
  JobId stopped_by = 0;
  std::string worker;  // its holder
  Token token = 0;     // 0 = not held
  Duration lease{0};   // as last requested
  Duration kept{0};    // on disk: the longest time this holder asked for
  Instant ends;        // of the holder's lease
  std::int64_t state_bytes = 0;
  WallTime changed_at;
  bool ready = false;             // held: the head waits for a claim of the holder
  bool gained = false;            // `ready` became true in this batch
  bool stored = false;            // it has a row
  bool row_adds_nothing = false;  // the row says nothing that the jobs' rows do not say
  bool lags = false;              // the row is older than the jobs' rows
  bool changed = false;           // in this batch
  bool listed = false;            // in batch_sessions_
  bool used = true;               // used since the last eviction scan
  bool kept_in_memory = false;    // in kept_sessions_
  bool held() const { return token != 0; }
  bool stopped() const { return stop != SessionStop::none; }
  bool adds_nothing() const { return !held() && !stopped() && state_bytes == 0; }
  // Whether the session must be kept.
  bool lives() const { return jobs > 0 || held() || stopped() || state_bytes > 0; }
};

// A job of a session that the current operation ended.
struct EndedInSession {
  JobId id;
  QueueState* queue;
  std::int64_t session;  // 0 = to be looked up
  JobState state;
  int flags;
};

// A schedule, and its jobs that have not ended.
struct ScheduleState {
  std::int64_t id = 0;
  ScheduleInfo info;          // `live` and `buffered` are set when it is published
  std::set<JobId> live;       // may run
  std::set<JobId> waiting;    // for the live jobs to end; empty if there are none
  std::int64_t next_seq = 1;  // of its ledger
};

// The changes of a schedule in a batch that readers see.
struct TouchedSchedule {
  bool redefined = false;  // created or removed
  bool info = false;
  std::vector<std::pair<JobId, bool>> live;  // in order: became live, or ended
};
struct PublishedSchedule {
  ScheduleInfo info;  // without `live`
  std::set<JobId> live;
};

}  // namespace mainspring::sql
