// The world's bodies: events, network, and the life and deaths of the server.
#include "simulation/world.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "broker/broker.h"
#include "broker/schedule_plans.h"
#include "conformance/describe.h"

namespace mainspring::simulation {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::size_t kLastLines = 120;
constexpr int kMaxSettleRounds = 2000;
constexpr int kMaxStarts = 50;
// How late a living server may be with a due job, an expired lease or a parked claim (LIVE-1).
constexpr Duration kMaxLate = seconds(1);
constexpr Duration kMaxSkew = seconds(2);
constexpr std::int64_t kMaxLiveJobs = 400;
// How long a takeover of the leadership can take: the lease of a silent leader, and the leases of
// two others that were stopped while they waited and then got it.
constexpr Duration kTakeover = seconds(31);
constexpr std::uint64_t kLookAtTurns = 64;
constexpr WallTime kWallStart = WallTime::from_ms(1'767'225'600'000);

// ORD-4: every session with jobs has a head, unless it is stopped. "" = it holds.
std::string check_turns(const Store& store) {
  constexpr int kMaxSessions = 1000;
  const auto all = store.sessions("", {}, kMaxSessions, Instant());
  if (!all) return "";  // the server is dying
  for (const SessionInfo& info : all->sessions) {
    if (info.jobs > 0 && info.head == 0 && info.stop == SessionStop::none)
      return fmt::format("ORD-4: session {} of {} has {} jobs and no head", info.session.key,
                         info.session.queue, info.jobs);
  }
  return "";
}

enum class Leader { leads, may_be_gone };

// With costs the first job of a queue may not fit although there is room for others. Only the
// leader reports that a limit key, closed by its rate, has opened.
bool may_wait(const Store& store, const std::string& name, Leader leader) {
  const auto queues = store.queues();
  if (!queues) return true;  // the server is dying
  const auto queue = std::find_if(queues->begin(), queues->end(),
                                  [&](const QueueStats& q) { return q.name == name; });
  if (queue == queues->end()) return false;
  const bool runs = queue->counts[static_cast<std::size_t>(JobState::running)] > 0;
  if (!queue->limits.costs.empty() && (runs || queue->limits.has_rate())) return true;
  return queue->limits.per_key.rate && leader == Leader::may_be_gone;
}

// Every count of Met.
constexpr std::int64_t Met::*kCounts[] = {&Met::events,
                                          &Met::crashes,
                                          &Met::lost_writes,
                                          &Met::crashes_in_recovery,
                                          &Met::full,
                                          &Met::failed_syncs,
                                          &Met::dedup_hits,
                                          &Met::rescued,
                                          &Met::stale,
                                          &Met::dead,
                                          &Met::woken,
                                          &Met::cancels,
                                          &Met::pruned,
                                          &Met::expired,
                                          &Met::retries,
                                          &Met::completed,
                                          &Met::schedules,
                                          &Met::fired,
                                          &Met::skipped,
                                          &Met::past_due,
                                          &Met::takeovers,
                                          &Met::grants,
                                          &Met::leases_lost,
                                          &Met::fenced,
                                          &Met::followed,
                                          &Met::session_claims,
                                          &Met::states_read,
                                          &Met::sessions_held,
                                          &Met::sessions_lost,
                                          &Met::sessions_resumed,
                                          &Met::messages,
                                          &Met::progress,
                                          &Met::flows_completed,
                                          &Met::flows_undone,
                                          &Met::at_bound,
                                          &Met::keys_at_bound,
                                          &Met::rates_used_up,
                                          &Met::events_fired,
                                          &Met::events_repeated,
                                          &Met::child_flows,
                                          &Met::tried_again,
                                          &Met::forks,
                                          &Met::ends_heard,
                                          &Met::breakers_opened,
                                          &Met::breakers_reopened,
                                          &Met::breakers_closed,
                                          &Met::probes_at_room,
                                          &Met::order_judged,
                                          &Met::overtook,
                                          &Met::turns,
                                          &Met::deferred,
                                          &Met::named,
                                          &Met::named_refused,
                                          &Met::named_at_bound,
                                          &Met::heavy,
                                          &Met::capped,
                                          &Met::slots_used_up,
                                          &Met::keys_used_up,
                                          &Met::key_rates_used_up,
                                          &Met::heads_judged,
                                          &Met::heads_waited,
                                          &Met::step_keys,
                                          &Met::jobs_remade,
                                          &Met::memos_kept,
                                          &Met::memos_recalled,
                                          &Met::memos_refused,
                                          &Met::posted,
                                          &Met::posts_refused,
                                          &Met::delivered,
                                          &Met::posts_repeated,
                                          &Met::receivers_gone,
                                          &Met::deliveries_dead,
                                          &Met::reads_completed,
                                          &Met::reads_expired,
                                          &Met::apart};

}  // namespace

