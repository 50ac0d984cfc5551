// The bodies of clockwork.h: the actions of its clients and the checks.
#include "simulation/clockwork.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/schedule.h"
#include "simulation/follow_invariant.h"

namespace mainspring::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kTtl = seconds(6);
const std::string kLeaseName = "report/eu";

}  // namespace

// -- schedules ------------------------------------------------------------------------------------

ScheduleOperator::ScheduleOperator(World& world, int number) : world_(world) {
  const auto count = 1 + world.below(3);
  for (std::uint64_t i = 0; i < count; ++i) names_.push_back(fmt::format("s{}.{}", number, i));
}

void ScheduleOperator::start() {
  world_.after(world_.between(milliseconds(1), seconds(5)), [this] { next(); });
}

void ScheduleOperator::stop() {
  stopped_ = true;
  for (const std::string& name : names_) {
    if (last_.contains(name)) pause(name, true, World::Delivery::sure);
  }
}

Schedule ScheduleOperator::draw(const std::string& name) {
  static const std::vector<std::string> kCrons = {"* * * * *", "*/7 * * * * *", "0 * * * * *",
                                                  "*/2 * * * *", "30 */1 * * * *"};
  Schedule s{.name = name};
  if (world_.chance(2)) {
    s.every = seconds(1 + static_cast<int>(world_.below(50)));
  } else if (world_.chance(8)) {
    s.at = world_.wall() + world_.between(-minutes(2), minutes(5));
  } else {
    s.cron = kCrons[world_.below(kCrons.size())];
    if (world_.chance(3)) s.time_zone = "Europe/Berlin";
  }
  s.job.queue = kTickQueue;
  s.job.kind = "tick";
  s.job.max_attempts = 1 + static_cast<int>(world_.below(3));
  s.misfire = static_cast<Misfire>(world_.below(3));
  if (world_.chance(3)) s.misfire_window = minutes(2);
  if (world_.chance(3)) s.misfire_cap = 3;
  s.overlap = static_cast<Overlap>(world_.below(6));
  if (world_.chance(4)) s.jitter = seconds(3);
  if (world_.chance(8)) s.max_runs = 1 + static_cast<std::int64_t>(world_.below(20));
  if (world_.chance(8)) s.end_at = world_.wall() + world_.between(minutes(1), minutes(6));
  s.pause_on_failure = world_.chance(8);
  return s;
}

void ScheduleOperator::next() {
  if (stopped_) return;
  const std::string name = names_[world_.below(names_.size())];
  switch (last_.contains(name) ? world_.below(8) : 0) {
    case 0:
      put(false);
      break;
    case 1:
      put(true);
      break;
    case 2:
    case 3:
      pause(name, world_.chance(2), World::Delivery::prompt);
      break;
    case 4:
      trigger(name);
      break;
    case 5:
      backfill(name);
      break;
    default:
      break;
  }
  world_.after(world_.between(milliseconds(100), seconds(40)), [this] { next(); });
}

void ScheduleOperator::put(bool same) {
  const std::string name = names_[world_.below(names_.size())];
  const bool known = last_.contains(name);
  if (!same || !known) last_[name] = draw(name);
  const Schedule schedule = last_.at(name);
  world_.call(
      PutSchedule{.schedule = schedule}, World::Delivery::prompt, Duration(0),
      [this, name, schedule, again = same && known](const std::optional<OperationResult>& result) {
        const auto* put = result ? std::get_if<PutScheduleResult>(&*result) : nullptr;
        if (put == nullptr) return;
        ++world_.met.schedules;
        const auto before = versions_.find({name, put->version});
        if (again && put->outcome == PutOutcome::replaced && before != versions_.end() &&
            before->second == schedule)
          world_.broken("SCHED: the same definition made a new version of " + name);
        versions_[{name, put->version}] = schedule;
      });
}

void ScheduleOperator::pause(const std::string& name, bool paused, World::Delivery delivery) {
  world_.call(PauseSchedule{.name = name, .paused = paused, .reason = "wish"}, delivery,
              Duration(0), [](const std::optional<OperationResult>&) {});
}

void ScheduleOperator::trigger(const std::string& name) {
  std::optional<Overlap> overlap;
  if (world_.chance(3)) overlap = Overlap::allow;
  const auto source = world_.chance(3) ? TickSource::wake : TickSource::trigger;
  world_.call(FireSchedule{.name = name, .source = source, .ticks = {Tick{}}, .overlap = overlap},
              World::Delivery::prompt, Duration(0), [](const std::optional<OperationResult>&) {});
}

