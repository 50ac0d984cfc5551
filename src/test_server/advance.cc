// The clock: from due instant to due instant.
#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "disk_sqlite/inspect.h"
#include "test_server/test_control.h"

namespace mainspring {
namespace {

// How long one step may take to do what is due. Beyond, it is stuck: the store refuses it.
constexpr Duration kFireTime = std::chrono::seconds(2);
constexpr Duration kLookAgain = std::chrono::milliseconds(20);
// A worker that was heard of so lately is there, though no claim of it waits.
constexpr Duration kPolls = std::chrono::seconds(3);
// As short as a lease can be: it has ended when the scheduler looks.
constexpr Duration kEndedLease = std::chrono::microseconds(1);

void append_fired(JsonWriter& w, const FiredTime& fired) {
  w.begin_object().key("at").time(fired.at).key("what").string(fired.what);
  if (!fired.schedule.empty()) w.key("schedule").string(fired.schedule);
  if (!fired.lock.empty()) w.key("lock").string(fired.lock);
  if (!fired.session.empty()) w.key("session").string(fired.session);
  if (fired.workflow != 0) w.key("workflow").number(fired.workflow);
  if (fired.job != 0) w.key("job").number(fired.job);
  if (!fired.queue.empty()) w.key("queue").string(fired.queue);
  w.end_object();
}

bool read_leases(JsonReader& in, int& out) {
  std::string text;
  if (in.null()) return true;
  if (!in.string(text)) return false;
  for (int i = 0; const std::string_view word : {"live", "keep", "lose"}) {
    if (text == word) {
      out = i;
      return true;
    }
    ++i;
  }
  return in.fail_value("must be live, keep or lose");
}

struct ClockFields {
  std::optional<Duration> by;
  std::optional<WallTime> to;
  int leases = 0;
  std::optional<Duration> settle, timeout;
};
constexpr JsonField<ClockFields> kClockFields[] = {
    {"advance",
     [](JsonReader& in, ClockFields& c) { return in.null() || in.duration(c.by.emplace()); }},
    {"to",
     [](JsonReader& in, ClockFields& c) { return in.null() || in.wall_time(c.to.emplace()); }},
    {"leases", [](JsonReader& in, ClockFields& c) { return read_leases(in, c.leases); }},
    {"settle",
     [](JsonReader& in, ClockFields& c) { return in.null() || in.duration(c.settle.emplace()); }},
    {"timeout",
     [](JsonReader& in, ClockFields& c) { return in.null() || in.duration(c.timeout.emplace()); }},
};

Result<void> check_wait(std::string_view field, Duration value) {
  if (value <= TestControl::kMaxTimeout) return {};
  return invalid(std::string(field),
                 fmt::format("{} {}: must be at most {}", field, format_duration(value),
                             format_duration(TestControl::kMaxTimeout)));
}

}  // namespace

struct TestControl::AdvanceState {
  WallTime target;
  Leases leases = Leases::live;
  Duration settle{0};
  Instant until;                           // of real time
  WallTime at;                             // where the clock was moved to last
  bool stuck = false;                      // something due is refused: not waited for again
  std::set<std::pair<JobId, Token>> slow;  // running jobs that were waited for once
  std::set<std::string> ignored;           // queues that no worker took from in time
  std::set<std::pair<std::int64_t, WallTime>> listed;
  std::int64_t count = 0;
  std::vector<FiredTime> fired;

