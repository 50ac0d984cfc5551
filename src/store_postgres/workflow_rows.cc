// Rows of workflows that a transaction has loaded.
#include "store_postgres/workflow_rows.h"

#include <algorithm>

#include "base/mutant.h"

#include "store_postgres/store_impl.h"
#include "workflow/step_rows.h"

namespace mainspring::pg {
namespace {

constexpr std::size_t kMaxIdsAtOnce = 1000;
constexpr int kWorkflowColumns = 7;  // of read_workflow()
constexpr int kPage = 100;           // for kinds that are read one by one, from one end

std::optional<std::int64_t> us_or_none(WallTime at) {
  return at == WallTime::never() ? std::nullopt : std::optional<std::int64_t>(at.us());
}
std::int64_t number_of(WorkflowRow kind) {
  return static_cast<std::int64_t>(kind);
}

}  // namespace

WorkflowRecord read_workflow(const Rows& rows, int row) {
  const auto time = [&](int column) {
    return rows.is_null(row, column) ? WallTime::never()
                                     : WallTime::from_us(rows.integer(row, column));
  };
  return {.id = rows.integer(row, 0),
          .name = rows.string(row, 1),
          .key = rows.string(row, 2),
          .state = static_cast<WorkflowState>(rows.integer(row, 3)),
          .wake_at = time(4),
          .finished_at = time(5),
          .data = rows.string(row, 6)};
}

// -- records --------------------------------------------------------------------------------------

void PostgresWorkflowRows::clear() {
  held_.clear();
  new_jobs_.clear();
  known_.clear();
  looked_up_.clear();
  forgotten_.clear();
  ids_at_once_ = 1;
  // After a crash the server gives numbers of uncommitted transactions again.
  if (!MS_MUTANT(unused_numbers_kept)) spare_ids_.clear();
}

void PostgresWorkflowRows::keep_records(const Rows& rows) {
  for (int i = 0; i < rows.size(); ++i) {
    WorkflowRecord record = read_workflow(rows, i);
    if (held_.contains(record.id)) continue;
    Held& held = held_[record.id];
    held.wakes_at = record.wake_at;
    held.record = std::move(record);
  }
}

void PostgresWorkflowRows::lock(const std::vector<WorkflowId>& ids,
                                const std::vector<JobId>& jobs) {
  Ints wanted;
  std::copy_if(ids.begin(), ids.end(), std::back_inserter(wanted),
               [this](WorkflowId id) { return !held_.contains(id); });
  if (wanted.empty() && jobs.empty()) return;
  const Statement& statement = store_.workflow_sql_.lock_of_jobs;
  keep_records(store_.ask(statement, params(Ints(jobs.begin(), jobs.end()), wanted)));
  for (const WorkflowId id : wanted) held_[id];  // also missing ones
}

PostgresWorkflowRows::Held& PostgresWorkflowRows::held(WorkflowId id) {
  if (!held_.contains(id)) {
    keep_records(store_.ask(store_.workflow_sql_.lock, params(Ints{id})));
    held_[id];
  }
  return held_.at(id);
}

void PostgresWorkflowRows::look_ahead(const std::vector<WorkflowId>& ids,
                                      const std::vector<JobId>& jobs, int starts) {
  if (ids.empty() && jobs.empty() && starts == 0) return;
  store_.locks_asked_ = true;
  if (store_.options_.ids_ahead) later_ids(jobs.size(), starts);
  Ints wanted;
  std::copy_if(ids.begin(), ids.end(), std::back_inserter(wanted),
               [this](WorkflowId id) { return !held_.contains(id); });
  if (jobs.empty() && wanted.empty()) return;
  later_look_up(jobs, wanted);
}

// Most starts and ends make one job: the first, or the next.
void PostgresWorkflowRows::later_ids(std::size_t ends, int starts) {
  const std::size_t next = ends + static_cast<std::size_t>(starts);
  const bool enough = next < 2 || store_.next_id_ < store_.ids_end_;
  if (std::ssize(spare_ids_) >= starts) {
    if (!enough) store_.later_new_ids(next);
    return;
  }
  const std::int64_t jobs = enough ? 0 : static_cast<std::int64_t>(next);
  store_.later(store_.workflow_sql_.next_ids, params(std::int64_t{starts}, jobs),
               [this, starts, jobs](const Rows& r) {
                 spare_ids_.clear();
                 for (int i = starts; i > 0; --i) spare_ids_.push_back(r.integer(i - 1, 0));
                 if (jobs != 0) store_.take_new_ids(r, starts);
               });
}

bool PostgresWorkflowRows::may_pack() {
  return store_.options_.packed_workflows;
}

WorkflowId PostgresWorkflowRows::new_workflow() {
  if (spare_ids_.empty()) {
    const Rows one =
        store_.ask(store_.workflow_sql_.next_ids, params(std::int64_t{1}, std::int64_t{0}));
    spare_ids_.push_back(one.integer(0, 0));
  }
  const WorkflowId id = spare_ids_.back();
  spare_ids_.pop_back();
  Held& held = held_[id];
  held.fresh = true;
  for (Kind& kind : held.kinds) kind.whole = true;
  return id;
}

std::optional<WorkflowRecord> PostgresWorkflowRows::load(WorkflowId id) {
  return held(id).record;
}

// Other transactions with the same key wait until this transaction ends.
std::vector<WorkflowRecord> PostgresWorkflowRows::by_key(const std::string& name,
                                                         const std::string& key) {
  flush_records();
  store_.tell(store_.workflow_sql_.lock_key, params(name, key));
  const Rows found =
      store_.ask(store_.workflow_sql_.by_key, params(name, key, std::int64_t{kMaxOfKey}));
  std::vector<WorkflowRecord> out;
  for (int i = 0; i < found.size(); ++i) out.push_back(read_workflow(found, i));
  return out;
}

void PostgresWorkflowRows::save(const WorkflowRecord& record, bool /*is_new*/) {
  Held& held = held_.at(record.id);
  held.record = record;
  held.touched = true;
}

// -- rows -----------------------------------------------------------------------------------------

PostgresWorkflowRows::Kind& PostgresWorkflowRows::kind_of(WorkflowId id, WorkflowRow kind) {
  return held(id).kinds[static_cast<std::size_t>(kind)];
}

void PostgresWorkflowRows::keep_row(WorkflowId id, WorkflowRow kind, std::int64_t number,
                                    std::optional<std::string> text) {
  const There there = text ? There::yes : There::no;
  auto& cells = kind_of(id, kind).cells;
  const auto found = cells.find(number);
  if (found == cells.end()) {
    cells.emplace(number, Cell{.text = std::move(text), .there = there});
  } else if (found->second.there == There::unknown) {
    found->second.there = there;  // it was put without a read
  }
}

std::optional<std::string> PostgresWorkflowRows::row(WorkflowId id, WorkflowRow kind,
                                                     std::int64_t number) {
  Kind& all = kind_of(id, kind);
  auto found = all.cells.find(number);
  if (found == all.cells.end()) {
    if (all.whole || number <= all.up || number >= all.down) return std::nullopt;
    fetch({Place{id, kind, number}});
    found = all.cells.find(number);
  }
  return found->second.text;
}

PostgresWorkflowRows::Cell& PostgresWorkflowRows::cell(WorkflowId id, WorkflowRow kind,
                                                       std::int64_t number) {
  Kind& all = kind_of(id, kind);
  const bool none = all.whole || number <= all.up || number >= all.down;
  auto& found =
      all.cells.try_emplace(number, Cell{.there = none ? There::no : There::unknown}).first->second;
  found.dirty = true;
  return found;
}

void PostgresWorkflowRows::put(WorkflowId id, WorkflowRow kind, std::int64_t number,
                               std::string_view text) {
  cell(id, kind, number).text = std::string(text);
}

void PostgresWorkflowRows::remove(WorkflowId id, WorkflowRow kind, std::int64_t number) {
  Cell& gone = cell(id, kind, number);
  gone.text.reset();
  gone.dirty = gone.there != There::no;
}

void PostgresWorkflowRows::fetch(const std::set<Place>& places) {
  Ints ids, kinds, numbers;
  for (const auto& [id, kind, number] : places) {
    const Kind& all = kind_of(id, kind);
    if (all.whole || all.cells.contains(number) || number <= all.up || number >= all.down) continue;
    ids.push_back(id), kinds.push_back(number_of(kind)), numbers.push_back(number);
  }
  if (ids.empty()) return;
  const Rows rows = store_.ask(store_.workflow_sql_.fetch, params(ids, kinds, numbers));
  for (int i = 0; i < rows.size(); ++i) {
    keep_row(rows.integer(i, 0), static_cast<WorkflowRow>(rows.integer(i, 1)), rows.integer(i, 2),
             rows.is_null(i, 3) ? std::nullopt : std::optional(rows.string(i, 3)));
  }
}

void PostgresWorkflowRows::read_more(WorkflowId id, WorkflowRow kind, Order order, int limit) {
  Kind& all = kind_of(id, kind);
  const bool up = order == Order::up;
  const bool short_rows = kind == WorkflowRow::wake || kind == WorkflowRow::undo;
  const int page = short_rows ? std::max(limit, kPage) : limit;
  const auto& sql = store_.workflow_sql_;
  const Rows rows =
      store_.ask(up ? sql.page_up : sql.page_down,
                 params(id, number_of(kind), up ? all.up : all.down, std::int64_t{page}));
  for (int i = 0; i < rows.size(); ++i) keep_row(id, kind, rows.integer(i, 0), rows.string(i, 1));
  if (rows.size() < page) {
    all.whole = true;
  } else {
    (up ? all.up : all.down) = rows.integer(rows.size() - 1, 0);
  }
}

std::vector<WorkflowRows::Row> PostgresWorkflowRows::rows(WorkflowId id, WorkflowRow kind,
                                                          Order order, int limit) {
  Kind& all = kind_of(id, kind);
  std::vector<Row> out;
  const auto take = [&](std::int64_t number, const Cell& cell) {
    if (cell.text) out.emplace_back(number, *cell.text);
    return std::ssize(out) < limit;
  };
  for (;;) {
    out.clear();
    if (order == Order::up) {
      for (auto at = all.cells.begin(); at != all.cells.end(); ++at) {
        if ((!all.whole && at->first > all.up) || !take(at->first, at->second)) break;
      }
    } else {
      for (auto at = all.cells.rbegin(); at != all.cells.rend(); ++at) {
        if ((!all.whole && at->first < all.down) || !take(at->first, at->second)) break;
      }
    }
    if (all.whole || std::ssize(out) >= limit) return out;
    read_more(id, kind, order, limit);
  }
}

// -- jobs -----------------------------------------------------------------------------------------

JobId PostgresWorkflowRows::make_job(const NewJob& job, const StepJob& of) {
  if (store_.next_id_ >= store_.ids_end_ && store_.options_.ids_ahead) {
    store_.new_ids(ids_at_once_);
    ids_at_once_ = std::min(ids_at_once_ * 2, kMaxIdsAtOnce);
  }
  const JobId id = store_.add_job(job, store_.now_.wall, JobState::available, 0, kFlagStep).row.id;
  store_.after_.made.push_back(id);
  new_jobs_.emplace(id, of);
  return id;
}

void PostgresWorkflowRows::cancel_job(JobId job, const std::string& reason) {
  LoadedJob* held = store_.job(job);
  if (held == nullptr || is_terminal(held->row.state)) return;
  if (held->row.state == JobState::running) return store_.request_cancel(*held, reason);
  store_.end_job(*held, JobState::cancelled, reason, "");
}

void PostgresWorkflowRows::forget_job(JobId job) {
  if (new_jobs_.erase(job) == 0) forgotten_.insert(job);
}

bool PostgresWorkflowRows::is_late(const JobRow& job, const Outcome& outcome) {
  const auto both = kFlagStep | kFlagCancel;
  return (job.flags & both) == both && std::holds_alternative<Complete>(outcome) && !hears(job.id);
}

bool PostgresWorkflowRows::hears(JobId job) {
  if (forgotten_.contains(job)) return false;
  if (new_jobs_.contains(job) || known_.contains(job)) return true;
  if (looked_up_.contains(job)) return false;
  return !store_.ask(store_.workflow_sql_.jobs, params(Ints{job})).empty();
}

// -- ends -----------------------------------------------------------------------------------------

// A failed step may end the whole workflow and cancel the jobs beside it. Those jobs are locked
// before the workflow, as the end of any of them would do.
void PostgresWorkflowRows::lock_live_of_failed(const std::vector<StepEnd>& ends) {
  Ints failed;
  for (const StepEnd& end : ends) {
    if (end.state != JobState::completed && !new_jobs_.contains(end.job)) failed.push_back(end.job);
  }
  if (failed.empty()) return;
  const Rows live = store_.ask(store_.workflow_sql_.live_of_failed, params(failed));
  std::vector<JobId> beside;
  for (int i = 0; i < live.size(); ++i) beside.push_back(live.integer(i, 0));
  store_.jobs_by_id(beside);
}

// Reads the steps and workflows of these jobs with the next answers.
void PostgresWorkflowRows::later_look_up(const Ints& jobs, const Ints& ids) {
  const auto& sql = store_.workflow_sql_;
  // Lock the row first: later reads see what its previous owner committed.
  if (ids.empty()) {
    store_.later(sql.ended, params(jobs), [this, jobs](const Rows& rows) {
      keep_records(rows);
      keep_jobs(jobs, rows, kWorkflowColumns);
    });
    return;
  }
  store_.later(sql.lock_of_jobs, params(jobs, ids), [this, ids](const Rows& rows) {
    keep_records(rows);
    for (const WorkflowId id : ids) held_[id];  // also missing ones
  });
  if (jobs.empty()) return;
  store_.later(sql.jobs, params(jobs),
               [this, jobs](const Rows& rows) { keep_jobs(jobs, rows, 0); });
}

void PostgresWorkflowRows::keep_jobs(const Ints& asked, const Rows& rows, int column) {
  for (int i = 0; i < rows.size(); ++i) {
    known_.emplace(rows.integer(i, column),
                   StepJob{.workflow = rows.integer(i, column + 1),
                           .step = static_cast<int>(rows.integer(i, column + 2)),
                           .undo = rows.integer(i, column + 3) != 0});
  }
  looked_up_.insert(asked.begin(), asked.end());
}

void PostgresWorkflowRows::take_ended(std::vector<StepEnd>& ends) {
  Ints unknown;
  for (const StepEnd& end : ends) {
    if (!new_jobs_.contains(end.job) && !looked_up_.contains(end.job)) unknown.push_back(end.job);
  }
  lock_live_of_failed(ends);
  if (!unknown.empty()) {
    later_look_up(unknown, {});
    store_.settle();
  }
  std::erase_if(ends, [&](StepEnd& end) {
    for (const auto* of : {&new_jobs_, &known_}) {
      const auto found = of->find(end.job);
      if (found == of->end() || forgotten_.contains(end.job)) continue;
      end.of = found->second;
      forget_job(end.job);
      return false;
    }
    return true;
  });
  prefetch(ends);
}

const std::string* PostgresWorkflowRows::known(const Place& place) {
  const auto& [id, kind, number] = place;
  const auto& cells = kind_of(id, kind).cells;
  const auto found = cells.find(number);
  return found == cells.end() || !found->second.text ? nullptr : &*found->second.text;
}

// For a packed workflow: whether the step waits for more than the steps that end now.
bool PostgresWorkflowRows::waits_for_more(WorkflowId id, int step, std::int64_t ends) {
  const auto& record = held(id).record;
  if (!record) return true;
  const auto summary = workflow::decode_summary(record->data);
  if (!summary || step > std::ssize(summary->states)) return true;
  return summary->states[static_cast<std::size_t>(step) - 1].pending > ends;
}

// Adds the results that the steps after this one refer to.
void PostgresWorkflowRows::add_later_refs(WorkflowId id, int step, workflow::Start& start,
                                          std::int64_t ends, std::set<Place>& to) {
  const auto ended = workflow::definition_of(start, step);
  if (!ended) return;
  for (const int child : (*ended)->plan.children) {
    const auto next = workflow::definition_of(start, child);
    if (!next || (*next)->plan.refs.empty()) continue;
    const workflow::PlannedStep& plan = (*next)->plan;
    if (plan.parents.size() > 1 && waits_for_more(id, child, ends)) continue;
    for (const auto& [name, before] : plan.refs) to.emplace(id, WorkflowRow::result, before);
  }
}

// Keeps the start data of a packed workflow, once its row has been read.
void PostgresWorkflowRows::keep_start(WorkflowId id) {
  const std::string* text = known({id, WorkflowRow::text, workflow::kTextStart});
  auto start =
      text == nullptr ? Result<workflow::StartText>(Error{}) : workflow::decode_start(*text);
  const auto summary = workflow::decode_summary(held(id).record->data);
  if (start && summary)
    starts_.keep(id, summary->started_at, workflow::make_start(std::move(*start)));
}

// Reads the ended steps: their states, and their definitions unless they are in memory.
void PostgresWorkflowRows::fetch_own(const std::vector<StepEnd>& ends) {
  std::set<Place> own;
  std::set<WorkflowId> unknown;
  for (const StepEnd& end : ends) {
    const WorkflowId id = end.of.workflow;
    const Held& of = held(id);
    if (!of.record || of.fresh) continue;
    const bool packed = workflow::is_packed(of.record->data);
    const workflow::Start* start = packed ? starts_.peek(id) : nullptr;
    if (packed && start == nullptr) {
      own.emplace(id, WorkflowRow::text, workflow::kTextStart);
      unknown.insert(id);
    }
    if (start == nullptr || end.of.step > start->steps)
      own.emplace(id, WorkflowRow::state, end.of.step);
    if (!packed) own.emplace(id, WorkflowRow::spec, end.of.step);
  }
  fetch(own);
  for (const WorkflowId id : unknown) keep_start(id);
}

// Reads what the rules will need, in few round trips: the ended steps, the steps after them, and
// the results that these refer to. The rules report what cannot be read here.
void PostgresWorkflowRows::prefetch(const std::vector<StepEnd>& ends) {
  fetch_own(ends);
  std::set<Place> later, before;
  const auto with_definition = [](std::set<Place>& to, WorkflowId id, int step) {
    to.emplace(id, WorkflowRow::state, step);
    to.emplace(id, WorkflowRow::spec, step);
  };
  std::set<std::pair<WorkflowId, int>> next;
  for (const StepEnd& end : ends) {
    const WorkflowId id = end.of.workflow;
    const std::string* state = known({id, WorkflowRow::state, end.of.step});
    const auto status =
        state == nullptr ? Result<workflow::StepStatus>(Error{}) : workflow::decode_status(*state);
    const Held& held_one = held(id);
    const bool packed = held_one.record && workflow::is_packed(held_one.record->data);
    if (workflow::Start* start = packed ? starts_.peek(id) : nullptr) {
      const int of = status && status->of != 0 ? status->of : end.of.step;
      if (!end.of.undo) add_later_refs(id, of, *start, std::ssize(ends), before);
      continue;
    }
    if (status && status->of != 0) with_definition(later, id, status->of);
    const std::string* spec = known({id, WorkflowRow::spec, end.of.step});
    if (spec == nullptr || end.of.undo) continue;
    const auto definition = workflow::decode_definition(*spec);
    if (!definition) continue;
    for (const int child : definition->plan.children) {
      with_definition(later, id, child);
      next.emplace(id, child);
    }
  }
  fetch(later);
  for (const auto& [id, step] : next) {
    const std::string* state = known({id, WorkflowRow::state, step});
    const std::string* spec = known({id, WorkflowRow::spec, step});
    if (state == nullptr || spec == nullptr) continue;
    const auto status = workflow::decode_status(*state);
    const auto definition = workflow::decode_definition(*spec);
    if (!status || !definition || status->pending > std::ssize(ends)) continue;
    for (const auto& [name, step_before] : definition->plan.refs) {
      with_definition(before, id, step_before);
      before.emplace(id, WorkflowRow::result, step_before);
    }
  }
  fetch(before);
}

// -- into the database ----------------------------------------------------------------------------

void PostgresWorkflowRows::flush() {
  flush_records();
  flush_rows();
  if (!new_jobs_.empty()) {
    Ints jobs, workflows, steps, undo;
    for (const auto& [job, of] : new_jobs_) {
      jobs.push_back(job), workflows.push_back(of.workflow), steps.push_back(of.step);
      undo.push_back(of.undo ? 1 : 0);
    }
    store_.write(store_.workflow_sql_.put_jobs, params(jobs, workflows, steps, undo));
    new_jobs_.clear();
  }
  if (!forgotten_.empty()) {
    const Ints jobs(forgotten_.begin(), forgotten_.end());
    store_.write(store_.workflow_sql_.remove_jobs, params(jobs));
    forgotten_.clear();
  }
}

void PostgresWorkflowRows::flush_records() {
  flush_records(true);
  flush_records(false);
}

// New rows are inserted without updating existing ones: two rows with one number would become one.
void PostgresWorkflowRows::flush_records(bool fresh) {
  Ints ids, states;
  OptInts wakes, finished;
  Texts names, keys, data;
  for (auto& [id, held] : held_) {
    if (!held.touched || held.fresh != fresh) continue;
    const WorkflowRecord& r = *held.record;
    ids.push_back(id), states.push_back(static_cast<std::int64_t>(r.state));
    names.emplace_back(r.name), keys.push_back(text_or_null(r.key)), data.emplace_back(r.data);
    wakes.push_back(us_or_none(r.wake_at)), finished.push_back(us_or_none(r.finished_at));
    auto& after = store_.after_;
    after.next_workflow = std::min(after.next_workflow, r.wake_at);
    if (held.wakes_at < r.wake_at) after.look_workflow = true;
    if (r.finished_at != WallTime::never()) {
      const auto& options = store_.options_.store;
      const bool well = r.state == WorkflowState::completed;
      after.next_prune =
          std::min(after.next_prune,
                   r.finished_at + (well ? options.retention_completed : options.retention_dead));
    }
    held.wakes_at = r.wake_at;
    held.touched = held.fresh = false;
  }
  if (ids.empty()) return;
  const auto& sql = store_.workflow_sql_;
  store_.write(fresh ? sql.add : sql.save, params(ids, names, keys, states, wakes, finished, data));
}

void PostgresWorkflowRows::flush_rows() {
  Ints ids, kinds, numbers, gone_ids, gone_kinds, gone_numbers;
  Texts texts;
  for (auto& [id, held] : held_) {
    for (std::size_t kind = 0; kind < held.kinds.size(); ++kind) {
      for (auto& [number, cell] : held.kinds[kind].cells) {
        if (!std::exchange(cell.dirty, false)) continue;
        const auto k = static_cast<std::int64_t>(kind);
        if (cell.text) {
          ids.push_back(id), kinds.push_back(k), numbers.push_back(number);
          texts.emplace_back(*cell.text);
        } else {
          gone_ids.push_back(id), gone_kinds.push_back(k), gone_numbers.push_back(number);
        }
        cell.there = cell.text ? There::yes : There::no;
      }
    }
  }
  const auto& sql = store_.workflow_sql_;
  if (!gone_ids.empty()) store_.write(sql.remove, params(gone_ids, gone_kinds, gone_numbers));
  if (!ids.empty()) store_.write(sql.put, params(ids, kinds, numbers, texts));
}

}  // namespace mainspring::pg
