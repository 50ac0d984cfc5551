// Transfer: a store as generic records, to copy one store to another while the source is running.
// The driver is engine/copy_store.h.
//
// Large data is divided into blocks. A block's stamp changes with any change in the block. So a
// second pass walks only the records' versions and copies only the blocks that differ.
//
//   source.look()                       one moment of the source, until the next look
//   source.blocks(section)              stamps ─┐
//   target.copied(section)              stamps ─┴▶ blocks that differ ─▶ their records, written
//   source.catalog() ─▶ target.write_catalog()    small data, and the counters
//
// Every write to a target can be repeated: a copy that was interrupted at any moment can be started
// again and continues. A target cannot be served before complete(), nor a source after
// mark_moved().
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

// The part of a job that differs after every change: its version or token. Ordered by id.
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

// Fields that few jobs have.
struct TransferExtras {
  std::optional<std::string> result, checkpoint, progress_text, reason, description, warning;
  std::optional<double> progress_value;
};

// A job with all its own data. Times and durations in microseconds, 0 = none.
struct TransferJob {
  JobStamp stamp;
  std::string queue, kind;
  int priority = 5;
  int attempt = 0;  // for a running job: the current one
  int max_attempts = 20;
  int budget = 20;  // max_attempts as enqueued
  bool expired = false;
  bool followed = false;  // its end makes something: follow_ups, reply_to
  std::int64_t run_at = 0, created_at = 0, started_at = 0, finished_at = 0, expires_at = 0;
  std::int64_t timeout = 0;   // kForever.count() = none
  std::int64_t schedule = 0;  // the schedule that made it
  std::string args, headers, correlation_id, reply_to, unique_key;
  std::string follow_ups;  // as api/follow_ups.h encodes them; "" = none
  std::string session, reply_session, limit_key;
  int trigger_depth = 0;
  OnDead on_dead = OnDead::skip;
  bool of_step = false, unknown = false;  // of a workflow; see StepEnd
  bool deferred = false;
  int lost = 0;  // see Quarantine; for live jobs. Plus kMaxLost + 1 for each loss not counted
  std::int64_t quarantined = 0;  // quarantined since
  WorkflowId workflow = 0;       // the workflow that waits for its end; 0 = none
  int step = 0;
  bool undo = false;
  OnExpiry on_expiry = OnExpiry::cancel;
  std::vector<std::string> tags;
  std::optional<std::int64_t>
      unique_until;  // it holds its key, after its end at least until this time
  // For a running job. The target starts the lease again.
  std::string worker;
  std::int64_t lease = 0, kept = 0;  // the longest asked for, the longest returned
  bool cancel_requested = false;
  std::string cancel_reason;
  std::optional<TransferExtras> extras;
  std::vector<TransferError> errors;
  std::vector<Memo> memos{};  // by name
};
// What fingerprint_of() reads of a dead one.
inline Job dead_job(const TransferJob& job) {
  Job dead{.kind = job.kind};
  if (job.extras) dead.reason = job.extras->reason.value_or("");
  if (job.extras) dead.description = job.extras->description.value_or("");
  return dead;
}

// When ended jobs are removed.
struct TransferFinished {
  std::int64_t prune_at = 0, seq = 0, at = 0;
  std::vector<JobId> ids;
};

struct TransferKey {
  std::string key, fingerprint;
  std::int64_t expires_at = 0;
  std::vector<JobId> ids;
};

// A unique key of a pruned job whose window was still open.
struct TransferWindow {
  std::string queue, key;
  JobId id = 0;
  JobState ended = JobState::completed;
  std::int64_t until = 0;
};

// A row of the history.
struct TransferHistory {
  std::int64_t span = 0, at = 0;
  std::string queue, kind;               // as in HistoryEntry
  std::array<std::int64_t, 6> counts{};  // enqueued, started, completed, failed, dead, cancelled
  std::string wait, run;                 // TimeSketch::text()
};

// A workflow, and its rows.
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

// -- small data ----------------------------------------------------------------------------------

