// Writes jobs in this store's format, by arrays: the rows, and then the entries that follow from
// their states.
#include "store_postgres/transfer_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/mutant.h"
#include "env/random.h"
#include "model/fingerprint.h"
#include "store_postgres/migrations.h"
#include "store_postgres/store_impl.h"
#include "store_postgres/transfer.h"
#include "store_postgres/transfer_statements.h"

namespace mainspring::pg {

PostgresTarget::PostgresTarget(const PostgresOptions& options, const std::string& place)
    : options_(options),
      connection_(transfer_connection(options, true), clock_),
      schema_(options.schema),
      run_(SystemRandom().hex128()) {
  if (options_.prepared) {
    // Plan for index lookups, whatever the statistics of an empty table say. Until seal(), a crash
    // of the server may lose the newest commits.
    connection_.execute(
        "SET plan_cache_mode = force_generic_plan; SET random_page_cost = 0.01; SET seq_page_cost "
        "= 0.01; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off; "
        "SET enable_bitmapscan = off; SET jit = off; SET synchronous_commit = off");
  }
  const SchemaVersion version = schema_version(connection_, schema_);
  if (version.version == 0) {
    migrate(connection_, schema_);
  } else {
    check_schema(version, schema_);
  }
  sql_ = std::make_unique<const Statements>(schema_);
  place_ = {read_move(connection_, schema_, "self").value_or(TransferPlace{}).store, place};
}

PostgresTarget::~PostgresTarget() = default;

void PostgresTarget::check_empty() {
  const Rows nodes = connection_.run(sql_->nodes_alive, params(kNodeAlive));
  if (nodes.integer(0, 0) != 0) {
    throw Error{.code = ErrorCode::conflict,
                .message = fmt::format("{} is open in {} servers: stop them, or copy to another "
                                       "schema",
                                       place_.place, nodes.integer(0, 0))};
  }
  const Rows rows = connection_.run(sql_->holds, params(kLeadershipLease));
  constexpr std::array kWhat = {"jobs",          "queues",   "schedules", "leases", "tokens",
                                "audit records", "triggers", "breakers",  "marks",  "saved views"};
  std::string words;
  for (std::size_t i = 0; i < kWhat.size(); ++i) {
    const std::int64_t n = rows.integer(0, static_cast<int>(i));
    if (n != 0) words += fmt::format("{}{} {}", words.empty() ? "" : ", ", n, kWhat[i]);
  }
  if (words.empty()) return;
  throw Error{.code = ErrorCode::conflict,
              .message = fmt::format("{} holds {}: a copy goes to an empty store or a new schema",
                                     place_.place, words)};
}

Result<std::optional<TransferPlace>> PostgresTarget::unfinished() {
  return guarded([&]() -> Result<std::optional<TransferPlace>> {
    if (const auto to = read_move(connection_, schema_, "moved")) {
      return Error{
          .code = ErrorCode::conflict,
          .message = fmt::format("{} is a store that has moved to {}: copy to a new schema",
                                 place_.place, to->place)};
    }
    const auto from = read_move(connection_, schema_, "copying");
    if (!from) check_empty();
    return from;
  });
}

Result<void> PostgresTarget::begin(const TransferPlace& source, WallTime now) {
  return guarded([&]() -> Result<void> {
    connection_.execute("BEGIN ISOLATION LEVEL READ COMMITTED");
    try {
      // No node may join between the check and the mark.
      connection_.run(sql_->lock_nodes);
      if (!read_move(connection_, schema_, "copying")) check_empty();
      connection_.run(sql_->mark_copying, params(source.store, source.place, now.us(), run_));
      connection_.run(sql_->no_leader, params(kLeadershipLease));
      connection_.execute(
          fmt::format("CREATE TABLE IF NOT EXISTS {}.copied_blocks (section bigint, block bigint, "
                      "rows bigint NOT NULL, stamp bigint NOT NULL, PRIMARY KEY (section, block))",
                      schema_));
      connection_.execute("COMMIT");
    } catch (...) {
      if (connection_.handle() != nullptr) connection_.execute("ROLLBACK");
      throw;
    }
    const Rows queues = connection_.run(sql_->queues);
    for (int i = 0; i < queues.size(); ++i) queues_[queues.text(i, 0)] = queues.integer(i, 1);
    const Rows kinds = connection_.run(sql_->kinds);
    for (int i = 0; i < kinds.size(); ++i) kinds_[kinds.text(i, 0)] = kinds.integer(i, 1);
    last_finished_ = connection_.run(sql_->last_finished).integer(0, 0);
    return {};
  });
}

// -- transactions ---------------------------------------------------------------------------------

Result<void> PostgresTarget::writing(const std::function<void()>& write) {
  return guarded([&]() -> Result<void> {
    connection_.queue(sql_->begin);
    connection_.queue(sql_->still_ours, params(run_));
    try {
      connection_.next();
      if (connection_.next().empty()) {
        throw Error{.code = ErrorCode::conflict,
                    .message = fmt::format("another `mainspring store copy` has taken over the "
                                           "copy to {}",
                                           place_.place)};
      }
      write();
      connection_.queue(sql_->commit);
      settle();
      return {};
    } catch (...) {
      if (connection_.handle() != nullptr) {
        connection_.forget();
        connection_.run(sql_->roll_back);
      }
      throw;
    }
  });
}

void PostgresTarget::tell(const Statement& statement, const Params& params) {
  constexpr std::size_t kPending = 500;  // answers not read yet
  connection_.queue(statement, params);
  if (connection_.pending() >= kPending) settle();
}

void PostgresTarget::settle() {
  while (connection_.pending() > 0) connection_.next();
}

Result<TransferBlocks> PostgresTarget::copied(TransferSection section) {
  return guarded([&]() -> Result<TransferBlocks> {
    const Rows rows = connection_.run(sql_->copied, params(static_cast<std::int64_t>(section)));
    TransferBlocks out;
    for (int i = 0; i < rows.size(); ++i)
      out[rows.integer(i, 0)] = {.rows = rows.integer(i, 1), .stamp = rows.integer(i, 2)};
    return out;
  });
}

Result<void> PostgresTarget::note(TransferSection section, std::int64_t block, TransferBlock is) {
  return writing([&] {
    const auto number = static_cast<std::int64_t>(section);
    if (is.rows == 0) {
      tell(sql_->no_note, params(number, block));
    } else {
      tell(sql_->note, params(number, block, is.rows, is.stamp));
    }
  });
}

// Called with every write of a block: its recorded stamp is no longer valid.
void PostgresTarget::unnote(TransferSection section, std::int64_t block) {
  tell(sql_->note,
       params(static_cast<std::int64_t>(section), block, kUnknownRows, std::int64_t{0}));
}

// -- jobs -----------------------------------------------------------------------------------------

Result<std::vector<JobStamp>> PostgresTarget::stamps(std::int64_t block) {
  return guarded([&]() -> Result<std::vector<JobStamp>> {
    const Rows rows =
        connection_.run(sql_->stamps, params(block * kTransferJobs, (block + 1) * kTransferJobs));
    std::vector<JobStamp> out;
    for (int i = 0; i < rows.size(); ++i) {
      out.push_back({rows.integer(i, 0), rows.integer(i, 1), rows.integer(i, 2),
                     static_cast<JobState>(rows.integer(i, 3))});
    }
    return out;
  });
}

std::int64_t PostgresTarget::id_of(const Statement& statement,
                                   std::map<std::string, std::int64_t>& known,
                                   const std::string& name) {
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  settle();
  const std::int64_t id = connection_.run(statement, params(name)).integer(0, 0);
  known.emplace(name, id);
  return id;
}

Result<void> PostgresTarget::write_jobs(std::span<const TransferJob> jobs, Now now) {
  const auto queues = queues_, kinds = kinds_;
  auto done = writing([&] {
    Ints ids;
    for (const TransferJob& job : jobs) ids.push_back(job.stamp.id);
    unnote(TransferSection::jobs, ids.front() / kTransferJobs);
    remove(ids);
    insert_rows(jobs, now);
    insert_extras(jobs);
    insert_lines(jobs, now);
  });
  if (!done) queues_ = queues, kinds_ = kinds;  // its new ones are rolled back too
  return done;
}

Result<void> PostgresTarget::remove_jobs(std::span<const JobStamp> jobs) {
  return writing([&] {
    Ints ids;
    for (const JobStamp& job : jobs) ids.push_back(job.id);
    unnote(TransferSection::jobs, ids.front() / kTransferJobs);
    remove(ids);
  });
}

void PostgresTarget::remove(const Ints& ids) {
  for (const Statement& statement : sql_->remove) tell(statement, params(ids));
}

namespace {

int rest_of_flags(const TransferJob& job) {
  NewJob as;
  as.session = job.session;
  as.on_dead = job.on_dead;
  as.on_expiry = job.on_expiry;
  as.reply_session = job.reply_session;
  as.limit_key = job.limit_key;
  if (auto follow_ups = decode_follow_ups(job.follow_ups)) as.follow_ups = std::move(*follow_ups);
  return flags_of(as) & ~(kFlagUnique | kFlagFollowed);
}

}  // namespace

void PostgresTarget::insert_rows(std::span<const TransferJob> jobs, Now now) {
  constexpr std::size_t kNumbers = 21;
  std::array<Ints, kNumbers> c;
  Ints depth, kept;
  Texts worker, key, correlation, reply, tags, headers, args, follow_ups, session, reply_session,
      limit_key;
  std::vector<std::string> joined(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const TransferJob& j = jobs[i];
    const bool running = j.stamp.state == JobState::running;
    const bool extras = j.extras || j.cancel_requested;
    const int flags = (extras ? kFlagExtras : 0) | (j.expired ? kFlagExpired : 0) |
                      (j.unique_key.empty() ? 0 : kFlagUnique) |
                      (j.errors.empty() ? 0 : kFlagErrors) | (j.of_step ? kFlagStep : 0) |
                      (j.unknown ? kFlagUnknown : 0) | (j.cancel_requested ? kFlagCancel : 0) |
                      (j.followed ? kFlagFollowed : 0) | (j.memos.empty() ? 0 : kFlagMemos) |
                      rest_of_flags(j);
    const std::array<std::int64_t, kNumbers> values = {
        j.stamp.id,
        static_cast<std::int64_t>(j.stamp.state),
        flags,
        j.priority,
        j.attempt,
        j.max_attempts,
        j.stamp.version,
        j.stamp.token,
        running ? lease_time(now) + std::max(j.lease, j.kept) : 0,
        j.lease,
        running ? lease_time(now) : 0,
        j.run_at,
        j.started_at,
        j.finished_at,
        j.expires_at,
        j.created_at,
        j.timeout,
        j.schedule,
        id_of(sql_->queue_of, queues_, j.queue),
        id_of(sql_->kind_of, kinds_, j.kind),
        j.budget};
    for (std::size_t n = 0; n < kNumbers; ++n) c[n].push_back(values[n]);
    worker.push_back(text_or_null(j.worker)), key.push_back(text_or_null(j.unique_key));
    correlation.push_back(text_or_null(j.correlation_id));
    reply.push_back(text_or_null(j.reply_to)), headers.push_back(text_or_null(j.headers));
    for (const std::string& tag : j.tags) {
      if (!joined[i].empty()) joined[i] += '\x1f';
      joined[i] += storable(tag);
    }
    tags.push_back(text_or_null(joined[i])), args.emplace_back(j.args);
    follow_ups.push_back(text_or_null(j.follow_ups));
    session.push_back(text_or_null(j.session));
    reply_session.push_back(text_or_null(j.reply_session));
    depth.push_back(j.trigger_depth), kept.push_back(j.kept);
    limit_key.push_back(text_or_null(j.limit_key));
  }
  Params p;
  for (const Ints& numbers : c) p.add(numbers);
  for (const Texts* texts : {&worker, &key, &correlation, &reply, &tags, &headers, &args,
                             &follow_ups, &session, &reply_session, &limit_key})
    p.add(*texts);
  p.add(depth), p.add(kept);
  tell(sql_->insert, p);
}

void PostgresTarget::insert_extras(std::span<const TransferJob> jobs) {
  Ints deferred, lost, lost_count, since;
  Ints id, error_job, error_seq, error_attempt, error_at, error_ran, memo_job;
  Reals value;
  Texts text, wish, reason, description, result, checkpoint, warning, error_worker, error_message,
      error_end, memo_name, memo_result;
  const TransferExtras none;
  for (const TransferJob& j : jobs) {
    if (j.extras || j.cancel_requested) {
      const TransferExtras& e = j.extras ? *j.extras : none;
      id.push_back(j.stamp.id), value.push_back(e.progress_value);
      text.push_back(view_of(e.progress_text));
      wish.push_back(j.cancel_requested ? std::optional<std::string_view>(j.cancel_reason)
                                        : std::nullopt);
      reason.push_back(view_of(e.reason)), description.push_back(view_of(e.description));
      result.push_back(view_of(e.result)), checkpoint.push_back(view_of(e.checkpoint));
      warning.push_back(view_of(e.warning));
    }
    if (j.deferred) deferred.push_back(j.stamp.id);
    if (j.lost != 0 || j.quarantined != 0) {
      lost.push_back(j.stamp.id), lost_count.push_back(j.lost), since.push_back(j.quarantined);
    }
    for (const TransferError& e : j.errors) {
      error_job.push_back(j.stamp.id), error_seq.push_back(e.seq);
      error_attempt.push_back(e.attempt), error_at.push_back(e.at);
      error_ran.push_back(e.ran_for);
      error_worker.emplace_back(e.worker), error_message.emplace_back(e.message);
      error_end.push_back(text_or_null(e.program_end));
    }
    for (const Memo& m : j.memos) {
      memo_job.push_back(j.stamp.id);
      memo_name.emplace_back(m.name), memo_result.emplace_back(m.result);
    }
  }
  if (!deferred.empty()) tell(sql_->deferred, params(deferred));
  if (!lost.empty()) tell(sql_->quarantined, params(lost, lost_count, since));
  if (!id.empty()) {
    tell(sql_->extras,
         params(id, value, text, wish, reason, description, result, checkpoint, warning));
  }
  if (!error_job.empty()) {
    tell(sql_->errors, params(error_job, error_seq, error_attempt, error_at, error_ran,
                              error_worker, error_message, error_end));
  }
  if (!memo_job.empty()) tell(sql_->memos, params(memo_job, memo_name, memo_result));
}

void PostgresTarget::insert_dead(std::span<const TransferJob> jobs) {
  Ints ids, queues, kinds, fingerprints, at;
  for (const TransferJob& j : jobs) {
    if (j.stamp.state != JobState::dead) continue;
    ids.push_back(j.stamp.id), queues.push_back(queues_.at(j.queue));
    kinds.push_back(kinds_.at(j.kind));
    fingerprints.push_back(fingerprint_number(fingerprint_of(dead_job(j))));
    at.push_back(j.finished_at);
  }
  if (!ids.empty()) tell(sql_->dead, params(ids, queues, kinds, fingerprints, at));
}

void PostgresTarget::insert_lines(std::span<const TransferJob> jobs, Now now) {
  Ints ids, running, key_queue, key_id, key_until, step_job, workflow, step, undo;
  Texts key;
  std::int64_t look_at = INT64_MAX;
  for (const TransferJob& j : jobs) {
    ids.push_back(j.stamp.id);
    if (j.stamp.state == JobState::running) {
      running.push_back(j.stamp.id);
      look_at = std::min(look_at, lease_time(now) + j.lease);
    }
    if (j.workflow != 0) {
      step_job.push_back(j.stamp.id), workflow.push_back(j.workflow);
      step.push_back(j.step), undo.push_back(j.undo ? 1 : 0);
    }
    if (j.unique_until && !MS_MUTANT(copy_drops_unique_keys)) {
      key_queue.push_back(queues_.at(j.queue)), key_id.push_back(j.stamp.id);
      key_until.push_back(*j.unique_until), key.emplace_back(j.unique_key);
    }
  }
  for (const Statement& statement : sql_->lines) tell(statement, params(ids));
  insert_dead(jobs);
  if (!running.empty()) tell(sql_->leased, params(look_at, running));
  if (!step_job.empty()) tell(sql_->steps, params(step_job, workflow, step, undo));
  if (!key.empty()) tell(sql_->uniques, params(key_queue, key, key_id, key_until));
}

std::int64_t PostgresTarget::lease_time(Now now) const {
  return options_.lease_clock == PostgresOptions::LeaseClock::wall ? now.wall.us()
                                                                   : now.instant.us();
}

// -- blocks of the others -------------------------------------------------------------------------

Result<void> PostgresTarget::write_finished(std::int64_t block,
                                            std::span<const TransferFinished> rows) {
  return writing([&] {
    unnote(TransferSection::finished, block);
    tell(sql_->no_finished, params(block * kTransferSpan, (block + 1) * kTransferSpan));
    for (const TransferFinished& f : rows) {
      tell(sql_->finished, params(f.prune_at, f.seq, f.at, f.ids));
      last_finished_ = std::max(last_finished_, f.seq);
    }
  });
}

Result<void> PostgresTarget::write_keys(std::int64_t block, std::span<const TransferKey> rows) {
  return writing([&] {
    unnote(TransferSection::keys, block);
    tell(sql_->no_keys, params(block * kTransferSpan, (block + 1) * kTransferSpan));
    for (const TransferKey& k : rows)
      tell(sql_->key, params(k.key, k.expires_at, k.fingerprint, k.ids));
  });
}

Result<void> PostgresTarget::write_windows(std::int64_t block,
                                           std::span<const TransferWindow> rows) {
  const auto queues = queues_;
  auto done = writing([&] {
    unnote(TransferSection::windows, block);
    tell(sql_->no_windows, params(block * kTransferWindowSpan, (block + 1) * kTransferWindowSpan));
    Ints queue, id, ended, until;
    Texts key;
    for (const TransferWindow& w : rows) {
      queue.push_back(id_of(sql_->queue_of, queues_, w.queue)), id.push_back(w.id);
      ended.push_back(static_cast<std::int64_t>(w.ended)), until.push_back(w.until);
      key.emplace_back(w.key);
    }
    if (!key.empty() && !MS_MUTANT(copy_drops_windows))
      tell(sql_->windows, params(queue, key, id, until, ended));
  });
  if (!done) queues_ = queues;  // its new ones are rolled back too
  return done;
}

Result<void> PostgresTarget::write_history(std::int64_t block,
                                           std::span<const TransferHistory> rows) {
  return writing([&] {
    unnote(TransferSection::history, block);
    const std::int64_t from = block * kTransferHistorySpan;
    tell(sql_->no_history, params(from, from + kTransferHistorySpan));
    std::set<std::pair<std::string_view, std::string_view>> series;
    Texts queues, kinds, waits, runs;
    std::array<Ints, 8> numbers;  // span, at, counts
    std::vector<std::string> sketches;
    sketches.reserve(rows.size() * 2);
    for (const TransferHistory& h : rows) {
      series.emplace(h.queue, h.kind);
      queues.emplace_back(h.queue), kinds.emplace_back(h.kind);
      numbers[0].push_back(h.span), numbers[1].push_back(h.at);
      for (std::size_t i = 0; i < h.counts.size(); ++i) numbers[2 + i].push_back(h.counts[i]);
      waits.emplace_back(sketches.emplace_back("{" + h.wait + "}"));
      runs.emplace_back(sketches.emplace_back("{" + h.run + "}"));
    }
    if (rows.empty() || MS_MUTANT(copy_drops_history)) return;
    Texts series_queues, series_kinds;
    for (const auto& [queue, kind] : series)
      series_queues.emplace_back(queue), series_kinds.emplace_back(kind);
    tell(sql_->history.put_series, params(series_queues, series_kinds, Ints(series.size(), from)));
    Params p = params(queues, kinds);
    for (const Ints& one : numbers) p.add(one);
    tell(sql_->history.put, p.add(waits).add(runs));
  });
}

Result<void> PostgresTarget::write_workflows(std::int64_t block,
                                             std::span<const TransferWorkflow> rows) {
  return writing([&] {
    unnote(TransferSection::workflows, block);
    const std::int64_t from = block * kTransferWorkflows, to = from + kTransferWorkflows;
    tell(sql_->no_workflows, params(from, to));
    tell(sql_->no_workflow_rows, params(from, to));
    for (const TransferWorkflow& w : rows) {
      tell(sql_->workflow,
           params(w.id, w.name, text_or_null(w.key), w.data, w.state, w.wake_at, w.finished_at));
    }
  });
}

Result<void> PostgresTarget::append_workflow_rows(std::span<const TransferWorkflowRow> rows) {
  return writing([&] {
    Ints workflow, kind, number;
    Texts text;
    for (const TransferWorkflowRow& r : rows) {
      workflow.push_back(r.workflow), kind.push_back(r.kind), number.push_back(r.number);
      text.emplace_back(r.text);
    }
    tell(sql_->workflow_rows, params(workflow, kind, number, text));
  });
}

Result<VerifyReport> PostgresTarget::verify() {
  MS_TRY(writing([&] { tell(sql_->running_keys, {}); }));  // derived from the jobs
  // The invariants join whole tables, for which the planner has no statistics yet. Small tables are
  // not analyzed: with statistics of two rows, the planner reads the whole table, however large it
  // becomes.
  auto seen = guarded([&]() -> Result<void> {
    if (std::exchange(analysed_, true)) return {};
    const Statement large(schema_,
                          "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = "
                          "c.relnamespace WHERE n.nspname = '$schema' AND c.relkind = 'r' AND "
                          "pg_relation_size(c.oid) > 10 * 8192");
    const Rows tables = connection_.run(large);
    for (int i = 0; i < tables.size(); ++i)
      connection_.execute(fmt::format("ANALYZE {}.{}", schema_, tables.string(i, 0)));
    return {};
  });
  MS_TRY(std::move(seen));
  NullLog log;
  return PostgresStore(options_, log, nullptr).verify();  // not opened: reads only
}

}  // namespace mainspring::pg

namespace mainspring {

Result<std::unique_ptr<TransferTarget>> open_postgres_target(const PostgresOptions& options,
                                                             const std::string& place) {
  return pg::guarded([&]() -> Result<std::unique_ptr<TransferTarget>> {
    return std::unique_ptr<TransferTarget>(std::make_unique<pg::PostgresTarget>(options, place));
  });
}

}  // namespace mainspring
