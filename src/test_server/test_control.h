// TestControl: the additional operations of a test server (`mainspring serve --test`).
//
//   clock       moves the wall clock from due instant to due instant, and says what fired
//   namespaces  prefixes, so that tests run side by side on one server
//   drain       waits until nothing is available, running or due
//   await       waits until a job has a state
//   faults      see faults.h
//   reset       removes everything of a namespace, or of the whole server
//
// Requests come as JSON bodies and are answered as JSON, so that the routes only pass them on.
//
// Holders renew leases of jobs, locks and sessions in real time. When an advance passes the end of
// a lease, a live holder would have renewed it. A holder counts as alive if it has renewed this
// lease before, or if a claim of its worker is waiting now. Other leases are lost, as after the
// crash of a worker. A request can also ask to keep or to lose all.
//
// Thread-safe. Calls that wait hold no lock.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "broker/broker.h"
#include "env/random.h"
#include "scheduler/scheduler.h"
#include "telemetry/log.h"
#include "test_server/faults.h"
#include "test_server/held_leases.h"
#include "test_server/virtual_clock.h"

namespace mainspring {

// An event that an advance caused.
struct FiredTime {
  WallTime at;
  std::string_view what;  // schedule, scheduled, retry, lease, expiry, workflow
  std::string schedule, queue, lock, session;
  std::int64_t job = 0, workflow = 0;
};

struct TestOptions {
  std::string directory;   // of the store
  std::string state_file;  // state that survives a crash; "" = none
  std::uint64_t seed = 0;  // for faults without their own seed
  // Ends the process like SIGKILL. Empty: a crash is refused.
  std::function<void()> crash;
  // Shared with SqliteOptions::full.
  std::shared_ptr<std::atomic<bool>> full = std::make_shared<std::atomic<bool>>(false);
};

class TestControl {
 public:
  static constexpr std::size_t kMaxNamespaces = 10'000;
  static constexpr std::size_t kMaxFired = 10'000;  // in one answer
  static constexpr int kMaxSteps = 10'000;          // of one advance
  static constexpr Duration kMaxAdvance = std::chrono::hours(24 * 366 * 10);
  static constexpr Duration kMaxTimeout = std::chrono::minutes(10);

  struct Parts {
    Broker& broker;
    Scheduler& scheduler;
    const Store& store;
    VirtualClock& clock;
    Random& random;
    Log& log;
  };
  // All parts outlive it. Registers with the broker: before the broker starts. Loads the state
  // file, if there is one.
  TestControl(Parts parts, TestOptions options);
  ~TestControl();  // stops
  TestControl(const TestControl&) = delete;
  TestControl& operator=(const TestControl&) = delete;

  void start();
  // Ends waits at once. Call before the broker is destroyed.
  void stop();

  // -- the routes; errors: invalid_argument and those named
  Result<std::string> add_namespace(std::string_view body);  // conflict, overloaded
  Result<std::string> clock(std::string_view body);          // "" = what time it is
  Result<std::string> drain(std::string_view body);
  // Errors: not_found, expired, request_timeout, conflict (it ended in another state).
  Result<Job> await(JobId job, JobState state, Duration timeout);
  Result<std::string> set_faults(std::string_view body);  // not_found (no such namespace)
  // Of a namespace, or of the whole server ("").
  Result<std::string> faults(const std::string& space);
  Result<std::string> clear_faults(const std::string& space);
  Result<std::string> reset(std::string_view body);  // not_found (no such namespace)

  // -- for connections
  struct FinishFault {
    bool lose_request = false;
    bool lose_answer = false;
  };
  // Called before a finish or a renewal is passed to the broker. Loses a lease that is to be lost.
  FinishFault meet(const Finish& finish);
  void meet(const Renew& renew);
  Duration delay_of(std::string_view route);

 private:
  struct Loss {
    std::string worker;
    JobId job = 0;
    Token token = 0;
  };
  struct Scope {  // of names; both empty = everything
    std::string prefix, name;
    bool has(std::string_view queue) const {
      return name.empty() ? queue.starts_with(prefix) : queue == name;
    }
  };
  enum class Leases : std::uint8_t { live, keep, lose };
  struct AdvanceRequest {
    std::optional<Duration> by;
    std::optional<WallTime> to;
    Leases leases = Leases::live;
    Duration settle = std::chrono::seconds(1);
    Duration timeout = std::chrono::seconds(20);
  };
  struct AdvanceState;

  void on_applied(std::span<const Operation> batch, const BatchReport& report, Now now)
      MS_EXCLUDES(mutex_);
  void note_fired(std::span<const Operation> batch, const BatchReport& report) MS_REQUIRES(mutex_);
  // The namespace that a name begins with; "" = none.
  std::string_view space_of(std::string_view name) const MS_REQUIRES(mutex_);
  Result<Faults*> faults_of(const std::string& space) MS_REQUIRES(mutex_);
  void run(std::stop_token stop);
  void lose(const Loss& loss);
  // Waits for the next batch after `seen`, for at most `limit`; returns the number of batches then.
  std::int64_t wait_for_batch(std::int64_t seen, Duration limit) MS_EXCLUDES(mutex_);
  std::int64_t batches() MS_EXCLUDES(mutex_);
  bool stopped() MS_EXCLUDES(mutex_);
  Instant now() const { return parts_.clock.now().instant; }
  // Passes an operation to the broker and waits for its answer.
  OperationResult apply(Operation operation);

  // -- advance.cc
  static Result<AdvanceRequest> decode_advance(std::string_view body);
  Result<std::string> advance(const AdvanceRequest& request);
  WallTime next_event(const AdvanceState& state);
  bool due_now() const;
  void step_to(WallTime at, AdvanceState& state);
  void end_leases(WallTime at, AdvanceState& state);
  void end_lease(const HeldLease& lease);
  void wait_until_fired(AdvanceState& state);
  void let_workers_react(AdvanceState& state);
  bool workers_busy(const AdvanceState& state, std::vector<std::pair<JobId, Token>>* running,
                    std::vector<std::string>* wanted);

  // -- reset.cc
  Result<std::int64_t> waiting_in(const Scope& scope);
  Result<void> end_jobs(const Scope& scope);
  Result<void> delete_ended(const std::string& queue);
  Result<void> remove_definitions(const Scope& scope);
  void prune_everything();

  void save_state() MS_REQUIRES(mutex_);
  void load_state() MS_EXCLUDES(mutex_);

  const Parts parts_;
  const TestOptions options_;
  Mutex advance_mutex_;  // one advance, or reset, at a time
  Mutex mutex_;
  CondVar changed_;
  std::int64_t batches_ MS_GUARDED_BY(mutex_) = 0;
  bool stopping_ MS_GUARDED_BY(mutex_) = false;
  bool crash_ MS_GUARDED_BY(mutex_) = false;
  HeldLeases leases_ MS_GUARDED_BY(mutex_);
  Faults faults_ MS_GUARDED_BY(mutex_);
  std::map<std::string, Faults, std::less<>> faults_by_space_ MS_GUARDED_BY(mutex_);
  std::vector<Loss> losses_ MS_GUARDED_BY(mutex_);
  bool collecting_ MS_GUARDED_BY(mutex_) = false;  // an advance is in progress
  std::vector<FiredTime> fired_ MS_GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> namespaces_ MS_GUARDED_BY(mutex_);
  std::int64_t next_namespace_ MS_GUARDED_BY(mutex_) = 1;
  std::jthread runner_;
};

}  // namespace mainspring