struct TransferQueue {
  std::string name;
  bool paused = false;
  std::optional<std::int64_t> retention_completed, retention_dead;
  std::int64_t enqueued = 0, pruned = 0, expired = 0;
  std::array<std::int64_t, kJobStateCount> counts{};
  std::string limits{}, meter{};                    // as text; "" = none
  std::optional<std::int64_t> opens_at{};           // closed by its rate until this time
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

struct TransferLink {
  JobId job = 0;
  std::int64_t schedule = 0;
  bool waits = false;
  friend bool operator==(const TransferLink&, const TransferLink&) = default;
};

struct TransferToken {
  std::string name, digest, scopes, created_by;
  std::int64_t rate = 0, created_at = 0, expires_at = 0;
  std::optional<std::int64_t> revoked_at;
  friend bool operator==(const TransferToken&, const TransferToken&) = default;
};

// A named lock (lease). The target starts the lease again.
struct TransferLease {
  std::string name, holder, value;
  std::int64_t state = 0;  // 0 held 1 released 2 expired
  Token token = 0;
  std::int64_t ttl = 0, since = 0;
  friend bool operator==(const TransferLease&, const TransferLease&) = default;
};

// A session. Its waiting jobs are the jobs in state waiting that are not its head. The target
// starts the holder's lease again.
struct TransferSession {
  SessionKey session;
  JobId head = 0;
  std::int64_t jobs = 0;  // live jobs
  SessionStop stop = SessionStop::none;
  JobId stopped_by = 0;
  std::string worker;
  Token token = 0;         // of the holder; 0 = none
  std::int64_t lease = 0;  // the longest lease requested
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

// The last numbers given; the copy continues from them.
struct TransferNumbers {
  JobId next_id = 1;
  Token next_token = 1;
  std::int64_t last_schedule = 0;  // last number given
  WorkflowId next_workflow = 1;
};

// All small data, as of one moment. Each list is ordered by its first field.
struct TransferCatalog {
  std::vector<TransferQueue> queues;
  std::vector<TransferBreaker> breakers;
  std::vector<TransferSchedule> schedules;
  std::map<std::string, std::int64_t> removed_schedules;  // the last version
  std::vector<TransferLink> links;
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

// -- source and target ---------------------------------------------------------------------------

// The data that is divided into blocks.
enum class TransferSection : std::uint8_t {
  jobs,       // by id
  finished,   // by the time of removal
  keys,       // idempotency keys, by expiry time
  workflows,  // by id; every change of a workflow increments its version
  windows,    // unique keys of pruned jobs, by the end of their windows
  history,    // by time
};
inline constexpr std::array kTransferSections = {
    TransferSection::jobs,      TransferSection::finished, TransferSection::keys,
    TransferSection::workflows, TransferSection::windows,  TransferSection::history};
inline constexpr std::int64_t kTransferJobs = 1024;        // ids in a block
inline constexpr std::int64_t kTransferWorkflows = 16;     // ids in a block of workflows
inline constexpr std::int64_t kTransferSpan = 10'000'000;  // microseconds per block of the others
inline constexpr std::int64_t kTransferWindowSpan = 60'000'000;     // windows: they are long
inline constexpr std::int64_t kTransferHistorySpan = 3600'000'000;  // of the history: one hour
// Payload bytes per answer, beyond its first record.
inline constexpr std::size_t kTransferBytes = 8 << 20;
// Maximum rows of ledgers, audit and workflows per answer.
inline constexpr std::int64_t kTransferRows = 1000;

inline constexpr std::int64_t kUnknownRows = -1;
struct TransferBlock {
  std::int64_t rows = 0;
  std::int64_t stamp = 0;
};
using TransferBlocks = std::map<std::int64_t, TransferBlock>;  // by number; blocks without rows are
                                                               // omitted

// A store as another store refers to it.
struct TransferPlace {
  std::string store;  // its id
  std::string place;  // for people
  friend bool operator==(const TransferPlace&, const TransferPlace&) = default;
};

class TransferSource {
 public:
  virtual ~TransferSource() = default;
  virtual TransferPlace place() const = 0;
  // Where the store has moved; nullopt = not moved.
  virtual Result<std::optional<TransferPlace>> moved() = 0;

  // Starts a new snapshot for all reads.
  virtual Result<void> look() = 0;
  // Like look(), and no other process changes the store until lift() or mark_moved(). Waits up to
  // `patience` for running changes. Errors: unavailable (they did not end), conflict (moved).
  virtual Result<void> fence(Duration patience) = 0;
  virtual void lift() noexcept = 0;
  // Retires this store, durably; this also ends the fence.
  virtual Result<void> mark_moved(const TransferPlace& to, WallTime now) = 0;

