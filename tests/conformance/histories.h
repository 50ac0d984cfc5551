// Random histories of operations from a seed, for the differential tests.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "env/digest.h"
#include "env/random.h"
#include "store/store.h"

namespace mainspring {

// A batch, and the events before it.
struct Step {
  Duration advance{0};
  Duration step_wall{0};
  bool reopen = false;
  bool look = false;  // compare stats, jobs, lists and verify afterwards
  std::vector<Operation> batch;
};

// Makes one step after the other. Steps refer to the results of earlier ones: see learn().
class Generator {
  using hours = std::chrono::hours;
  using milliseconds = std::chrono::milliseconds;
  using minutes = std::chrono::minutes;
  using seconds = std::chrono::seconds;

 public:
  // `limits`: queues have some.
  explicit Generator(std::uint64_t seed, bool limits = true, bool fair = true)
      : random_(seed), limits_(limits), fair_(fair) {}

  Step next(Now now, const Store& model) {
    now_ = now;
    schedules_ = *model.schedules("", 100);
    Step step;
    const auto dice = below(100);
    if (dice < 50) step.advance = milliseconds(below(3000));
    if (dice >= 90) step.advance = seconds(below(120));
    if (dice == 89) step.advance = minutes(below(40));
    if (dice == 88) step.step_wall = seconds(static_cast<int>(below(240)) - 120);
    if (dice == 87 && below(8) == 0) step.advance = hours(25);
    step.reopen = below(150) == 0;
    step.look = below(25) == 0;
    const auto size = 1 + below(below(5) == 0 ? 12 : 4);
    for (std::uint64_t i = 0; i < size; ++i) {
      step.batch.push_back(operation());
      restrict(step.batch.back());
      if (chance(4)) step.batch.emplace_back(audit(step.batch.back()));
    }
    return step;
  }

  // Records the results that later operations may refer to.
  void learn(const std::vector<Operation>& batch, const std::vector<OperationResult>& results) {
    for (std::size_t at = 0; at < batch.size(); ++at) {
      const OperationResult& result = results[at];
      if (const auto* r = std::get_if<EnqueueResult>(&result)) {
        for (const EnqueuedJob& job : r->jobs) remember(jobs_, job.id);
      } else if (const auto* c = std::get_if<ClaimResult>(&result)) {
        for (const ClaimedJob& j : c->jobs) {
          remember(leases_, std::pair(j.id, j.token));
          if (!j.session.empty()) remember(grants_, {{j.queue, j.session}, j.token});
        }
        if (c->session) remember(grants_, {c->session->session, c->session->token});
      } else if (const auto* s = std::get_if<SessionGrant>(&result)) {
        remember(grants_, {s->session, s->token});
      } else if (const auto* g = std::get_if<LeaseGrant>(&result)) {
        if (const auto* a = std::get_if<AcquireLease>(&batch[at]))
          remember(holdings_, {a->name, a->holder, g->token});
      } else if (const auto* w = std::get_if<WorkflowStarted>(&result)) {
        remember(workflows_, w->id);
      } else if (const auto* f = std::get_if<FireResult>(&result)) {
        for (const JobId id : f->jobs) {
          if (id != 0) remember(jobs_, id);
        }
      }
    }
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_.below(bound); }
  bool chance(std::uint64_t one_in) { return below(one_in) == 0; }
  template <class T>
  static void remember(std::vector<T>& list, T value) {
    constexpr std::size_t kRemembered = 60;
    if (list.size() >= kRemembered) list.erase(list.begin());
    list.push_back(std::move(value));
  }
  std::string pick(std::initializer_list<const char*> from) {
    return *(from.begin() + below(from.size()));
  }
  JobId some_job() {
    if (jobs_.empty() || chance(30)) return static_cast<JobId>(below(500)) - 2;
    return jobs_[below(jobs_.size())];
  }
  std::pair<JobId, Token> some_lease() {
    if (leases_.empty()) return {1, 1};
    auto lease = leases_[below(leases_.size())];
    if (chance(20)) lease.second += chance(2) ? 1 : -1;
    if (chance(50)) lease.first = some_job();
    return lease;
  }

