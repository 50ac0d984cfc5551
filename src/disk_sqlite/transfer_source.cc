// Reads a store for a copy, on a connection of its own. A snapshot is a read transaction. The fence
// is the write lock, which delays the server's batches.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_map>

#include "base/mutant.h"
#include "disk_sqlite/transfer.h"
#include "disk_sqlite/transfer_rows.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/session_rows.h"
#include "sql_store/store_impl.h"

namespace mainspring::sqlite {

using namespace sql;  // it copies the rows of the engine
namespace {

// A running job: its row does not say that it runs.
struct Running {
  Token token = 0;
  std::string worker;
  std::int64_t claimed_at = 0, length = 0, version = 0;
  bool cancel_requested = false;
  std::string cancel_reason;
  std::int64_t kept = 0;
};

class SqliteSource final : public TransferSource {
 public:
  SqliteSource(const std::string& directory, SourceGoesOn goes_on)
      : db_(database_of(directory),
            goes_on == SourceGoesOn::yes ? Database::Mode::read_only : Database::Mode::read_write,
            "") {
    check_schema(db_, directory);
    place_ = {read_move(db_, "self").value_or(TransferPlace{}).store, whole_path(directory)};
    statements_ = std::make_unique<Statements>(db_);
  }

  TransferPlace place() const override { return place_; }
  Result<std::optional<TransferPlace>> moved() override {
    return guarded(
        [&]() -> Result<std::optional<TransferPlace>> { return read_move(db_, "moved"); });
  }

  Result<void> look() override {
    return guarded([&]() -> Result<void> {
      lift();
      db_.execute("BEGIN");
      load_running();
      return {};
    });
  }

  Result<void> fence(Duration patience) override {
    return guarded([&]() -> Result<void> {
      lift();
      begin_alone(patience);
      if (const auto to = read_move(db_, "moved")) {
        lift();
        return Error{.code = ErrorCode::conflict,
                     .message = fmt::format("{} has moved to {}", place_.place, to->place)};
      }
      load_running();
      return {};
    });
  }