void ScheduleOperator::backfill(const std::string& name) {
  const WallTime to = world_.wall() - seconds(5);
  auto range = ticks_between(last_.at(name), to - minutes(3), to, 10);
  if (range.ticks.empty()) return;
  world_.call(FireSchedule{.name = name,
                           .source = TickSource::backfill,
                           .ticks = range.ticks,
                           .overlap = Overlap::buffer_all},
              World::Delivery::prompt, Duration(0), [](const std::optional<OperationResult>&) {});
}

void ScheduleOperator::check() {
  for (const std::string& name : names_) {
    if (world_.why().empty()) check_one(name);
  }
}

void ScheduleOperator::check_one(const std::string& name) {
  const auto info = world_.store().schedule(name);
  if (!info) return;  // no put of it took effect
  std::vector<LedgerRow> rows;
  std::int64_t before = 0;
  constexpr int kMaxPages = 1000;
  for (int page = 0; page < kMaxPages; ++page) {
    const auto got = world_.store().ledger(name, 100, before);
    if (!got) return world_.broken("ledger: " + got.error().message);
    rows.insert(rows.end(), got->rows.begin(), got->rows.end());
    if (!got->next) break;
    before = *got->next;
  }
  std::reverse(rows.begin(), rows.end());
  std::set<std::pair<std::int64_t, std::int64_t>> fired;
  std::vector<LedgerRow> own;
  for (const LedgerRow& row : rows) {
    const bool timed = row.source == TickSource::schedule || row.source == TickSource::backfill;
    if (row.state == TickState::fired) {
      ++world_.met.fired;
      world_.met.past_due += row.past_due ? 1 : 0;
      if (row.job == 0) world_.broken("SCHED-2: a fired tick of " + name + " has no job");
      if (timed && !fired.insert({row.version, row.nominal.us()}).second)
        world_.broken("SCHED-1: a nominal time of " + name + " fired twice");
    } else {
      ++world_.met.skipped;
      if (row.reason.empty()) world_.broken("SCHED-2: a skipped tick of " + name + " says not why");
    }
    if (row.source != TickSource::schedule) continue;
    if (row.decided_at < row.until.value_or(row.nominal) && row.reason.rfind("replaced", 0) != 0)
      world_.broken("SCHED-3: a tick of " + name + " was decided before its time");
    if (row.version == info->version) own.push_back(row);
  }
  const auto version = versions_.find({name, info->version});
  if (version != versions_.end()) check_coverage(name, version->second, own, info->next);
}

void ScheduleOperator::check_coverage(const std::string& name, const Schedule& schedule,
                                      const std::vector<LedgerRow>& rows, WallTime next) {
  if (rows.empty()) return;
  WallTime expected = rows.front().nominal;
  for (const LedgerRow& row : rows) {
    if (row.nominal != expected) {
      return world_.broken(fmt::format("SCHED-2: the ledger of {} continues at {} instead of {}",
                                       name, format_wall_time(row.nominal),
                                       format_wall_time(expected)));
    }
    expected = next_tick(schedule, row.until.value_or(row.nominal)).nominal;
    if (row.reason == "no runs remain") return;
  }
  const bool ended = schedule.max_runs > 0 && next == WallTime::never();
  if (!ended && next != expected) {
    world_.broken(fmt::format("SCHED-2: the next tick of {} is {} instead of {}", name,
                              format_wall_time(next), format_wall_time(expected)));
  }
}

// -- workers of ticks -----------------------------------------------------------------------------

TickWorker::TickWorker(World& world, int number)
    : world_(world),
      loop_(world,
            {.worker = fmt::format("ticker{}.1", number),
             .queues = {kTickQueue, kFencedQueue, kFollowQueue},
             .max = 4,
             .wait = seconds(10),
             .lease = seconds(8),
             .work = seconds(7),
             .rest = milliseconds(500)},
            [this](const ClaimedJob& job) { finish(job); }) {}

void TickWorker::finish(const ClaimedJob& job) {
  Outcome outcome = Complete{};
  if (world_.chance(8)) outcome = Retry{.error = "no", .after = seconds(2)};
  if (world_.chance(20)) outcome = Dead{.reason = "broken"};
  world_.call(Finish{.worker = loop_.worker(), .results = {{job.id, job.token, outcome}}},
              World::Delivery::prompt, Duration(0), [](const std::optional<OperationResult>&) {});
}

// -- leases ---------------------------------------------------------------------------------------

void LeaseHolder::later(Duration delay, std::function<void()> action) {
  world_.after(delay, [this, action = std::move(action)] {
    if (world_.now() < paused_until_) return later(paused_until_ - world_.now(), action);
    action();
  });
}

void LeaseHolder::start() {
  later(world_.between(milliseconds(1), seconds(2)), [this] { acquire(); });
}