  struct Holding {
    std::string name, holder;
    Token token = 0;
  };
  Holding some_holding() {
    if (holdings_.empty()) return {"l0", "h0", 1};
    Holding h = holdings_[holdings_.size() - 1 - below(std::min<std::size_t>(holdings_.size(), 6))];
    if (chance(20)) h.token += chance(2) ? 1 : -1;
    if (chance(30)) h.holder = "h9";
    return h;
  }
  Fence fence(std::uint64_t one_in) {
    if (!chance(one_in)) return {};
    const Holding h = some_holding();
    return {h.name, h.token};
  }
  std::optional<std::string> value() {
    if (!chance(4)) return std::nullopt;
    if (chance(12)) return std::string(kMaxLeaseValueBytes + below(2), 'v');
    return chance(3) ? "" : fmt::format("[{}]", below(100));
  }
  Operation lease() {
    const auto dice = below(10);
    if (dice < 5) {
      return AcquireLease{.name = pick({"l0", "l1", "l2", "mainspring/leader"}),
                          .holder = fmt::format("h{}", below(3)),
                          .ttl = seconds(1 + below(30))};
    }
    const Holding h = some_holding();
    if (dice < 8) {
      return RenewLease{.name = h.name,
                        .holder = h.holder,
                        .token = h.token,
                        .ttl = chance(2) ? seconds(0) : seconds(1 + below(40)),
                        .value = value()};
    }
    return ReleaseLease{.name = h.name, .holder = h.holder, .token = h.token, .value = value()};
  }

  NewJob job() {
    NewJob j;
    j.queue = pick({"a", "b", "c", "windowed"});
    j.kind = pick({"k0", "k1", "k2"});
    j.args = fmt::format("[{}]", below(1000));
    if (chance(40)) j.args = "\"" + std::string(below(9000), 'x') + "\"";
    if (chance(2)) j.priority = static_cast<int>(below(10));
    if (chance(4)) j.delay = seconds(below(90));
    if (!j.delay && chance(8)) j.run_at = now_.wall + seconds(static_cast<int>(below(100)) - 50);
    if (chance(2)) j.max_attempts = 1 + static_cast<int>(below(3));
    if (chance(3)) j.unique = unique(j.queue);
    if (chance(6)) j.expires_in = seconds(1 + below(100));
    if (j.expires_in && chance(3)) j.on_expiry = OnExpiry::dead;
    if (chance(5)) j.timeout = chance(2) ? kForever : Duration(seconds(1 + below(30)));
    if (chance(3)) j.tags = {pick({"t0", "t1"}), "common"};
    if (chance(5)) j.headers = R"({"h":"v"})";
    if (chance(5)) j.correlation_id = fmt::format("c{}", below(5));
    if (chance(8)) j.reply_to = "answers";
    while (chance(5)) j.follow_ups.push_back(follow_up());
    if (j.follow_ups.size() > kMaxFollowUps) j.follow_ups.resize(kMaxFollowUps);
    if (chance(2) && j.queue != "windowed") into_session(j);
    if (limits_ && j.session.empty() && chance(2)) j.limit_key = pick({"x", "y"});
    return j;
  }

  void into_session(NewJob& j) {
    j.session = some_session().key;
    j.on_dead = static_cast<OnDead>(below(3));
    // Separate keys, so that no job without a session replaces them.
    if (j.unique) j.unique = Unique{.key = fmt::format("v{}", below(4))};
  }
  SessionKey some_session() {
    return {pick({"a", "b", "c"}), pick({"s0", "s1", "a longer \xc3\xa4 one"})};
  }
  // A session and a token: of its holder, of its running job, or an outdated one.
  std::pair<SessionKey, Token> some_grant() {
    if (grants_.empty()) return {some_session(), 1};
    auto grant = grants_[grants_.size() - 1 - below(std::min<std::size_t>(grants_.size(), 8))];
    if (chance(20)) grant.second += chance(2) ? 1 : -1;
    if (chance(30)) grant.first = some_session();
    return grant;
  }
  std::string session_state() {
    if (chance(30)) return std::string(kMaxSessionStateBytes + below(2), 's');
    return chance(4) ? "" : fmt::format("[{}]", below(100));
  }

