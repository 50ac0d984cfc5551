// Transfer: a store as records of no particular store, to be read from one and written to another
// while the one works on. The driver is engine/copy_store.h.
//
// What is large comes in blocks, each with a stamp that is another one when anything in the block
// has changed: so a second look costs one walk over what changes of the records, and carries only
// what differs.
//
//   source.look()                       one moment of the source, until the next look
//   source.blocks(section)              stamps ─┐
//   target.copied(section)              stamps ─┴▶ blocks that differ ─▶ their records, written
//   source.catalog() ─▶ target.write_catalog()    what is small, and the counters
//
// Every write of a target can be repeated: a copy that was broken off at any moment is begun again
// and goes on. Nobody can serve a target before complete(), nor a source behind mark_moved().
//
// Threads: one at a time. Errors: unavailable (try again), io_error, storage_full, conflict.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/store.h"

namespace mainspring {

// What changes of a job: another version or token for every change. Ordered by id.
struct JobStamp {
  JobId id = 0;
  std::int64_t version = 0;
  Token token = 0;
  JobState state = JobState::waiting;
  friend bool operator==(const JobStamp&, const JobStamp&) = default;
};

struct TransferError {
  std::int64_t seq = 0;  // grows with each error of a job
  std::int64_t attempt = 0, at = 0, ran_for = 0;
  std::string worker, message;
  std::string program_end;  // as api/program_end.h encodes it; "" = none
};

// What few jobs have.
struct TransferExtras {
  std::optional<std::string> result, checkpoint, progress_text, reason, description, warning;
  std::optional<double> progress_value;
};

// A job with all that is its own. Times and durations in microseconds, 0 = none.
struct TransferJob {
  JobStamp stamp;
  std::string queue, kind;
  int priority = 5;
  int attempt = 0;  // of a running one: this one
  int max_attempts = 20;
  int budget = 20;  // max_attempts as enqueued
  bool expired = false;
  bool followed = false;  // something is made when it ends: of follow_ups, reply_to
  std::int64_t run_at = 0, created_at = 0, started_at = 0, finished_at = 0, expires_at = 0;
  std::int64_t timeout = 0;   // kForever.count() = none
  std::int64_t schedule = 0;  // that made it
  std::string args, headers, correlation_id, reply_to, unique_key;
  std::string follow_ups;  // as api/follow_ups.h encodes them; "" = none
  std::string session, reply_session, limit_key;
  int trigger_depth = 0;
  OnDead on_dead = OnDead::skip;
  bool of_step = false, unknown = false;  // of a workflow; see StepEnd
  bool deferred = false;
  int lost = 0;                  // see Quarantine; of one that lives
  std::int64_t quarantined = 0;  // since
  WorkflowId workflow = 0;       // that waits for its end; 0 = none does
  int step = 0;
  bool undo = false;
  OnExpiry on_expiry = OnExpiry::cancel;
  std::vector<std::string> tags;
  std::optional<std::int64_t>
      unique_until;  // it holds its key, until then at least if it has ended
  // Of a running one. The lease begins anew at the target.
  std::string worker;
  std::int64_t lease = 0;
  bool cancel_requested = false;
  std::string cancel_reason;
  std::optional<TransferExtras> extras;
  std::vector<TransferError> errors;
  std::vector<Memo> memos{};  // by name
};

// Which ended jobs go when.
struct TransferFinished {
  std::int64_t prune_at = 0, seq = 0, at = 0;
  std::vector<JobId> ids;
};

struct TransferKey {
  std::string key, fingerprint;
  std::int64_t expires_at = 0;
  std::vector<JobId> ids;
};

// A unique key whose job has been pruned, and whose window was open then.
struct TransferWindow {
  std::string queue, key;
  JobId id = 0;
  JobState ended = JobState::completed;
  std::int64_t until = 0;
};

// A row of the history.
struct TransferHistory {
  std::int64_t span = 0, at = 0;
  std::string queue, kind;               // as of HistoryEntry
  std::array<std::int64_t, 6> counts{};  // enqueued, started, completed, failed, dead, cancelled
  std::string wait, run;                 // TimeSketch::text()
};

// A workflow, and the rows below it.
struct TransferWorkflow {
  WorkflowId id = 0;
  std::string name, key, data;
  std::int64_t state = 0;
  std::optional<std::int64_t> wake_at, finished_at;
};
struct TransferWorkflowRow {
  WorkflowId workflow = 0;
  std::int64_t kind = 0, number = 0;
  std::string text;
};

struct TransferTick {
  std::int64_t schedule = 0, seq = 0, version = 0, nominal = 0;
  std::optional<std::int64_t> until, job;
  std::int64_t count = 0, source = 0, state = 0, decided_at = 0;
  bool past_due = false;
  std::string reason, note;
};

// -- what is small -------------------------------------------------------------------------------

struct TransferQueue {
  std::string name;
  bool paused = false;
  std::optional<std::int64_t> retention_completed, retention_dead;
  std::int64_t enqueued = 0, pruned = 0, expired = 0;
  std::array<std::int64_t, kJobStateCount> counts{};
  std::string limits{}, meter{};                    // as text; "" = none
  std::optional<std::int64_t> opens_at{};           // closed by its rate until then
  std::map<std::string, std::string> key_meters{};  // of a rate per key, as text
  std::string pause{};                              // as text; "" = none
  friend bool operator==(const TransferQueue&, const TransferQueue&) = default;
};

struct TransferBreaker {
  std::string name, settings, state;  // as text
  friend bool operator==(const TransferBreaker&, const TransferBreaker&) = default;
};

struct TransferSchedule {
  std::string name;
  std::int64_t id = 0, version = 0;
  std::string definition, paused_reason, skip_reason;
  bool paused = false;
  std::int64_t next = 0, next_fire = 0, skip_before = 0, fired = 0, last_job = 0;
  std::optional<std::int64_t> remaining, last_fired, timeout_override;
  std::int64_t created_at = 0, updated_at = 0, next_seq = 1;
  friend bool operator==(const TransferSchedule&, const TransferSchedule&) = default;
};

struct TransferTie {
  JobId job = 0;
  std::int64_t schedule = 0;
  bool waits = false;
  friend bool operator==(const TransferTie&, const TransferTie&) = default;
};

struct TransferToken {
  std::string name, digest, scopes, created_by;
  std::int64_t rate = 0, created_at = 0, expires_at = 0;
  std::optional<std::int64_t> revoked_at;
  friend bool operator==(const TransferToken&, const TransferToken&) = default;
};

// A lease by name; it begins anew at the target.
struct TransferLease {
  std::string name, holder, value;
  std::int64_t state = 0;  // 0 held 1 released 2 expired
  Token token = 0;
  std::int64_t ttl = 0, since = 0;
  friend bool operator==(const TransferLease&, const TransferLease&) = default;
};

// A session. Who waits for its turn is in its jobs: those that are waiting, and have it not. Its
// holder's lease begins anew at the target.
struct TransferSession {
  SessionKey session;
  JobId turn = 0;
  std::int64_t jobs = 0;  // living
  SessionStop stop = SessionStop::none;
  JobId stopped_by = 0;
  std::string worker;
  Token token = 0;         // of the holder; 0 = none
  std::int64_t lease = 0;  // the longest that it asked for
  std::string state;
  std::int64_t changed_at = 0;
  friend bool operator==(const TransferSession&, const TransferSession&) = default;
};

// A trigger, and a row of its ledger.
struct TransferTrigger {
  std::string name, definition, state, secret;
  friend bool operator==(const TransferTrigger&, const TransferTrigger&) = default;
};
struct TransferTriggerEvent {
  std::pair<std::string, std::int64_t> place;  // the trigger, and the row's number
  std::string event;
  std::int64_t fired_at = 0;
  std::optional<std::int64_t> made_at;
  JobId job = 0;
  std::string reason;  // "" = none
  friend bool operator==(const TransferTriggerEvent&, const TransferTriggerEvent&) = default;
};

// The numbers that will be given next.
struct TransferNumbers {
  JobId next_id = 1;
  Token next_token = 1;
  std::int64_t last_schedule = 0;  // given
  WorkflowId next_workflow = 1;
};

// Everything that is small, as it was at one moment. Each list is ordered by its first field.
struct TransferCatalog {
  std::vector<TransferQueue> queues;
  std::vector<TransferBreaker> breakers;
  std::vector<TransferSchedule> schedules;
  std::map<std::string, std::int64_t> removed_schedules;  // the last version
  std::vector<TransferTie> ties;
  std::vector<TransferToken> tokens;
  std::vector<TransferLease> leases;
  std::vector<TransferSession> sessions;
  std::vector<TransferTrigger> triggers;
  std::vector<TransferTriggerEvent> trigger_events;
  std::vector<Mark> marks;
  std::vector<SavedView> views;
  AuditState audit;
  TransferNumbers numbers;
};

// -- both ends -----------------------------------------------------------------------------------

// What comes in blocks.
enum class TransferSection : std::uint8_t {
  jobs,       // by id
  finished,   // by the time of removal
  keys,       // idempotency keys, by the time that they expire
  workflows,  // by id; their data grows a version with every change
  windows,    // unique keys of pruned jobs, by the end of their windows
  history,    // by time
};
inline constexpr std::array kTransferSections = {
    TransferSection::jobs,      TransferSection::finished, TransferSection::keys,
    TransferSection::workflows, TransferSection::windows,  TransferSection::history};
inline constexpr std::int64_t kTransferJobs = 1024;        // ids in a block
inline constexpr std::int64_t kTransferWorkflows = 16;     // the same of workflows
inline constexpr std::int64_t kTransferSpan = 10'000'000;  // microseconds in a block of the others,
inline constexpr std::int64_t kTransferWindowSpan = 60'000'000;  // and of windows: those are long
inline constexpr std::int64_t kTransferHistorySpan = 3600'000'000;  // and of the history: an hour
// Bytes of payload that one answer holds, beyond its first record.
inline constexpr std::size_t kTransferBytes = 8 << 20;
// Of ledgers, the audit and workflows, in one answer.
inline constexpr std::int64_t kTransferRows = 1000;

inline constexpr std::int64_t kUnknownRows = -1;
struct TransferBlock {
  std::int64_t rows = 0;
  std::int64_t stamp = 0;
};
using TransferBlocks = std::map<std::int64_t, TransferBlock>;  // by number; those without rows not

// A store as others name it.
struct TransferPlace {
  std::string store;  // its number
  std::string place;  // in words
  friend bool operator==(const TransferPlace&, const TransferPlace&) = default;
};

class TransferSource {
 public:
  virtual ~TransferSource() = default;
  virtual TransferPlace place() const = 0;
  // Where it has moved; nullopt = it has not.
  virtual Result<std::optional<TransferPlace>> moved() = 0;

