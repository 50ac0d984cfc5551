// The ring of events: builds events from committed batches, and serves them to listeners.
#include "broker/events.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/assert.h"
#include "base/mutant.h"
#include "broker/changed_object.h"

namespace mainspring {
namespace {

EventType end_of(JobState state) {
  return state == JobState::completed ? EventType::completed
         : state == JobState::dead    ? EventType::dead
                                      : EventType::cancelled;
}

EventType change_of(BreakerState state) {
  return state == BreakerState::open     ? EventType::breaker_opened
         : state == BreakerState::closed ? EventType::breaker_closed
                                         : EventType::breaker_half_open;
}

std::string cut(const std::string& text) {
  if (text.size() <= Events::kMaxReasonBytes) return text;
  std::size_t end = Events::kMaxReasonBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

// Fills in from the store what the commit did not contain.
void fill(Event& event, const Job& job) {
  if (event.facts == nullptr) {
    event.facts = std::make_shared<JobFacts>(JobFacts{job.queue, job.kind, job.tags});
  }
  const bool over = is_terminal(job.state);
  if (event.ended) {
    // The job was restarted since: it had ended, but how is not known.
    event.type = over ? end_of(job.state) : EventType::gap;
  }
  if (over && event.type == end_of(job.state)) {
    if (event.reason.empty()) event.reason = cut(job.reason);
    if (event.attempt == 0) event.attempt = job.attempt;
  }
}

}  // namespace

// -- recording -----------------------------------------------------------------------------------

// Makes the events of one batch.
class Events::Recorder {
 public:
  Recorder(Events& events, const Effects& effects, WallTime at)
      : events_(events),
        effects_(effects),
        at_(at),
        ended_(effects.ended.begin(), effects.ended.end()),
        made_(effects.made.begin(), effects.made.end()),
        again_(effects.again.begin(), effects.again.end()),
        quarantined_(effects.quarantined.begin(), effects.quarantined.end()),
        left_(effects.quarantine_left.begin(), effects.quarantine_left.end()) {}

  // Locked by the caller, which the thread-safety analysis does not see.
  void add_all(std::span<const Operation> operations,
               std::span<const OperationResult> results) MS_NO_THREAD_SAFETY_ANALYSIS {
    for (std::size_t i = 0; i < operations.size(); ++i) {
      add(operations[i], results[i]);
      auto changed = changed_object(operations[i], results[i]);
      if (!changed) continue;
      if (changed->workflow != 0) shown_workflows_.insert(changed->workflow);
      add_changed(std::move(*changed));
    }
    add_rest();
  }

  void add(const Operation& operation, const OperationResult& result) MS_REQUIRES(events_.mutex_) {
    if (const auto* enqueued = std::get_if<EnqueueResult>(&result)) {
      add_enqueued(std::get<Enqueue>(operation), *enqueued);
    } else if (const auto* claimed = std::get_if<ClaimResult>(&result)) {
      for (const ClaimedJob& job : claimed->jobs) add_started(job);
    } else if (const auto* renewed = std::get_if<RenewResult>(&result)) {
      add_progress(std::get<Renew>(operation), *renewed);
    } else if (const auto* finished = std::get_if<FinishResult>(&result)) {
      const auto& asked = std::get<Finish>(operation).results;
      for (std::size_t i = 0; i < asked.size(); ++i) {
        if (finished->results[i] == FinishStatus::ok) add_finished(asked[i]);
      }
    } else if (std::holds_alternative<CancelResult>(result)) {
      const auto& cancel = std::get<Cancel>(operation);
      if (ended_.erase(cancel.id) == 0) return;
      add_end({.type = EventType::cancelled, .job = cancel.id, .reason = cut(cancel.reason)});
    } else if (const auto* fired = std::get_if<FireResult>(&result)) {
      made_.insert(fired->jobs.begin(), fired->jobs.end());
      made_.erase(0);
      fired_.insert(fired_.end(), fired->jobs.begin(), fired->jobs.end());
    } else if (const auto* pause = std::get_if<PauseQueue>(&operation)) {
      if (!std::holds_alternative<Done>(result)) return;
      push({.type = pause->paused ? EventType::queue_paused : EventType::queue_resumed,
            .facts = std::make_shared<JobFacts>(JobFacts{.queue = pause->queue})});
    } else if (std::holds_alternative<MoveDue>(operation)) {
      const auto* moved = std::get_if<StepResult>(&result);
      due_ = due_ || (moved != nullptr && moved->changed > 0);
    }
  }
  // Jobs that no operation names: made by the scheduler, or by the end of another job.
  void add_rest() MS_REQUIRES(events_.mutex_) {
    for (const JobId id : effects_.ended) {
      if (ended_.erase(id) != 0) add_end({.job = id, .settled = false, .ended = true});
    }
    for (const JobId id : effects_.made) add_made(id);
    for (const JobId id : fired_) add_made(id);
    for (const JobId id : effects_.again) add_again(id);
    for (const JobId id : effects_.quarantined) add_quarantine({.job = id, .settled = false});
    for (const JobId id : effects_.quarantine_left) add_quarantine({.job = id, .settled = false});
    for (const std::string& queue : effects_.resumed) {
      push({.type = EventType::queue_resumed,
            .facts = std::make_shared<JobFacts>(JobFacts{.queue = queue})});
    }
    for (const BreakerInfo& breaker : effects_.breakers) {
      push({.type = change_of(breaker.state),
            .breaker = std::make_shared<const BreakerInfo>(breaker)});
    }
    for (const std::string& lock : effects_.released) {
      if (auto changed = changed_lock(lock)) add_changed(std::move(*changed));
    }
    for (const WorkflowId id : effects_.workflows) {
      if (!shown_workflows_.contains(id)) add_changed({.object = fmt::format("workflow/{}", id)});
    }
    if (!due_) return;
    for (const std::string& queue : effects_.available)
      add_changed({.object = "queue/" + queue, .queue = queue});
  }

