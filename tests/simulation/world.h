// World: simulated time, one server that can die, and a network that loses, delays and repeats.
//
//   actors (workers, producers) ── call() ─▶ network ─▶ broker ─▶ MirrorStore ─▶ SQLite ─▶ SimDisk
//                                                        scheduler ┘
//
// One thread. Everything happens as an event at an instant of simulated time; equal instants do not
// occur. The same seed gives the same run.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <span>
#include <string>

#include "blackbox/history.h"
#include "broker/broker.h"
#include "disk_sqlite/sqlite_store.h"
#include "env/clock.h"
#include "env/random.h"
#include "scheduler/scheduler.h"
#include "simulation/breaker_invariant.h"
#include "simulation/defer_invariant.h"
#include "simulation/end_invariant.h"
#include "simulation/head_invariant.h"
#include "simulation/limit_invariant.h"
#include "simulation/message_invariant.h"
#include "simulation/mirror_store.h"
#include "simulation/order_invariant.h"
#include "simulation/quarantine_invariant.h"
#include "simulation/sim_vfs.h"
#include "simulation/trigger_invariant.h"

namespace mainspring::simulation {

// Is every job in a terminal state?
bool all_ended(const Store& store);

// What may go wrong in a run; each seed draws a subset.
struct Faults {
  bool power_cuts = false;
  bool kills = false;
  bool failed_syncs = false;
  bool full_disks = false;
  bool duplicates = false;
  bool delays = false;
  bool losses = false;
  bool worker_pauses = false;
  bool worker_crashes = false;
  bool wall_steps = false;
  bool queue_pauses = false;
  bool prunes = false;
  bool small_log = false;    // checkpoints all the time
  bool node_deaths = false;  // of schedulers: the leader's or a follower's
  bool node_pauses = false;
  bool skews = false;  // of the nodes' wall clocks
};

// What a set of runs must have met at least once to prove anything.
struct Met {
  std::int64_t events = 0, crashes = 0, lost_writes = 0, crashes_in_recovery = 0, full = 0,
               failed_syncs = 0, dedup_hits = 0, rescued = 0, stale = 0, dead = 0, woken = 0,
               cancels = 0, pruned = 0, expired = 0, retries = 0, completed = 0;
  // of what lives by the clock
  std::int64_t schedules = 0, fired = 0, skipped = 0, past_due = 0, takeovers = 0, grants = 0,
               leases_lost = 0, fenced = 0, followed = 0, messages = 0, progress = 0;
  // of sessions
  std::int64_t session_claims = 0, states_read = 0, sessions_held = 0, sessions_lost = 0,
               sessions_resumed = 0;
  std::int64_t flows_completed = 0, flows_undone = 0, child_flows = 0, forks = 0;
  std::int64_t tried_again = 0;  // steps that parked their workflow
  // of limits and triggers
  std::int64_t at_bound = 0, keys_at_bound = 0, rates_used_up = 0, events_fired = 0,
               events_repeated = 0, ends_heard = 0;
  // of the world of lines
  std::int64_t breakers_opened = 0, breakers_reopened = 0, breakers_closed = 0, probes_at_room = 0,
               order_judged = 0, overtook = 0, turns = 0, deferred = 0, named = 0,
               named_refused = 0, named_at_bound = 0;
  // of the world of slots
  std::int64_t heavy = 0, capped = 0, slots_used_up = 0, keys_used_up = 0, key_rates_used_up = 0,
               heads_judged = 0, heads_waited = 0;
  // of keys of steps, and of the world of what happens once
  std::int64_t step_keys = 0, jobs_remade = 0, memos_kept = 0, memos_recalled = 0,
               memos_refused = 0, posted = 0, posts_refused = 0, delivered = 0, posts_repeated = 0,
               receivers_gone = 0, deliveries_dead = 0, reads_completed = 0, reads_expired = 0,
               apart = 0;
  void add(const Met& other);
};

// What detects violations. A run with the invariants alone shows their worth: only they catch a
// defect that store and model share. In such a run nothing is pruned.
enum class Judges { invariants_and_model, invariants };

class World {
 public:
  World(std::uint64_t seed, std::string vfs_name, Judges judges = Judges::invariants_and_model);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // -- time ---------------------------------------------------------------------------------------
  Duration now() const { return now_; }  // since the beginning
  WallTime wall() const { return clock_.now().wall; }
  void after(Duration delay, std::function<void()> action);
  // Runs events until `when`, or until something is broken.
  void run_until(Duration when);
  std::uint64_t below(std::uint64_t bound) { return random_.below(bound); }
  bool chance(std::uint64_t one_in) { return below(one_in) == 0; }
  Duration between(Duration low, Duration high) {
    return low + Duration(static_cast<std::int64_t>(
                     below(static_cast<std::uint64_t>((high - low).count()) + 1)));
  }

  // -- network ------------------------------------------------------------------------------------
  using Answer = std::function<void(std::optional<OperationResult>)>;  // nullopt = no answer came
  enum class Delivery {
    sure,        // arrives once, soon, and so does the answer, unless the server dies
    prompt,      // may be lost, but is never late
    plain,       // may be lost or late
    repeatable,  // may arrive twice too
  };
  // `wait`: of a claim, how long it may park. How many copies go out: repeatable ones may be two.
  int call(Operation operation, Delivery delivery, Duration wait, Answer answer);
  // A read that reaches a living server at once.
  std::optional<Result<Job>> read(JobId id);
  std::optional<Result<MemoPage>> memos(JobId id);