bool all_ended(const Store& store) {
  const auto queues = store.queues();
  if (!queues) return false;
  for (const QueueStats& q : *queues) {
    for (int s = 0; s < kJobStateCount; ++s) {
      if (!is_terminal(static_cast<JobState>(s)) && q.counts[static_cast<std::size_t>(s)] != 0)
        return false;
    }
  }
  return true;
}

void Met::add(const Met& o) {
  for (const auto count : kCounts) this->*count += o.*count;
}

// A request in flight: its copies share which one is answered first.
struct World::Request {
  Operation operation;
  Duration wait{0};
  Delivery delivery = Delivery::plain;
  int copies = 1;
  bool answered = false;
  Answer answer;
  void finish(std::optional<OperationResult> result) {
    if (answered) return;
    answered = true;
    const Answer told = std::move(answer);
    told(std::move(result));
  }
};

Now World::SimClock::now() const {
  return {.instant = Instant::from_ms(5000) + (world_.now_ - world_.boot_),
          .wall = kWallStart + world_.now_ + world_.wall_offset_};
}

World::World(std::uint64_t seed, std::string vfs_name, Judges judges)
    : judges_(judges), random_(seed), disk_(std::move(vfs_name), seed ^ 0x5eed) {
  const auto draw = [&](bool& fault) { fault = chance(2); };
  for (bool* fault :
       {&faults.power_cuts, &faults.kills, &faults.failed_syncs, &faults.full_disks,
        &faults.duplicates, &faults.delays, &faults.losses, &faults.worker_pauses,
        &faults.worker_crashes, &faults.wall_steps, &faults.queue_pauses, &faults.prunes,
        &faults.small_log, &faults.node_deaths, &faults.node_pauses}) {
    draw(*fault);
  }
  // The model reports pruned jobs, but it differs from the store after a mutant's effect.
  if (judges == Judges::invariants) faults.prunes = false;
  start_server();
  plan_server_fault();
  plan_node_fault();
}

World::~World() {
  if (server_) {
    disk_.crash();
    server_->store->die();
    server_.reset();
  }
}

Duration World::retention() const {
  return faults.prunes ? Duration(minutes(2)) : Duration(hours(24 * 30));
}

StoreOptions World::store_options() const {
  StoreOptions o;
  o.retention_completed = retention();
  o.retention_dead = faults.prunes ? Duration(minutes(5)) : Duration(hours(24 * 60));
  o.max_live_jobs = kMaxLiveJobs;
  return o;
}

// -- time -----------------------------------------------------------------------------------------

void World::after(Duration delay, std::function<void()> action) {
  events_.push({now_ + std::max(delay, Duration(1)), next_order_++, std::move(action)});
}

void World::run_until(Duration when) {
  while (why_.empty() && !events_.empty() && events_.top().when <= when) {
    Event event = events_.top();
    events_.pop();
    now_ = std::max(event.when, now_ + Duration(1));  // no two events at one instant
    ++met.events;
    event.action();
    if (disk_.crashed() && server_) end_server(chance(3) ? End::kill : End::power_cut);
    if (fatal_ && server_) end_server(End::kill);
  }
  now_ = std::max(now_, when);
}

void World::broken(std::string what) {
  if (!why_.empty()) return;
  why_ = std::move(what);
  trace("BROKEN: " + why_);
}

void World::trace(const std::string& line) {
  for (const char c : line) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 1099511628211u;
  hash_ = (hash_ ^ static_cast<std::uint64_t>(now_.count())) * 1099511628211u;
  lines_.push_back(fmt::format("{:>12.6f} {}", static_cast<double>(now_.count()) / 1e6, line));
  if (print_) fmt::print("{}\n", lines_.back());
  if (lines_.size() > kLastLines) lines_.pop_front();
}

std::string World::last_lines() const {
  std::string out;
  for (const std::string& line : lines_) out += line.substr(0, 600) + "\n";
  return out;
}

// -- network --------------------------------------------------------------------------------------