  void lift() noexcept override {
    if (sqlite3_get_autocommit(db_.handle()) == 0)
      sqlite3_exec(db_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
  }

  Result<void> mark_moved(const TransferPlace& to, WallTime now) override {
    return guarded([&]() -> Result<void> {
      write_move(db_, "moved", to, now);
      db_.execute("COMMIT");
      return {};
    });
  }

  Result<TransferBlocks> blocks(TransferSection section, std::optional<std::int64_t> only) override;
  Result<std::vector<JobStamp>> stamps(std::int64_t block) override;
  Result<std::size_t> jobs(std::span<const JobId> ids, std::vector<TransferJob>& out) override;
  Result<std::vector<TransferFinished>> finished(std::int64_t block) override;
  Result<std::vector<TransferKey>> keys(std::int64_t block) override;
  Result<std::vector<TransferWindow>> windows(std::int64_t block) override;
  Result<std::vector<TransferHistory>> history(std::int64_t block) override;
  Result<std::vector<TransferWorkflow>> workflows(std::int64_t block) override;
  Result<std::vector<TransferWorkflowRow>> workflow_rows(std::int64_t block,
                                                         const TransferWorkflowRow* after) override;
  Result<TransferCatalog> catalog() override;
  Result<std::vector<TransferTick>> ledger(std::int64_t schedule, std::int64_t after) override;
  Result<std::vector<AuditRecord>> audit(std::int64_t after) override;

 private:
  struct Statements {
    explicit Statements(Database& db)
        : running(db, queries::transfer::running),
          job(db, queries::transfer::job),
          errors(db, queries::transfer::job_errors),
          memos(db, queries::transfer::memos),
          stamps(db, queries::transfer::stamps),
          finished_stamps(db, queries::transfer::finished_stamps),
          key_stamps(db, queries::transfer::key_stamps),
          window_stamps(db, queries::transfer::window_stamps),
          windows(db, queries::transfer::windows),
          history_stamps(db, queries::transfer::history_stamps),
          history(db, queries::transfer::history),
          workflow_stamps(db, queries::transfer::workflow_stamps),
          workflows(db, queries::transfer::workflows),
          workflow_rows(db, queries::transfer::workflow_rows),
          finished(db, queries::transfer::finished),
          keys(db, queries::transfer::keys),
          ledger(db, queries::transfer::ledger),
          audit(db, queries::transfer::audit) {}
    Statement running, job, errors, memos, stamps, finished_stamps, key_stamps, window_stamps,
        windows, history_stamps, history, workflow_stamps, workflows, workflow_rows, finished, keys,
        ledger, audit;
  };

  void begin_alone(Duration patience);
  void load_running();
  JobStamp stamp_of(const Statement& row) const;
  bool read_job(JobId id, TransferJob& job);
  void read_memos(JobId id, TransferJob& job);
  void read_queues(TransferCatalog& out);
  void read_breakers(TransferCatalog& out);
  void read_schedules(TransferCatalog& out);
  void read_sessions(TransferCatalog& out);
  void read_access(TransferCatalog& out);
  void read_triggers(TransferCatalog& out);
  void read_marks(TransferCatalog& out);

  Database db_;
  TransferPlace place_;
  std::unique_ptr<Statements> statements_;
  std::unordered_map<JobId, Running> running_;
};

// The server takes the lock again for each batch, with little time in between, so this retries
// often.
void SqliteSource::begin_alone(Duration patience) {
  struct Waiting {
    std::int64_t left;
  } waiting{std::max<std::int64_t>(1, patience.count() / 1000)};
  sqlite3_busy_handler(
      db_.handle(),
      [](void* context, int) {
        auto& w = *static_cast<Waiting*>(context);
        if (w.left-- <= 0) return 0;
        constexpr int kPauseMs = 1;
        poll(nullptr, 0, kPauseMs);
        return 1;
      },
      &waiting);
  struct Restore {
    sqlite3* db;
    ~Restore() { sqlite3_busy_timeout(db, 10'000); }
  } restore{db_.handle()};
  db_.execute("BEGIN IMMEDIATE");
}

void SqliteSource::load_running() {
  running_.clear();
  Statement& row = statements_->running.bind();
  ResetGuard guard(row);
  while (row.step()) {
    running_.insert_or_assign(row.integer(0), Running{.token = row.integer(1),
                                                      .worker = std::string(row.text(2)),
                                                      .claimed_at = row.integer(3),
                                                      .length = row.integer(4),
                                                      .version = row.integer(5),
                                                      .cancel_requested = row.integer(6) != 0,
                                                      .cancel_reason = std::string(row.text(7)),
                                                      .kept = row.integer(8)});
  }
}

// Reads the columns id, version, token, state.
JobStamp SqliteSource::stamp_of(const Statement& row) const {
  JobStamp stamp{row.integer(0), row.integer(1), row.integer(2), row.one_of(3, JobState::dead)};
  if (stamp.state != JobState::available) return stamp;
  const auto found = running_.find(stamp.id);
  if (found == running_.end()) return stamp;
  return {stamp.id, found->second.version, found->second.token, JobState::running};
}

Result<TransferBlocks> SqliteSource::blocks(TransferSection section,
                                            std::optional<std::int64_t> only) {
  return guarded([&]() -> Result<TransferBlocks> {
    const bool jobs = section == TransferSection::jobs;
    const std::int64_t size = transfer_block_size(section);
    Statement& row = jobs                                    ? statements_->stamps
                     : section == TransferSection::finished  ? statements_->finished_stamps
                     : section == TransferSection::workflows ? statements_->workflow_stamps
                     : section == TransferSection::windows   ? statements_->window_stamps
                     : section == TransferSection::history   ? statements_->history_stamps
                                                             : statements_->key_stamps;
    row.bind(only ? *only * size : 0, only ? (*only + 1) * size : INT64_MAX);
    ResetGuard guard(row);
    TransferBlocks out;
    while (row.step()) {
      std::uint64_t stamp = 0;
      if (jobs) {
        const JobStamp s = stamp_of(row);
        stamp = mix_stamp(mix_stamp(stamp, s.id), s.token);
        stamp = mix_stamp(stamp, static_cast<std::int64_t>(s.state));
        if (!MS_MUTANT(copy_sees_no_versions)) stamp = mix_stamp(stamp, s.version);
      } else {
        stamp = mix_stamp(mix_stamp(stamp, row.integer(0)), row.integer(2));
        for (const char c : row.text(1)) stamp = mix_stamp(stamp, c);
      }
      TransferBlock& block = out[row.integer(0) / size];
      ++block.rows;
      block.stamp = static_cast<std::int64_t>(static_cast<std::uint64_t>(block.stamp) + stamp);
    }
    return out;
  });
}

Result<std::vector<JobStamp>> SqliteSource::stamps(std::int64_t block) {
  return guarded([&]() -> Result<std::vector<JobStamp>> {
    std::vector<JobStamp> out;
    Statement& row = statements_->stamps.bind(block * kTransferJobs, (block + 1) * kTransferJobs);
    ResetGuard guard(row);
    while (row.step()) out.push_back(stamp_of(row));
    return out;
  });
}

Result<std::size_t> SqliteSource::jobs(std::span<const JobId> ids, std::vector<TransferJob>& out) {
  return guarded([&]() -> Result<std::size_t> {
    std::size_t done = 0, bytes = 0;
    for (; done < ids.size() && (done == 0 || bytes < kTransferBytes); ++done) {
      TransferJob job;
      if (!read_job(ids[done], job)) continue;
      bytes += job.args.size() + job.headers.size();
      if (job.extras) {
        bytes +=
            job.extras->result.value_or("").size() + job.extras->checkpoint.value_or("").size();
      }
      for (const TransferError& error : job.errors) bytes += error.message.size();
      for (const Memo& memo : job.memos) bytes += memo.name.size() + memo.result.size();
      out.push_back(std::move(job));
    }
    return done;
  });
}

namespace {

void read_flags(int flags, TransferJob& job) {
  job.expired = (flags & kFlagExpired) != 0;
  job.followed = (flags & kFlagFollowed) != 0;
  job.of_step = (flags & kFlagStep) != 0;
  job.unknown = (flags & kFlagUnknown) != 0;
  job.deferred = (flags & kFlagDeferred) != 0;
  job.lost = (flags & (kLostFlags | kUnstartedFlags)) / kLostUnit;
  job.on_dead = on_dead_of(flags);
  job.on_expiry = on_expiry_of(flags);
  job.trigger_depth = depth_of(flags);
}

}  // namespace

bool SqliteSource::read_job(JobId id, TransferJob& job) {
  Statement& row = statements_->job.bind(id);
  ResetGuard guard(row);
  if (!row.step()) return false;
  job.stamp = {id, row.integer(0), row.integer(1), row.one_of(2, JobState::dead)};
  job.queue = row.text(3), job.kind = row.text(4);
  job.priority = static_cast<int>(row.integer(5));
  job.run_at = row.integer(6);
  job.attempt = static_cast<int>(row.integer(7));
  job.max_attempts = static_cast<int>(row.integer(8));
  read_flags(static_cast<int>(row.integer(9)), job);
  job.started_at = row.integer(10);
  job.finished_at = row.integer(11);
  job.expires_at = row.integer(12);
  job.created_at = row.integer(13);
  job.args = row.text(14);
  job.budget = static_cast<int>(row.integer(15));
  job.timeout = row.is_null(16) ? kForever.count() : row.integer(16);
  job.tags = split_tags(row.text(17));
  job.headers = row.text(18);
  job.correlation_id = row.text(19);
  job.reply_to = row.text(20);
  job.unique_key = row.text(21);
  job.schedule = row.integer(22);
  if (!row.is_null(23)) {
    TransferExtras& e = job.extras.emplace();
    e.result = maybe_text(row, 24);
    e.checkpoint = maybe_text(row, 25);
    if (!row.is_null(26)) e.progress_value = row.real(26);
    e.progress_text = maybe_text(row, 27);
    e.reason = maybe_text(row, 28);
    e.description = maybe_text(row, 29);
    e.warning = maybe_text(row, 39);
  }
  job.unique_until = maybe(row, 30);
  job.follow_ups = row.text(31);
  job.session = row.text(32);
  job.reply_session = row.text(33);
  job.workflow = row.integer(34);
  job.step = static_cast<int>(row.integer(35));
  job.undo = row.integer(36) != 0;
  job.limit_key = row.text(37);
  job.quarantined = row.integer(38);
  const auto found = running_.find(id);
  if (job.stamp.state == JobState::available && found != running_.end()) {
    const Running& running = found->second;
    job.stamp = {id, running.version, running.token, JobState::running};
    ++job.attempt;
    job.started_at = running.claimed_at;
    job.worker = running.worker;
    job.lease = running.length;
    job.kept = running.kept;
    job.cancel_requested = running.cancel_requested;
    job.cancel_reason = running.cancel_reason;
  }
  Statement& error = statements_->errors.bind(id);
  ResetGuard error_guard(error);
  while (error.step()) {
    job.errors.push_back({.seq = error.integer(0),
                          .attempt = error.integer(1),
                          .at = error.integer(2),
                          .ran_for = error.integer(3),
                          .worker = std::string(error.text(4)),
                          .message = std::string(error.text(5)),
                          .program_end = std::string(error.text(6))});
  }
  read_memos(id, job);
  return true;
}

void SqliteSource::read_memos(JobId id, TransferJob& job) {
  Statement& memo = statements_->memos.bind(id);
  ResetGuard guard(memo);
  while (memo.step()) job.memos.push_back({std::string(memo.text(0)), std::string(memo.text(1))});
}

Result<std::vector<TransferFinished>> SqliteSource::finished(std::int64_t block) {
  return guarded([&]() -> Result<std::vector<TransferFinished>> {
    std::vector<TransferFinished> out;
    Statement& row = statements_->finished.bind(block * kTransferSpan, (block + 1) * kTransferSpan);
    ResetGuard guard(row);
    while (row.step())
      out.push_back({row.integer(0), row.integer(1), row.integer(2), ids_of_blob(row.text(3))});
    return out;
  });
}

Result<std::vector<TransferKey>> SqliteSource::keys(std::int64_t block) {
  return guarded([&]() -> Result<std::vector<TransferKey>> {
    std::vector<TransferKey> out;
    Statement& row = statements_->keys.bind(block * kTransferSpan, (block + 1) * kTransferSpan);
    ResetGuard guard(row);
    while (row.step()) {
      out.push_back({.key = std::string(row.text(0)),
                     .fingerprint = std::string(row.text(1)),
                     .expires_at = row.integer(2),
                     .ids = ids_of_blob(row.text(3))});
    }
    return out;
  });
}

Result<std::vector<TransferWindow>> SqliteSource::windows(std::int64_t block) {
  return guarded([&]() -> Result<std::vector<TransferWindow>> {
    std::vector<TransferWindow> out;
    Statement& row =
        statements_->windows.bind(block * kTransferWindowSpan, (block + 1) * kTransferWindowSpan);
    ResetGuard guard(row);
    while (row.step()) {
      out.push_back({.queue = std::string(row.text(0)),
                     .key = std::string(row.text(1)),
                     .id = row.integer(2),
                     .ended = row.one_of(3, JobState::dead),
                     .until = row.integer(4)});
    }
    return out;
  });
}

Result<std::vector<TransferHistory>> SqliteSource::history(std::int64_t block) {
  return guarded([&]() -> Result<std::vector<TransferHistory>> {
    std::vector<TransferHistory> out;
    Statement& row =
        statements_->history.bind(block * kTransferHistorySpan, (block + 1) * kTransferHistorySpan);
    ResetGuard guard(row);
    while (row.step()) {
      TransferHistory& h = out.emplace_back();
      h.span = row.integer(0), h.at = row.integer(1);
      h.queue = row.text(2), h.kind = row.text(3);
      for (std::size_t i = 0; i < h.counts.size(); ++i)
        h.counts[i] = row.integer(4 + static_cast<int>(i));
      h.wait = row.text(10), h.run = row.text(11);
    }
    return out;
  });
}

Result<std::vector<TransferWorkflow>> SqliteSource::workflows(std::int64_t block) {
  return guarded([&]() -> Result<std::vector<TransferWorkflow>> {
    std::vector<TransferWorkflow> out;
    Statement& row =
        statements_->workflows.bind(block * kTransferWorkflows, (block + 1) * kTransferWorkflows);
    ResetGuard guard(row);
    while (row.step()) {
      out.push_back({.id = row.integer(0),
                     .name = std::string(row.text(1)),
                     .key = std::string(row.text(2)),
                     .data = std::string(row.text(3)),
                     .state = row.integer(4),
                     .wake_at = maybe(row, 5),
                     .finished_at = maybe(row, 6)});
    }
    return out;
  });
}

Result<std::vector<TransferWorkflowRow>> SqliteSource::workflow_rows(
    std::int64_t block, const TransferWorkflowRow* after) {
  return guarded([&]() -> Result<std::vector<TransferWorkflowRow>> {
    std::vector<TransferWorkflowRow> out;
    const TransferWorkflowRow first{.workflow = block * kTransferWorkflows, .kind = -1};
    const TransferWorkflowRow& from = after == nullptr ? first : *after;
    Statement& row = statements_->workflow_rows.bind(
        from.workflow, from.kind, from.number, (block + 1) * kTransferWorkflows, kTransferRows);
    ResetGuard guard(row);
    while (row.step()) {
      out.push_back({row.integer(0), row.integer(1), row.integer(2), std::string(row.text(3))});
    }
    return out;
  });
}

void SqliteSource::read_queues(TransferCatalog& out) {
  Statement row(db_, queries::transfer::load_queues);
  Statement keys(db_, queries::transfer::load_meters);
  while (row.step()) {
    TransferQueue& q = out.queues.emplace_back();
    q.name = row.text(0);
    q.paused = row.integer(1) != 0;
    q.retention_completed = maybe(row, 2);
    q.retention_dead = maybe(row, 3);
    q.enqueued = row.integer(4);
    q.pruned = row.integer(5);
    q.expired = row.integer(6);
    for (int i = 0; i < kJobStateCount; ++i)
      q.counts[static_cast<std::size_t>(i)] = row.integer(7 + i);
    q.limits = row.text(15);
    q.meter = row.text(16);
    q.opens_at = maybe(row, 17);
    q.pause = row.text(18);
    keys.bind(q.name);
    ResetGuard guard(keys);
    while (keys.step()) q.key_meters.emplace(keys.text(0), keys.text(1));
  }
}

void SqliteSource::read_breakers(TransferCatalog& out) {
  Statement row(db_, queries::transfer::load_breakers);
  while (row.step()) {
    out.breakers.push_back(
        {std::string(row.text(0)), std::string(row.text(1)), std::string(row.text(2))});
  }
}

void SqliteSource::read_schedules(TransferCatalog& out) {
  Statement row(db_, queries::transfer::load_schedules);
  while (row.step()) {
    TransferSchedule& s = out.schedules.emplace_back();
    s.name = row.text(0);
    s.id = row.integer(1);
    s.version = row.integer(2);
    s.definition = row.text(3);
    s.paused_reason = row.text(4);
    s.skip_reason = row.text(5);
    s.paused = row.integer(6) != 0;
    s.next = row.integer(7);
    s.next_fire = row.integer(8);
    s.skip_before = row.integer(9);
    s.fired = row.integer(10);
    s.last_job = row.integer(11);
    s.remaining = maybe(row, 12);
    s.last_fired = maybe(row, 13);
    s.timeout_override = maybe(row, 14);
    s.created_at = row.integer(15);
    s.updated_at = row.integer(16);
    s.next_seq = row.integer(17);
  }
  Statement removed(db_, queries::transfer::load_removed_schedules);
  while (removed.step()) out.removed_schedules.emplace(removed.text(0), removed.integer(1));
  Statement link(db_, queries::transfer::load_schedule_jobs);
  while (link.step()) {
    out.links.push_back({link.integer(0), link.integer(1), link.integer(2) != 0});
  }
  out.numbers.last_schedule = db_.query_int(queries::transfer::last_schedule);
}

void SqliteSource::read_sessions(TransferCatalog& out) {
  show_sessions_by_jobs(db_);
  Statement row(db_, queries::transfer::load_sessions);
  while (row.step()) {
    out.sessions.push_back({.session = {std::string(row.text(0)), std::string(row.text(1))},
                            .head = row.integer(2),
                            .jobs = row.integer(3),
                            .stop = row.one_of(4, SessionStop::parked),
                            .stopped_by = row.integer(5),
                            .worker = std::string(row.text(6)),
                            .token = row.integer(7),
                            .lease = row.integer(8),
                            .state = std::string(row.text(9)),
                            .changed_at = row.integer(10)});
  }
}

void SqliteSource::read_access(TransferCatalog& out) {
  Statement token(db_, queries::transfer::load_tokens);
  while (token.step()) {
    out.tokens.push_back({.name = std::string(token.text(0)),
                          .digest = std::string(token.text(1)),
                          .scopes = std::string(token.text(2)),
                          .created_by = std::string(token.text(5)),
                          .rate = token.integer(3),
                          .created_at = token.integer(4),
                          .expires_at = token.integer(6),
                          .revoked_at = maybe(token, 7)});
  }
  // The leader is a process of the source, so its lease is not copied.
  Statement lease(db_, queries::transfer::load_named_leases);
  lease.bind(kLeadershipLease);
  while (lease.step()) {
    out.leases.push_back({std::string(lease.text(0)), std::string(lease.text(1)),
                          std::string(lease.text(2)), lease.integer(3), lease.integer(4),
                          lease.integer(5), lease.integer(6)});
  }
  Statement mark(db_, queries::access::marks);
  for (AuditMark* into : {&out.audit.base, &out.audit.head}) {
    if (!mark.step()) throw damaged("the marks of the audit are missing");
    *into = {mark.integer(0), digest_of(mark.text(1))};
  }
}

void SqliteSource::read_triggers(TransferCatalog& out) {
  Statement trigger(db_, queries::transfer::load_triggers);
  while (trigger.step()) {
    out.triggers.push_back({std::string(trigger.text(0)), std::string(trigger.text(1)),
                            std::string(trigger.text(2)), std::string(trigger.text(3))});
  }
  Statement event(db_, queries::transfer::load_trigger_events);
  while (event.step()) {
    out.trigger_events.push_back({{std::string(event.text(0)), event.integer(1)},
                                  std::string(event.text(2)),
                                  event.integer(3),
                                  maybe(event, 4),
                                  event.integer(5),
                                  std::string(event.text(6))});
  }
}

void SqliteSource::read_marks(TransferCatalog& out) {
  Statement mark(db_, queries::transfer::load_marks);
  while (mark.step()) {
    out.marks.push_back({mark.integer(0), WallTime::from_us(mark.integer(1)),
                         std::string(mark.text(2)), std::string(mark.text(3)),
                         mark.one_of(4, MarkSource::worker)});
  }
  Statement view(db_, queries::marks::views);
  while (view.step()) {
    out.views.push_back({std::string(view.text(0)), std::string(view.text(1)),
                         std::string(view.text(2)), std::string(view.text(3)),
                         WallTime::from_us(view.integer(4))});
  }
}

Result<TransferCatalog> SqliteSource::catalog() {
  return guarded([&]() -> Result<TransferCatalog> {
    TransferCatalog out;
    read_queues(out);
    read_breakers(out);
    read_schedules(out);
    read_sessions(out);
    read_access(out);
    read_triggers(out);
    read_marks(out);
    out.numbers.next_id = db_.query_int(queries::queues::next_id);
    out.numbers.next_token = db_.query_int(queries::queues::next_token);
    out.numbers.next_workflow = db_.query_int(queries::queues::next_workflow);
    return out;
  });
}

Result<std::vector<TransferTick>> SqliteSource::ledger(std::int64_t schedule, std::int64_t after) {
  return guarded([&]() -> Result<std::vector<TransferTick>> {
    std::vector<TransferTick> out;
    Statement& row = statements_->ledger.bind(schedule, after, kTransferRows);
    ResetGuard guard(row);
    while (row.step()) {
      out.push_back({.schedule = schedule,
                     .seq = row.integer(0),
                     .version = row.integer(1),
                     .nominal = row.integer(2),
                     .until = maybe(row, 3),
                     .job = maybe(row, 8),
                     .count = row.integer(4),
                     .source = row.integer(5),
                     .state = row.integer(6),
                     .decided_at = row.integer(11),
                     .past_due = row.integer(7) != 0,
                     .reason = std::string(row.text(9)),
                     .note = std::string(row.text(10))});
    }
    return out;
  });
}

Result<std::vector<AuditRecord>> SqliteSource::audit(std::int64_t after) {
  return guarded([&]() -> Result<std::vector<AuditRecord>> {
    std::vector<AuditRecord> out;
    Statement& row = statements_->audit.bind(after, kTransferRows);
    ResetGuard guard(row);
    while (row.step()) {
      out.push_back({.seq = row.integer(0),
                     .at = WallTime::from_us(row.integer(1)),
                     .who = std::string(row.text(2)),
                     .from = std::string(row.text(3)),
                     .action = std::string(row.text(4)),
                     .object = std::string(row.text(5)),
                     .before = std::string(row.text(6)),
                     .after = std::string(row.text(7)),
                     .hash = digest_of(row.text(8))});
    }
    return out;
  });
}

}  // namespace
}  // namespace mainspring::sqlite

namespace mainspring {

Result<std::unique_ptr<TransferSource>> open_sqlite_source(const std::string& directory,
                                                           SourceGoesOn goes_on) {
  if (access(sqlite::database_of(directory).c_str(), F_OK) != 0) {
    return Error{.code = ErrorCode::not_found,
                 .message = fmt::format("{} holds no store: there is no {}", directory,
                                        sqlite::database_of(directory))};
  }
  return sqlite::guarded([&]() -> Result<std::unique_ptr<TransferSource>> {
    return std::unique_ptr<TransferSource>(
        std::make_unique<sqlite::SqliteSource>(directory, goes_on));
  });
}

}  // namespace mainspring