  Operation session() {
    const auto dice = below(32);
    const std::string worker = fmt::format("w{}", below(3));
    if (dice < 6) return AcceptSession{worker, some_session(), seconds(1 + below(60))};
    if (dice < 11) {
      return Claim{.worker = worker,
                   .queues = {accept_queue(pick({"a", "b", "c"}))},
                   .kinds = {},
                   .lease = seconds(1 + below(60))};
    }
    const auto [of, token] = some_grant();
    if (dice < 19) {
      return Claim{.worker = worker,
                   .queues = {session_queue(of)},
                   .kinds = {},
                   .lease = seconds(1 + below(60)),
                   .session_token = token};
    }
    if (dice < 22) return RenewSession{of, token, seconds(chance(2) ? 0 : 1 + below(90))};
    if (dice < 25) return ReleaseSession{of, token};
    if (dice < 28) return PutSessionState{of, token, session_state()};
    return ResumeSession{chance(2) ? of : some_session()};
  }

  FollowUp follow_up() {
    FollowUp f{.queue = pick({"a", "answers"}), .kind = pick({"k0", "next"}), .data = ""};
    f.on = static_cast<std::uint8_t>(1 + below(FollowUp::kEverything));
    if (chance(3)) f.expires_in = seconds(1 + below(60)), f.kind = "reply";
    if (chance(3)) f.priority = static_cast<int>(below(10));
    if (chance(2)) f.data = fmt::format("[{}]", below(100));
    return f;
  }

  // Some windows are over before their jobs are pruned, some are longer than any retention.
  Unique unique(const std::string& queue) {
    const auto n = below(4);
    Unique u{.key = fmt::format("u{}", n)};
    u.on_conflict = static_cast<OnConflict>(below(3));
    constexpr std::array kMinutes = {3, 40, 3, 240};
    if (queue == "windowed") u.window = minutes(kMinutes[n]);
    return u;
  }

  // Many jobs that differ only in their args: a store may store them together.
  Operation enqueue_alike() {
    NewJob like;
    like.queue = pick({"a", "b", "c"});
    like.kind = pick({"k0", "k1", "k2"});
    like.priority = static_cast<int>(below(3));
    Enqueue e;
    for (auto n = 2 + below(9); n > 0; --n) {
      like.args = fmt::format("[{}]", below(100));
      e.jobs.push_back(like);
    }
    return e;
  }

  Operation enqueue() {
    if (chance(4)) return enqueue_alike();
    Enqueue e;
    const auto n = chance(10) ? below(20) : 1 + below(2);
    for (std::uint64_t i = 0; i < n; ++i) e.jobs.push_back(job());
    if (chance(4)) {
      e.idempotency_key = fmt::format("i{}", below(8));
      e.fingerprint = fmt::format("f{}", below(3));
    }
    e.fence = fence(12);
    return e;
  }

  Operation claim() {
    Claim c{.worker = fmt::format("w{}", below(3)), .queues = {}};
    for (const char* q : {"a", "b", "c", "windowed", "answers"}) {
      if (chance(2)) c.queues.push_back(q);
    }
    if (c.queues.empty()) c.queues.push_back(pick({"a", "nowhere"}));
    if (chance(5)) c.kinds = {pick({"k0", "k1", "k9"}), pick({"k2", "k1"})};
    c.max = 1 + static_cast<int>(below(chance(4) ? 30 : 4));
    if (chance(4)) c.lease = seconds(1 + below(60));
    return c;
  }

