// sim: runs seeds of the simulated world and checks every promise. `sim --seeds N --first S`.
//
// A seed has four worlds: the first with all features, and those of lines (line_world.h), slots
// (slot_world.h) and once (once_world.h). The phases in each: chaos, heal, liveness (all jobs end,
// counters add up), cold restart after a power cut, full read-back and verify. Every kTwice-th seed
// runs twice and must leave the same trace. A failing seed prints its number, its last events and
// the violation. Add its number to seeds.txt, whose seeds always run.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>

#include "blackbox/checks.h"
#include "simulation/actors.h"
#include "simulation/clockwork.h"
#include "simulation/flow_actors.h"
#include "simulation/follow_invariant.h"
#include "simulation/gate_actors.h"
#include "simulation/line_world.h"
#include "simulation/once_world.h"
#include "simulation/session_actors.h"
#include "simulation/slot_world.h"

namespace mainspring::simulation {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::uint64_t kTwice = 10;
constexpr int kFirstHolder = 40;  // its number among the workers

struct Options {
  std::uint64_t first = 1;
  std::uint64_t seeds = 20;
  double max_seconds = 0;  // 0 = until all seeds have run
  std::string seed_file;
  std::string world;  // by name; "" = each
  Judges judges = Judges::invariants_and_model;
  bool anti_vacuity = true;
  bool verbose = false;
  bool trace = false;
};

struct Verdict {
  std::string why;  // "" = all promises kept
  std::string lines;
  std::uint64_t hash = 0;
  Met met;
};

// A failed assertion prints the seed and the last events.
std::uint64_t current_seed = 0;
const World* current_world = nullptr;
void on_abort(int) {
  if (current_world != nullptr) std::fputs(current_world->last_lines().c_str(), stdout);
  std::printf("\nseed %llu FAILED: aborted\n", static_cast<unsigned long long>(current_seed));
  std::fflush(stdout);
  std::_Exit(1);
}

blackbox::FinalJob final_job(const Job& j) {
  blackbox::FinalJob f;
  f.id = j.id;
  f.nonce = nonce_of(j.args);
  f.queue = j.queue;
  f.state = to_string(j.state);
  f.attempt = j.attempt;
  f.max_attempts = j.max_attempts;
  f.result = j.result;
  f.reason = j.reason;
  for (const AttemptError& e : j.errors) f.errors.emplace_back(e.attempt, e.message);
  return f;
}

// Jobs that no producer of the history made.
bool by_the_clock(const std::string& queue) {
  return queue == kTickQueue || queue == kFencedQueue || queue == kFollowQueue ||
         queue == kFlowQueue || queue == kLimitQueue;
}

// All jobs of the store at the end, by paging, and pruned jobs in their last state.
void sim_read_back(World& world) {
  blackbox::History& h = world.history;
  const Store& store = world.store();
  JobId before = 0;
  constexpr int kMaxPages = 100'000;
  for (int page = 0; page < kMaxPages; ++page) {
    const auto got = store.list({}, 50, before);
    if (!got) return world.broken("read-back: " + got.error().message);
    for (const Job& j : got->jobs) {
      if (by_the_clock(j.queue)) continue;
      const auto whole = store.get(j.id);
      if (!whole) return world.broken("read-back: " + whole.error().message);
      h.jobs.emplace(j.id, final_job(*whole));
      if (whole->state == JobState::dead) h.dead_listing.push_back(j.id);
    }
    if (!got->next) break;
    before = *got->next;
  }
  const auto queues = store.queues();
  for (const QueueStats& q : *queues) {
    if (by_the_clock(q.name)) continue;
    blackbox::FinalQueue& f = h.queues[q.name];
    f.enqueued = q.enqueued;
    f.pruned = q.pruned;
    f.expired = q.expired;
    for (int s = 0; s < kJobStateCount; ++s) {
      f.counts[std::string(to_string(static_cast<JobState>(s)))] =
          q.counts[static_cast<std::size_t>(s)];
    }
  }
  // The checks count a pruned job as if it still existed.
  for (const auto& [id, j] : world.pruned()) {
    if (by_the_clock(j.queue)) continue;
    h.jobs.emplace(id, final_job(j));
    blackbox::FinalQueue& f = h.queues[j.queue];
    --f.pruned;
    if (j.reason == "expired" && j.state == JobState::cancelled) {
      ++f.expired;
    } else {
      ++f.counts[std::string(to_string(j.state))];
    }
    if (j.state == JobState::dead) h.dead_listing.push_back(id);
  }
}

void sim_job_counts(World& world) {
  for (const auto& [id, j] : world.history.jobs) {
    world.met.dead += j.state == "dead" ? 1 : 0;
    world.met.expired += j.reason == "expired" ? 1 : 0;
    for (const auto& [attempt, message] : j.errors) {
      world.met.rescued += message.rfind("lease expired", 0) == 0 ? 1 : 0;
    }
  }
  world.met.pruned += static_cast<std::int64_t>(world.pruned().size());
  for (const blackbox::GrantEvent& grant : world.history.grants) {
    world.met.session_claims += grant.session.empty() ? 0 : 1;
    world.met.states_read += grant.session_state.empty() ? 0 : 1;
  }
  world.met.at_bound += world.limits.at_bound();
  world.met.keys_at_bound += world.limits.keys_at_bound();
  world.met.rates_used_up += world.limits.closed();
}

// WF-1 to WF-7; `flows` has the jobs.
void check_flows(World& world, FlowInvariant& flows) {
  constexpr int kAll = 10'000;
  const auto page = world.store().workflows({}, kAll, 0);
  if (!page) return world.broken("read-back: " + page.error().message);
  for (const WorkflowInfo& info : page->workflows) flows.add(info);
  // Early retention prunes keys, and a late request starts its workflow again.
  if (world.faults.prunes && world.faults.wall_steps) return;
  const FlowInvariant::Verdict verdict = flows.check();
  world.met.flows_completed += verdict.completed;
  world.met.flows_undone += verdict.undone;
  world.met.child_flows += verdict.children;
  world.met.tried_again += verdict.tried_again;
  world.met.forks += verdict.forks;
  if (!verdict.broken.empty()) world.broken(verdict.broken);
}

// EO-1, EO-2 and EO-6, and the checks of workflows and events.
void check_follow_ups(World& world, FlowInvariant& flows) {
  FollowInvariant invariant;
  const auto add = [&](const Job& job) {
    invariant.add(job);
    flows.add(job);
    world.events.add(job);
    world.ends.add(job);
    world.messages.add(job);
  };
  for (const auto& [id, job] : world.pruned()) add(job);
  constexpr int kMaxPages = 100'000;
  JobId before = 0;
  for (int page = 0; page < kMaxPages; ++page) {
    const auto got = world.store().list({}, 1000, before);
    if (!got) return world.broken("read-back: " + got.error().message);
    for (const Job& job : got->jobs) add(job);
    if (!got->next) break;
    before = *got->next;
  }
  const FollowInvariant::Verdict verdict = invariant.check(world.history.retries);
  world.met.followed += verdict.ends;
  if (!verdict.broken.empty()) world.broken(verdict.broken);
  const MessageInvariant::Verdict said = world.messages.check();
  world.met.messages += said.messages;
  world.met.progress += said.progress;
  if (!said.broken.empty()) world.broken(said.broken);
  check_flows(world, flows);
  check_trigger(world);
  const EndInvariant::Verdict heard = world.ends.check();
  world.met.ends_heard += heard.ends;
  if (!heard.broken.empty()) world.broken(heard.broken);
}

// No other client resumes them after the faults.
void resume_sessions(World& world) {
  const auto page = world.store().sessions("", {}, 1000, Instant());
  for (const SessionInfo& info : page ? page->sessions : std::vector<SessionInfo>{}) {
    if (info.stop == SessionStop::none) continue;
    world.call(ResumeSession{.session = info.session}, World::Delivery::sure, Duration(0),
               [](const std::optional<OperationResult>&) {});
  }
}

void check_history(World& world) {
  world.history.sessions_are_forgotten = world.faults.prunes;
  for (const blackbox::Verdict& v : blackbox::check(world.history)) {
    if (v.violated == 0) continue;
    std::string what = fmt::format("{}: {} of {} broken", v.invariant, v.violated, v.checked);
    for (const std::string& witness : v.witnesses) what += "\n  " + witness;
    world.broken(what);
  }
}

// After the faults all jobs must end in bounded time (LIVE-2).
void sim_live(World& world) {
  for (const std::string& queue : kQueues) {
    const Duration sent = world.now();
    world.call(PauseQueue{queue, false}, World::Delivery::sure, Duration(0),
               [&world, queue, sent](const std::optional<OperationResult>& result) {
                 const bool done = result && std::holds_alternative<Done>(*result);
                 if (!done) return world.broken("resuming a queue was refused");
                 world.history.pauses.push_back(
                     {{sent.count(), world.now().count()}, blackbox::Done::yes, queue, false});
               });
  }
  const Duration limit = world.now() + hours(48);
  while (world.why().empty() && world.now() < limit) {
    resume_sessions(world);
    tend_workflows(world);
    world.run_until(world.now() + seconds(30));
    if (world.why().empty() && all_ended(world.store()) && tend_workflows(world)) return;
  }
  if (world.why().empty()) world.broken("LIVE-2: after 48 hours without faults not all has ended");
}

void run_first(World& world) {
  std::vector<std::unique_ptr<SimWorker>> workers;
  std::vector<std::unique_ptr<Producer>> producers;
  const auto n = 1 + static_cast<int>(world.below(8));
  for (int i = 0; i < n; ++i) {
    workers.push_back(std::make_unique<SimWorker>(world, i));
    workers.back()->start();
  }
  for (int i = 0; i < 1 + n / 4; ++i) {
    producers.push_back(std::make_unique<Producer>(world, i));
    producers.back()->start();
  }
  ScheduleOperator schedules(world, 0);
  LeaseHistory leases;
  std::vector<std::unique_ptr<LeaseHolder>> holders;
  std::vector<std::unique_ptr<TickWorker>> tickers;
  std::vector<std::unique_ptr<SessionHolder>> keepers;
  FlowInvariant flows;
  KeyInvariant keys;
  FlowStarter flow_starter(world, flows);
  std::vector<std::unique_ptr<FlowWorker>> flow_workers;
  Feeder feeder(world);
  GateOperator gate_operator(world);
  std::vector<std::unique_ptr<GateWorker>> gate_workers;
  schedules.start();
  flow_starter.start();
  gate_operator.start();
  feeder.start();
  for (int i = 0; i < 3; ++i) {
    holders.push_back(std::make_unique<LeaseHolder>(world, leases, i));
    holders.back()->start();
    tickers.push_back(std::make_unique<TickWorker>(world, i));
    tickers.back()->start();
    keepers.push_back(std::make_unique<SessionHolder>(world, kFirstHolder + i));
    keepers.back()->start();
    flow_workers.push_back(std::make_unique<FlowWorker>(world, flows, keys, i));
    flow_workers.back()->start();
    gate_workers.push_back(std::make_unique<GateWorker>(world, i));
    gate_workers.back()->start();
  }
  world.run_until(world.between(minutes(3), minutes(12)));
  for (auto& p : producers) p->stop();
  for (auto& holder : holders) holder->stop();
  for (auto& keeper : keepers) keeper->stop();
  flow_starter.stop();
  feeder.stop();
  gate_operator.stop();
  if (world.why().empty()) world.heal();
  schedules.stop();
  if (world.why().empty()) sim_live(world);
  if (world.why().empty()) schedules.check();
  if (world.why().empty()) leases.check(world);
  if (world.why().empty()) world.store().look();
  if (world.why().empty()) world.cold_restart();
  if (world.why().empty()) world.store().look();
  if (world.why().empty()) sim_read_back(world);
  if (world.why().empty()) check_history(world);
  if (world.why().empty()) check_follow_ups(world, flows);
  world.met.step_keys += keys.keys();
  world.met.jobs_remade += keys.remade();
  sim_job_counts(world);
}

// Each draws from its own random numbers.
struct Kind {
  std::string name;
  std::uint64_t salt = 0;
  void (*run)(World&) = nullptr;
};
const std::vector<Kind> kWorlds = {{"first", 0, run_first},
                                   {"lines", 0x11e5'0000, run_lines},
                                   {"slots", 0x5107'0000, run_slots},
                                   {"once", 0x0ce0'0000, run_once}};

Verdict run_world(const Kind& kind, std::uint64_t seed, const Options& o) {
  static int count = 0;
  World world(seed ^ kind.salt, fmt::format("sim{}", ++count), o.judges);
  current_world = &world;
  if (o.trace) world.print_all();
  kind.run(world);
  current_world = nullptr;
  if (world.why().empty()) return {"", "", world.trace_hash(), world.met};
  return {fmt::format("in world {}: {}", kind.name, world.why()), world.last_lines(),
          world.trace_hash(), world.met};
}

Verdict run_seed(std::uint64_t seed, const Options& o) {
  current_seed = seed;
  Verdict all;
  for (const Kind& kind : kWorlds) {
    if (!o.world.empty() && o.world != kind.name) continue;
    Verdict one = run_world(kind, seed, o);
    one.met.add(all.met);
    one.hash ^= all.hash * 3;
    all = std::move(one);
    if (!all.why.empty()) break;
  }
  return all;
}

// Reports `what` as missing if `n` is 0.
using Need = std::function<void(std::int64_t n, const char* what)>;

void need_once(const Met& met, const Need& need) {
  need(met.step_keys, "a step with its key");
  need(met.jobs_remade, "a job that was made again, with its key");
  need(met.memos_kept, "a result of a step");
  need(met.memos_recalled, "a result that a later attempt found");
  need(met.memos_refused, "a result of a lost lease");
  need(met.posted, "a job that a completion posted");
  need(met.posts_refused, "a completion that did not count");
  need(met.delivered, "a callback that was delivered");
  need(met.posts_repeated, "a callback that was posted again");
  need(met.receivers_gone, "a receiver that wants no more");
  need(met.deliveries_dead, "a dead delivery");
  need(met.reads_completed, "a read of a completed job");
  need(met.reads_expired, "a read of one that was pruned");
  need(met.apart, "a job that ran in quarantine");
}

int vacuous(const Met& met) {
  int missing = 0;
  const Need need = [&](std::int64_t n, const char* what) {
    if (n > 0) return;
    fmt::print("these seeds never met: {}\n", what);
    ++missing;
  };
  need(met.rescued, "an expired lease");
  need(met.stale, "a stale token refused");
  need(met.lost_writes, "a crash that lost writes");
  need(met.crashes_in_recovery, "a crash in recovery");
  need(met.dedup_hits, "a duplicate found");
  need(met.dead, "a dead letter");
  need(met.full, "an enqueue refused by a full disk");
  need(met.woken, "a parked claim woken");
  need(met.pruned, "a pruned job");
  need(met.cancels, "an acknowledged cancel");
  need(met.fired, "a tick that fired");
  need(met.skipped, "a tick that was skipped");
  need(met.past_due, "a tick past due");
  need(met.takeovers, "a scheduler that died or was stopped");
  need(met.leases_lost, "a lease that was lost");
  need(met.fenced, "a write refused by its fence");
  need(met.followed, "a follow-up");
  need(met.states_read, "a claim that reads the state of a session");
  need(met.sessions_held, "a session that was held");
  need(met.sessions_lost, "a holder that lost its session");
  need(met.sessions_resumed, "a session that was resumed");
  need(met.messages, "a message");
  need(met.progress, "another progress");
  need(met.flows_completed, "a workflow that completed");
  need(met.flows_undone, "a workflow that did not");
  need(met.at_bound, "a claim that took the last room of a queue");
  need(met.keys_at_bound, "a claim that took the last room of a limit key");
  need(met.rates_used_up, "a claim that used a rate up");
  need(met.events_fired, "an event that made a job");
  need(met.events_repeated, "an event that was repeated");
  need(met.child_flows, "a workflow in a workflow");
  need(met.tried_again, "a step that parked its workflow, tried again");
  need(met.forks, "a fork of a workflow");
  need(met.ends_heard, "an end that fired a trigger");
  need(met.breakers_opened, "a breaker that opened");
  need(met.breakers_reopened, "a probe that failed");
  need(met.breakers_closed, "a breaker that was closed by its probes");
  need(met.probes_at_room, "a claim that took the last room of a half-open breaker");
  need(met.overtook, "a job that overtook one of a better priority by its age");
  need(met.turns, "a turn of a fair key");
  need(met.deferred, "a deferred job");
  need(met.named, "a job that was claimed by its id");
  need(met.named_refused, "a claim by id that was refused");
  need(met.named_at_bound, "a claim that took the last room beside deferred jobs");
  need(met.heavy, "a heavy job that began");
  need(met.capped, "a job that costs more than a limit has");
  need(met.slots_used_up, "a claim that took the last slots of a queue");
  need(met.keys_used_up, "a claim that took the last slots of a limit key");
  need(met.key_rates_used_up, "a claim that used the rate of a limit key up");
  need(met.heads_judged, "a claim whose line could be judged");
  need(met.heads_waited, "a heavy job that a claim passed over");
  need_once(met, need);
  return missing;
}

std::vector<std::uint64_t> seeds_of(const Options& o) {
  std::vector<std::uint64_t> seeds;
  std::ifstream file(o.seed_file);
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') seeds.push_back(std::strtoull(line.c_str(), nullptr, 10));
  }
  for (std::uint64_t s = 0; s < o.seeds; ++s) seeds.push_back(o.first + s);
  return seeds;
}

int run(const Options& o) {
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Met met;
  std::uint64_t ran = 0;
  for (const std::uint64_t seed : seeds_of(o)) {
    if (o.max_seconds > 0 && elapsed() > o.max_seconds) break;
    const Verdict outcome = run_seed(seed, o);
    met.add(outcome.met);
    ++ran;
    if (o.verbose) fmt::print("seed {} {:016x}\n", seed, outcome.hash);
    if (!outcome.why.empty()) {
      fmt::print("{}\nseed {} FAILED: {}\n", outcome.lines, seed, outcome.why);
      return 1;
    }
    if (seed % kTwice == 0 && run_seed(seed, o).hash != outcome.hash) {
      fmt::print("seed {} FAILED: its second run left another trace\n", seed);
      return 1;
    }
  }
  fmt::print(
      "{} seeds in {:.1f} s: {} events, {} crashes ({} in recovery), {} writes lost, {} leases "
      "expired, {} stale refused, {} duplicates found, {} dead, {} full-disk refusals, {} parked "
      "claims woken, {} cancels, {} pruned, {} expired, {} operator retries, {} completed, {} "
      "ticks "
      "fired, {} rows skipped, {} past due, {} takeovers, {} leases granted, {} lost, {} writes "
      "fenced, {} follow-ups, {} messages, {} of progress, {} jobs of sessions given, {} sessions "
      "held, {} lost, "
      "{} "
      "workflows completed, {} not, {} in others, {} forks, {} claims up to a limit, {} up to a "
      "rate, {} "
      "events fired, {} repeated, {} by ends of jobs; {} breakers opened, {} by probes, {} closed, "
      "{} claims up to their room, {} orders judged, {} by age, {} turns of keys, {} deferred, {} "
      "claimed by id, {} refused; {} heavy jobs started, {} capped, {} claims up to the slots, {} "
      "to "
      "those of a key, {} to its rate, {} heavy jobs passed over; "
      "{} keys of steps, {} jobs made again, {} results of steps, {} found, {} refused, {} jobs "
      "posted, {} completions refused, {} callbacks delivered, {} posts repeated, {} gone, {} "
      "dead, "
      "{} completed read, {} expired, {} attempts in quarantine\n",
      ran, elapsed(), met.events, met.crashes, met.crashes_in_recovery, met.lost_writes,
      met.rescued, met.stale, met.dedup_hits, met.dead, met.full, met.woken, met.cancels,
      met.pruned, met.expired, met.retries, met.completed, met.fired, met.skipped, met.past_due,
      met.takeovers, met.grants, met.leases_lost, met.fenced, met.followed, met.messages,
      met.progress, met.session_claims, met.sessions_held, met.sessions_lost, met.flows_completed,
      met.flows_undone, met.child_flows, met.forks, met.at_bound, met.rates_used_up,
      met.events_fired, met.events_repeated, met.ends_heard, met.breakers_opened,
      met.breakers_reopened, met.breakers_closed, met.probes_at_room, met.order_judged,
      met.overtook, met.turns, met.deferred, met.named, met.named_refused, met.heavy, met.capped,
      met.slots_used_up, met.keys_used_up, met.key_rates_used_up, met.heads_waited, met.step_keys,
      met.jobs_remade, met.memos_kept, met.memos_recalled, met.memos_refused, met.posted,
      met.posts_refused, met.delivered, met.posts_repeated, met.receivers_gone, met.deliveries_dead,
      met.reads_completed, met.reads_expired, met.apart);
  return o.anti_vacuity && vacuous(met) > 0 ? 1 : 0;
}

bool is_world(const std::string& name) {
  return std::any_of(kWorlds.begin(), kWorlds.end(),
                     [&](const Kind& kind) { return kind.name == name; });
}

int usage() {
  fmt::print(
      "usage: sim [--seeds N] [--first S] [--seed-file FILE] [--max-seconds S] "
      "[--no-vacuity-check] "
      "[--verbose] [--trace] [--invariants-only] [--world first|lines|slots|once]\n"
      "  sim --seeds 1000 --first 5000   runs seeds 5000 to 5999\n"
      "  sim --seeds 1 --first 4711      repeats a failing seed; --trace prints all of it\n");
  return 64;
}

}  // namespace
}  // namespace mainspring::simulation

int main(int argc, char** argv) {
  mainspring::simulation::Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (name == "--no-vacuity-check") {
      o.anti_vacuity = false;
    } else if (name == "--trace") {
      o.trace = true;
    } else if (name == "--invariants-only") {
      o.judges = mainspring::simulation::Judges::invariants;
    } else if (name == "--verbose") {
      o.verbose = true;
    } else if (value == nullptr) {
      return mainspring::simulation::usage();
    } else if (name == "--seeds") {
      o.seeds = std::strtoull(argv[++i], nullptr, 10);
    } else if (name == "--first") {
      o.first = std::strtoull(argv[++i], nullptr, 10);
    } else if (name == "--max-seconds") {
      o.max_seconds = std::strtod(argv[++i], nullptr);
    } else if (name == "--seed-file") {
      o.seed_file = argv[++i];
    } else if (name == "--world") {
      o.world = argv[++i];
      if (!mainspring::simulation::is_world(o.world)) return mainspring::simulation::usage();
    } else {
      return mainspring::simulation::usage();
    }
  }
  std::signal(SIGABRT, mainspring::simulation::on_abort);
  return mainspring::simulation::run(o);
}