bool World::lost(Delivery delivery) {
  return !healed_ && faults.losses && delivery != Delivery::sure && chance(20);
}

Duration World::network_delay(Delivery delivery) {
  const bool may_be_late = delivery == Delivery::plain || delivery == Delivery::repeatable;
  if (!healed_ && faults.delays && may_be_late && chance(15))
    return between(Duration(0), seconds(60));
  return between(microseconds(50), milliseconds(5));
}

int World::call(Operation operation, Delivery delivery, Duration wait, Answer answer) {
  auto request = std::make_shared<Request>();
  request->operation = std::move(operation);
  request->wait = wait;
  request->answer = std::move(answer);
  request->delivery = delivery;
  const bool twice = !healed_ && faults.duplicates && delivery == Delivery::repeatable;
  request->copies = twice && chance(6) ? 2 : 1;
  for (int copy = 0; copy < request->copies; ++copy) {
    if (lost(delivery)) continue;
    after(network_delay(delivery), [this, request] { deliver(request); });
  }
  after(wait + seconds(10), [request] { request->finish(std::nullopt); });
  return request->copies;
}

// The audit record that a server's endpoint adds: actor and change.
std::optional<Audit> World::audit_of(const Operation& operation) {
  Audit audit{
      .who = "operator", .from = "sim", .action = "", .object = "", .before = "", .after = ""};
  if (const auto* pause = std::get_if<PauseQueue>(&operation)) {
    audit.object = "queue/" + pause->queue;
  } else if (const auto* cancel = std::get_if<Cancel>(&operation)) {
    audit.object = fmt::format("job/{}", cancel->id);
  } else if (const auto* retry = std::get_if<RetryJob>(&operation)) {
    audit.object = fmt::format("job/{}", retry->id);
  } else if (const auto* remove = std::get_if<RemoveSchedule>(&operation)) {
    audit.object = "schedule/" + remove->name;
  } else if (const auto* create = std::get_if<CreateToken>(&operation)) {
    audit.object = "token/" + create->token.name;
  } else if (const auto* revoke = std::get_if<RevokeToken>(&operation)) {
    audit.object = "token/" + revoke->name;
  } else {
    return std::nullopt;
  }
  return audit;
}

// Makes one token after the other, and revokes each later. The answers are ignored: the mirror
// compares the stores.
void World::change_tokens() {
  const std::int64_t number = next_token_change_++;
  const std::string name = fmt::format("t{}", number / 2 % 3);
  Operation change = RevokeToken{name};
  if (number % 2 == 0) {
    CreateToken create;
    create.token.name = name;
    create.token.digest = sha256(std::to_string(number));
    create.token.scopes = Scopes::all();
    create.token.created_by = "operator";
    change = std::move(create);
  }
  auto audit = audit_of(change);
  server_->broker->submit(
      std::move(change), [](const OperationResult&) {}, std::move(audit));
}

void World::deliver(const std::shared_ptr<Request>& request) {
  if (!server_) {
    if (request->copies > 1 || chance(2)) return;  // into the void
    after(network_delay(request->delivery), [request] {
      request->finish(Error{.code = ErrorCode::unavailable, .message = "connection refused"});
    });
    return;
  }
  const std::uint64_t epoch = server_->epoch;
  const auto answered = [this, request, epoch](OperationResult result) {
    reply(request, epoch, std::move(result));
  };
  if (const Claim* claim = std::get_if<Claim>(&request->operation)) {
    const std::uint64_t number = next_order_++;
    server_->claims[number] = {claim->queues, claim->kinds.empty()};
    server_->broker->submit_claim(*claim, request->wait, [this, epoch, number, answered](auto r) {
      if (server_ && server_->epoch == epoch) server_->claims.erase(number);
      answered(std::move(r));
    });
  } else if (const auto* acquire = std::get_if<AcquireLease>(&request->operation)) {
    server_->broker->submit_acquire(*acquire, request->wait, answered);
  } else if (const auto* put = std::get_if<PutSchedule>(&request->operation)) {
    // The work of a server's endpoint, at its own time.
    if (auto plan = plan_put(put->schedule, put->paused, clock_.now().wall)) {
      server_->broker->submit(std::move(*plan), answered);
    } else {
      answered(plan.error());
    }
  } else {
    const bool change = std::holds_alternative<PauseQueue>(request->operation);
    server_->broker->submit(request->operation, answered, audit_of(request->operation));
    if (change) change_tokens();
  }
  if (!server_->step_soon) {
    server_->step_soon = true;
    wake_server(between(microseconds(100), milliseconds(3)));  // the commit under way
  }
}

