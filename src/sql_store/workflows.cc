// Workflows: rows, jobs and operations. src/workflow implements the rules.
#include <fmt/format.h>

#include "queries_data.h"  // generated from sql/queries
#include "sql_store/store_impl.h"
#include "workflow/reads.h"

namespace mainspring::sql {

static_assert(static_cast<int>(WorkflowRow::child) == 12 &&
              static_cast<int>(WorkflowRow::live_child) == 13);  // used as a number in
                                                                 // workflows.sql and verify.sql

namespace {

std::optional<std::int64_t> us_or_null(WallTime at) {
  return at == WallTime::never() ? std::nullopt : std::optional<std::int64_t>(at.us());
}

WorkflowRecord read_workflow_record(Statement& row) {
  const auto time = [&](int column) {
    return row.is_null(column) ? WallTime::never() : WallTime::from_us(row.integer(column));
  };
  return {.id = row.integer(0),
          .name = std::string(row.text(1)),
          .key = std::string(row.text(2)),
          .state = row.one_of(3, WorkflowState::cancelled),
          .wake_at = time(4),
          .finished_at = time(5),
          .data = std::string(row.text(6))};
}

const char* table_of(bool once) {
  return once ? "workflow_texts" : "workflow_rows";
}

std::string select_row(bool once) {
  return fmt::format("SELECT text FROM {} WHERE workflow = ? AND kind = ? AND number = ?",
                     table_of(once));
}

}  // namespace

WorkflowRowStatements::WorkflowRowStatements(Connection& db, bool once)
    : row(db, select_row(once).c_str()),
      put(db, fmt::format("INSERT INTO {} (workflow, kind, number, text) VALUES (?, ?, ?, ?) ON "
                          "CONFLICT (workflow, kind, number) DO UPDATE SET text = excluded.text",
                          table_of(once))
                  .c_str()),
      remove(db, fmt::format("DELETE FROM {} WHERE workflow = ? AND kind = ? AND number = ?",
                             table_of(once))
                     .c_str()),
      rows_up(db, fmt::format("SELECT number, text FROM {} WHERE workflow = ? AND kind = ? ORDER "
                              "BY number LIMIT ?",
                              table_of(once))
                      .c_str()),
      rows_down(db, fmt::format("SELECT number, text FROM {} WHERE workflow = ? AND kind = ? ORDER "
                                "BY number DESC LIMIT ?",
                                table_of(once))
                        .c_str()),
      prune(db, fmt::format("DELETE FROM {0} WHERE workflow = ?1 AND (kind, number) IN (SELECT "
                            "kind, number FROM {0} WHERE workflow = ?1 ORDER BY kind, number LIMIT "
                            "?2)",
                            table_of(once))
                    .c_str()) {}

WorkflowStatements::WorkflowStatements(Connection& db)
    : load(db, queries::workflows::load),
      by_key(db, queries::workflows::by_key),
      insert(db, queries::workflows::insert),
      update(db, queries::workflows::update),
      rows(db, false),
      texts(db, true),
      put_job(db, queries::workflows::put_job),
      job(db, queries::workflows::job),
      remove_job(db, queries::workflows::remove_job),
      first_wake(db, queries::workflows::first_wake),
      due(db, queries::workflows::due),
      first_finished(db, queries::workflows::first_finished),
      finished(db, queries::workflows::finished),
      let_children_go(db, queries::workflows::let_children_go),
      prune(db, queries::workflows::prune) {}

WorkflowReads::WorkflowReads(Connection& db)
    : one(db, queries::workflows::load),
      list(db, queries::workflows::list),
      row(db, select_row(false).c_str()),
      text(db, select_row(true).c_str()),
      states(db, queries::workflows::states) {}

// -- WorkflowRows ---------------------------------------------------------------------------------

WorkflowId SqlWorkflowRows::new_workflow() {
  store_.marks_touched_ = true;
  return store_.next_workflow_++;
}

bool SqlWorkflowRows::may_pack() {
  return store_.options_.packed_workflows;
}

std::optional<WorkflowRecord> SqlWorkflowRows::load(WorkflowId id) {
  Statement& row = sql().load.bind(id);
  ResetGuard guard(row);
  if (!row.step()) return std::nullopt;
  return read_workflow_record(row);
}

std::vector<WorkflowRecord> SqlWorkflowRows::by_key(const std::string& name,
                                                    const std::string& key) {
  Statement& rows = sql().by_key.bind(name, key, kMaxOfKey);
  ResetGuard guard(rows);
  std::vector<WorkflowRecord> out;
  while (rows.step()) out.push_back(read_workflow_record(rows));
  return out;
}

void SqlWorkflowRows::save(const WorkflowRecord& r, bool is_new) {
  store_.begin_write();
  store_.workflows_touched_ = true;
  const int state = static_cast<int>(r.state);
  const auto wake = us_or_null(r.wake_at), finished = us_or_null(r.finished_at);
  if (is_new) {
    const auto key = Statement::text_or_null(r.key);
    sql().insert.bind(r.id, r.name, key, state, wake, finished, r.data).run();
  } else {
    sql().update.bind(state, wake, finished, r.data, r.id).run();
  }
}

std::optional<std::string> SqlWorkflowRows::row(WorkflowId id, WorkflowRow kind,
                                                std::int64_t number) {
  Statement& row = sql(kind).row.bind(id, static_cast<int>(kind), number);
  ResetGuard guard(row);
  if (!row.step()) return std::nullopt;
  return std::string(row.text(0));
}

void SqlWorkflowRows::put(WorkflowId id, WorkflowRow kind, std::int64_t number,
                          std::string_view text) {
  store_.begin_write();
  sql(kind).put.bind(id, static_cast<int>(kind), number, text).run();
}

void SqlWorkflowRows::remove(WorkflowId id, WorkflowRow kind, std::int64_t number) {
  store_.begin_write();
  sql(kind).remove.bind(id, static_cast<int>(kind), number).run();
}

std::vector<WorkflowRows::Row> SqlWorkflowRows::rows(WorkflowId id, WorkflowRow kind, Order order,
                                                     int limit) {
  Statement& rows = order == Order::up ? sql(kind).rows_up : sql(kind).rows_down;
  rows.bind(id, static_cast<int>(kind), limit);
  ResetGuard guard(rows);
  std::vector<Row> out;
  while (rows.step()) out.emplace_back(rows.integer(0), rows.text(1));
  return out;
}

JobId SqlWorkflowRows::make_job(const NewJob& job, const StepJob& of) {
  store_.begin_write();
  const JobId id = store_.make_job(job, store_.now_.wall, JobState::available, 0, kFlagStep).id;
  sql().put_job.bind(id, of.workflow, of.step, of.undo ? 1 : 0).run();
  store_.made_.push_back(id);
  return id;
}

void SqlWorkflowRows::cancel_job(JobId job, const std::string& reason) {
  const auto lease = store_.leases_.find(job);
  if (lease != store_.leases_.end()) return store_.request_cancel(job, lease->second, reason);
  auto hot = store_.load_hot(job);
  if (hot && !is_terminal(hot->state)) store_.cancel_hot(*hot, reason);
}

void SqlWorkflowRows::forget_job(JobId job) {
  store_.begin_write();
  sql().remove_job.bind(job).run();
}

bool SqlWorkflowRows::hears(JobId job) {
  Statement& row = sql().job.bind(job);
  ResetGuard guard(row);
  return row.step();
}

WorkflowStatements& SqlWorkflowRows::sql() {
  return *store_.workflow_sql_;
}

WorkflowRowStatements& SqlWorkflowRows::sql(WorkflowRow kind) {
  return is_written_once(kind) ? sql().texts : sql().rows;
}

// -- effects of ended steps -----------------------------------------------------------------------

namespace {

template <class T>
T or_throw(Result<T> result) {
  if (result) return std::move(*result);
  throw damaged(result.error().message);
}

}  // namespace

bool SqlStore::settle_workflows() {
  if (ended_steps_.empty()) return false;
  WorkflowRules rules(workflow_rows_, now_.wall, &kept_workflows_);
  for (EndedStep& ended : std::exchange(ended_steps_, {})) {
    StepEnd end{.job = ended.job, .unknown = (ended.flags & kFlagUnknown) != 0};
    {
      Statement& row = workflow_sql_->job.bind(ended.job);
      ResetGuard guard(row);
      if (!row.step()) continue;  // no workflow waits for it any more
      end.of = {.workflow = row.integer(0),
                .step = static_cast<int>(row.integer(1)),
                .undo = row.integer(2) != 0};
    }
    workflow_rows_.forget_job(ended.job);
    if (ended.result) {
      end.result = std::move(*ended.result);
    } else {
      EndedJob row = read_ended(ended.job);
      end.state = row.state;
      end.result = std::move(row.result);
      end.reason = std::move(row.reason);
      end.description = std::move(row.description);
    }
    const auto done = rules.ended(end);
    if (!done) throw damaged(done.error().message);
  }
  write_workflows(rules);
  return true;
}

void SqlStore::write_workflows(WorkflowRules& rules) {
  rules.write();
  for (const WorkflowId id : rules.take_changed()) changed_workflows_.push_back(id);
  for (std::string& alarm : rules.take_alarms()) alarms_.push_back(std::move(alarm));
}

template <class F>
OperationResult SqlStore::run_workflow(F&& what) {
  WorkflowRules rules(workflow_rows_, now_.wall, &kept_workflows_);
  auto done = what(rules);
  if (!done) {
    if (done.error().code == ErrorCode::internal) throw damaged(done.error().message);
    return done.error();
  }
  write_workflows(rules);
  if constexpr (std::is_same_v<decltype(done), Result<void>>) {
    return Done{};
  } else {
    return std::move(*done);
  }
}

OperationResult SqlStore::operator()(const StartWorkflow& op) {
  if (auto refused = no_room(workflow::steps_in_all(op.spec))) return std::move(*refused);
  return run_workflow([&](WorkflowRules& rules) { return rules.start(op); });
}
OperationResult SqlStore::operator()(const SignalWorkflow& op) {
  return run_workflow([&](WorkflowRules& rules) { return rules.signal(op); });
}
OperationResult SqlStore::operator()(const CancelWorkflow& op) {
  return run_workflow([&](WorkflowRules& rules) { return rules.cancel(op); });
}
OperationResult SqlStore::operator()(const PauseWorkflow& op) {
  return run_workflow([&](WorkflowRules& rules) { return rules.pause(op); });
}
OperationResult SqlStore::operator()(const RetryWorkflow& op) {
  return run_workflow([&](WorkflowRules& rules) { return rules.retry(op); });
}

OperationResult SqlStore::operator()(const ForkWorkflow& op) {
  const auto old = workflow_rows_.load(op.id);
  const int steps = old ? workflow::info_of(*old).steps : 0;
  if (auto refused = no_room(static_cast<std::size_t>(steps))) return std::move(*refused);
  return run_workflow([&](WorkflowRules& rules) { return rules.fork(op); });
}

OperationResult SqlStore::operator()(const WakeWorkflows& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  std::vector<WorkflowId> due;
  {
    Statement& rows = workflow_sql_->due.bind(now_.wall.us(), op.limit);
    ResetGuard guard(rows);
    while (rows.step()) due.push_back(rows.integer(0));
  }
  StepResult result{.changed = static_cast<int>(due.size()),
                    .more = static_cast<int>(due.size()) == op.limit};
  WorkflowRules rules(workflow_rows_, now_.wall, &kept_workflows_);
  for (const WorkflowId id : due) {
    if (or_throw(rules.wake(id))) result.more = true;
  }
  write_workflows(rules);
  return result;
}

bool SqlStore::prune_workflows(int limit) {
  int left = limit;
  for (auto state = WorkflowState::completed; left > 0;) {
    const Duration keep = state == WorkflowState::completed ? options_.store.retention_completed
                                                            : options_.store.retention_dead;
    WorkflowId id = 0;
    {
      Statement& row =
          workflow_sql_->finished.bind(static_cast<int>(state), (now_.wall - keep).us());
      ResetGuard guard(row);
      if (row.step()) id = row.integer(0);
    }
    if (id == 0) {
      if (state == WorkflowState::cancelled) return false;
      state = static_cast<WorkflowState>(static_cast<int>(state) + 1);
      continue;
    }
    begin_write();
    workflows_touched_ = true;
    workflow_sql_->let_children_go.bind(id, kGoesWithParent.us()).run();
    if (workflow_sql_->let_children_go.changes() > 0) {
      state = WorkflowState::completed;
      kept_workflows_.forget();
    }
    for (Statement* prune : {&workflow_sql_->texts.prune, &workflow_sql_->rows.prune}) {
      if (left <= 0) break;
      prune->bind(id, left).run();
      left -= static_cast<int>(prune->changes());
    }
    if (--left <= 0) continue;
    const auto record = workflow_rows_.load(id);
    const auto key = record ? workflow::left_of(*record, keep, now_.wall) : std::nullopt;
    key ? workflow_rows_.save(*key, false) : workflow_sql_->prune.bind(id).run();
  }
  return true;
}

void SqlStore::refresh_workflows() {
  if (!workflows_touched_) return;
  workflows_touched_ = false;
  const auto first = [](Statement& row) {
    ResetGuard guard(row);
    return row.step() && !row.is_null(0) ? WallTime::from_us(row.integer(0)) : WallTime::never();
  };
  next_workflow_wake_ = first(workflow_sql_->first_wake.bind());
  next_workflow_prune_ = WallTime::never();
  for (int state = static_cast<int>(WorkflowState::completed); state < kWorkflowStateCount;
       ++state) {
    const WallTime finished = first(workflow_sql_->first_finished.bind(state));
    if (finished == WallTime::never()) continue;
    const bool completed = state == static_cast<int>(WorkflowState::completed);
    next_workflow_prune_ =
        std::min(next_workflow_prune_, finished + (completed ? options_.store.retention_completed
                                                             : options_.store.retention_dead));
  }
}

// -- reads ----------------------------------------------------------------------------------------

namespace {

std::optional<std::string> read_row(WorkflowReads& sql, WorkflowId id, WorkflowRow kind,
                                    std::int64_t number) {
  Statement& row = is_written_once(kind) ? sql.text : sql.row;
  row.bind(id, static_cast<int>(kind), number);
  ResetGuard guard(row);
  if (!row.step()) return std::nullopt;
  return std::string(row.text(0));
}

std::optional<WorkflowRecord> find_record(WorkflowReads& sql, WorkflowId id) {
  Statement& row = sql.one.bind(id);
  ResetGuard guard(row);
  if (!row.step()) return std::nullopt;
  WorkflowRecord record = read_workflow_record(row);
  if (workflow::is_removed(record.data)) return std::nullopt;
  return record;
}

Error no_workflow(WorkflowId id) {
  return Error{ErrorCode::not_found, fmt::format("there is no workflow {}", id)};
}

}  // namespace

// Runs on a reader's connection, in one snapshot.
template <class F>
auto SqlStore::read_workflows(F&& what) const -> decltype(what(std::declval<Reader&>())) {
  try {
    auto reader = take_reader();
    auto answer = [&] {
      Snapshot snapshot(*reader->db);
      return what(*reader);
    }();
    give_back(std::move(reader));
    return answer;
  } catch (const DiskError& error) {
    return to_error(error);
  }
}

Result<WorkflowInfo> SqlStore::workflow(WorkflowId id) const {
  return read_workflows([&](Reader& reader) -> Result<WorkflowInfo> {
    WorkflowReads& sql = reader.workflows;
    const auto record = find_record(sql, id);
    if (!record) return no_workflow(id);
    return workflow::read_info(*record, [&](WorkflowRow kind, std::int64_t number) {
      return read_row(sql, id, kind, number);
    });
  });
}

Result<WorkflowPage> SqlStore::workflows(const WorkflowFilter& filter, int limit,
                                         WorkflowId before) const {
  return read_workflows([&](Reader& reader) -> Result<WorkflowPage> {
    WorkflowReads& sql = reader.workflows;
    const int examined = limit * workflow::kExaminedForOne;
    std::vector<WorkflowRecord> records;
    {
      Statement& rows = sql.list.bind(before == 0 ? INT64_MAX : before, examined);
      ResetGuard guard(rows);
      while (rows.step()) records.push_back(read_workflow_record(rows));
    }
    return workflow::page_of(filter, limit, records, [&](WorkflowId id) {
      return read_row(sql, id, WorkflowRow::text, workflow::kTextQueues);
    });
  });
}

Result<WorkflowStepPage> SqlStore::workflow_steps(WorkflowId id, int after, int limit) const {
  const RunningJobs::View view(running_);
  return read_workflows([&](Reader& reader) -> Result<WorkflowStepPage> {
    WorkflowReads& sql = reader.workflows;
    const auto record = find_record(sql, id);
    if (!record) return no_workflow(id);
    std::vector<WorkflowRows::Row> states;
    {
      Statement& rows = sql.states.bind(id, static_cast<int>(WorkflowRow::state), after, limit + 1);
      ResetGuard guard(rows);
      while (rows.step()) states.emplace_back(rows.integer(0), rows.text(1));
    }
    auto page = workflow::read_steps(
        *record, states, after, limit,
        [&](WorkflowRow kind, std::int64_t number) { return read_row(sql, id, kind, number); });
    if (page) workflow::add_jobs(*page, read_live(reader, view, workflow::live_jobs(*page)));
    return page;
  });
}

}  // namespace mainspring::sql