 private:
  void add_changed(ChangedObject changed) MS_REQUIRES(events_.mutex_) {
    Event event{.type = EventType::changed,
                .job = changed.job,
                .object = std::move(changed.object),
                .settled = changed.job == 0};
    if (!changed.queue.empty()) {
      event.facts = std::make_shared<JobFacts>(JobFacts{.queue = std::move(changed.queue)});
    }
    push(std::move(event));
  }
  void push(Event event) MS_REQUIRES(events_.mutex_) {
    event.at = at_;
    events_.push(std::move(event));
  }
  void add_made(JobId id) MS_REQUIRES(events_.mutex_) {
    if (made_.erase(id) == 0) return;
    push({.type = EventType::enqueued, .job = id, .settled = false});
  }
  void add_again(JobId id) MS_REQUIRES(events_.mutex_) {
    if (again_.erase(id) == 0) return;
    Event event{.type = EventType::retrying, .job = id, .settled = false};
    take_known(event);
    push(event);
    add_quarantine(std::move(event));
  }
  // Adds the quarantine event that follows from `event`, if any.
  void add_quarantine(Event event) MS_REQUIRES(events_.mutex_) {
    event.reason.clear();
    event.ended = false;
    if (quarantined_.erase(event.job) != 0) {
      event.type = EventType::quarantined;
      push(event);
    }
    if (left_.erase(event.job) != 0 && !MS_MUTANT(event_of_quarantine_left_forgotten)) {
      event.type = EventType::quarantine_left;
      push(std::move(event));
    }
  }
  // The job's attempt is over: moves the remembered facts into the event.
  void take_known(Event& event) MS_REQUIRES(events_.mutex_) {
    const auto known = events_.running_.find(event.job);
    if (known == events_.running_.end()) return;
    event.facts = std::move(known->second.facts);
    event.attempt = known->second.attempt;
    event.settled = !event.ended;
    events_.running_.erase(known);
  }
  void add_end(Event event) MS_REQUIRES(events_.mutex_) {
    event.settled = false;
    take_known(event);
    if (event.type == EventType::cancelled && event.reason.empty()) event.settled = false;
    push(std::move(event));
  }