  // -- the end of faults --------------------------------------------------------------------------
  void heal();          // no more faults; the server lives
  void cold_restart();  // stops it well, cuts the power, and starts it again
  // Heals, lets all end by `live`, and checks the store before and after a cold restart.
  void come_to_rest(void (*live)(World&));
  bool healed() const { return healed_; }
  MirrorStore& store() { return *server_->store; }
  bool serves() const { return server_ && server_->store; }  // not while it is down
  // Closes the books: what was pruned, per job.
  const std::map<JobId, Job>& pruned() const { return memory_.pruned; }

  // -- what is wrong ------------------------------------------------------------------------------
  void broken(std::string what);
  const std::string& why() const { return why_; }
  void trace(const std::string& line);
  std::uint64_t trace_hash() const { return hash_; }
  std::string last_lines() const;
  void print_all() { print_ = true; }  // every line as it comes

  Duration retention() const;  // of the completed

  Faults faults;
  Met met;
  blackbox::History history;
  MessageInvariant messages;
  LimitInvariant limits{kLimitQueue};
  LimitInvariant defer_limits{kDeferQueue};
  std::vector<LimitInvariant> heavy_limits{kHeavyQueues.begin(), kHeavyQueues.end()};
  std::vector<HeadInvariant> heads{kHeavyQueues.begin(), kHeavyQueues.end()};
  BreakerInvariant breakers;
  OrderInvariant lines;
  DeferInvariant deferred;
  QuarantineInvariant quarantine;
  TriggerInvariant events;
  EndInvariant ends;

 private:
  struct Event {
    Duration when;
    std::uint64_t order;
    std::function<void()> action;
    bool operator>(const Event& o) const {
      return when != o.when ? when > o.when : order > o.order;
    }
  };
  // Steady time restarts with every boot of the machine; people can set the wall clock.
  class SimClock final : public Clock {
   public:
    explicit SimClock(const World& world) : world_(world) {}
    Now now() const override;

   private:
    const World& world_;
  };
  class SkewedClock final : public Clock {
   public:
    SkewedClock(const Clock& clock, Duration skew) : clock_(clock), skew_(skew) {}
    Now now() const override {
      const Now now = clock_.now();
      return {.instant = now.instant, .wall = now.wall + skew_};
    }

   private:
    const Clock& clock_;
    const Duration skew_;
  };
  struct Request;
  // A claim that the broker holds.
  struct Parked {
    std::vector<std::string> queues;
    bool any_kind = true;
  };
  // A scheduler among several over the store, as if each were in a process of its own.
  struct Node {
    std::unique_ptr<Clock> clock;  // its own: up to kMaxSkew beside the store's
    std::unique_ptr<Scheduler> scheduler;
    bool dead = false;
    Duration paused_until{0};
  };
  struct Server {
    explicit Server(std::uint64_t e) : epoch(e) {}
    std::uint64_t epoch;
    Registry registry;
    std::unique_ptr<MirrorStore> store;
    std::unique_ptr<Broker> broker;
    std::vector<Node> nodes;  // the dead ones too: their answers may be on their way
    std::map<std::uint64_t, Parked> claims;
    std::uint64_t step_order = 0;  // the wake-up that counts
    bool step_soon = false;
    Duration started{0};
  };
  enum class End { power_cut, kill };

  std::string judge(std::span<const Operation> batch, const BatchReport* report, WallTime now);
  static std::optional<Audit> audit_of(const Operation& operation);
  void change_tokens();
  void deliver(const std::shared_ptr<Request>& request);
  void reply(const std::shared_ptr<Request>& request, std::uint64_t epoch, OperationResult result);
  Duration network_delay(Delivery delivery);
  bool lost(Delivery delivery);
  void start_server();
  void end_server(End how);
  void plan_server_fault();
  void add_node();
  void plan_node_fault();
  void fault_node(Node& node);
  Instant step_nodes();
  void step_server();
  void settle();
  void check_live();
  bool has_room_for_jobs() const;
  void fill_disk();
  void wake_server(Duration in);
  StoreOptions store_options() const;

  const Judges judges_;
  SeededRandom random_;
  SimDisk disk_;
  NullLog log_;
  SimClock clock_{*this};
  MirrorMemory memory_;
  std::unique_ptr<Server> server_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t next_order_ = 1;
  std::int64_t next_token_change_ = 0;
  std::uint64_t next_epoch_ = 1;
  Duration now_{0};
  Duration boot_{0};
  Duration wall_offset_{0};
  Duration disk_good_from_{0};  // a full disk excuses lateness
  std::uint64_t looks_ = 0;
  Duration leader_good_from_{0};  // so does a takeover, for what only the leader does
  int nodes_made_ = 0;
  bool healed_ = false;
  bool fatal_ = false;
  bool print_ = false;
  std::string why_;
  std::deque<std::string> lines_;
  std::uint64_t hash_ = 1469598103934665603u;
};

}  // namespace mainspring::simulation