  // From here on everything is read as it is now.
  virtual Result<void> look() = 0;
  // The same, and nobody else changes anything until lift() or mark_moved(). Waits up to `patience`
  // for those who are changing something. Errors: unavailable (they did not end), conflict (moved).
  virtual Result<void> fence(Duration patience) = 0;
  virtual void lift() noexcept = 0;
  // The end of this store, durably; the fence ends with it.
  virtual Result<void> mark_moved(const TransferPlace& to, WallTime now) = 0;

  // All of them, or that one.
  virtual Result<TransferBlocks> blocks(TransferSection section,
                                        std::optional<std::int64_t> only) = 0;
  virtual Result<std::vector<JobStamp>> stamps(std::int64_t block) = 0;
  // As many of `ids` (ascending, of one block) as fit into kTransferBytes, at least one; those that
  // are gone are passed over. Answers how many of `ids` it went through.
  virtual Result<std::size_t> jobs(std::span<const JobId> ids, std::vector<TransferJob>& out) = 0;
  virtual Result<std::vector<TransferFinished>> finished(std::int64_t block) = 0;
  virtual Result<std::vector<TransferKey>> keys(std::int64_t block) = 0;
  virtual Result<std::vector<TransferWindow>> windows(std::int64_t block) = 0;
  virtual Result<std::vector<TransferHistory>> history(std::int64_t block) = 0;
  virtual Result<std::vector<TransferWorkflow>> workflows(std::int64_t block) = 0;
  // Rows below those of the block, ascending by workflow, kind and number, from behind `after` on
  // (nullptr = from the first): at most kTransferRows.
  virtual Result<std::vector<TransferWorkflowRow>> workflow_rows(
      std::int64_t block, const TransferWorkflowRow* after) = 0;
  virtual Result<TransferCatalog> catalog() = 0;
  // At most kTransferRows rows with a greater seq, ascending.
  virtual Result<std::vector<TransferTick>> ledger(std::int64_t schedule, std::int64_t after) = 0;
  virtual Result<std::vector<AuditRecord>> audit(std::int64_t after) = 0;
};

class TransferTarget {
 public:
  virtual ~TransferTarget() = default;
  virtual TransferPlace place() const = 0;
  // Of which store it is the unfinished copy; nullopt = it is empty and has not been begun. Errors:
  // conflict (it holds something, says what; somebody has it open).
  virtual Result<std::optional<TransferPlace>> unfinished() = 0;
  // Makes it the unfinished copy of `source`, or this process the one that goes on with it.
  virtual Result<void> begin(const TransferPlace& source, WallTime now) = 0;