  void add_enqueued(const Enqueue& asked, const EnqueueResult& result) MS_REQUIRES(events_.mutex_) {
    for (std::size_t i = 0; i < result.jobs.size() && i < asked.jobs.size(); ++i) {
      if (result.jobs[i].duplicate) continue;
      const NewJob& job = asked.jobs[i];
      push({.type = EventType::enqueued,
            .job = result.jobs[i].id,
            .facts = std::make_shared<JobFacts>(JobFacts{job.queue, job.kind, job.tags})});
    }
  }
  void add_started(const ClaimedJob& job) MS_REQUIRES(events_.mutex_) {
    // Created or returned by this batch itself.
    add_made(job.id);
    add_again(job.id);
    auto facts = std::make_shared<JobFacts>(JobFacts{job.queue, job.kind, job.tags});
    if (events_.running_.size() < kMaxKnown || events_.running_.contains(job.id)) {
      events_.running_.insert_or_assign(job.id, Running{facts, job.attempt, job.max_attempts});
    }
    push({.type = EventType::started,
          .job = job.id,
          .attempt = job.attempt,
          .facts = std::move(facts)});
  }
  void add_progress(const Renew& asked, const RenewResult& result) MS_REQUIRES(events_.mutex_) {
    std::unordered_set<JobId> renewed;
    for (const Renewed& one : result.renewed) renewed.insert(one.id);
    for (const Renewal& renewal : asked.leases) {
      if (!renewal.progress || !renewed.contains(renewal.id)) continue;
      Event event{.type = EventType::progress,
                  .job = renewal.id,
                  .progress = renewal.progress,
                  .settled = false};
      const auto known = events_.running_.find(renewal.id);
      if (known != events_.running_.end()) {
        event.facts = known->second.facts;
        event.attempt = known->second.attempt;
        event.settled = true;
      }
      push(std::move(event));
    }
  }
  // Whether the job is over comes from the batch, not from the outcome: a repeated request gets the
  // first answer again, and nothing happens.
  void add_finished(const JobOutcome& result) MS_REQUIRES(events_.mutex_) {
    const bool over = ended_.erase(result.id) != 0;
    Event event{.job = result.id, .settled = false};
    if (std::holds_alternative<Retry>(result.outcome)) {
      event.type = EventType::retrying;
    } else if (std::holds_alternative<Snooze>(result.outcome)) {
      event.type = EventType::snoozed;
    } else if (const auto* defer = std::get_if<Defer>(&result.outcome)) {
      event.type = EventType::deferred;
      event.reason = cut(defer->reason);
    } else if (!over && !MS_MUTANT(event_of_repeated_end)) {
      return;
    } else if (std::holds_alternative<Complete>(result.outcome)) {
      event.type = EventType::completed;
    } else if (const auto* cancel = std::get_if<CancelJob>(&result.outcome)) {
      event.type = EventType::cancelled;
      event.reason = cut(cancel->reason);
    } else {
      event.type = EventType::dead;
      event.reason = cut(std::get<Dead>(result.outcome).reason);
    }
    // It was the last attempt, or the job had been cancelled.
    event.ended = over && (event.type == EventType::retrying || event.type == EventType::snoozed ||
                           event.type == EventType::deferred);
    if (over) return add_end(std::move(event));
    take_known(event);
    push(event);
    add_quarantine(std::move(event));
  }

