// Additional connections to a shared store, for enqueues and completions that arrive while the
// commit loop commits, or in large numbers.
//
// One connection uses one core of the database while it works, and waits for the database's disk
// while it commits. An enqueue depends on no other operation in progress, and a completion only on
// the job still being the worker's. So enqueues and completions that would wait use connections and
// threads of their own, one for each kind. This node learns of the work that they make available as
// it learns of the work of other nodes.
//
// A few operations are better in the commit loop's commit, which they share with others. Many go to
// a writer even if the commit loop is free: else it would be late for claims, which only it can do.
// The commit loop takes them itself if claims wait for such jobs, as these claims then get the jobs
// in the same commit; and if a writer does not return.
//
// A completion that the writer's store cannot do at once goes to the commit loop: the job does not
// run under that token, or the job's end has follow-ups.
#include <algorithm>

#include "base/mutant.h"
#include "broker/broker.h"
#include "tracing/job_traces.h"

namespace mainspring {
namespace {

// Jobs that wait for a writer. Fewer are better in the commit loop's commit.
constexpr std::size_t kWorthAWriter = 100;
// After this time the commit loop does not wait for the writer any more.
constexpr Duration kSlowWriter = std::chrono::milliseconds(100);
// If a writer could not do all completions of a worker, for example because its queue has limits,
// the commit loop does them for this long. So a claim that comes with them finds the freed slots.
constexpr Duration kInVain = std::chrono::seconds(10);

// Completions whose answer does not depend on the jobs, if they are running.
bool completes_only(const Operation& operation) {
  const auto* finish = std::get_if<Finish>(&operation);
  return finish != nullptr && finish->within.scopes == nullptr &&
         std::all_of(finish->results.begin(), finish->results.end(), [](const JobOutcome& r) {
           const auto* complete = std::get_if<Complete>(&r.outcome);
           return complete != nullptr && complete->next.empty() && !r.session_state;
         });
}

// Such an enqueue locks its sessions, as the commit loop does when it ends their jobs. A few of
// them wait for the commit loop's next commit, which locks the sessions once for both.
bool enters_session(const Operation& operation) {
  const auto* enqueue = std::get_if<Enqueue>(&operation);
  return enqueue != nullptr && !enqueue->jobs.empty() && !enqueue->jobs.front().session.empty();
}

}  // namespace

void Broker::add_writer(SharedStore& store, WriterFor what) {
  MutexLock lock(mutex_);
  WriterConnection& writer = writers_.emplace_back();
  writer.store = &store;
  writer.what = what;
}

std::deque<Broker::Pending>& Broker::line_of(const Operation& operation, bool audited) {
  if (std::holds_alternative<Enqueue>(operation)) return enqueues_;
  if (std::holds_alternative<Claim>(operation)) return claims_;
  if (writer_for(WriterFor::completions) == nullptr || audited || !completes_only(operation))
    return urgent_;
  const auto worker = workers_.find(std::get<Finish>(operation).worker);
  const bool in_vain =
      worker != workers_.end() && clock_.now().instant < worker->second.by_loop_until;
  return in_vain ? urgent_ : completions_;
}

const std::deque<Broker::Pending>& Broker::line_of(const WriterConnection& writer) const {
  return writer.what == WriterFor::enqueues ? enqueues_ : completions_;
}

const Broker::WriterConnection* Broker::writer_for(WriterFor what) const {
  const auto found =
      std::find_if(writers_.begin(), writers_.end(),
                   [&](const WriterConnection& writer) { return writer.what == what; });
  return found == writers_.end() ? nullptr : &*found;
}

bool Broker::is_worth(const WriterConnection& writer) const {
  if (writer.what == WriterFor::completions) {
    std::size_t jobs = 0;
    for (const Pending& pending : completions_) {
      jobs += pending.jobs;
      if (jobs >= kWorthAWriter) return true;
    }
    return false;
  }
  if (waiting_jobs_ < kWorthAWriter) return false;
  // Waiting claims get such jobs in the commit that creates them, which must be the commit loop's.
  std::size_t jobs = 0;
  for (const Pending& pending : enqueues_) {
    const auto& enqueue = std::get<Enqueue>(pending.operation);
    const bool waited_for = !enqueue.jobs.empty() && !lines_of(enqueue.jobs.front().queue).empty();
    if (waited_for && !MS_MUTANT(writer_takes_what_claims_wait_for)) return false;
    jobs += pending.jobs;
    if (jobs >= kWorthAWriter) break;
  }
  return true;
}

bool Broker::leaves_to_writer(WriterFor what) const {
  const WriterConnection* writer = writer_for(what);
  if (writer == nullptr || !writer->thread.joinable() || !is_worth(*writer)) return false;
  return writer->waiting || clock_.now().instant < writer->took_at + kSlowWriter ||
         MS_MUTANT(writer_is_waited_for);
}

// When the commit loop takes the operations that it has left to the writers, at the latest.
Instant Broker::writers_late_at() const {
  Instant first = Instant::never();
  for (const WriterConnection& writer : writers_) {
    if (!writer.waiting && !line_of(writer).empty())
      first = std::min(first, writer.took_at + kSlowWriter);
  }
  return first;
}

bool Broker::commit_loop_is_late() const {
  return loop_waiting_ && (has_work() || writers_late_at() < loop_until_);
}

bool Broker::has_work_for(const WriterConnection& writer) const {
  const auto& line = line_of(writer);
  if (line.empty()) return false;
  const bool few = enters_session(line.front().operation) && waiting_jobs_ < kWorthAWriter;
  return (committing_ && !few) || is_worth(writer);
}

void Broker::gather_for(WriterConnection& writer, Batch& batch) {
  writer.took_at = clock_.now().instant;
  gather_pending(writer.what == WriterFor::enqueues ? enqueues_ : completions_, batch);
  // The rest may be the commit loop's.
  if (commit_loop_is_late()) work_.notify_one();
}

void Broker::run_writer(WriterConnection& writer, std::stop_token stop) {
  for (;;) {
    Batch batch;
    {
      MutexLock lock(mutex_);
      if (stop.stop_requested()) break;
      if (!has_work_for(writer)) {
        writer.waiting = true;
        writer.work.wait_for(mutex_, kForever);
        writer.waiting = false;
        continue;
      }
      gather_for(writer, batch);
    }
    commit_by_writer(writer, batch);
  }
}

void Broker::commit_by_writer(WriterConnection& writer, Batch& batch) {
  const Now now = clock_.now();
  auto report = writer.store->apply(batch.operations, now);
  if (!report && writer.store->blocked()) {
    std::vector<Batch> parts = apart(batch);
    if (parts.size() > 1) {
      for (Batch& part : parts) commit_by_writer(writer, part);
      return;
    }
    batch = std::move(parts.front());
  }
  if (!report) {
    // The commit loop reports an engine that cannot trust its store; it uses the same store.
    for (Pending& caller : batch.callers) caller.answer(report.error());
    return;
  }
  const Duration took = clock_.now().instant - now.instant;
  commit_seconds_.observe(static_cast<double>(took.count()) / 1e6);
  log_batch(batch, took);
  commit_operations_.observe(static_cast<double>(batch.operations.size()));
  if (!report->effects.brief.empty()) keep_ends(report->effects.brief, now);
  std::vector<std::function<void()>> answers;
  {
    MutexLock lock(mutex_);
    distribute_of_writer(batch, *report, answers, now);
  }
  ChangeHints news = writer.store->take_news();
  if (!news.empty()) hear(news);
  const auto& ended = report->effects.ended;
  const std::size_t listed = std::min(ended.size(), ChangeHintSet::kMaxEnded);
  news.ended.assign(ended.begin(), ended.begin() + static_cast<std::ptrdiff_t>(listed));
  if (!news.empty() && tell_) tell_(news);
  for (auto& answer : answers) answer();
  events_.tell();
}

void Broker::distribute_of_writer(Batch& batch, BatchReport& report,
                                  std::vector<std::function<void()>>& answers, Now now) {
  // Before the operations for the commit loop are taken out of the batch.
  if (events_.wanted(now.instant))
    events_.record(batch.operations, report.results, report.effects, now);
  count(batch, report, now);
  for (std::size_t i = batch.operations.size(); i-- > 0;) {
    Pending& caller = batch.callers[i];
    OperationResult& result = report.results[i];
    if (!note_completed(batch.operations[i], result)) {
      worker_of(std::get<Finish>(batch.operations[i]).worker).by_loop_until = now.instant + kInVain;
      caller.operation = std::move(batch.operations[i]);
      urgent_.push_front(std::move(caller));
      if (loop_waiting_) work_.notify_one();
      continue;
    }
    if (traces_ != nullptr) note_traces(caller, batch.operations[i], result, now);
    note_worker(batch.operations[i], result, now);
    answers.push_back([answer = std::move(caller.answer), result = std::move(result)]() mutable {
      answer(std::move(result));
    });
  }
  std::reverse(answers.begin(), answers.end());
  if (traces_ != nullptr) traces_->ended(report.effects.ended, now.wall);
  tell_ended(report.effects.ended, answers);
}

// Returns false if not all of them are done.
bool Broker::note_completed(const Operation& operation, const OperationResult& result) {
  const auto* finish = std::get_if<Finish>(&operation);
  const auto* finished = std::get_if<FinishResult>(&result);
  if (finish == nullptr) return true;
  if (finished == nullptr) return false;
  bool all = true;
  for (std::size_t i = 0; i < finish->results.size(); ++i) {
    if (finished->results[i] == FinishStatus::ok) {
      completed_elsewhere_.emplace_back(finish->results[i].id, finish->results[i].token);
    } else {
      all = false;
    }
  }
  return all;
}

void Broker::wake_writers() {
  for (WriterConnection& writer : writers_) {
    if (writer.waiting && has_work_for(writer)) writer.work.notify_one();
  }
}

void Broker::start_writers() {
  for (WriterConnection& writer : writers_) {
    writer.took_at = clock_.now().instant;
    writer.thread =
        std::jthread([this, &writer](std::stop_token stop) { run_writer(writer, stop); });
  }
}

void Broker::stop_writers() {
  std::vector<std::jthread> runners;  // joined without the lock
  MutexLock lock(mutex_);
  for (WriterConnection& writer : writers_) {
    writer.thread.request_stop();
    writer.work.notify_one();
    runners.push_back(std::move(writer.thread));
  }
}

}  // namespace mainspring