  void add(FiredTime one) {
    ++count;
    if (fired.size() < kMaxFired) fired.push_back(std::move(one));
  }
};

Result<TestControl::AdvanceRequest> TestControl::decode_advance(std::string_view body) {
  ClockFields fields;
  JsonReader in(body, JsonReader::Unknown::refuse);
  if (!in.object(kClockFields, fields) || !in.end()) return in.error();
  if (fields.by.has_value() == fields.to.has_value())
    return invalid("advance", "advance, to: exactly one of them must be given");
  AdvanceRequest request{
      .by = fields.by, .to = fields.to, .leases = static_cast<Leases>(fields.leases)};
  if (fields.settle) request.settle = *fields.settle;
  if (fields.timeout) request.timeout = *fields.timeout;
  MS_TRY(check_wait("settle", request.settle));
  MS_TRY(check_wait("timeout", request.timeout));
  if (request.by && *request.by > kMaxAdvance) {
    return invalid("advance",
                   fmt::format("advance {}: must be at most {}", format_duration(*request.by),
                               format_duration(kMaxAdvance)));
  }
  return request;
}

Result<std::string> TestControl::clock(std::string_view body) {
  if (!body.empty()) {
    MS_TRY_ASSIGN(const AdvanceRequest request, decode_advance(body));
    return advance(request);
  }
  std::string out;
  JsonWriter(out).begin_object().key("now").time(parts_.clock.now().wall).end_object();
  return out;
}

Result<std::string> TestControl::advance(const AdvanceRequest& request) {
  MutexLock alone(advance_mutex_);
  const Now now = parts_.clock.now();
  AdvanceState state{.target = request.to ? *request.to : now.wall + *request.by,
                     .leases = request.leases,
                     .settle = request.settle,
                     .until = now.instant + request.timeout,
                     .at = now.wall};
  if (request.to && (*request.to < now.wall || *request.to - now.wall > kMaxAdvance)) {
    return invalid("to", fmt::format("to {}: must be at most {} after the server's time {}",
                                     format_wall_time(*request.to), format_duration(kMaxAdvance),
                                     format_wall_time(now.wall)));
  }
  {
    MutexLock lock(mutex_);
    collecting_ = true;
    fired_.clear();
  }
  bool complete = true;
  for (int steps = 0;; ++steps) {
    const WallTime next = next_event(state);
    if (next > state.target) break;
    complete = steps < kMaxSteps && this->now() < state.until && !stopped();
    if (!complete) break;
    step_to(next, state);
  }
  if (complete) step_to(state.target, state);
  {
    MutexLock lock(mutex_);
    collecting_ = false;
    save_state();
  }
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("now").time(parts_.clock.now().wall).key("fired").begin_array();
  for (const FiredTime& fired : state.fired) append_fired(w, fired);
  w.end_array().key("count").number(state.count).key("complete").boolean(complete).end_object();
  return out;
}

// After where the clock was moved to: what is due there has been seen, or is stuck.
WallTime TestControl::next_event(const AdvanceState& state) {
  const Agenda agenda = parts_.broker.agenda();
  WallTime next = WallTime::never();
  {
    MutexLock lock(mutex_);
    next = leases_.next_end(state.at);
  }
  for (const WallTime at : {agenda.next_due, agenda.next_schedule, agenda.next_expiry,
                            agenda.next_workflow, agenda.next_opening}) {
    if (at > state.at) next = std::min(next, at);
  }
  return next;
}

bool TestControl::due_now() const {
  const Agenda agenda = parts_.broker.agenda();
  const Now now = parts_.clock.now();
  const WallTime first = std::min({agenda.next_due, agenda.next_schedule, agenda.next_expiry,
                                   agenda.next_workflow, agenda.next_opening});
  return first <= now.wall || agenda.next_lease_expiry <= now.instant;
}

void TestControl::step_to(WallTime at, AdvanceState& state) {
  const auto waiting = due_sqlite_jobs(options_.directory, at, static_cast<int>(kMaxFired));
  state.at = std::max(state.at, at);
  parts_.clock.move_to(at);
  end_leases(at, state);
  parts_.scheduler.clock_moved();
  wait_until_fired(state);
  std::vector<FiredTime> fired;
  {
    MutexLock lock(mutex_);
    fired.swap(fired_);
  }
  if (waiting && !state.stuck) {
    for (const DueJob& job : waiting->due) {
      if (!state.listed.emplace(job.id, job.at).second) continue;
      fired.push_back({.at = job.at,
                       .what = job.retry ? "retry" : "scheduled",
                       .queue = job.queue,
                       .job = job.id});
    }
    for (const DueJob& job : waiting->expiring) {
      if (!state.listed.emplace(job.id, job.at).second) continue;
      fired.push_back({.at = job.at, .what = "expiry", .queue = job.queue, .job = job.id});
    }
  }
  std::stable_sort(fired.begin(), fired.end(),
                   [](const FiredTime& a, const FiredTime& b) { return a.at < b.at; });
  for (FiredTime& one : fired) state.add(std::move(one));
  let_workers_react(state);
}

// -- leases

void TestControl::end_leases(WallTime at, AdvanceState& state) {
  std::vector<HeldLease> ending;
  {
    MutexLock lock(mutex_);
    ending = leases_.ending(at);
  }
  if (ending.empty()) return;
  std::set<std::string> waits;
  if (state.leases == Leases::live) {
    if (const auto workers = parts_.broker.workers()) {
      for (const WorkerInfo& worker : *workers) {
        if (worker.parked) waits.insert(worker.id);
      }
    }
  }
  for (const HeldLease& lease : ending) {
    const bool alive = lease.renewed || waits.contains(lease.holder);
    if (state.leases == Leases::keep || (state.leases == Leases::live && alive)) {
      MutexLock lock(mutex_);
      leases_.keep(lease, state.target);  // renewed all the way
      continue;
    }
    end_lease(lease);
    const bool job = lease.kind == HeldLease::Kind::job;
    state.add({.at = lease.ends,
               .what = "lease",
               .queue = lease.queue,
               .lock = lease.kind == HeldLease::Kind::lock ? lease.name : "",
               .session = lease.kind == HeldLease::Kind::session ? lease.name : "",
               .job = job ? lease.job : 0});
  }
}

void TestControl::end_lease(const HeldLease& lease) {
  switch (lease.kind) {
    case HeldLease::Kind::job: {
      Renew renew{.worker = lease.holder, .lease = kEndedLease};
      renew.leases.push_back({.id = lease.job, .token = lease.token});
      (void)apply(std::move(renew));
      return;
    }
    case HeldLease::Kind::lock:
      (void)apply(ReleaseLease{.name = lease.name, .holder = lease.holder, .token = lease.token});
      return;
    case HeldLease::Kind::session:
      (void)apply(ReleaseSession{{lease.queue, lease.name}, lease.token});
      return;
  }
}

// -- waiting

void TestControl::note_fired(std::span<const Operation> batch, const BatchReport& report) {
  bool woken = false;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    woken |= std::holds_alternative<WakeWorkflows>(batch[i]);
    const auto* fire = std::get_if<FireSchedule>(&batch[i]);
    const auto* result = std::get_if<FireResult>(&report.results[i]);
    if (fire == nullptr || result == nullptr || fire->source != TickSource::schedule) continue;
    for (std::size_t n = 0; n < std::min(fire->ticks.size(), result->jobs.size()); ++n) {
      if (result->jobs[n] == 0 || fired_.size() >= kMaxFired) continue;
      fired_.push_back({.at = fire->ticks[n].nominal,
                        .what = "schedule",
                        .schedule = fire->name,
                        .job = result->jobs[n]});
    }
  }
  if (!woken) return;
  for (const WorkflowId id : report.effects.workflows) {
    if (fired_.size() >= kMaxFired) break;
    fired_.push_back({.at = parts_.clock.now().wall, .what = "workflow", .workflow = id});
  }
}