void World::reply(const std::shared_ptr<Request>& request, std::uint64_t epoch,
                  OperationResult result) {
  if (!server_ || server_->epoch != epoch || disk_.crashed() || fatal_) return;  // died with it
  if (lost(request->delivery)) return;
  if (std::holds_alternative<Error>(result) &&
      std::get<Error>(result).code == ErrorCode::io_error) {
    return;  // the server stops before it answers
  }
  after(network_delay(request->delivery),
        [request, result = std::move(result)] { request->finish(result); });
}

std::optional<Result<Job>> World::read(JobId id) {
  if (!server_) return std::nullopt;
  Result<Job> job = server_->store->get(id);
  if (!job && job.error().code == ErrorCode::io_error) return std::nullopt;
  return job;
}

std::optional<Result<MemoPage>> World::memos(JobId id) {
  if (!server_) return std::nullopt;
  Result<MemoPage> page = server_->store->memos(id, "", static_cast<int>(kMaxMemos));
  if (!page && page.error().code == ErrorCode::io_error) return std::nullopt;
  return page;
}

// -- the server -----------------------------------------------------------------------------------

void World::start_server() {
  fatal_ = false;
  disk_.set_capacity(kNoFault);
  for (int attempt = 0; attempt < kMaxStarts; ++attempt) {
    SqliteOptions o{.directory = "/sim", .store = store_options(), .vfs = disk_.vfs()};
    o.guard_files = false;
    o.packed_workflows = next_epoch_ % 3 != 0;  // both forms in one store
    if (faults.small_log) o.checkpoint_pages = 20;
    if (!healed_ && (faults.power_cuts || faults.kills) && chance(3)) {
      disk_.crash_after(static_cast<std::int64_t>(1 + below(120)));  // in recovery, perhaps
    }
    auto opened = open_sqlite_store(o, clock_.now(), log_);
    if (opened && !disk_.crashed()) {
      disk_.crash_after(kNoFault);
      server_ = std::make_unique<Server>(next_epoch_++);
      server_->started = now_;
      server_->store = std::make_unique<MirrorStore>(
          std::move(*opened), memory_, disk_, store_options(), clock_.now(),
          [this](std::string what) {
            if (judges_ == Judges::invariants_and_model) broken(std::move(what));
          },
          [this](const std::string& line) { trace(line); });
      server_->store->observe([this](auto batch, const BatchReport* report, Now now) {
        if (std::string why = judge(batch, report, now.wall); !why.empty()) broken(std::move(why));
      });
      server_->broker = std::make_unique<Broker>(*server_->store, clock_, log_, server_->registry);
      server_->broker->on_fatal([this](const Error&) { fatal_ = true; });
      const auto nodes = 1 + below(3);
      for (std::uint64_t i = 0; i < nodes; ++i) add_node();
      trace(fmt::format("server {} starts", server_->epoch));
      wake_server(Duration(1));
      return;
    }
    if (disk_.crashed()) {
      ++met.crashes_in_recovery;
      if (opened) opened->reset();
      disk_.reboot(chance(3) ? SimDisk::Loss::nothing : SimDisk::Loss::unsynced);
    } else if (opened.error().code == ErrorCode::storage_full) {
      disk_.set_capacity(kNoFault);  // space becomes free
    } else if (faults.failed_syncs && opened.error().code == ErrorCode::io_error) {
      disk_.fail_sync_after(kNoFault);  // the failed sync was one of the start: start again
    } else {
      return broken("the store does not open: " + opened.error().message);
    }
  }
  broken("the server does not start");
}

// The invariants of a batch. "" = they hold.
std::string World::judge(std::span<const Operation> batch, const BatchReport* report,
                         WallTime now) {
  const bool steady = !faults.wall_steps;
  for (LimitInvariant* invariant : {&limits, &defer_limits}) {
    if (std::string why = invariant->applied(batch, report, store(), now, steady); !why.empty())
      return why;
  }
  for (LimitInvariant& invariant : heavy_limits) {
    if (std::string why = invariant.applied(batch, report, store(), now, steady); !why.empty())
      return why;
  }
  for (HeadInvariant& invariant : heads) {
    if (std::string why = invariant.applied(batch, report, store(), now); !why.empty()) return why;
  }
  if (std::string why = TriggerInvariant::applied(batch, report, store()); !why.empty()) return why;
  if (std::string why = breakers.applied(batch, report, store(), now, steady); !why.empty())
    return why;
  if (std::string why = lines.applied(batch, report, store(), now); !why.empty()) return why;
  if (std::string why = quarantine.applied(batch, report, store()); !why.empty()) return why;
  return deferred.applied(batch, report, store());
}