  Events& events_;
  const Effects& effects_;
  const WallTime at_;
  std::unordered_set<JobId> ended_, made_, again_, quarantined_, left_;  // without an event yet
  std::unordered_set<WorkflowId> shown_workflows_;  // by the event of a request
  std::vector<JobId> fired_;
  bool due_ = false;  // jobs became available because it was time
};

void Events::record(std::span<const Operation> operations, std::span<const OperationResult> results,
                    const Effects& effects, Now now) {
  MS_ASSERT(operations.size() == results.size(), "a store answers every operation");
  MutexLock lock(mutex_);
  Recorder recorder(*this, effects, now.wall);
  recorder.add_all(operations, results);
}

void Events::record_ended(std::span<const JobId> jobs, Now now) {
  MutexLock lock(mutex_);
  for (const JobId id : jobs)
    push({.at = now.wall, .job = id, .settled = false, .ended = true, .local = true});
}

void Events::record_seen(std::string object, Now now) {
  MutexLock lock(mutex_);
  push({.type = EventType::changed, .at = now.wall, .object = std::move(object), .local = true});
}

void Events::push(Event event) {
  event.position = next_++;
  if (event.process == nullptr) event.number = ++sources_.front().newest;
  ring_.push_back(std::make_shared<const Event>(std::move(event)));
  if (ring_.size() > options_.buffer) {
    const EventPtr gone = std::move(ring_.front());
    ring_.pop_front();
    Source* const source = find_source(gone->process == nullptr ? process_ : *gone->process);
    if (source != nullptr) source->oldest = std::max(source->oldest, gone->number);
  }
  recorded_.add();
  news_ = true;
}

void Events::tell() {
  if (!on_.load(std::memory_order_acquire)) return;
  std::unordered_map<std::uint64_t, std::function<void()>> watches;
  {
    MutexLock lock(mutex_);
    if (!std::exchange(news_, false)) return;
    watches.swap(watches_);
  }
  for (const auto& [id, ready] : watches) ready();
}

// -- listening -----------------------------------------------------------------------------------

Events::Events(const Store& store, const Clock& clock, Registry& registry, EventOptions options)
    : store_(store),
      clock_(clock),
      registry_(registry),
      options_(options),
      process_(fmt::format("{:x}", clock.now().wall.us())),
      recorded_(registry.counter("mainspring_events_total",
                                 "Recorded events; none without subscribers.")),
      dropped_(registry.counter("mainspring_events_dropped_total",
                                "Events dropped from the buffer before a stream had read them.")),
      sources_(1) {
  if (MS_MUTANT(event_made_without_listener)) on_ = true;
  registry.gauge("mainspring_event_streams", "Open event streams.", [this] {
    MutexLock lock(mutex_);
    return static_cast<double>(listeners_);
  });
}

Events::~Events() {
  registry_.gauge("mainspring_event_streams", "Open event streams.", [] { return 0.0; });
}

std::shared_ptr<void> Events::listen(std::size_t most) {
  std::function<void()> callback;
  {
    MutexLock lock(mutex_);
    if (listeners_ >= most) return nullptr;
    ++listeners_;
    on_.store(true, std::memory_order_release);
    callback = on_listener_;
  }
  if (callback) callback();
  return {this, [](Events* self) { self->leave(); }};
}

void Events::leave() {
  MutexLock lock(mutex_);
  --listeners_;
  until_ = clock_.now().instant + options_.memory;
}

bool Events::listened_locked(Instant now) const {
  return listeners_ > 0 || now < until_;
}

bool Events::listened(Instant now) const {
  MutexLock lock(mutex_);
  return listened_locked(now);
}

bool Events::still_wanted(Instant now) {
  MutexLock lock(mutex_);
  if (listened_locked(now) || relays_ > 0 || MS_MUTANT(event_made_without_listener)) return true;
  on_.store(false, std::memory_order_release);
  std::deque<EventPtr>().swap(ring_);
  running_.clear();
  ++next_;  // leave a gap in the numbers, so that a listener that comes back sees that events are
            // missing
  sources_.resize(1);
  sources_.front().oldest = ++sources_.front().newest;
  return false;
}

std::uint64_t Events::newest() const {
  MutexLock lock(mutex_);
  return next_ - 1;
}

std::uint64_t Events::oldest() const {
  MutexLock lock(mutex_);
  return next_ - 1 - ring_.size();
}

EventPtr* Events::find(std::uint64_t position) {
  const std::uint64_t first = next_ - ring_.size();
  return position < first || position >= next_ ? nullptr : &ring_[position - first];
}

Events::Page Events::read(std::uint64_t after, std::size_t limit) {
  Page page{.next = after};
  {
    MutexLock lock(mutex_);
    const std::uint64_t first = next_ - ring_.size();
    if (after + 1 < first && !MS_MUTANT(event_gap_not_reported)) {
      page.missed = first - 1 - after;
      return page;
    }
    for (std::uint64_t at = std::max(after + 1, first); at < next_; ++at) {
      if (page.events.size() == limit) break;
      page.events.push_back(*find(at));
      page.next = at;
    }
  }
  for (EventPtr& event : page.events) {
    if (!event->settled) event = settle(std::move(event));
  }
  return page;
}

EventPtr Events::settle(EventPtr event) {
  MutexLock one(settle_mutex_);
  {
    MutexLock lock(mutex_);
    const EventPtr* const kept = find(event->position);
    if (kept != nullptr && (*kept)->settled) return *kept;
  }
  auto job = store_.get(event->job);
  if (!job && job.error().code != ErrorCode::not_found && job.error().code != ErrorCode::expired) {
    return event;  // the store is unreachable: the next reader asks again
  }
  auto settled = std::make_shared<Event>(*event);
  if (job) {
    fill(*settled, *job);
  } else if (settled->ended) {
    settled->type = EventType::gap;
  }
  settled->settled = true;
  settled->ended = false;
  MutexLock lock(mutex_);
  if (EventPtr* const kept = find(event->position)) *kept = settled;
  return settled;
}

std::shared_ptr<void> Events::watch(std::uint64_t after, std::function<void()> ready) {
  std::uint64_t id = 0;
  {
    MutexLock lock(mutex_);
    if (after + 1 >= next_) {
      id = next_watch_++;
      watches_.emplace(id, std::move(ready));
    }
  }
  if (id == 0) {
    ready();
    return std::make_shared<int>(0);
  }
  return {this, [id](Events* self) {
            std::function<void()> gone;  // destroyed without the lock
            MutexLock lock(self->mutex_);
            const auto found = self->watches_.find(id);
            if (found == self->watches_.end()) return;
            gone = std::move(found->second);
            self->watches_.erase(found);
          }};
}

}  // namespace mainspring
