// What the SQLite store keeps in memory: the order of available jobs, the leases, counters. All of
// it is derived from the database and rebuilt at open and after a failed commit.
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
#include "model/rate.h"
#include "model/slots.h"
#include "model/turns.h"
#include "store/store.h"
#include "store_sqlite/running_jobs.h"

namespace mainspring::sqlite {

// Place of an available job in its line: 16 bytes, ordered by (priority, run_at, id).
class ReadyKey {
 public:
  ReadyKey(int priority, WallTime run_at, JobId id)
      : rank_((static_cast<std::uint64_t>(priority) << 60) |
              static_cast<std::uint64_t>(run_at.us())),
        packed_(id * 2) {}
  JobId id() const { return packed_ >> 1; }
  // Never claimed and nothing special about it: its row need not be read to claim it. Not part of
  // the order.
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
  std::int64_t packed_;  // id, and fresh as the lowest bit
};
// Available jobs of one queue and kind. Kinds apart, so that a claim for some kinds never walks
// past others.
using ReadyLine = std::set<ReadyKey>;

struct QueueState;

// The jobs of a queue that have one limit_key: see limit_keys.cc.
struct LimitKey {
  // Available ones of a kind and priority. The shown stand in the line of the queue too, and before
  // the hidden: none while the key is full, else the first, and those before it that expired
  // unclaimed. By priority, since an older job of a lower one may be the first by now (ageing).
  struct Line {
    ReadyLine shown, hidden;
  };
  std::string key;
  QueueState* queue = nullptr;
  std::int64_t running = 0;
  std::int64_t extra = 0;                      // slots that these take beyond one each
  RateMeter meter{};                           // of the queue's rate per key
  std::optional<WallTime> opens_at{};          // closed by that rate until then
  std::optional<RateOpening> opening{};        // of that rate: when more may begin
  WallTime wakes_at = WallTime::never();       // its place in key_openings_: it has jobs then
  WallTime forgotten_at = WallTime::never();   // its place in key_ends_: its meter says something
  using Which = std::pair<std::int32_t, int>;  // kind, priority
  std::map<Which, Line> lines{};
  bool is_full() const;
  std::int64_t slots_taken() const { return running + extra; }
  void show(Which which, std::optional<ReadyKey> after);
  void hide(Which which, ReadyLine::iterator one);
  void settle();  // shows and hides what its room asks for
};

// Who waits where the first job of a line does not fit: what its limit key has, its queue, or the
// whole claim.
enum class Waits : std::uint8_t { nobody, job, key, queue, claim };

struct Breaker {
  std::string name;
  BreakerSettings settings;
  BreakerMeter meter;
  bool touched = false;                      // it is to be written with this batch
  BreakerState told = BreakerState::closed;  // how it was before that
  std::vector<QueueState*> queues{};         // that name it
};
struct PublishedBreaker {
  BreakerSettings settings;
  BreakerMeter meter;
  std::vector<std::string> queues{};
};

// Counters of a queue as they stand in `tallies`.
struct Tally {
  std::int64_t enqueued = 0, pruned = 0, expired = 0;
  std::array<std::int64_t, kJobStateCount> counts{};
  std::int64_t& operator[](JobState s) { return counts[static_cast<std::size_t>(s)]; }
};

struct QueueState {
  std::int64_t id = 0;
  std::string name;
  bool paused = false;
  std::optional<QueuePause> pause;  // while it is paused
  std::optional<Duration> retention_completed, retention_dead;
  QueueLimits limits;
  RateMeter meter;                   // of limits.rate
  Breaker* breaker = nullptr;        // of limits.breaker
  std::optional<WallTime> opens_at;  // more than now may begin from then on: OpenQueues
  std::int64_t extra = 0;            // slots that what runs takes beyond one for each job
  bool limits_changed = false;       // these three are to be written with this batch
  KeyTurns turns;                    // of fair keys
  std::set<std::string> turned;      // keys whose turns are to be written with this batch
  std::size_t forget_turns_at = 0;   // so many are known
  Tally tally;
  // Since when it is known to be empty, and `tally.enqueued` then: see ForgetQueues. A removed
  // queue is not there until more is enqueued or it gets settings.
  std::optional<WallTime> empty_since;
  std::int64_t empty_at = 0;
  bool removed = false;
  bool is_removed() const { return removed && tally.enqueued == empty_at; }
  std::map<std::int32_t, ReadyLine> ready;  // by kind; lines may be empty
  // Of those, the jobs that belong to sessions, with their kinds: what a claim of the accept line
  // draws from.
  std::map<ReadyKey, std::int32_t> ready_sessions;
  std::unordered_map<std::string, std::unique_ptr<LimitKey>> limit_keys;
  ReadyLine quarantine;                 // its jobs that wait there
  JobId released = 0;                   // the one of it that may begin, or runs
  ReadyLine keyed_times;                // their available jobs, as of priority 0
  bool touched = false;                 // tally is to be written with this batch
  bool made_available = false;          // something became available in this batch
  bool made_session_available = false;  // a job of a session among it
  QueueStats* published = nullptr;
  bool has_ready() const;
  bool is_closed() const;  // it gives nothing, as far as one knows without a clock
  std::int64_t slots_taken() const;
  int begins_awaited() const;                    // until opens_at; 0 = nobody waits
  std::optional<WallTime> closed_until() const;  // by its rate
  std::optional<WallTime> oldest() const;
  WallTime next_release() const;  // of its quarantine: when the first may be, if none is
  JobId first_to_release(WallTime now) const;
};

// One claim that gave jobs: what their leases have in common.
struct Grant {
  Token token = 0;  // of the first; the row in `grants`
  std::string worker;
  WallTime claimed_at;
  Instant claimed_instant;  // time limits are measured from here; a restart begins anew
  int remaining = 0;        // leases that have not ended
  std::shared_ptr<const RunningGrant> shown{};
};

struct Lease {
  Token token = 0;
  Grant* grant = nullptr;
  Instant expires_at;
  Duration length{0};
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
};

// A lease by name. One that is free and has no value is remembered until `ends`, so that its
// release can be repeated.
struct NamedLease {
  enum class State : std::uint8_t { held, released, expired };
  State state = State::held;
  std::string holder;  // the present or last one
  Token token = 0;
  Duration ttl{0};   // as it was last asked for
  Duration kept{0};  // as it is on disk: the longest that this holder asked for
  Instant ends;      // held: when it expires; released: when it is forgotten
  WallTime since;
  std::string value;
  bool held(Instant now) const { return state == State::held && ends > now; }
};

// Where a session is found: its queue and key.
using SessionPlace = std::pair<std::int64_t, std::string_view>;
struct HashSessionPlace {
  std::size_t operator()(const SessionPlace& place) const {
    return std::hash<std::string_view>()(place.second) ^
           std::hash<std::uint64_t>()(static_cast<std::uint64_t>(place.first) * 0x9e3779b97f4a7c15);
  }
};

// A session. In memory are those that are held, and many that batches were about lately.
struct Session {
  std::int64_t id = 0;
  QueueState* queue = nullptr;
  std::string key;
  std::int64_t jobs = 0;  // living
  JobId turn = 0;
  SessionStop stop = SessionStop::none;
  JobId stopped_by = 0;
  std::string worker;  // its holder
  Token token = 0;     // 0 = nobody holds it
  Duration lease{0};   // as it was last asked for
  Duration kept{0};    // as it is on disk: the longest that this holder asked for
  Instant ends;        // of the holder's lease
  std::int64_t state_bytes = 0;
  WallTime changed_at;
  bool ready = false;           // held: the job with the turn waits for a claim of the holder's
  bool gained = false;          // that became so in this batch
  bool stored = false;          // it has a row
  bool row_is_plain = false;    // which says nothing that the jobs do not say
  bool lags = false;            // and is behind them
  bool changed = false;         // in this batch
  bool listed = false;          // among those of this batch
  bool used = true;             // since it was last looked at who may leave memory
  bool kept_in_memory = false;  // listed among those that may
  bool held() const { return token != 0; }
  bool stopped() const { return stop != SessionStop::none; }
  bool is_plain() const { return !held() && !stopped() && state_bytes == 0; }
  // Otherwise it is gone.
  bool lives() const { return jobs > 0 || held() || stopped() || state_bytes > 0; }
};

// A job of a session that the operation under way ended.
struct EndedInSession {
  JobId id;
  QueueState* queue;
  std::int64_t session;  // 0 = to be found
  JobState state;
  int flags;
};

// A schedule, and which of its jobs have not ended.
struct ScheduleState {
  std::int64_t id = 0;
  ScheduleInfo info;          // `live` and `buffered` are filled in when it is published
  std::set<JobId> live;       // may run
  std::set<JobId> waiting;    // for the end of those; empty if there are none
  std::int64_t next_seq = 1;  // of its ledger
};

// What a batch changed of a schedule that readers see.
struct TouchedSchedule {
  bool anew = false;  // created or removed
  bool info = false;
  std::vector<std::pair<JobId, bool>> live;  // in order: lives now, or does not any more
};
struct PublishedSchedule {
  ScheduleInfo info;  // without `live`
  std::set<JobId> live;
};

}  // namespace mainspring::sqlite