  // Blocks as they were written, with the stamps that were noted. One that was written since has no
  // stamp: kUnknownRows.
  virtual Result<TransferBlocks> copied(TransferSection section) = 0;
  virtual Result<void> note(TransferSection section, std::int64_t block, TransferBlock is) = 0;
  virtual Result<std::vector<JobStamp>> stamps(std::int64_t block) = 0;
  // Replaces jobs, or adds them. `now` is when leases begin anew.
  virtual Result<void> write_jobs(std::span<const TransferJob> jobs, Now now) = 0;
  virtual Result<void> remove_jobs(std::span<const JobStamp> jobs) = 0;
  // Replace a block.
  virtual Result<void> write_finished(std::int64_t block,
                                      std::span<const TransferFinished> rows) = 0;
  virtual Result<void> write_keys(std::int64_t block, std::span<const TransferKey> rows) = 0;
  virtual Result<void> write_windows(std::int64_t block, std::span<const TransferWindow> rows) = 0;
  virtual Result<void> write_history(std::int64_t block, std::span<const TransferHistory> rows) = 0;
  // Replaces a block, and takes the rows below away; those are added behind it.
  virtual Result<void> write_workflows(std::int64_t block,
                                       std::span<const TransferWorkflow> rows) = 0;
  virtual Result<void> append_workflow_rows(std::span<const TransferWorkflowRow> rows) = 0;
  // What differs from `before`, which was written last; nullptr = that is not known.
  virtual Result<void> write_catalog(const TransferCatalog& is, const TransferCatalog* before,
                                     Now now) = 0;
  // By schedule: the last row that is there. Rows are appended, those that are not kept any more
  // removed.
  virtual Result<std::map<std::int64_t, std::int64_t>> ledgers() = 0;
  virtual Result<void> append_ledger(std::span<const TransferTick> rows) = 0;
  virtual Result<std::int64_t> last_audit() = 0;
  virtual Result<void> append_audit(std::span<const AuditRecord> rows) = 0;