  Operation renew() {
    Renew r{.worker = "w0", .leases = {}};
    if (chance(4)) r.lease = seconds(1 + below(90));
    for (auto n = 1 + below(4); n > 0; --n) {
      const auto [id, token] = some_lease();
      Renewal& renewal = r.leases.emplace_back(Renewal{id, token, {}, {}});
      if (chance(3)) renewal.progress = Progress{static_cast<double>(below(3)) / 2, "text"};
      if (chance(3)) renewal.checkpoint = chance(5) ? "" : fmt::format("[{}]", below(100));
      while (chance(3)) renewal.messages.push_back(fmt::format("[{}]", below(100)));
      while (chance(4))
        renewal.memos.push_back({pick({"m0", "m1", "m2"}), fmt::format("[{}]", below(100))});
      if (chance(6)) renewal.warning = IgnoredRemarks{fmt::format("warning {}", below(9)), {}};
      if (chance(2)) renewal.first_seq = 1 + static_cast<std::int64_t>(below(9));
    }
    return r;
  }

  // Of some attempts, from the values drawn for them.
  static ProgramEnd program(int n) {
    if (n % 3 == 0) return {};
    if (n % 3 == 1) return {.signal = 9, .oom = n % 2 == 1, .peak_memory = std::int64_t{n} << 20};
    return {.exit_code = n};
  }

  Outcome outcome() {
    switch (below(8)) {
      case 0:
        return Retry{fmt::format("e{}", below(5)), {}, open_breaker_for()};
      case 1: {
        const auto n = below(20);
        return Retry{"later", seconds(n), {}, program(static_cast<int>(n))};
      }
      case 2:
        return Snooze{seconds(below(3) * 5), open_breaker_for()};
      case 3:
        return CancelJob{chance(2) ? "stopped" : ""};
      case 4: {
        const bool read = chance(2);
        return Dead{"poison", read ? "cannot be read" : "", program(read ? 7 : 0)};
      }
      default:
        break;
    }
    Complete done{chance(2) ? fmt::format("[{}]", below(100)) : ""};
    while (chance(5)) {
      done.next.push_back(job());
      done.next.back().unique.reset();
    }
    return done;
  }

  // Defers a job, or claims one by id.
  Operation named() {
    const auto [id, token] = some_lease();
    if (chance(2))
      return Finish{.worker = "w0", .results = {{id, token, Defer{chance(2) ? "why" : ""}}}};
    Claim c{.worker = "w1", .queues = {"a", "b", "c", "windowed"}, .job = some_job()};
    if (chance(6)) c.queues = {"answers"};
    return c;
  }

  Operation finish() {
    Finish f{.worker = "w0", .results = {}};
    for (auto n = 1 + below(4); n > 0; --n) {
      const auto [id, token] = some_lease();
      f.results.push_back({id, token, outcome()});
      if (chance(5))
        f.results.back().session_state = chance(3) ? "" : fmt::format("[{}]", below(100));
    }
    return f;
  }

  Operation redrive() {
    Redrive r{.filter = {.queue = pick({"a", "b", "c", "windowed"})}};
    if (chance(3)) r.filter.kind = pick({"k0", "k1", "none"});
    if (chance(4)) r.filter.tag = "common";
    r.limit = 1 + static_cast<int>(below(4));
    if (chance(3)) r.after = some_job();
    return r;
  }

  Operation retry() { return RetryJob{.id = some_job(), .take_back = chance(3)}; }

  Operation edit() {
    EditJob e{.id = some_job()};
    if (chance(3)) e.args = fmt::format("[{}]", below(100));
    if (chance(2)) e.priority = static_cast<int>(below(10));
    if (chance(3)) e.run_at = now_.wall + seconds(static_cast<int>(below(20)) - 8);
    if (chance(4)) e.tags = std::vector<std::string>{"common", "edited"};
    if (chance(8)) e.version = static_cast<std::int64_t>(1 + below(4));
    return e;
  }

  Schedule definition(std::string name) {
    Schedule s{.name = std::move(name), .every = seconds(10 + 10 * below(2)), .job = job()};
    s.job.run_at.reset();
    s.job.delay.reset();
    s.job.unique.reset();
    s.job.session.clear();
    s.job.on_dead = OnDead::skip;
    s.overlap = static_cast<Overlap>(below(6));
    if (chance(3)) s.jitter = seconds(below(5));
    if (chance(4)) s.max_runs = 1 + static_cast<std::int64_t>(below(20));
    s.pause_on_failure = chance(3);
    if (chance(6)) s.end_at = now_.wall + minutes(10);
    if (chance(3)) s.continuous = Continuous{.timeout = seconds(30 + below(2))};
    if (chance(8)) {
      s.every = Duration(0);
      s.at = now_.wall + seconds(5);
    }
    return s;
  }

