// Reads a shared store for a copy. look() takes a snapshot. The fence is a lock of the table that
// every durable batch and every SQL function writes before it commits: batches wait for the lock,
// so a snapshot under the lock contains no partial batch.
#include <fmt/format.h>

#include <algorithm>

#include "api/breaker_shapes.h"
#include "base/mutant.h"
#include "store_postgres/audit_reads.h"
#include "store_postgres/migrations.h"
#include "store_postgres/store_impl.h"
#include "store_postgres/transfer.h"
#include "store_postgres/transfer_rows.h"

namespace mainspring::pg {
namespace {

constexpr std::string_view kJobs =
    "SELECT j.id, j.version, j.token, j.state, q.name, k.name, j.priority, j.attempt, "
    "j.max_attempts, j.budget, j.flags, j.run_at, j.created_at, j.started_at, j.finished_at, "
    "j.expires_at, j.timeout, j.schedule, j.lease, coalesce(j.kept, 0), j.args, j.headers, "
    "j.correlation_id, "
    "j.reply_to, j.unique_key, j.worker, j.tags, u.until, e.id, e.result, e.checkpoint, "
    "e.progress_text, e.reason, e.description, e.warning, e.progress_value, j.follow_ups, "
    "j.session, "
    "j.reply_session, j.limit_key, w.workflow, w.step, w.undo, coalesce(j.trigger_depth, 0), "
    "j.deferred IS TRUE, CASE WHEN j.state NOT IN (4, 6, 7) THEN j.lost END, "
    "CASE WHEN j.state NOT IN (4, 6, 7) THEN j.quarantined END, e.cancel_reason "
    "FROM "
    "$schema.jobs j JOIN $schema.queues q ON q.id = j.queue JOIN $schema.kinds k ON k.id = j.kind "
    "LEFT JOIN $schema.extras e ON e.id = j.id LEFT JOIN $schema.uniques u ON u.queue = j.queue "
    "AND u.key = j.unique_key AND u.id = j.id LEFT JOIN $schema.workflow_jobs w ON w.job = j.id "
    "WHERE j.id = ANY($1) ORDER BY j.id";
constexpr std::string_view kSizes =
    "SELECT j.id, octet_length(j.args) + coalesce(octet_length(e.result), 0) + "
    "coalesce(octet_length(e.checkpoint), 0) + CASE WHEN j.flags & 16384 = 0 THEN 0 ELSE (SELECT "
    "coalesce(sum(octet_length(result)), 0) FROM $schema.memos WHERE job = j.id) END FROM "
    "$schema.jobs j LEFT JOIN $schema.extras e ON "
    "e.id = j.id WHERE j.id = ANY($1) ORDER BY j.id";
constexpr std::string_view kReadErrors =
    "SELECT job, seq, attempt, at, ran_for, worker, message, program_end FROM $schema.errors WHERE "
    "job = "
    "ANY($1) ORDER BY job, seq";
constexpr std::string_view kMemos =
    "SELECT job, name, result FROM $schema.memos WHERE job = ANY($1) ORDER BY job, name";
constexpr std::string_view kReadQueues =
    "SELECT q.name, q.paused, q.retention_completed, q.retention_dead, "
    "coalesce(sum(t.enqueued), 0)::bigint, coalesce(sum(t.pruned), 0)::bigint, "
    "coalesce(sum(t.expired), 0)::bigint, coalesce(sum(t.waiting), 0)::bigint, "
    "coalesce(sum(t.scheduled), 0)::bigint, coalesce(sum(t.available), 0)::bigint, "
    "coalesce(sum(t.running), 0)::bigint, coalesce(sum(t.completed), 0)::bigint, "
    "coalesce(sum(t.retryable), 0)::bigint, coalesce(sum(t.cancelled), 0)::bigint, "
    "coalesce(sum(t.dead), 0)::bigint, coalesce(q.limits, q.settings), q.meter, q.opens_at, "
    "q.pause FROM $schema.queues q LEFT "
    "JOIN $schema.job_counts t ON t.queue "
    "= q.id GROUP BY q.id ORDER BY q.name";
constexpr std::string_view kSchedules =
    "SELECT name, id, version, definition, paused_reason, skip_reason, paused, next, next_fire, "
    "skip_before, fired, last_job, remaining, last_fired, timeout_override, created_at, "
    "updated_at, next_seq FROM $schema.schedules ORDER BY name";
constexpr std::string_view kSessions =
    "SELECT q.name, s.key, s.head, s.jobs, s.stop, s.stopped_by, s.worker, s.token, s.kept, "
    "s.state, "
    "s.changed_at FROM $schema.sessions s JOIN $schema.queues q ON q.id = s.queue ORDER BY q.name, "
    "s.key";
constexpr std::string_view kReadWindows =
    "SELECT q.name, u.key, u.id, u.ended, u.until FROM $schema.uniques u JOIN "
    "$schema.queues q ON q.id = u.queue WHERE u.ended IS NOT NULL "
    "AND u.until >= $1 AND u.until < $2";
constexpr std::string_view kReadHistory =
    "SELECT h.span, h.at, s.queue, s.kind, h.enqueued, h.started, h.completed, h.failed, h.dead, "
    "h.cancelled, array_to_string(h.wait, ','), array_to_string(h.run, ',') FROM "
    "$schema.history_series s JOIN $schema.history h ON h.series = s.id WHERE h.span = "
    "ANY('{60000000,3600000000}') AND h.at >= $1 AND h.at < $2";
constexpr std::string_view kReadWorkflowRows =
    "SELECT workflow, kind, number, text FROM $schema.workflow_rows WHERE "
    "(workflow, kind, number) > ($1, $2::bigint, $3) AND workflow < $4 ORDER "
    "BY workflow, kind, number LIMIT $5";
constexpr std::string_view kReadKeyMeters =
    "SELECT q.name, m.key, m.meter FROM $schema.key_meters m JOIN $schema.queues q ON q.id = "
    "m.queue";
constexpr std::string_view kReadBreakerNotes =
    "SELECT breaker, job, token, began, at, failed, open_for FROM $schema.breaker_notes ORDER BY "
    "breaker, seq";
constexpr std::string_view kReadNumbers =
    "SELECT (SELECT last_value + is_called::integer FROM $schema.job_ids), (SELECT last_value + "
    "is_called::integer FROM $schema.tokens_given), (SELECT CASE WHEN is_called THEN last_value "
    "ELSE 0 END FROM $schema.schedules_id_seq), (SELECT last_value + is_called::integer FROM "
    "$schema.workflow_ids)";

// The data of a block, and what its stamp covers.
struct Section {
  std::string_view table, key, stamp;
  std::string_view which = "true";  // of the rows
};
Section section_of(TransferSection section) {
  switch (section) {
    case TransferSection::finished:
      return {"finished", "prune_at",
              "hashint8extended(prune_at, hashint8extended(seq, cardinality(ids)))"};
    case TransferSection::keys:
      return {"idempotency", "expires_at", "hashtextextended(key, expires_at)"};
    case TransferSection::workflows:
      return {"workflows", "id", "hashtextextended(data, id)"};
    case TransferSection::windows:
      return {"uniques", "until", "hashtextextended(key, hashint8extended(id, until))",
              "ended IS NOT NULL"};
    case TransferSection::history:
      return {"history", "at",
              "hashint8extended(series, hashint8extended(span, hashint8extended(at, enqueued + "
              "started + completed + failed + dead + cancelled)))",
              "series = ANY(ARRAY(SELECT id FROM $schema.history_series)) AND span = "
              "ANY('{60000000,3600000000}')"};
    case TransferSection::jobs:
      break;
  }
  return {"jobs", "id",
          "hashint8extended(id, hashint8extended(version, hashint8extended(token, state)))"};
}

class PostgresSource final : public TransferSource {
 public:
  PostgresSource(const PostgresOptions& options, const std::string& place, SourceGoesOn goes_on)
      : connection_(transfer_connection(options, goes_on == SourceGoesOn::no), clock_),
        schema_(options.schema),
        sql_(schema_) {
    const SchemaVersion version = schema_version(connection_, schema_);
    if (version.version == 0) {
      throw Error{.code = ErrorCode::not_found, .message = fmt::format("{} holds no store", place)};
    }
    check_schema(version, schema_);
    place_ = {read_move(connection_, schema_, "self").value_or(TransferPlace{}).store, place};
    if (goes_on == SourceGoesOn::no) check_rights();
  }