void World::end_server(End how) {
  trace(how == End::kill ? "server killed" : "power cut");
  ++met.crashes;
  disk_.crash();
  server_->store->die();
  server_.reset();
  const std::int64_t lost = disk_.stats().lost_writes;
  disk_.reboot(how == End::kill ? SimDisk::Loss::nothing : SimDisk::Loss::unsynced);
  met.lost_writes += disk_.stats().lost_writes - lost;
  const Duration down = healed_ ? milliseconds(10) : between(milliseconds(1), seconds(90));
  after(down, [this, how] {
    if (how == End::power_cut) boot_ = now_;  // the machine has booted
    start_server();
  });
}

// Every few seconds to minutes a fault hits the server or its disk.
void World::plan_server_fault() {
  after(between(seconds(1), seconds(90)), [this] {
    if (healed_) return;
    plan_server_fault();
    if (faults.wall_steps && chance(4)) {
      wall_offset_ += between(-minutes(60), minutes(60));
      trace("the wall clock is set");
      if (server_) wake_server(Duration(1));
    }
    if (!server_) return;
    switch (below(4)) {
      case 0:
        if (faults.power_cuts || faults.kills)
          disk_.crash_after(static_cast<std::int64_t>(1 + below(60)));
        break;
      case 1:
        if (faults.kills && chance(2)) end_server(End::kill);
        break;
      case 2:
        if (faults.failed_syncs) disk_.fail_sync_after(static_cast<std::int64_t>(1 + below(20)));
        break;
      default:
        if (!faults.full_disks) break;
        fill_disk();
    }
  });
}

// -- the nodes ------------------------------------------------------------------------------------

void World::add_node() {
  SchedulerOptions options{.incarnation = fmt::format("node{}", ++nodes_made_)};
  const Duration skew = faults.skews ? between(-kMaxSkew, kMaxSkew) : Duration(0);
  Node node{.clock = std::make_unique<SkewedClock>(clock_, skew)};
  node.scheduler =
      std::make_unique<Scheduler>(*server_->broker, *node.clock, log_, server_->registry, options);
  server_->nodes.push_back(std::move(node));
}

Instant World::step_nodes() {
  Instant next = Instant::never();
  for (Node& node : server_->nodes) {
    if (node.dead || now_ < node.paused_until) continue;
    next = std::min(next, node.scheduler->step(node.clock->now()));
  }
  return next;
}

void World::plan_node_fault() {
  after(between(seconds(1), seconds(60)), [this] {
    if (healed_) return;
    plan_node_fault();
    if (!server_) return;
    std::vector<Node*> living;
    for (Node& node : server_->nodes) {
      if (!node.dead && now_ >= node.paused_until) living.push_back(&node);
    }
    if (!living.empty()) fault_node(*living[below(living.size())]);
  });
}

// Dies, stops cleanly, or pauses for longer than its lease and continues.
void World::fault_node(Node& node) {
  const std::uint64_t epoch = server_->epoch;
  const auto later = [this, epoch](Duration delay, auto action) {
    after(delay, [this, epoch, action] {
      if (!server_ || server_->epoch != epoch) return;
      action();
      wake_server(Duration(1));
    });
  };
  const Duration gone = between(milliseconds(1), seconds(30));
  if (faults.node_pauses && chance(2)) {
    trace("a scheduler is stopped for a while");
    node.paused_until = now_ + gone;
    later(gone, [] {});
  } else if (faults.node_deaths) {
    const bool killed = chance(2);
    trace(killed ? "a scheduler is killed" : "a scheduler stops");
    if (!killed) node.scheduler->stop();
    node.dead = true;
    later(gone, [this] { add_node(); });
  } else {
    return;
  }
  ++met.takeovers;
  leader_good_from_ = std::max(leader_good_from_, now_ + gone + kTakeover);
}