  Operation put_schedule() {
    PutSchedule put;
    const std::string name = pick({"s0", "s1", "s2", "s3"});
    put.schedule = definition(name);
    for (const ScheduleInfo& info : schedules_) {
      if (info.schedule.name == name && !chance(3)) put.schedule = info.schedule;
    }
    put.next = chance(12) ? WallTime::never() : now_.wall + seconds(static_cast<int>(below(30)));
    put.next_fire = put.next == WallTime::never() ? put.next : put.next + seconds(below(4));
    if (chance(4)) put.paused = chance(3);
    if (chance(4)) put.runs = RunCount::restart;
    return put;
  }

  Operation fire() {
    if (schedules_.empty()) return FireSchedule{.name = "s0"};
    const ScheduleInfo& info = schedules_[below(schedules_.size())];
    FireSchedule f{.name = info.schedule.name, .version = info.version};
    f.source = chance(2) ? TickSource::schedule : static_cast<TickSource>(below(4));
    f.expected_next = info.next;
    if (chance(12)) f.expected_next = info.next + seconds(1);
    if (chance(12)) ++f.version;
    if (chance(4)) f.overlap = static_cast<Overlap>(below(6));
    WallTime at = info.next == WallTime::never() ? now_.wall : info.next;
    if (f.source == TickSource::backfill) at = at - seconds(10 * below(20));
    const auto n = below(chance(6) ? 8 : 3);
    const bool early = chance(8);  // refused before its time
    if (!early) at = std::min(at, now_.wall - seconds(10 * static_cast<int>(n)));
    for (std::uint64_t i = 0; i < n; ++i, at = at + seconds(10)) {
      Tick& t = f.ticks.emplace_back(Tick{.nominal = at});
      if (f.source == TickSource::trigger || chance(30)) t.nominal = WallTime();
      t.past_due = chance(3);
      if (chance(4)) t.note = "shifted";
      if (chance(4)) {
        t.fire = false;
        t.reason = "missed";
        t.until = at + seconds(4);
        t.count = static_cast<std::int64_t>(below(3));
      }
    }
    f.next = chance(20) ? WallTime::never() : at;
    f.next_fire = f.next == WallTime::never() ? f.next : f.next + (info.next_fire - info.next);
    f.fence = fence(6);
    return f;
  }

  Operation schedule() {
    const auto dice = below(20);
    const std::string name = pick({"s0", "s1", "s2", "s3"});
    if (dice < 4) return put_schedule();
    if (dice < 14) return fire();
    if (dice < 17) return PauseSchedule{name, chance(3), chance(2) ? "why" : ""};
    if (dice < 19) return SetTimer{name, chance(2) ? seconds(0) : seconds(1 + below(3))};
    return chance(3) ? Operation(RemoveSchedule{name}) : put_schedule();
  }

  Operation operation() {
    const auto dice = below(limits_ ? 206 : 183);
    if (dice >= 200) return breaker();
    if (dice >= 190) return named();
    if (dice >= 183) return limits();
    if (dice >= 176) return trigger();
    if (dice >= 160) return workflow();
    if (dice >= 128) return session();
    if (dice < 24) return enqueue();
    if (dice < 44) return claim();
    if (dice < 52) return renew();
    if (dice < 70) return finish();
    if (dice < 75) return Cancel{some_job(), chance(2) ? "unwanted" : ""};
    if (dice < 78) return retry();
    if (dice < 79) return chance(4) ? Operation(DeleteJob{.id = some_job()}) : edit();
    if (dice < 81) return redrive();
    if (dice < 84) return pause();
    if (dice < 85) return retention();
    if (dice < 90) return MoveDue{1 + static_cast<int>(below(20)), fence(4)};
    if (dice < 94) return RescueExpired{1 + static_cast<int>(below(20)), fence(4)};
    if (dice < 97) return ExpireJobs{1000, fence(4)};
    if (dice < 100) return PruneJobs{1000, fence(4)};
    if (dice >= 124) return token();
    if (dice >= 110) return schedule();
    return lease();
  }