void TestControl::wait_until_fired(AdvanceState& state) {
  const Instant until = std::min(state.until, now() + (state.stuck ? kLookAgain : kFireTime));
  for (;;) {
    const std::int64_t seen = batches();
    if (!due_now()) return;
    if (now() >= until || stopped()) break;
    wait_for_batch(seen, kLookAgain);
    parts_.scheduler.clock_moved();
  }
  state.stuck = true;
}

// Does a worker run something, or would one take something that is available?
bool TestControl::workers_busy(const AdvanceState& state,
                               std::vector<std::pair<JobId, Token>>* running,
                               std::vector<std::string>* wanted) {
  running->clear();
  wanted->clear();
  {
    MutexLock lock(mutex_);
    for (const auto& [id, lease] : leases_.jobs()) {
      if (!state.slow.contains({id, lease.token})) running->emplace_back(id, lease.token);
    }
  }
  const auto workers = parts_.broker.workers();
  const auto queues = parts_.store.queues();
  if (!workers || !queues) return !running->empty();
  std::set<std::string_view> watched;
  for (const WorkerInfo& worker : *workers) {
    if (!worker.parked && worker.last_seen > kPolls) continue;
    for (const std::string& queue : worker.queues) watched.insert(queue);
  }
  for (const QueueStats& queue : *queues) {
    const bool takes = !queue.paused && watched.contains(queue.name) &&
                       queue.counts[static_cast<std::size_t>(JobState::available)] > 0;
    if (takes && !state.ignored.contains(queue.name)) wanted->push_back(queue.name);
  }
  return !running->empty() || !wanted->empty();
}

void TestControl::let_workers_react(AdvanceState& state) {
  std::vector<std::pair<JobId, Token>> running;
  std::vector<std::string> wanted;
  const Instant until = std::min(state.until, now() + state.settle);
  for (;;) {
    const std::int64_t seen = batches();
    if (!workers_busy(state, &running, &wanted)) return;
    if (now() >= until || stopped()) break;
    wait_for_batch(seen, std::min(kLookAgain, until - now()));
  }
  // They have had their time: the other steps of this advance do not wait for them again.
  state.slow.insert(running.begin(), running.end());
  state.ignored.insert(wanted.begin(), wanted.end());
}

}  // namespace mainspring