void World::fill_disk() {
  const Duration full_for = between(seconds(1), seconds(40));
  disk_.set_capacity(disk_.used() + static_cast<std::int64_t>(below(20'000)));
  disk_good_from_ = std::max(disk_good_from_, now_ + full_for + kMaxLate * 3);
  // A release that fails for a full disk has no effect.
  leader_good_from_ = std::max(leader_good_from_, now_ + full_for + kTakeover);
  after(full_for, [this] { disk_.set_capacity(kNoFault); });
}

void World::wake_server(Duration in) {
  const std::uint64_t epoch = server_->epoch;
  const std::uint64_t order = ++server_->step_order;
  after(in, [this, epoch, order] {
    if (server_ && server_->epoch == epoch && server_->step_order == order) step_server();
  });
}

void World::step_server() {
  server_->step_soon = false;
  settle();
}

// Steps broker and scheduler until neither has work now, as their threads would.
void World::settle() {
  for (int round = 0; round < kMaxSettleRounds; ++round) {
    const Now at = clock_.now();
    const std::int64_t batches = server_->store->batches();
    const std::size_t parked = server_->claims.size();
    Instant next = step_nodes();
    next = std::min(next, server_->broker->step(at));
    if (disk_.crashed() || fatal_ || !why_.empty()) return;
    if (next > at.instant && server_->store->batches() == batches) {
      met.woken += parked > server_->claims.size() ? 1 : 0;
      check_live();
      wake_server(std::min(next - at.instant, Duration(minutes(1))));
      return;
    }
  }
  broken("LIVE: broker and scheduler do not come to rest");
}

// No tick fires while the store is at its limit of live jobs.
bool World::has_room_for_jobs() const {
  std::int64_t live = 0;
  const auto queues = server_->store->queues();
  if (!queues) return false;
  for (const QueueStats& queue : *queues) {
    for (std::size_t i = 0; i < queue.counts.size(); ++i)
      live += is_terminal(static_cast<JobState>(i)) ? 0 : queue.counts[i];
  }
  return live < kMaxLiveJobs / 2;
}

// A server at rest has no overdue work.
void World::check_live() {
  if (now_ < disk_good_from_) return;
  const Now at = clock_.now();
  const Agenda agenda = server_->store->agenda();
  const bool settled = now_ >= leader_good_from_ && now_ - server_->started > kMaxLate * 2;
  if (now_ >= leader_good_from_ && agenda.next_lease_expiry + kMaxLate < at.instant)
    broken("LIVE-1: an expired lease is not rescued");
  const WallTime late = at.wall - kMaxLate - kMaxSkew;  // the leader's clock may be late
  if (settled && agenda.next_due < late) broken("LIVE-2: a due job is not moved");
  if (settled && agenda.next_opening < late) broken("LIVE-2: a queue is not opened");
  if (settled && agenda.next_schedule < late && has_room_for_jobs())
    broken("LIVE-2: a due schedule is not fired");
  if (++looks_ % kLookAtTurns == 0) {
    if (std::string why = check_turns(*server_->store); !why.empty()) return broken(why);
  }
  // Without a leader, expired jobs remain in the store, but no claim gives them.
  if (now_ < leader_good_from_ && agenda.next_expiry <= at.wall) return;
  const Leader leader = settled ? Leader::leads : Leader::may_be_gone;
  for (const auto& [number, parked] : server_->claims) {
    if (!parked.any_kind) continue;
    for (const std::string& queue : parked.queues) {
      if (server_->store->has_available(queue) && !may_wait(*server_->store, queue, leader))
        return broken("LIVE-3: a claim stays parked while queue " + queue + " has a job");
    }
  }
}

// -- the end of faults ----------------------------------------------------------------------------

void World::heal() {
  std::vector<Node> none;
  healed_ = true;
  disk_.crash_after(kNoFault);
  disk_.fail_sync_after(kNoFault);
  disk_.set_capacity(kNoFault);
  for (Node& node : server_ ? server_->nodes : none) node.paused_until = now_;
  leader_good_from_ = std::max(leader_good_from_, now_ + seconds(12));
  trace("healed");
  if (!server_ && why_.empty()) run_until(now_ + minutes(2));
}

void World::come_to_rest(void (*live)(World&)) {
  if (why().empty()) heal();
  if (why().empty()) live(*this);
  if (why().empty()) store().look();
  if (why().empty()) cold_restart();
  if (why().empty()) store().look();
}

void World::cold_restart() {
  trace("cold restart");
  server_->nodes.clear();
  server_->broker.reset();
  server_.reset();
  disk_.reboot();
  boot_ = now_;
  start_server();
}

}  // namespace mainspring::simulation