  Trigger on_ends(std::string name) {
    Trigger t{.name = std::move(name), .http = {}, .folder = {}, .ended = EndedSource{}, .job = {}};
    if (!chance(4)) t.ended->queue = pick({"a", "b", "c", "answers"});
    if (chance(2)) t.ended->kind = pick({"k0", "k1", "k2"});
    t.ended->on = static_cast<std::uint8_t>(1 + below(FollowUp::kEveryEnd));
    t.job = job();
    t.job.run_at.reset();
    // Neither the whole result nor the whole error: stores may choose the text of a rescue.
    t.job.args = R"({"of":{"$ref":"job.id"},"how":{"$ref":"job.outcome"}})";
    if (chance(2)) t.job.args = R"([{"$ref":"job.result.0","default":0},{"$ref":"trigger.event"}])";
    if (chance(4)) t.job.args = R"([{"$ref":"job.result.0"}])";
    return t;
  }

  Operation trigger() {
    const std::string name = pick({"t0", "t1", "t2"});
    const auto dice = below(16);
    if (dice < 7) {
      PutTrigger put{.trigger = on_ends(name), .secret = ""};
      if (chance(5)) put.paused = chance(2);
      if (!chance(8)) return put;
      put.trigger.ended.reset();
      put.trigger.http.emplace();
      put.secret = chance(3) ? "" : "s";
      return put;
    }
    if (dice < 10) return PauseTrigger{.name = name, .paused = chance(3)};
    if (dice < 11) return RemoveTrigger{.name = name};
    FireTrigger fire{.name = name, .event = "", .args = "[1]"};
    if (!chance(4)) fire.event = fmt::format("{}/{}", some_job(), pick({"dead", "completed"}));
    return fire;
  }

  Operation token() {
    const std::string name = fmt::format("t{}", below(5));
    if (chance(3)) return RevokeToken{name};
    CreateToken create;
    create.token.name = name;
    create.token.digest = sha256(fmt::format("{}", chance(6) ? below(4) : below(1'000'000)));
    create.token.scopes = *Scopes::parse(pick({"read", "work=a enqueue", "admin=b*"}));
    create.token.rate = static_cast<int>(below(3));
    create.token.created_by = pick({"local", "ops"});
    if (chance(2)) create.token.expires_at = now_.wall + seconds(below(300));
    return create;
  }

  // Some callers may not access every queue.
  void restrict(Operation& operation) {
    if (!chance(4)) return;
    const auto scopes = std::make_shared<const Scopes>(
        *Scopes::parse(pick({"work=a", "work=a work=b", "work=window*", "work", "read"})));
    std::visit(
        [&](auto& op) {
          if constexpr (requires { op.within; }) op.within = {scopes, Verb::work};
          if constexpr (requires { op.filter.within; }) {
            if (chance(2)) op.filter.within = {scopes, Verb::work};
          }
        },
        operation);
  }

  // Mostly for the object of the operation.
  Audit audit(const Operation& about) {
    Audit a{.who = pick({"ops", "ci"}),
            .from = "",
            .action = "",
            .object = "",
            .before = "",
            .after = ""};
    a.action = fmt::format("a{}", about.index());
    a.always = chance(6);
    if (chance(12)) {
      a.alone = chance(2);
      a.object = "folder/x", a.before = "1", a.after = fmt::format("{}", below(3));
    } else if (const auto* pause = std::get_if<PauseQueue>(&about)) {
      a.object = "queue/" + pause->queue;
    } else if (const auto* keep = std::get_if<SetRetention>(&about)) {
      a.object = "queue/" + keep->queue;
    } else if (const auto* set = std::get_if<SetQueueLimits>(&about)) {
      a.object = "queue/" + set->queue;
    } else if (const auto* cancel = std::get_if<Cancel>(&about)) {
      a.object = fmt::format("job/{}", cancel->id);
    } else if (const auto* finish = std::get_if<Finish>(&about)) {
      a.object = fmt::format("job/{}", finish->results[0].id);
    } else if (const auto* create = std::get_if<CreateToken>(&about)) {
      a.object = "token/" + create->token.name;
    } else {
      a.object = pick({"token/t0", "token/t1", "schedule/s0", "schedule/s1", "queue/a", "job/3"});
    }
    return a;
  }