  virtual Result<VerifyReport> verify() = 0;
  // The numbers that it will give, and all that was written, durably. It is still unfinished.
  virtual Result<void> seal(const TransferNumbers& numbers) = 0;
  // From now on it can be served. May be repeated.
  virtual Result<void> complete(WallTime now) = 0;
};

// How copies go on with numbers: tokens above all that can have been given, by the time; ids too,
// where the other store lives on and gives more.
enum class SourceGoesOn : bool { no, yes };
TransferNumbers numbers_of_copy(const TransferNumbers& source, SourceGoesOn goes_on, WallTime now);

// -- inside --------------------------------------------------------------------------------------

inline TransferNumbers numbers_of_copy(const TransferNumbers& source, SourceGoesOn goes_on,
                                       WallTime now) {
  constexpr std::int64_t kIdStride = 1'000'000'000;
  constexpr int kTokensPerSecondBits = 21;  // more claims per second than any store can give
  TransferNumbers out = source;
  if (goes_on == SourceGoesOn::yes) out.next_id += kIdStride, out.next_workflow += kIdStride;
  out.next_token = std::max(source.next_token + 1, (now.us() / 1'000'000) << kTokensPerSecondBits);
  return out;
}

inline std::int64_t transfer_block_size(TransferSection section) {
  if (section == TransferSection::jobs) return kTransferJobs;
  if (section == TransferSection::windows) return kTransferWindowSpan;
  if (section == TransferSection::history) return kTransferHistorySpan;
  return section == TransferSection::workflows ? kTransferWorkflows : kTransferSpan;
}

// Of a row of numbers: mixes one more into a stamp. Source: splitmix64, as env/random.h.
inline std::uint64_t mix_stamp(std::uint64_t stamp, std::int64_t value) {
  std::uint64_t z = stamp + 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(value);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// What two ordered lists differ in, by key: keys of `before` that are gone or changed, and rows of
// `is` that are new or changed. `before` nullptr = all are new.
template <class Row, class Key>
struct TransferDifference {
  std::vector<Key> gone;
  std::vector<const Row*> come;
};
template <class Row, class KeyOf>
auto transfer_difference(const std::vector<Row>& is, const std::vector<Row>* before, KeyOf key_of) {
  TransferDifference<Row, std::decay_t<decltype(key_of(is.front()))>> out;
  auto old = before == nullptr ? is.end() : before->begin();
  const auto end = before == nullptr ? is.end() : before->end();
  for (const Row& row : is) {
    for (; old != end && key_of(*old) < key_of(row); ++old) out.gone.push_back(key_of(*old));
    const bool known = old != end && key_of(*old) == key_of(row);
    if (known && *old == row) {
      ++old;
      continue;
    }
    if (known) out.gone.push_back(key_of(*old++));
    out.come.push_back(&row);
  }
  for (; old != end; ++old) out.gone.push_back(key_of(*old));
  return out;
}

}  // namespace mainspring