  // All blocks of a section, or one block.
  virtual Result<TransferBlocks> blocks(TransferSection section,
                                        std::optional<std::int64_t> only) = 0;
  virtual Result<std::vector<JobStamp>> stamps(std::int64_t block) = 0;
  // Reads jobs in the order of `ids` (ascending, of one block) up to kTransferBytes, at least one.
  // Skips jobs that no longer exist. Answers how many of `ids` were processed.
  virtual Result<std::size_t> jobs(std::span<const JobId> ids, std::vector<TransferJob>& out) = 0;
  virtual Result<std::vector<TransferFinished>> finished(std::int64_t block) = 0;
  virtual Result<std::vector<TransferKey>> keys(std::int64_t block) = 0;
  virtual Result<std::vector<TransferWindow>> windows(std::int64_t block) = 0;
  virtual Result<std::vector<TransferHistory>> history(std::int64_t block) = 0;
  virtual Result<std::vector<TransferWorkflow>> workflows(std::int64_t block) = 0;
  // Workflow rows of a block, ascending by workflow, kind and number, starting after `after`
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
  // The source of an unfinished copy; nullopt = the store is empty and no copy was started. Errors:
  // conflict (it holds data, the error says what; another process has it open).
  virtual Result<std::optional<TransferPlace>> unfinished() = 0;
  // Makes this store the unfinished copy of `source`, or makes this process continue that copy.
  virtual Result<void> begin(const TransferPlace& source, WallTime now) = 0;

  // The blocks as written, with their recorded stamps. A block written since then has no stamp:
  // kUnknownRows.
  virtual Result<TransferBlocks> copied(TransferSection section) = 0;
  virtual Result<void> note(TransferSection section, std::int64_t block, TransferBlock is) = 0;
  virtual Result<std::vector<JobStamp>> stamps(std::int64_t block) = 0;
  // Replaces or adds jobs. Leases start at `now`.
  virtual Result<void> write_jobs(std::span<const TransferJob> jobs, Now now) = 0;
  virtual Result<void> remove_jobs(std::span<const JobStamp> jobs) = 0;
  // Replaces a block.
  virtual Result<void> write_finished(std::int64_t block,
                                      std::span<const TransferFinished> rows) = 0;
  virtual Result<void> write_keys(std::int64_t block, std::span<const TransferKey> rows) = 0;
  virtual Result<void> write_windows(std::int64_t block, std::span<const TransferWindow> rows) = 0;
  virtual Result<void> write_history(std::int64_t block, std::span<const TransferHistory> rows) = 0;
  // Replaces a block and removes the rows of its workflows; append_workflow_rows() adds the new
  // rows.
  virtual Result<void> write_workflows(std::int64_t block,
                                       std::span<const TransferWorkflow> rows) = 0;
  virtual Result<void> append_workflow_rows(std::span<const TransferWorkflowRow> rows) = 0;
  // Writes the differences from `before`, the catalog written last; nullptr = unknown.
  virtual Result<void> write_catalog(const TransferCatalog& is, const TransferCatalog* before,
                                     Now now) = 0;
  // The last stored row of each schedule. append_ledger() also removes rows that are no longer
  // needed.
  virtual Result<std::map<std::int64_t, std::int64_t>> ledgers() = 0;
  virtual Result<void> append_ledger(std::span<const TransferTick> rows) = 0;
  virtual Result<std::int64_t> last_audit() = 0;
  virtual Result<void> append_audit(std::span<const AuditRecord> rows) = 0;

  virtual Result<VerifyReport> verify() = 0;
  // Makes the next numbers and all written data durable. The copy is still unfinished.
  virtual Result<void> seal(const TransferNumbers& numbers) = 0;
  // Allows the store to be served. Can be repeated.
  virtual Result<void> complete(WallTime now) = 0;
};

// How a copy continues the source's numbers. Tokens start above every token that the source can
// have given, by the time. If the source continues to run and gives more, ids do too.
enum class SourceGoesOn : bool { no, yes };
TransferNumbers numbers_of_copy(const TransferNumbers& source, SourceGoesOn goes_on, WallTime now);

// -- internal ------------------------------------------------------------------------------------

inline TransferNumbers numbers_of_copy(const TransferNumbers& source, SourceGoesOn goes_on,
                                       WallTime now) {
  constexpr std::int64_t kIdStride = 1'000'000'000;
  constexpr int kTokensPerSecondBits = 21;  // more claims per second than any store can reach
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

// Mixes one value of a row into a stamp. Source: splitmix64, as in env/random.h.
inline std::uint64_t mix_stamp(std::uint64_t stamp, std::int64_t value) {
  std::uint64_t z = stamp + 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(value);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// The difference of two ordered lists by key: keys of `before` that are removed or changed, and
// rows of `is` that are new or changed. `before` nullptr = all are new.
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