  TransferPlace place() const override { return place_; }
  Result<std::optional<TransferPlace>> moved() override {
    return guarded([&]() -> Result<std::optional<TransferPlace>> {
      return read_move(connection_, schema_, "moved");
    });
  }

  Result<void> look() override {
    return guarded([&]() -> Result<void> {
      lift();
      connection_.run(sql_.begin);
      open_ = true;
      connection_.run(sql_.settings);  // the first query takes the snapshot
      return {};
    });
  }

  Result<void> fence(Duration patience) override {
    return guarded([&]() -> Result<void> {
      lift();
      open_ = true;
      // Lock before any query, so that the snapshot is taken under the lock.
      connection_.execute(fmt::format(
          "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL lock_timeout = '{}ms'; LOCK TABLE "
          "{}.job_counts IN SHARE ROW EXCLUSIVE MODE",
          std::max<std::int64_t>(1, patience.count() / 1000), schema_));
      connection_.run(sql_.settings);
      if (const auto to = read_move(connection_, schema_, "moved")) {
        lift();
        return Error{.code = ErrorCode::conflict,
                     .message = fmt::format("{} has moved to {}", place_.place, to->place)};
      }
      return {};
    });
  }

  void lift() noexcept override {
    if (!std::exchange(open_, false)) return;
    try {
      connection_.execute("ROLLBACK");
    } catch (const PgError&) {
      // The server rolls back what a lost connection had started.
    }
  }