  // Steps s0, s1, …, each after some of the earlier ones.
  // NOLINTNEXTLINE(misc-no-recursion): two deep
  StepSpec step(int number, int depth = 0) {
    StepSpec s{.name = fmt::format("s{}", number)};
    for (int before = 0; before < number; ++before) {
      if (chance(2)) s.after.push_back(fmt::format("s{}", before));
    }
    if (number > 0 && chance(4))
      s.only_if = StepCondition{.ref = "s0", .equals = "", .negate = chance(2)};
    if (chance(5)) s.on_failure = chance(2) ? OnStepFailure::park : OnStepFailure::go_on;
    const auto kind = below(8);
    if (kind == 0) s.sleep = seconds(below(40));
    if (kind == 1) s.signal = "go";
    if (kind < 2) return s;
    if (chance(6)) s.deadline = seconds(1 + below(100));
    if (kind == 3 && depth < 2) {
      WorkflowSpec child{.name = "child", .input = chance(2) ? R"({"$ref":"input"})" : "{}"};
      for (int i = 0; i < 3 && (i == 0 || chance(2)); ++i)
        child.steps.push_back(step(i, depth + 1));
      if (chance(3)) child.undo_order = UndoOrder::parallel;
      if (chance(8)) child.deadline = seconds(1 + below(200));
      if (chance(2)) child.result = R"({"$ref":"s0"})";
      if (chance(6)) s.each = R"([1,"2"])";
      s.workflow = child;
      return s;
    }
    s.job = NewJob{.queue = pick({"a", "b", "c"}), .kind = pick({"k0", "k1", "k2"})};
    s.job->max_attempts = 1 + static_cast<int>(below(2));
    if (number > 0 && chance(3)) s.job->args = R"({"of":{"$ref":"s0","default":null}})";
    if (kind == 2) s.each = chance(3) ? "[]" : R"([1,"2"])";
    if (!chance(2)) return s;
    s.undo = NewJob{.queue = pick({"a", "b"}), .kind = pick({"k1", "k2"})};
    s.undo->max_attempts = 1 + static_cast<int>(below(2));
    s.undo_if_failed = chance(3);
    return s;
  }
  Operation start_workflow() {
    WorkflowSpec spec{.name = pick({"flow", "other"})};
    for (int i = 0; i < static_cast<int>(kSteps); ++i) {
      spec.steps.push_back(step(i));
      if (chance(3)) break;
    }
    if (chance(4)) spec.key = fmt::format("k{}", below(5));
    if (chance(3)) spec.undo_order = UndoOrder::parallel;
    if (chance(5)) spec.deadline = seconds(1 + below(200));
    if (chance(3)) spec.result = R"({"$ref":"s0"})";
    return StartWorkflow{std::move(spec)};
  }
  Operation workflow() {
    const auto dice = below(16);
    if (dice < 4) return start_workflow();
    if (dice < 6) return WakeWorkflows{1 + static_cast<int>(below(20)), fence(4)};
    const WorkflowId id = workflows_.empty() || chance(30) ? static_cast<WorkflowId>(below(100))
                                                           : workflows_[below(workflows_.size())];
    if (dice < 12) {
      ForkWorkflow fork{.id = id, .step = fmt::format("s{}", below(kSteps))};
      if (chance(3)) fork.input = fmt::format("[{}]", below(100));
      if (chance(4)) fork.key = fmt::format("k{}", below(5));
      return fork;
    }
    if (dice < 13) return CancelWorkflow{id, "unwanted", {}};
    if (dice < 14) return PauseWorkflow{id, chance(3), {}};
    if (dice < 15) {
      RetryWorkflow retry{.id = id, .by_hand = chance(3)};
      if (chance(4)) retry.step = fmt::format("s{}", below(kSteps));
      if (retry.by_hand && chance(4)) retry.result = "[7]";
      return retry;
    }
    return SignalWorkflow{id, "go", chance(2) ? fmt::format("g{}", below(4)) : "", "[1]", {}};
  }

