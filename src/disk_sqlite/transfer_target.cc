// Writes jobs in this store's format: a row in two halves, the index rows that follow from its
// state, and for a running job a grant of its own.
#include "disk_sqlite/transfer_target.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>

#include "base/mutant.h"
#include "disk_sqlite/migrations.h"
#include "disk_sqlite/sqlite_disk.h"
#include "disk_sqlite/transfer.h"
#include "model/fingerprint.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/store_impl.h"

namespace mainspring::sqlite {

using namespace sql;  // it copies the rows of the engine

struct SqliteTarget::Statements {
  explicit Statements(Database& db)
      : job(db, queries::transfer::insert_jobs),
        body(db, queries::jobs::insert_body),
        extras(db, queries::transfer::insert_extras),
        error(db, queries::transfer::insert_errors),
        grant(db, queries::leases::insert_grant),
        lease_note(db, queries::transfer::insert_lease_notes),
        quarantined(db, queries::jobs::insert_quarantined),
        due(db, queries::jobs::insert_due),
        expiring(db, queries::transfer::insert_expiring),
        dead(db, queries::jobs::insert_dead),
        unique(db, queries::transfer::put_unique),
        old(db, queries::transfer::old_job),
        memo(db, queries::transfer::insert_memos),
        step(db, queries::workflows::put_job),
        stamps(db, queries::transfer::stamps),
        no_due(db, queries::jobs::delete_due),
        no_expiring(db, queries::jobs::delete_expiring),
        // Keep the key if it belongs to a removed job: that is another section.
        no_unique(db, queries::transfer::delete_unique),
        no_grant(db, queries::leases::delete_grant),
        live(db, queries::transfer::put_job_counts),
        no_live(db, queries::queues::delete_job_counts),
        note(db, queries::transfer::put_copied_blocks),
        no_note(db, queries::transfer::delete_copied_blocks) {
    for (const Query& sql :
         {queries::jobs::delete_job, queries::jobs::delete_body, queries::jobs::delete_extras,
          queries::jobs::delete_errors, queries::jobs::delete_dead, queries::leases::delete_note,
          queries::workflows::remove_job, queries::memos::remove,
          queries::jobs::delete_quarantined}) {
      by_id.push_back(std::make_unique<Statement>(db, sql));
    }
  }
  Statement job, body, extras, error, grant, lease_note, quarantined, due, expiring, dead, unique,
      old, memo, step, stamps, no_due, no_expiring, no_unique, no_grant, live, no_live, note,
      no_note;
  std::vector<std::unique_ptr<Statement>> by_id;
};

SqliteTarget::SqliteTarget(std::string directory, std::unique_ptr<FileGuard> guard)
    : directory_(std::move(directory)),
      guard_(std::move(guard)),
      db_(database_of(directory_), Database::Mode::read_write_create, "") {
  db_.execute("PRAGMA page_size = 4096");
  db_.execute("PRAGMA journal_mode = WAL");
  // Until seal(): a power failure may lose the newest commits, but never damages the file.
  db_.execute("PRAGMA synchronous = NORMAL");
  db_.execute("PRAGMA temp_store = MEMORY");
  db_.execute("PRAGMA cache_size = -65536");
  if (schema_of(db_) == 0) migrate(db_);
  check_schema(db_, directory_);
  place_ = {read_move(db_, "self").value_or(TransferPlace{}).store, whole_path(directory_)};
}

SqliteTarget::~SqliteTarget() = default;

std::string SqliteTarget::holds() {
  std::string words;
  const auto add = [&](const char* what, const Query& sql) {
    const std::int64_t n = db_.query_int(sql);
    if (n != 0) words += fmt::format("{}{} {}", words.empty() ? "" : ", ", n, what);
  };
  add("jobs", queries::jobs::count);
  add("queues", queries::queues::count);
  add("schedules", queries::schedules::count);
  add("triggers", queries::triggers::count);
  add("breakers", queries::limits::count_breakers);
  add("leases", queries::transfer::count_leases);
  add("tokens", queries::access::count_tokens);
  add("marks", queries::marks::count);
  add("saved views", queries::marks::count_views);
  add("audit records", queries::access::newest_mark);
  return words;
}

Result<std::optional<TransferPlace>> SqliteTarget::unfinished() {
  return guarded([&]() -> Result<std::optional<TransferPlace>> {
    if (const auto to = read_move(db_, "moved")) {
      return Error{.code = ErrorCode::conflict,
                   .message = fmt::format("{} is a store that has moved to {}: copy to a new "
                                          "directory",
                                          place_.place, to->place)};
    }
    if (const auto from = read_move(db_, "copying")) return from;
    const std::string words = holds();
    if (!words.empty()) {
      return Error{.code = ErrorCode::conflict,
                   .message = fmt::format("{} holds {}: a copy goes to an empty store or a new "
                                          "directory",
                                          place_.place, words)};
    }
    return std::optional<TransferPlace>();
  });
}

Result<void> SqliteTarget::begin(const TransferPlace& source, WallTime now) {
  return guarded([&]() -> Result<void> {
    {
      Writing writing(db_);
      write_move(db_, "copying", source, now);
      db_.execute(
          "CREATE TABLE IF NOT EXISTS copied_blocks (section INTEGER, block INTEGER, rows INTEGER, "
          "stamp INTEGER, PRIMARY KEY (section, block)) WITHOUT ROWID");
      db_.execute(queries::transfer::delete_leader_lease);
      writing.commit();
    }
    MS_TRY(guard_->mark_initialised());
    load();
    return {};
  });
}

void SqliteTarget::load() {
  sql_ = std::make_unique<Statements>(db_);
  Statement queues(db_, queries::transfer::queue_ids);
  while (queues.step()) queues_.emplace(queues.text(0), queues.integer(1));
  Statement kinds(db_, queries::transfer::kind_ids);
  while (kinds.step()) kinds_.emplace(kinds.text(0), kinds.integer(1));
  Statement grants(db_, queries::transfer::load_grants);
  while (grants.step()) {
    const std::string_view ids = grants.text(1);  // "[12]"
    JobId id = 0;
    if (!ids.empty()) std::from_chars(ids.data() + 1, ids.data() + ids.size(), id);
    running_.emplace(id, grants.integer(0));
  }
  Statement live(db_, queries::transfer::live_blocks);
  while (live.step()) live_.emplace(live.integer(0) - kBlockBase, live.integer(1));
}

Result<TransferBlocks> SqliteTarget::copied(TransferSection section) {
  return guarded([&]() -> Result<TransferBlocks> {
    TransferBlocks out;
    Statement row(db_, queries::transfer::load_copied_blocks);
    row.bind(static_cast<int>(section));
    while (row.step()) out[row.integer(0)] = {row.integer(1), row.integer(2)};
    return out;
  });
}

Result<void> SqliteTarget::note(TransferSection section, std::int64_t block, TransferBlock is) {
  return guarded([&]() -> Result<void> {
    Writing writing(db_);
    if (is.rows == 0) {
      sql_->no_note.bind(static_cast<int>(section), block).run();
    } else {
      sql_->note.bind(static_cast<int>(section), block, is.rows, is.stamp).run();
    }
    writing.commit();
    return {};
  });
}

// Called with every write of a block: its recorded stamp is no longer valid.
void SqliteTarget::unnote(TransferSection section, std::int64_t block) {
  sql_->note.bind(static_cast<int>(section), block, kUnknownRows, 0).run();
}

// -- jobs
// -----------------------------------------------------------------------------------------

Result<std::vector<JobStamp>> SqliteTarget::stamps(std::int64_t block) {
  return guarded([&]() -> Result<std::vector<JobStamp>> {
    std::vector<JobStamp> out;
    Statement& row = sql_->stamps.bind(block * kTransferJobs, (block + 1) * kTransferJobs);
    ResetGuard guard(row);
    while (row.step()) {
      JobStamp stamp{row.integer(0), row.integer(1), row.integer(2), row.one_of(3, JobState::dead)};
      const auto found = running_.find(stamp.id);
      if (found != running_.end())
        stamp = {stamp.id, stamp.version + 1, found->second, JobState::running};
      out.push_back(stamp);
    }
    return out;
  });
}

std::int64_t SqliteTarget::id_of(const char* table, std::string_view name) {
  auto& known = table == std::string_view("queues") ? queues_ : kinds_;
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  const auto id = static_cast<std::int64_t>(known.size()) + 1;  // without gaps
  Statement row(db_, fmt::format("INSERT INTO {} (id, name) VALUES (?, ?)", table).c_str());
  row.bind(id, name).run();
  known.emplace(name, id);
  return id;
}

void SqliteTarget::add_live(JobId id, int delta) {
  live_[id / kBlockIds] += delta;
  touched_live_.insert(id / kBlockIds);
}

void SqliteTarget::write_live() {
  for (const std::int64_t block : touched_live_) {
    const std::int64_t n = live_[block];
    if (n == 0) {
      sql_->no_live.bind(kBlockBase + block).run();
    } else {
      sql_->live.bind(kBlockBase + block, n).run();
    }
  }
  touched_live_.clear();
}

Result<void> SqliteTarget::write_jobs(std::span<const TransferJob> jobs, Now) {
  return guarded([&]() -> Result<void> {
    Writing writing(db_);
    unnote(TransferSection::jobs, jobs.front().stamp.id / kTransferJobs);
    for (const TransferJob& job : jobs) {
      remove_job(job.stamp.id);
      write_job(job);
    }
    write_live();
    writing.commit();
    return {};
  });
}

Result<void> SqliteTarget::remove_jobs(std::span<const JobStamp> jobs) {
  return guarded([&]() -> Result<void> {
    Writing writing(db_);
    unnote(TransferSection::jobs, jobs.front().id / kTransferJobs);
    for (const JobStamp& job : jobs) remove_job(job.id);
    write_live();
    writing.commit();
    return {};
  });
}

void SqliteTarget::write_job(const TransferJob& job) {
  const JobStamp& s = job.stamp;
  const bool running = s.state == JobState::running;
  const std::int64_t queue = id_of("queues", job.queue);
  const int flags = (job.extras ? kFlagExtras : 0) | (job.expired ? kFlagExpired : 0) |
                    (job.unique_key.empty() ? 0 : kFlagUnique) |
                    (job.errors.empty() ? 0 : kFlagErrors) | (job.followed ? kFlagFollowed : 0) |
                    (job.of_step ? kFlagStep : 0) | (job.unknown ? kFlagUnknown : 0) |
                    (job.deferred ? kFlagDeferred : 0) |
                    ((job.lost * kLostUnit) & (kLostFlags | kUnstartedFlags)) |
                    (job.quarantined != 0 ? kFlagQuarantined : 0) |
                    (job.session.empty() ? 0 : kFlagSession | on_dead_flags(job.on_dead)) |
                    on_expiry_flag(job.on_expiry) | (job.memos.empty() ? 0 : kFlagMemos) |
                    depth_flags(job.trigger_depth) | (job.limit_key.empty() ? 0 : kFlagLimitKey);
  // The row of a running job has the state before it started; the grant has the rest.
  sql_->job
      .bind(s.id, queue, id_of("kinds", job.kind),
            static_cast<int>(running ? JobState::available : s.state), job.priority, job.run_at,
            job.attempt - (running ? 1 : 0), job.max_attempts, running ? 0 : s.token,
            s.version - (running ? 1 : 0), flags,
            running ? std::nullopt : unless_zero(job.started_at), unless_zero(job.finished_at),
            unless_zero(job.expires_at))
      .run();
  std::string tags;
  if (!job.tags.empty()) tags = kTagSeparator;
  for (const std::string& tag : job.tags) tags += tag + kTagSeparator;
  sql_->body
      .bind(s.id, job.created_at, job.args, job.budget,
            job.timeout == kForever.count() ? std::nullopt : std::optional(job.timeout),
            Statement::text_or_null(tags), Statement::text_or_null(job.headers),
            Statement::text_or_null(job.correlation_id), Statement::text_or_null(job.reply_to),
            Statement::text_or_null(job.unique_key), unless_zero(job.schedule),
            Statement::text_or_null(job.follow_ups), Statement::text_or_null(job.session),
            Statement::text_or_null(job.reply_session), Statement::text_or_null(job.limit_key))
      .run();
  write_extras(job);
  if (running) write_running(job);
  if (job.quarantined != 0) sql_->quarantined.bind(s.id, job.quarantined).run();
  const bool waits = s.state == JobState::scheduled || s.state == JobState::retryable;
  if (waits && !waits_in_quarantine(s.state, flags)) sql_->due.bind(job.run_at, s.id).run();
  if (job.expires_at != 0 && job.started_at == 0 && !is_terminal(s.state))
    sql_->expiring.bind(job.expires_at, s.id).run();
  if (s.state == JobState::dead) {
    const std::int64_t fingerprint = fingerprint_number(fingerprint_of(dead_job(job)));
    sql_->dead.bind(s.id, queue, id_of("kinds", job.kind), fingerprint, job.finished_at).run();
  }
  if (job.unique_until && !MS_MUTANT(copy_drops_unique_keys))
    sql_->unique.bind(queue, job.unique_key, s.id, *job.unique_until).run();
  if (!is_terminal(s.state)) add_live(s.id, 1);
  if (job.workflow != 0) sql_->step.bind(s.id, job.workflow, job.step, job.undo ? 1 : 0).run();
}

void SqliteTarget::write_running(const TransferJob& job) {
  const JobStamp& s = job.stamp;
  sql_->grant.bind(s.token, job.worker, job.started_at, job.lease, fmt::format("[{}]", s.id)).run();
  running_[s.id] = s.token;
  if (job.cancel_requested || job.kept > job.lease) {
    sql_->lease_note
        .bind(s.id, s.version, job.lease, job.cancel_requested ? 1 : 0,
              Statement::text_or_null(job.cancel_reason), job.kept)
        .run();
  }
}

void SqliteTarget::write_extras(const TransferJob& job) {
  if (job.extras) {
    const TransferExtras& e = *job.extras;
    sql_->extras
        .bind(job.stamp.id, view_of(e.result), view_of(e.checkpoint), e.progress_value,
              view_of(e.progress_text), view_of(e.reason), view_of(e.description),
              view_of(e.warning))
        .run();
  }
  for (const TransferError& e : job.errors) {
    const bool known = !e.program_end.empty() && !MS_MUTANT(copy_drops_program_ends);
    sql_->error
        .bind(job.stamp.id, e.seq, e.attempt, e.at, e.worker, e.message, e.ran_for,
              known ? std::optional<std::string_view>(e.program_end) : std::nullopt)
        .run();
  }
  if (MS_MUTANT(copy_drops_memos)) return;
  for (const Memo& m : job.memos) sql_->memo.bind(job.stamp.id, m.name, m.result).run();
}

void SqliteTarget::remove_job(JobId id) {
  Statement& old = sql_->old.bind(id);
  ResetGuard guard(old);
  if (!old.step()) return;
  const auto state = old.one_of(0, JobState::dead);
  if (state == JobState::scheduled || state == JobState::retryable)
    sql_->no_due.bind(old.integer(1), id).run();
  if (!old.is_null(2)) sql_->no_expiring.bind(old.integer(2), id).run();
  if (!old.is_null(4)) sql_->no_unique.bind(old.integer(3), old.text(4), id).run();
  const auto found = running_.find(id);
  if (found != running_.end()) {
    sql_->no_grant.bind(found->second).run();
    running_.erase(found);
  }
  if (!is_terminal(state)) add_live(id, -1);
  for (const auto& statement : sql_->by_id) statement->bind(id).run();
}

// -- blocks of the others
// -----------------------------------------------------------------------------------------

Result<void> SqliteTarget::write_finished(std::int64_t block,
                                          std::span<const TransferFinished> rows) {
  return guarded([&]() -> Result<void> {
    Writing writing(db_);
    unnote(TransferSection::finished, block);
    Statement gone(db_, queries::transfer::delete_finished);
    gone.bind(block * kTransferSpan, (block + 1) * kTransferSpan).run();
    Statement row(db_, queries::jobs::insert_finished);
    for (const TransferFinished& f : rows) {
      const std::string ids = ids_to_blob(f.ids);
      row.bind(f.prune_at, f.seq, f.at, Statement::blob(ids)).run();
    }
    writing.commit();
    return {};
  });
}

Result<void> SqliteTarget::write_keys(std::int64_t block, std::span<const TransferKey> rows) {
  return guarded([&]() -> Result<void> {
    Writing writing(db_);
    unnote(TransferSection::keys, block);
    Statement gone(db_, queries::transfer::delete_idempotency);
    gone.bind(block * kTransferSpan, (block + 1) * kTransferSpan).run();
    Statement row(db_, queries::jobs::insert_idempotency);
    for (const TransferKey& k : rows) {
      const std::string ids = ids_to_blob(k.ids);
      row.bind(k.key, k.fingerprint, Statement::blob(ids), k.expires_at).run();
    }
    writing.commit();
    return {};
  });
}

Result<void> SqliteTarget::write_windows(std::int64_t block, std::span<const TransferWindow> rows) {
  return guarded([&]() -> Result<void> {
    Writing writing(db_);
    unnote(TransferSection::windows, block);
    Statement gone(db_, queries::transfer::delete_windows);
    gone.bind(block * kTransferWindowSpan, (block + 1) * kTransferWindowSpan).run();
    Statement row(db_, queries::transfer::put_window);
    for (const TransferWindow& w : rows) {
      if (MS_MUTANT(copy_drops_windows)) break;
      row.bind(id_of("queues", w.queue), w.key, w.id, w.until, static_cast<int>(w.ended)).run();
    }
    writing.commit();
    return {};
  });
}

Result<void> SqliteTarget::write_history(std::int64_t block,
                                         std::span<const TransferHistory> rows) {
  return guarded([&]() -> Result<void> {
    Writing writing(db_);
    unnote(TransferSection::history, block);
    const std::int64_t from = block * kTransferHistorySpan, to = from + kTransferHistorySpan;
    Statement gone(db_, queries::transfer::delete_history);
    gone.bind(from, to).run();
    Statement series(db_, queries::transfer::insert_history_series);
    Statement row(db_, queries::transfer::insert_history);
    for (const TransferHistory& h : rows) {
      if (MS_MUTANT(copy_drops_history)) break;
      const auto& c = h.counts;
      series.bind(h.queue, h.kind, from).run();
      row.bind(h.queue, h.kind, h.span, h.at, c[0], c[1], c[2], c[3], c[4], c[5], h.wait, h.run)
          .run();
    }
    writing.commit();
    return {};
  });
}

Result<void> SqliteTarget::write_workflows(std::int64_t block,
                                           std::span<const TransferWorkflow> rows) {
  return guarded([&]() -> Result<void> {
    Writing writing(db_);
    unnote(TransferSection::workflows, block);
    const std::int64_t from = block * kTransferWorkflows, to = from + kTransferWorkflows;
    Statement gone(db_, queries::transfer::delete_workflows);
    gone.bind(from, to).run();
    for (const Query& old :
         {queries::transfer::delete_workflow_rows, queries::transfer::delete_workflow_texts})
      Statement(db_, old).bind(from, to).run();
    Statement row(db_, queries::transfer::insert_workflows);
    for (const TransferWorkflow& w : rows) {
      row.bind(w.id, w.name, Statement::text_or_null(w.key), w.data, w.state, w.wake_at,
               w.finished_at)
          .run();
    }
    writing.commit();
    return {};
  });
}

Result<void> SqliteTarget::append_workflow_rows(std::span<const TransferWorkflowRow> rows) {
  return guarded([&]() -> Result<void> {
    Writing writing(db_);
    WorkflowRowStatements changing(db_, false), once(db_, true);
    for (const TransferWorkflowRow& r : rows) {
      auto& into = is_written_once(static_cast<WorkflowRow>(r.kind)) ? once : changing;
      into.put.bind(r.workflow, r.kind, r.number, r.text).run();
    }
    writing.commit();
    return {};
  });
}

Result<VerifyReport> SqliteTarget::verify() {
  SqliteOptions options;
  options.directory = directory_;
  NullLog log;
  return verify_store(SqliteDisk(std::move(options), nullptr, log), {}, {});
}

}  // namespace mainspring::sqlite

namespace mainspring {

Result<std::unique_ptr<TransferTarget>> open_sqlite_target(const std::string& directory) {
  MS_TRY_ASSIGN(auto guard, sqlite::FileGuard::lock(directory, sqlite::database_of(directory), 0));
  return sqlite::guarded([&]() -> Result<std::unique_ptr<TransferTarget>> {
    return std::unique_ptr<TransferTarget>(
        std::make_unique<sqlite::SqliteTarget>(directory, std::move(guard)));
  });
}

}  // namespace mainspring