void LeaseHolder::acquire() {
  if (stopped_) return;
  holder_ = fmt::format("holder{}.{}", number_, ++holdings_);
  const Duration invoke = world_.now();
  const Duration wait = world_.chance(3) ? Duration(0) : world_.between(seconds(1), seconds(20));
  world_.call(AcquireLease{.name = kLeaseName, .holder = holder_, .ttl = kTtl},
              World::Delivery::prompt, wait,
              [this, invoke, mine = holdings_](const std::optional<OperationResult>& result) {
                const auto* grant = result ? std::get_if<LeaseGrant>(&*result) : nullptr;
                if (mine != holdings_) return;
                if (grant != nullptr) return granted(*grant, invoke);
                later(world_.between(milliseconds(10), seconds(3)), [this] { acquire(); });
              });
}

void LeaseHolder::granted(const LeaseGrant& grant, Duration invoke) {
  ++world_.met.grants;
  token_ = grant.token;
  grant_ = history_.grants.size();
  // A waiting acquire may have been granted at any time since it was sent: only the answer is sure.
  history_.grants.push_back({.holder = holder_,
                             .token = token_,
                             .invoke = invoke,
                             .ret = world_.now(),
                             .valid_until = invoke + kTtl});
  hold();
}

void LeaseHolder::hold() {
  if (token_ == 0)
    return later(world_.between(milliseconds(10), seconds(5)), [this] { acquire(); });
  if (stopped_) return release();
  if (world_.faults.worker_pauses && !world_.healed() && world_.chance(12)) {
    paused_until_ = world_.now() + world_.between(seconds(1), kTtl * 5);
    world_.trace(holder_ + " is stopped");
  }
  if (world_.chance(25)) return release();
  if (world_.chance(2)) renew();
  if (world_.chance(2)) write();
  later(world_.between(milliseconds(200), seconds(3)), [this] { hold(); });
}

void LeaseHolder::renew() {
  const Duration sent = world_.now();
  std::optional<std::string> value;
  if (world_.chance(3)) value = fmt::format("{{\"by\":\"{}\"}}", holder_);
  world_.call(
      RenewLease{.name = kLeaseName, .holder = holder_, .token = token_, .value = value},
      World::Delivery::prompt, Duration(0),
      [this, sent, mine = holdings_, at = grant_](const std::optional<OperationResult>& result) {
        if (!result || mine != holdings_) return;
        if (std::holds_alternative<LeaseGrant>(*result)) {
          auto& valid = history_.grants[at].valid_until;
          valid = std::max(valid, sent + kTtl);
        } else if (std::get<Error>(*result).code == ErrorCode::lease_lost) {
          ++world_.met.leases_lost;
          token_ = 0;
        }
      });
}

void LeaseHolder::write() {
  const std::size_t at = history_.writes.size();
  history_.writes.push_back({.token = token_, .invoke = world_.now()});
  Enqueue request{.jobs = {NewJob{.queue = kFencedQueue, .kind = "tick"}},
                  .fence = {.lease = kLeaseName, .token = token_}};
  world_.call(std::move(request), World::Delivery::prompt, Duration(0),
              [this, at](const std::optional<OperationResult>& result) {
                const bool ok = result && std::holds_alternative<EnqueueResult>(*result);
                history_.writes[at].ok = ok;
                world_.met.fenced += ok || !result ? 0 : 1;
              });
}

void LeaseHolder::release() {
  history_.grants[grant_].valid_until = std::min(history_.grants[grant_].valid_until, world_.now());
  world_.call(ReleaseLease{.name = kLeaseName, .holder = holder_, .token = token_},
              World::Delivery::prompt, Duration(0), [](const std::optional<OperationResult>&) {});
  token_ = 0;
  ++holdings_;
  if (!stopped_) later(world_.between(milliseconds(10), seconds(5)), [this] { acquire(); });
}

void LeaseHistory::check(World& world) const {
  for (std::size_t i = 0; i < grants.size(); ++i) {
    const Grant& a = grants[i];
    for (std::size_t j = 0; j < grants.size(); ++j) {
      const Grant& b = grants[j];
      if (i == j) continue;
      if (a.token == b.token) return world.broken("FENCE-2: a token was granted twice");
      if (a.ret < b.invoke && a.token > b.token)
        return world.broken("FENCE-1: a later holder got a smaller token");
      // All of b's grant is within the time in which a may rely on its lease.
      if (a.ret < b.invoke && b.ret < a.valid_until)
        return world.broken("LEASE: granted to " + b.holder + " while " + a.holder + " had it");
    }
    for (const Write& write : writes) {
      if (write.ok && a.ret < write.invoke && write.token < a.token)
        return world.broken("FENCE-3: a write with an older token was taken");
    }
  }
}

}  // namespace mainspring::simulation
