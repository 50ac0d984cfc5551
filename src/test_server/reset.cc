// Drains and resets a namespace, a queue or the whole server.
#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "base/assert.h"
#include "model/callback.h"
#include "test_server/test_control.h"

namespace mainspring {
namespace {

constexpr int kPage = 1000;
constexpr Duration kDrainLook = std::chrono::milliseconds(50);
constexpr Duration kPruneTime = std::chrono::seconds(10);
constexpr Duration kPruneLook = std::chrono::milliseconds(5);

struct ScopeFields {
  std::string space, queue;
  Duration timeout = std::chrono::seconds(10);
};
// An empty name, from a variable that is not set, must not mean the whole server.
bool read_scope_name(JsonReader& in, std::string& to) {
  return in.string(to) && (!to.empty() || in.fail_value("must not be empty"));
}
constexpr JsonField<ScopeFields> kDrainFields[] = {
    {"namespace",
     [](JsonReader& in, ScopeFields& s) { return in.null() || read_scope_name(in, s.space); }},
    {"queue",
     [](JsonReader& in, ScopeFields& s) { return in.null() || read_scope_name(in, s.queue); }},
    {"timeout",
     [](JsonReader& in, ScopeFields& s) {
       if (!in.duration(s.timeout)) return false;
       return s.timeout <= TestControl::kMaxTimeout ||
              in.fail_value(
                  fmt::format("must be at most {}", format_duration(TestControl::kMaxTimeout)));
     }},
};
constexpr JsonField<ScopeFields> kResetFields[] = {kDrainFields[0]};

template <std::size_t N>
Result<ScopeFields> decode_scope(std::string_view body, const JsonField<ScopeFields> (&fields)[N]) {
  ScopeFields scope;
  JsonReader in(body.empty() ? std::string_view("{}") : body, JsonReader::Unknown::refuse);
  if (!in.object(fields, scope) || !in.end()) return in.error();
  if (!scope.space.empty() && !scope.queue.empty())
    return invalid("queue", "namespace, queue: at most one of them may be given");
  return scope;
}

std::int64_t count_of(const QueueStats& queue, JobState state) {
  return queue.counts[static_cast<std::size_t>(state)];
}

Error no_namespace(const std::string& name) {
  return {.code = ErrorCode::not_found,
          .message = fmt::format("namespace \"{}\": does not exist", cut_text(name, 64)),
          .field = "namespace"};
}

}  // namespace

OperationResult TestControl::apply(Operation operation) {
  struct Waiter {
    Mutex mutex;
    CondVar answered;
    std::optional<OperationResult> result MS_GUARDED_BY(mutex);
  };
  const auto waiter = std::make_shared<Waiter>();
  parts_.broker.submit(std::move(operation), [waiter](OperationResult result) {
    MutexLock lock(waiter->mutex);
    waiter->result = std::move(result);
    waiter->answered.notify_one();
  });
  MutexLock lock(waiter->mutex);
  while (!waiter->result) waiter->answered.wait(waiter->mutex);
  return std::move(*waiter->result);
}

Result<std::int64_t> TestControl::waiting_in(const Scope& scope) {
  MS_TRY_ASSIGN(const std::vector<QueueStats> queues, parts_.store.queues());
  std::int64_t left = 0;
  for (const QueueStats& queue : queues) {
    if (!scope.has(queue.name)) continue;
    left += count_of(queue, JobState::available) + count_of(queue, JobState::running);
  }
  return left;
}

Result<std::string> TestControl::drain(std::string_view body) {
  MS_TRY_ASSIGN(const ScopeFields fields, decode_scope(body, kDrainFields));
  if (!fields.space.empty()) {
    MutexLock lock(mutex_);
    if (!namespaces_.contains(fields.space)) return no_namespace(fields.space);
  }
  const Scope scope{fields.space.empty() ? "" : fields.space + ".", fields.queue};
  const Instant until = now() + fields.timeout;
  std::int64_t left = 0;
  bool due = false;
  for (;;) {
    const std::int64_t seen = batches();
    // First: what is due may become available between the two.
    due = due_now();
    MS_TRY_ASSIGN(left, waiting_in(scope));
    const Instant at = now();
    if ((left == 0 && !due) || at >= until || stopped()) break;
    wait_for_batch(seen, std::min(kDrainLook, until - at));
  }
  std::string out;
  JsonWriter(out)
      .begin_object()
      .key("drained")
      .boolean(left == 0 && !due)
      .key("left")
      .number(left)
      .end_object();
  return out;
}

// -- reset

Result<std::string> TestControl::reset(std::string_view body) {
  MS_TRY_ASSIGN(const ScopeFields fields, decode_scope(body, kResetFields));
  MutexLock alone(advance_mutex_);
  Scope scope;
  {
    MutexLock lock(mutex_);
    if (!fields.space.empty()) {
      if (!namespaces_.contains(fields.space)) return no_namespace(fields.space);
      scope.prefix = fields.space + ".";
    } else {
      options_.full->store(false);
      faults_ = Faults(FaultSettings{.seed = options_.seed});
      save_state();
    }
  }
  MS_TRY(remove_definitions(scope));
  MS_TRY(end_jobs(scope));
  if (fields.space.empty()) prune_everything();
  {
    MutexLock lock(mutex_);
    if (fields.space.empty()) {
      namespaces_.clear();
      faults_by_space_.clear();
    } else {
      namespaces_.erase(fields.space);
      faults_by_space_.erase(fields.space);
    }
    save_state();
  }
  std::string out;
  JsonWriter(out).begin_object().key("reset").boolean(true).end_object();
  return out;
}

Result<void> TestControl::remove_definitions(const Scope& scope) {
  for (std::string after;;) {
    MS_TRY_ASSIGN(const auto page, parts_.store.schedules(after, kPage));
    for (const ScheduleInfo& info : page) {
      after = info.schedule.name;
      if (scope.has(after)) (void)apply(RemoveSchedule{.name = after});
    }
    if (std::ssize(page) < kPage) break;
  }
  for (std::string after;;) {
    MS_TRY_ASSIGN(const auto page, parts_.store.triggers(after, kPage));
    for (const TriggerInfo& info : page) {
      after = info.trigger.name;
      if (scope.has(after)) (void)apply(RemoveTrigger{.name = after});
    }
    if (std::ssize(page) < kPage) break;
  }
  for (WorkflowId before = 0;;) {
    MS_TRY_ASSIGN(const WorkflowPage page, parts_.store.workflows({}, kPage, before));
    for (const WorkflowInfo& info : page.workflows) {
      if (scope.has(info.name)) (void)apply(CancelWorkflow{.id = info.id});
    }
    if (!page.next) break;
    before = *page.next;
  }
  std::vector<HeldLease> held;
  {
    MutexLock lock(mutex_);
    held = leases_.all();
  }
  for (const HeldLease& lease : held) {
    const bool job = lease.kind == HeldLease::Kind::job;
    const bool lock = lease.kind == HeldLease::Kind::lock;
    if (!job && scope.has(lock ? lease.name : lease.queue)) end_lease(lease);
  }
  return {};
}

// Running jobs end as cancelled, whatever their workers report later.
Result<void> TestControl::end_jobs(const Scope& scope) {
  MS_TRY_ASSIGN(const std::vector<QueueStats> queues, parts_.store.queues());
  std::vector<HeldLease> held;
  {
    MutexLock lock(mutex_);
    held = leases_.all();
  }
  for (const HeldLease& lease : held) {
    if (lease.kind != HeldLease::Kind::job || !scope.has(lease.queue)) continue;
    Finish finish{.worker = lease.holder};
    finish.results.push_back(
        {.id = lease.job, .token = lease.token, .outcome = CancelJob{"reset"}});
    (void)apply(std::move(finish));
  }
  constexpr JobState kLive[] = {JobState::waiting, JobState::scheduled, JobState::available,
                                JobState::retryable, JobState::running};
  for (const QueueStats& queue : queues) {
    if (!scope.has(queue.name) || queue.name.starts_with(kReservedQueues)) continue;
    for (const JobState state : kLive) {
      for (JobId before = 0;;) {
        MS_TRY_ASSIGN(const JobPage page,
                      parts_.store.list({.queue = queue.name, .state = state}, kPage, before));
        for (const Job& job : page.jobs) (void)apply(Cancel{.id = job.id, .reason = "reset"});
        if (!page.next) break;
        before = *page.next;
      }
    }
    if (!scope.prefix.empty()) MS_TRY(delete_ended(queue.name));  // else retention removes them
    (void)apply(SetQueueLimits{.queue = queue.name, .limits = {}, .create = false});
    (void)apply(PauseQueue{.queue = queue.name, .paused = false, .create = false});
    (void)apply(SetRetention{
        .queue = queue.name, .completed = std::nullopt, .dead = std::nullopt, .create = false});
  }
  return {};
}

Result<void> TestControl::delete_ended(const std::string& queue) {
  for (const JobState state : {JobState::completed, JobState::cancelled, JobState::dead}) {
    for (JobId before = 0;;) {
      MS_TRY_ASSIGN(const JobPage page,
                    parts_.store.list({.queue = queue, .state = state}, kPage, before));
      for (const Job& job : page.jobs) (void)apply(DeleteJob{.id = job.id});
      if (!page.next) break;
      before = *page.next;
    }
  }
  return {};
}

// With all work ended, only retention is left to fire: the clock runs past it and returns to real
// time.
void TestControl::prune_everything() {
  parts_.clock.set_ahead(std::max(parts_.clock.ahead(), Duration(0)) + kMaxAdvance);
  const Instant until = now() + kPruneTime;
  while (parts_.broker.agenda().next_prune <= parts_.clock.now().wall && now() < until &&
         !stopped()) {
    const std::int64_t seen = batches();
    parts_.scheduler.clock_moved();
    wait_for_batch(seen, kPruneLook);
  }
  if (const auto queues = parts_.store.queues()) {
    for (const QueueStats& queue : *queues) {
      if (!queue.name.starts_with(kReservedQueues)) (void)apply(RemoveQueue{.queue = queue.name});
    }
  }
  parts_.clock.set_ahead(Duration(0));
  parts_.scheduler.clock_moved();
}

}  // namespace mainspring