  Result<void> mark_moved(const TransferPlace& to, WallTime now) override {
    return guarded([&]() -> Result<void> {
      connection_.run(sql_.mark, params(to.store, to.place, now.us()));
      connection_.run(sql_.raise);
      connection_.run(sql_.refuse);
      connection_.run(sql_.commit);
      open_ = false;
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
    explicit Statements(const std::string& s)
        : blocks(all_stamps(s, true)),
          block(all_stamps(s, false)),
          begin(s, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
          settings(s,
                   "SELECT set_config('idle_in_transaction_session_timeout', '0', true), "
                   "set_config('statement_timeout', '0', true), set_config('work_mem', '64MB', "
                   "true), set_config('jit', 'off', true)"),
          commit(s, "COMMIT"),
          mark(s,
               "INSERT INTO $schema.moves (what, store, place, at) VALUES ('moved', $1, $2, $3)"),
          raise(s, "INSERT INTO $schema.versions (what, version) VALUES ('moved', 1)"),
          refuse(
              s,
              "CREATE TRIGGER refuse_moved BEFORE INSERT OR UPDATE OR DELETE ON $schema.job_counts "
              "FOR EACH STATEMENT EXECUTE FUNCTION $schema.refuse_moved()"),
          stamps(s,
                 "SELECT id, version, token, state FROM $schema.jobs WHERE id >= $1 AND id < $2 "
                 "ORDER BY id"),
          jobs(s, kJobs),
          sizes(s, kSizes),
          errors(s, kReadErrors),
          memos(s, kMemos),
          finished(s,
                   "SELECT prune_at, seq, at, ids FROM $schema.finished WHERE prune_at >= $1 AND "
                   "prune_at < $2 ORDER BY prune_at, seq"),
          keys(s,
               "SELECT key, fingerprint, expires_at, ids FROM $schema.idempotency WHERE expires_at "
               ">= $1 AND expires_at < $2"),
          windows(s, kReadWindows),
          history(s, kReadHistory),
          workflows(s,
                    "SELECT id, name, key, data, state, wake_at, finished_at FROM "
                    "$schema.workflows WHERE id >= $1 AND id < $2 ORDER BY id"),
          workflow_rows(s, kReadWorkflowRows),
          ledger(
              s,
              "SELECT seq, version, nominal, until, count, source, state, past_due, job, reason, "
              "note, decided_at FROM $schema.ledger WHERE schedule = $1 AND seq > $2 ORDER BY "
              "seq LIMIT $3"),
          audit(s,
                "SELECT seq, at, who, origin, action, object, before, after, hash FROM "
                "$schema.audit WHERE seq > $1 ORDER BY seq LIMIT $2"),
          queues(s, kReadQueues),
          key_meters(s, kReadKeyMeters),
          schedules(s, kSchedules),
          removed(s, "SELECT name, version FROM $schema.removed_schedules"),
          links(s, "SELECT job, schedule, waits FROM $schema.schedule_jobs ORDER BY job"),
          tokens(s,
                 "SELECT name, digest, scopes, rate, created_at, created_by, expires_at, "
                 "revoked_at FROM $schema.tokens ORDER BY name"),
          leases(s,
                 "SELECT name, holder, value, state, token, kept, since FROM $schema.named_leases "
                 "WHERE name <> $1 ORDER BY name"),
          sessions(s, kSessions),
          marks(s, "SELECT id, seq, hash FROM $schema.audit_marks ORDER BY id"),
          breakers(
              s, "SELECT name, settings, coalesce(state, '') FROM $schema.breakers ORDER BY name"),
          breaker_notes(s, kReadBreakerNotes),
          triggers(s, "SELECT name, definition, state, secret FROM $schema.triggers ORDER BY name"),
          trigger_events(s,
                         "SELECT name, seq, event, fired_at, made_at, job, reason FROM "
                         "$schema.trigger_events ORDER BY name, seq"),
          chart_marks(s, "SELECT id, at, text, who, source FROM $schema.marks ORDER BY id"),
          views(s,
                "SELECT name, page, query, who, updated_at FROM $schema.saved_views ORDER BY "
                "name"),
          numbers(s, kReadNumbers) {}
    static Statement stamps_of(const std::string& s, TransferSection section, bool all) {
      const Section is = section_of(section);
      return Statement(
          s, fmt::format("SELECT {0} / $1, count(*), bit_xor({1}) FROM $schema.{2} WHERE {3}{4} "
                         "GROUP BY 1",
                         is.key, is.stamp, is.table, is.which,
                         all ? "" : fmt::format(" AND {0} >= $2 AND {0} < $3", is.key)));
    }
    using ForEachSection = std::array<Statement, kTransferSections.size()>;
    static ForEachSection all_stamps(const std::string& s, bool all) {
      return {stamps_of(s, TransferSection::jobs, all),
              stamps_of(s, TransferSection::finished, all),
              stamps_of(s, TransferSection::keys, all),
              stamps_of(s, TransferSection::workflows, all),
              stamps_of(s, TransferSection::windows, all),
              stamps_of(s, TransferSection::history, all)};
    }
    ForEachSection blocks, block;  // by section
    Statement begin, settings, commit, mark, raise, refuse, stamps, jobs, sizes, errors, memos,
        finished, keys, windows, history, workflows, workflow_rows, ledger, audit, queues,
        key_meters, schedules, removed, links, tokens, leases, sessions, marks, breakers,
        breaker_notes, triggers, trigger_events, chart_marks, views, numbers;
  };

  void check_rights();
  static TransferJob read_job(const Rows& rows, int row);
  void read_errors(std::vector<TransferJob>& jobs, std::size_t from);
  void read_memos(std::vector<TransferJob>& jobs, std::size_t from);
  void read_queues(TransferCatalog& out);
  void read_breakers(TransferCatalog& out);
  void read_schedules(TransferCatalog& out);
  void read_access(TransferCatalog& out);
  void read_triggers(TransferCatalog& out);
  void read_marks(TransferCatalog& out);

  const SystemClock clock_;
  Connection connection_;
  const std::string schema_;
  const Statements sql_;
  TransferPlace place_;
  bool open_ = false;  // a transaction
};

// Checked at the start, not after hours of copying.
void PostgresSource::check_rights() {
  const Rows rows = connection_.run(
      Statement(schema_,
                "SELECT current_user::text, pg_has_role(c.relowner, 'USAGE') FROM pg_class c WHERE "
                "c.oid = to_regclass($1)"),
      params(schema_ + ".job_counts"));
  if (!rows.empty() && rows.integer(0, 1) != 0) return;
  throw Error{.code = ErrorCode::forbidden,
              .message = fmt::format("role {} is not the owner of {}: run the move as the owner, "
                                     "or keep the source (--keep-source)",
                                     rows.empty() ? "?" : rows.text(0, 0), place_.place)};
}

Result<TransferBlocks> PostgresSource::blocks(TransferSection section,
                                              std::optional<std::int64_t> only) {
  return guarded([&]() -> Result<TransferBlocks> {
    const auto number = static_cast<std::size_t>(section);
    const std::int64_t size = transfer_block_size(section);
    const Rows rows =
        only ? connection_.run(sql_.block[number], params(size, *only * size, (*only + 1) * size))
             : connection_.run(sql_.blocks[number], params(size));
    TransferBlocks out;
    for (int i = 0; i < rows.size(); ++i) {
      TransferBlock& is = out[rows.integer(i, 0)];
      is = {.rows = rows.integer(i, 1), .stamp = rows.integer(i, 2)};
      if (MS_MUTANT(copy_sees_no_versions)) is.stamp = is.rows;
    }
    return out;
  });
}

Result<std::vector<JobStamp>> PostgresSource::stamps(std::int64_t block) {
  return guarded([&]() -> Result<std::vector<JobStamp>> {
    const Rows rows =
        connection_.run(sql_.stamps, params(block * kTransferJobs, (block + 1) * kTransferJobs));
    std::vector<JobStamp> out;
    for (int i = 0; i < rows.size(); ++i) {
      out.push_back({rows.integer(i, 0), rows.integer(i, 1), rows.integer(i, 2),
                     static_cast<JobState>(rows.integer(i, 3))});
    }
    return out;
  });
}

Result<std::size_t> PostgresSource::jobs(std::span<const JobId> ids,
                                         std::vector<TransferJob>& out) {
  return guarded([&]() -> Result<std::size_t> {
    const Rows sizes = connection_.run(sql_.sizes, params(Ints(ids.begin(), ids.end())));
    std::size_t bytes = 0;
    Ints wanted;
    for (int i = 0; i < sizes.size() && (i == 0 || bytes < kTransferBytes); ++i) {
      bytes += static_cast<std::size_t>(sizes.integer(i, 1));
      wanted.push_back(sizes.integer(i, 0));
    }
    if (wanted.empty()) return ids.size();
    const Rows rows = connection_.run(sql_.jobs, params(wanted));
    const std::size_t from = out.size();
    for (int i = 0; i < rows.size(); ++i) out.push_back(read_job(rows, i));
    read_errors(out, from);
    read_memos(out, from);
    if (static_cast<int>(wanted.size()) == sizes.size()) return ids.size();
    const auto next = std::upper_bound(ids.begin(), ids.end(), wanted.back());
    return static_cast<std::size_t>(next - ids.begin());
  });
}

TransferJob PostgresSource::read_job(const Rows& rows, int row) {
  TransferJob job;
  int column = 0;
  const auto number = [&] { return rows.integer(row, column++); };
  const auto text = [&] { return rows.text(row, column++); };
  job.stamp.id = number();
  job.stamp.version = number();
  job.stamp.token = number();
  job.stamp.state = static_cast<JobState>(number());
  job.queue = text();
  job.kind = text();
  job.priority = static_cast<int>(number());
  job.attempt = static_cast<int>(number());
  job.max_attempts = static_cast<int>(number());
  job.budget = static_cast<int>(number());
  const std::int64_t flags = number();
  job.expired = (flags & kFlagExpired) != 0;
  job.followed = (flags & kFlagFollowed) != 0;
  job.run_at = number();
  job.created_at = number();
  job.started_at = number();
  job.finished_at = number();
  job.expires_at = number();
  job.timeout = number();
  job.schedule = number();
  const std::int64_t lease = number();
  const std::int64_t kept = number();
  job.args = text();
  job.headers = text();
  job.correlation_id = text();
  job.reply_to = text();
  job.unique_key = text();
  job.worker = text();
  job.tags = rows.texts(row, column++);
  job.unique_until = rows.maybe(row, column++);
  const bool has_extras = !rows.is_null(row, column++);
  if (has_extras) {
    TransferExtras& e = job.extras.emplace();
    for (auto* into :
         {&e.result, &e.checkpoint, &e.progress_text, &e.reason, &e.description, &e.warning})
      *into = maybe_text(rows, row, column++);
    if (!rows.is_null(row, column)) e.progress_value = rows.real(row, column);
    ++column;
  } else {
    column += 7;
  }
  if (!rows.is_null(row, column)) job.follow_ups = rows.text(row, column);
  ++column;
  job.session = text();
  job.reply_session = text();
  job.limit_key = text();
  job.on_dead = on_dead_of(static_cast<int>(flags));
  job.of_step = (flags & kFlagStep) != 0;
  job.unknown = (flags & kFlagUnknown) != 0;
  job.workflow = number();
  job.step = static_cast<int>(number());
  job.undo = number() != 0;
  job.trigger_depth = static_cast<int>(number());
  job.deferred = number() != 0;
  job.lost = static_cast<int>(number());
  job.quarantined = number();
  job.on_expiry = on_expiry_of(static_cast<int>(flags));
  if (job.stamp.state != JobState::running) return job;
  job.lease = lease;
  job.kept = kept;
  job.cancel_requested = (flags & kFlagCancel) != 0;
  if (job.cancel_requested && has_extras) job.cancel_reason = rows.text(row, column);
  return job;
}

void PostgresSource::read_errors(std::vector<TransferJob>& jobs, std::size_t from) {
  Ints ids;
  for (std::size_t i = from; i < jobs.size(); ++i) ids.push_back(jobs[i].stamp.id);
  const Rows rows = connection_.run(sql_.errors, params(ids));
  std::size_t at = from;
  for (int i = 0; i < rows.size(); ++i) {
    while (at < jobs.size() && jobs[at].stamp.id < rows.integer(i, 0)) ++at;
    if (at == jobs.size()) return;
    if (jobs[at].stamp.id != rows.integer(i, 0)) continue;
    jobs[at].errors.push_back({.seq = rows.integer(i, 1),
                               .attempt = rows.integer(i, 2),
                               .at = rows.integer(i, 3),
                               .ran_for = rows.integer(i, 4),
                               .worker = rows.text(i, 5),
                               .message = rows.text(i, 6),
                               .program_end = rows.text(i, 7)});
  }
}

void PostgresSource::read_memos(std::vector<TransferJob>& jobs, std::size_t from) {
  Ints ids;
  for (std::size_t i = from; i < jobs.size(); ++i) ids.push_back(jobs[i].stamp.id);
  const Rows rows = connection_.run(sql_.memos, params(ids));
  std::size_t at = from;
  for (int i = 0; i < rows.size() && at < jobs.size();) {
    if (jobs[at].stamp.id < rows.integer(i, 0)) {
      ++at;
      continue;
    }
    if (jobs[at].stamp.id == rows.integer(i, 0))
      jobs[at].memos.push_back({rows.text(i, 1), rows.text(i, 2)});
    ++i;
  }
}

Result<std::vector<TransferFinished>> PostgresSource::finished(std::int64_t block) {
  return guarded([&]() -> Result<std::vector<TransferFinished>> {
    const Rows rows =
        connection_.run(sql_.finished, params(block * kTransferSpan, (block + 1) * kTransferSpan));
    std::vector<TransferFinished> out;
    for (int i = 0; i < rows.size(); ++i)
      out.push_back({rows.integer(i, 0), rows.integer(i, 1), rows.integer(i, 2), rows.ints(i, 3)});
    return out;
  });
}

Result<std::vector<TransferKey>> PostgresSource::keys(std::int64_t block) {
  return guarded([&]() -> Result<std::vector<TransferKey>> {
    const Rows rows =
        connection_.run(sql_.keys, params(block * kTransferSpan, (block + 1) * kTransferSpan));
    std::vector<TransferKey> out;
    for (int i = 0; i < rows.size(); ++i)
      out.push_back({rows.text(i, 0), rows.text(i, 1), rows.integer(i, 2), rows.ints(i, 3)});
    return out;
  });
}

Result<std::vector<TransferWindow>> PostgresSource::windows(std::int64_t block) {
  return guarded([&]() -> Result<std::vector<TransferWindow>> {
    const Rows rows = connection_.run(
        sql_.windows, params(block * kTransferWindowSpan, (block + 1) * kTransferWindowSpan));
    std::vector<TransferWindow> out;
    for (int i = 0; i < rows.size(); ++i) {
      out.push_back({.queue = rows.text(i, 0),
                     .key = rows.text(i, 1),
                     .id = rows.integer(i, 2),
                     .ended = static_cast<JobState>(rows.integer(i, 3)),
                     .until = rows.integer(i, 4)});
    }
    return out;
  });
}

Result<std::vector<TransferHistory>> PostgresSource::history(std::int64_t block) {
  return guarded([&]() -> Result<std::vector<TransferHistory>> {
    const Rows rows = connection_.run(
        sql_.history, params(block * kTransferHistorySpan, (block + 1) * kTransferHistorySpan));
    std::vector<TransferHistory> out;
    for (int i = 0; i < rows.size(); ++i) {
      TransferHistory& h = out.emplace_back();
      h.span = rows.integer(i, 0), h.at = rows.integer(i, 1);
      h.queue = rows.text(i, 2), h.kind = rows.text(i, 3);
      for (std::size_t j = 0; j < h.counts.size(); ++j)
        h.counts[j] = rows.integer(i, 4 + static_cast<int>(j));
      h.wait = rows.text(i, 10), h.run = rows.text(i, 11);
    }
    return out;
  });
}

Result<std::vector<TransferWorkflow>> PostgresSource::workflows(std::int64_t block) {
  return guarded([&]() -> Result<std::vector<TransferWorkflow>> {
    const Rows rows = connection_.run(
        sql_.workflows, params(block * kTransferWorkflows, (block + 1) * kTransferWorkflows));
    std::vector<TransferWorkflow> out;
    for (int i = 0; i < rows.size(); ++i) {
      out.push_back({.id = rows.integer(i, 0),
                     .name = rows.text(i, 1),
                     .key = rows.text(i, 2),
                     .data = rows.text(i, 3),
                     .state = rows.integer(i, 4),
                     .wake_at = rows.maybe(i, 5),
                     .finished_at = rows.maybe(i, 6)});
    }
    return out;
  });
}

Result<std::vector<TransferWorkflowRow>> PostgresSource::workflow_rows(
    std::int64_t block, const TransferWorkflowRow* after) {
  return guarded([&]() -> Result<std::vector<TransferWorkflowRow>> {
    const TransferWorkflowRow first{.workflow = block * kTransferWorkflows, .kind = -1};
    const TransferWorkflowRow& from = after == nullptr ? first : *after;
    const Rows rows = connection_.run(sql_.workflow_rows,
                                      params(from.workflow, from.kind, from.number,
                                             (block + 1) * kTransferWorkflows, kTransferRows));
    std::vector<TransferWorkflowRow> out;
    for (int i = 0; i < rows.size(); ++i)
      out.push_back({rows.integer(i, 0), rows.integer(i, 1), rows.integer(i, 2), rows.text(i, 3)});
    return out;
  });
}

void PostgresSource::read_queues(TransferCatalog& out) {
  const Rows rows = connection_.run(sql_.queues);
  for (int i = 0; i < rows.size(); ++i) {
    TransferQueue& q = out.queues.emplace_back();
    q.name = rows.text(i, 0);
    q.paused = rows.integer(i, 1) != 0;
    q.retention_completed = rows.maybe(i, 2);
    q.retention_dead = rows.maybe(i, 3);
    q.enqueued = rows.integer(i, 4);
    q.pruned = rows.integer(i, 5);
    q.expired = rows.integer(i, 6);
    for (int s = 0; s < kJobStateCount; ++s)
      q.counts[static_cast<std::size_t>(s)] = rows.integer(i, 7 + s);
    if (!rows.is_null(i, 15)) q.limits = rows.text(i, 15);
    if (!rows.is_null(i, 16)) q.meter = rows.text(i, 16);
    q.opens_at = rows.maybe(i, 17);
    if (!rows.is_null(i, 18)) q.pause = rows.text(i, 18);
  }
  const Rows keys = connection_.run(sql_.key_meters);
  for (int i = 0; i < keys.size(); ++i) {
    const auto queue = std::lower_bound(
        out.queues.begin(), out.queues.end(), keys.text(i, 0),
        [](const TransferQueue& q, std::string_view name) { return q.name < name; });
    if (queue != out.queues.end() && queue->name == keys.text(i, 0))
      queue->key_meters.emplace(keys.string(i, 1), keys.text(i, 2));
  }
}

// Includes notes that are not counted yet.
void PostgresSource::read_breakers(TransferCatalog& out) {
  const Rows rows = connection_.run(sql_.breakers);
  const Rows notes = connection_.run(sql_.breaker_notes);
  for (int i = 0; i < rows.size(); ++i) {
    TransferBreaker& b = out.breakers.emplace_back();
    b = {rows.string(i, 0), rows.string(i, 1), rows.string(i, 2)};
    const auto settings = parse_breaker_settings(b.settings);
    if (!settings) throw PgError{"XX001", settings.error().message, false};
    BreakerMeter meter = BreakerMeter::parse(b.state);
    for (int n = 0; n < notes.size(); ++n) {
      if (notes.text(n, 0) != b.name) continue;
      const WallTime at = WallTime::from_us(notes.integer(n, 4));
      meter.end(*settings, {notes.integer(n, 1), notes.integer(n, 2)},
                WallTime::from_us(notes.integer(n, 3)),
                notes.integer(n, 5) != 0 ? BreakerMeter::End::failed : BreakerMeter::End::neither,
                at);
      if (const auto time = notes.maybe(n, 6)) meter.open_for(*settings, Duration(*time), at);
    }
    b.state = meter.text();
  }
}

void PostgresSource::read_schedules(TransferCatalog& out) {
  const Rows rows = connection_.run(sql_.schedules);
  for (int i = 0; i < rows.size(); ++i) {
    TransferSchedule& s = out.schedules.emplace_back();
    s.name = rows.text(i, 0);
    s.id = rows.integer(i, 1);
    s.version = rows.integer(i, 2);
    s.definition = rows.text(i, 3);
    s.paused_reason = rows.text(i, 4);
    s.skip_reason = rows.text(i, 5);
    s.paused = rows.integer(i, 6) != 0;
    s.next = rows.integer(i, 7);
    s.next_fire = rows.integer(i, 8);
    s.skip_before = rows.integer(i, 9);
    s.fired = rows.integer(i, 10);
    s.last_job = rows.integer(i, 11);
    s.remaining = rows.maybe(i, 12);
    s.last_fired = rows.maybe(i, 13);
    s.timeout_override = rows.maybe(i, 14);
    s.created_at = rows.integer(i, 15);
    s.updated_at = rows.integer(i, 16);
    s.next_seq = rows.integer(i, 17);
  }
  const Rows removed = connection_.run(sql_.removed);
  for (int i = 0; i < removed.size(); ++i)
    out.removed_schedules.emplace(removed.text(i, 0), removed.integer(i, 1));
  const Rows links = connection_.run(sql_.links);
  for (int i = 0; i < links.size(); ++i)
    out.links.push_back({links.integer(i, 0), links.integer(i, 1), links.integer(i, 2) != 0});
}

void PostgresSource::read_access(TransferCatalog& out) {
  const Rows tokens = connection_.run(sql_.tokens);
  for (int i = 0; i < tokens.size(); ++i) {
    out.tokens.push_back({.name = tokens.text(i, 0),
                          .digest = tokens.text(i, 1),
                          .scopes = tokens.text(i, 2),
                          .created_by = tokens.text(i, 5),
                          .rate = tokens.integer(i, 3),
                          .created_at = tokens.integer(i, 4),
                          .expires_at = tokens.integer(i, 6),
                          .revoked_at = tokens.maybe(i, 7)});
  }
  // The leader is a node of the source, so its lease is not copied.
  const Rows leases = connection_.run(sql_.leases, params(kLeadershipLease));
  for (int i = 0; i < leases.size(); ++i) {
    out.leases.push_back({leases.text(i, 0), leases.text(i, 1), leases.text(i, 2),
                          leases.integer(i, 3), leases.integer(i, 4), leases.integer(i, 5),
                          leases.integer(i, 6)});
  }
  const Rows sessions = connection_.run(sql_.sessions);
  for (int i = 0; i < sessions.size(); ++i) {
    out.sessions.push_back({{sessions.text(i, 0), sessions.text(i, 1)},
                            sessions.integer(i, 2),
                            sessions.integer(i, 3),
                            static_cast<SessionStop>(sessions.integer(i, 4)),
                            sessions.integer(i, 5),
                            sessions.text(i, 6),
                            sessions.integer(i, 7),
                            sessions.integer(i, 8),
                            sessions.text(i, 9),
                            sessions.integer(i, 10)});
  }
  out.audit = read_audit_marks(connection_.run(sql_.marks));
}

void PostgresSource::read_triggers(TransferCatalog& out) {
  const Rows triggers = connection_.run(sql_.triggers);
  for (int i = 0; i < triggers.size(); ++i) {
    out.triggers.push_back({triggers.string(i, 0), triggers.string(i, 1), triggers.string(i, 2),
                            triggers.string(i, 3)});
  }
  const Rows events = connection_.run(sql_.trigger_events);
  for (int i = 0; i < events.size(); ++i) {
    out.trigger_events.push_back({{events.string(i, 0), events.integer(i, 1)},
                                  events.string(i, 2),
                                  events.integer(i, 3),
                                  events.maybe(i, 4),
                                  events.integer(i, 5),
                                  events.string(i, 6)});
  }
}

void PostgresSource::read_marks(TransferCatalog& out) {
  const Rows marks = connection_.run(sql_.chart_marks);
  for (int i = 0; i < marks.size(); ++i) {
    out.marks.push_back({marks.integer(i, 0), WallTime::from_us(marks.integer(i, 1)),
                         marks.string(i, 2), marks.string(i, 3),
                         marks.integer(i, 4) == 0 ? MarkSource::manual : MarkSource::worker});
  }
  const Rows views = connection_.run(sql_.views);
  for (int i = 0; i < views.size(); ++i) {
    out.views.push_back({views.string(i, 0), views.string(i, 1), views.string(i, 2),
                         views.string(i, 3), WallTime::from_us(views.integer(i, 4))});
  }
}

Result<TransferCatalog> PostgresSource::catalog() {
  return guarded([&]() -> Result<TransferCatalog> {
    TransferCatalog out;
    read_queues(out);
    read_breakers(out);
    read_schedules(out);
    read_access(out);
    read_triggers(out);
    read_marks(out);
    const Rows numbers = connection_.run(sql_.numbers);
    out.numbers = {numbers.integer(0, 0), numbers.integer(0, 1), numbers.integer(0, 2),
                   numbers.integer(0, 3)};
    return out;
  });
}

Result<std::vector<TransferTick>> PostgresSource::ledger(std::int64_t schedule,
                                                         std::int64_t after) {
  return guarded([&]() -> Result<std::vector<TransferTick>> {
    const Rows rows = connection_.run(sql_.ledger, params(schedule, after, kTransferRows));
    std::vector<TransferTick> out;
    for (int i = 0; i < rows.size(); ++i) {
      out.push_back({.schedule = schedule,
                     .seq = rows.integer(i, 0),
                     .version = rows.integer(i, 1),
                     .nominal = rows.integer(i, 2),
                     .until = rows.maybe(i, 3),
                     .job = rows.maybe(i, 8),
                     .count = rows.integer(i, 4),
                     .source = rows.integer(i, 5),
                     .state = rows.integer(i, 6),
                     .decided_at = rows.integer(i, 11),
                     .past_due = rows.integer(i, 7) != 0,
                     .reason = rows.text(i, 9),
                     .note = rows.text(i, 10)});
    }
    return out;
  });
}

Result<std::vector<AuditRecord>> PostgresSource::audit(std::int64_t after) {
  return guarded([&]() -> Result<std::vector<AuditRecord>> {
    const Rows rows = connection_.run(sql_.audit, params(after, kTransferRows));
    std::vector<AuditRecord> out;
    for (int i = 0; i < rows.size(); ++i) out.push_back(read_audit_record(rows, i));
    return out;
  });
}

}  // namespace
}  // namespace mainspring::pg

namespace mainspring {

Result<std::unique_ptr<TransferSource>> open_postgres_source(const PostgresOptions& options,
                                                             const std::string& place,
                                                             SourceGoesOn goes_on) {
  return pg::guarded([&]() -> Result<std::unique_ptr<TransferSource>> {
    return std::unique_ptr<TransferSource>(
        std::make_unique<pg::PostgresSource>(options, place, goes_on));
  });
}

}  // namespace mainspring