  Operation limits() {
    if (chance(2)) return OpenQueues{1 + static_cast<int>(below(3)), fence(4)};
    SetQueueLimits s{.queue = pick({"a", "b", "c", "answers"}), .limits = {}};
    s.create = !chance(3);
    if (chance(2)) s.limits.concurrency = 1 + static_cast<int>(below(4));
    if (chance(2)) s.limits.per_key.concurrency = 1 + static_cast<int>(below(3));
    if (chance(3)) s.limits.ageing = seconds(1 + below(60));
    if (chance(2)) s.limits.quarantine_after = static_cast<int>(below(4));
    if (chance(2)) {
      s.limits.per_key.fair = fair_;
      if (chance(2) && fair_) s.limits.per_key.weights["x"] = 0.5 + static_cast<double>(below(4));
    }
    if (chance(2)) s.limits.rate = rate();
    if (chance(2)) s.limits.per_key.rate = rate();
    for (const char* kind : {"k0", "k1", "k2"}) {
      if (chance(4)) s.limits.costs[kind] = 2 + static_cast<int>(below(5));
    }
    if (chance(2)) s.limits.breaker = pick({"b0", "b0", "b1", "unknown"});
    for (const char* path : {"0", "of", "state"}) {
      if (chance(4)) s.limits.searchable.emplace_back(path);
    }
    return s;
  }

  RateLimit rate() {
    RateLimit out;
    out.count = 1 + static_cast<int>(below(5));
    out.per = seconds(1 + below(60));
    out.kind = static_cast<RateKind>(below(3));
    if (out.kind == RateKind::bucket && chance(2)) out.burst = 1 + static_cast<int>(below(8));
    return out;
  }

  Operation breaker() {
    const std::string name = pick({"b0", "b0", "b1"});
    const auto dice = below(10);
    if (dice == 0) return RemoveBreaker{name};
    if (dice == 1) return CloseBreaker{name};
    if (dice == 2) return OpenBreaker{name, chance(2) ? seconds(1 + below(60)) : Duration(0)};
    if (dice < 6) return OpenQueues{1 + static_cast<int>(below(3)), fence(4)};
    BreakerSettings s;
    s.failures = 1 + static_cast<int>(below(3));
    s.within = seconds(10 + below(300));
    s.open_for = seconds(1 + below(30));
    s.max_open_for = seconds(30 + below(60));
    s.probes = chance(3) ? 16 : 1 + static_cast<int>(below(3));
    return PutBreaker{name, s};
  }
  std::optional<Duration> open_breaker_for() {
    if (!limits_ || !chance(6)) return std::nullopt;
    return seconds(1 + below(60));
  }

  Operation pause() {
    PauseQueue pause{pick({"a", "b", "c", "empty"}), chance(3), !chance(3)};
    if (pause.paused && chance(2)) pause.until = now_.wall + seconds(static_cast<int>(below(40)));
    if (chance(2)) pause.reason = "maintenance";
    return pause;
  }
  Operation retention() {
    SetRetention s{.queue = pick({"a", "b"}), .completed = {}, .dead = {}};
    if (chance(2)) s.completed = minutes(1 + below(20));
    if (chance(2)) s.dead = minutes(1 + below(20));
    s.create = !chance(3);
    return s;
  }

  SeededRandom random_;
  const bool limits_;
  const bool fair_;  // queues with fair keys
  Now now_{};
  std::vector<JobId> jobs_;
  std::vector<std::pair<JobId, Token>> leases_;
  std::vector<Holding> holdings_;
  std::vector<std::pair<SessionKey, Token>> grants_;
  static constexpr std::uint64_t kSteps = 4;  // of a workflow, at most
  std::vector<WorkflowId> workflows_;
  std::vector<ScheduleInfo> schedules_;  // as they are now
};

}  // namespace mainspring
