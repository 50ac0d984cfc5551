// Helpers for the tests of programs that use Mainspring: a test server and assertions about its
// jobs.
//
//   mainspring::testing::TestServer server;          // runs `mainspring serve --test`
//   mainspring::Engine engine = server.engine();
//   register_user(engine, "anna@example.org");       // the code under test
//   server.assert_enqueued<Mail>([](const Mail& mail) { return mail.to == "anna@example.org"; });
//   server.advance(24h);                             // schedules, delays and retries fire in order
//
// A failed assertion throws Failure, whose what() says why: doctest, GoogleTest and Catch2 report
// it as a failed test. Thread-safe. Guide: docs/guides/testing.md.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/engine.h"

namespace mainspring::testing {

class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Thrown when running a job again changed its effect.
class NotIdempotent : public Failure {
 public:
  NotIdempotent(const std::string& kind, std::string which_run, std::string first_seen,
                std::string then_seen);
  const std::string run;    // "a second run", "a third run"
  const std::string first;  // observed after one run, and (`then`) after that run; JSON
  const std::string then;
};

struct ServerOptions {
  std::string binary{};                 // "" = MAINSPRING_BINARY, else mainspring on the PATH
  std::optional<std::uint64_t> seed{};  // for faults without their own seed; nullopt = random
  // A test server that already runs: it is neither started nor stopped.
  std::string url{};
  std::string token{};
};

struct Where {
  std::string queue{};  // "" = the type's own (T::queue), else its name
};

// An event that became due while the clock moved.
struct Fired {
  WallTime at;
  std::string what;  // schedule, scheduled, retry, lease, expiry, workflow
  JobId job = 0;
  WorkflowId workflow = 0;
  std::string queue{}, schedule{}, lock{}, session{};
};

// Which leases survive when the clock advances past their end.
enum class Leases : std::uint8_t {
  live,  // leases of live workers: the worker has renewed it, or one of its claims waits
  keep,  // all
  lose,  // none, as if their workers had crashed
};
struct AdvanceOptions {
  Leases leases = Leases::live;
  // Real time that workers get at each instant at which an event is due.
  Duration settle = std::chrono::seconds(1);
};

struct PerformOptions {
  int attempt = 1;
  std::string checkpoint{};                    // JSON of an earlier attempt
  std::map<std::string, std::string> memos{};  // saved step results of earlier attempts, JSON
  std::string headers{};                       // a JSON object of strings
  StopReason stop = StopReason::none;          // why the handler should stop
};
// The outcome and the reports of one run of a handler.
struct Performed {
  HandlerResult outcome;
  std::vector<Progress> progress;
  std::string checkpoint;             // the last one, "" = none
  std::vector<std::string> messages;  // JSON
  std::map<std::string, std::string> memos;
  std::optional<std::string> session_state;
};
// Runs a handler directly, without a server, with args as a server would send them. Exceptions of
// the handler propagate.
Performed perform_kind(ClaimedJob job, const Handler& handler, PerformOptions options = {});
template <class T, class F>
Performed perform(F handler, const T& value, PerformOptions options = {}) {
  ClaimedJob job{.kind = std::string(kind_of<T>()), .args = to_json(value)};
  job.queue = reflect::queue_of<T>("");
  return perform_kind(
      std::move(job),
      [&handler](const ClaimedJob& claimed, Context& context) -> HandlerResult {
        MS_TRY_ASSIGN(const T args, from_json<T>(claimed.args));
        return reflect::call<T>(handler, args, context);
      },
      std::move(options));
}

namespace detail {
struct Server;
}

// Names for one test only, so that tests can run in parallel. When the object ends, its jobs are
// cancelled and its schedules, triggers and locks are removed.
class Namespace {
 public:
  ~Namespace();
  Namespace(Namespace&&) noexcept;
  Namespace& operator=(Namespace&&) = delete;
  const std::string& name() const { return name_; }
  const std::string& prefix() const { return prefix_; }
  // A queue of this namespace. Name schedules, locks and sessions the same way.
  std::string queue(std::string_view name = "default") const { return prefix_ + std::string(name); }
  // Waits until no job in it is available, running or due. Workers do the work.
  void drain(Duration timeout = std::chrono::seconds(10)) const;

 private:
  friend class TestServer;
  Namespace(std::shared_ptr<detail::Server> server, std::string name, std::string prefix);
  std::shared_ptr<detail::Server> server_;
  std::string name_, prefix_;
};

struct ChaosOptions {
  std::optional<std::uint64_t> seed{};  // nullopt = random, printed to standard error
  const Namespace* space = nullptr;     // only its jobs
  // Probabilities.
  double duplicate_delivery = 0.1;
  double lost_lease = 0.1;
  double lost_finish = 0.1;
  double delay = 0;
  Duration max_delay = std::chrono::milliseconds(50);
};
// Injects faults while it lives. The same seed gives the same faults to the same jobs. No fault
// takes the last attempt of a job, so each job ends as its handler says.
class Chaos {
 public:
  ~Chaos();
  Chaos(Chaos&&) noexcept;
  Chaos& operator=(Chaos&&) = delete;
  std::uint64_t seed() const { return seed_; }

 private:
  friend class TestServer;
  Chaos(std::shared_ptr<detail::Server> server, std::uint64_t seed, std::string space);
  std::shared_ptr<detail::Server> server_;
  std::uint64_t seed_;
  std::string space_;
};

class TestServer {
 public:
  // Starts a server, or uses the server at options.url. Throws Failure.
  explicit TestServer(const ServerOptions& options = {});
  // Stops the server and removes its data. Both also happen if this process crashes.
  ~TestServer();
  TestServer(TestServer&&) noexcept;
  TestServer& operator=(TestServer&&) = delete;

  const std::string& url() const;
  const std::string& token() const;
  std::uint64_t seed() const;  // 0 if the server was not started here
  // An engine that is connected to it. Throws Failure.
  Engine engine(EngineOptions options = {}) const;
  Namespace make_namespace(const std::string& name = "") const;

  // -- enqueued jobs: not ended, oldest first
  std::vector<Job> jobs(std::string_view kind, std::string_view queue) const;
  template <class T>
  std::vector<Job> all_enqueued(const Where& where = {}) const {
    return jobs(kind_of<T>(), reflect::queue_of<T>(where.queue));
  }
  // The first job whose args match; throws Failure if there is none.
  template <class T, class Fits>
  requires(std::is_invocable_r_v<bool, Fits, const T&>) Job
      assert_enqueued(Fits fits, const Where& where = {})
  const {
    const std::vector<Job> found = all_enqueued<T>(where);
    for (const Job& job : found) {
      const auto args = from_json<T>(job.args);
      if (args && fits(*args)) return job;
    }
    fail_enqueued(kind_of<T>(), reflect::queue_of<T>(where.queue), found);
  }
  template <class T>
  Job assert_enqueued(const Where& where = {}) const {
    return assert_enqueued<T>([](const T&) { return true; }, where);
  }
  // Throws Failure if there is such a job.
  template <class T, class Fits>
  requires(std::is_invocable_r_v<bool, Fits, const T&>) void refute_enqueued(
      Fits fits, const Where& where = {}) const {
    for (const Job& job : all_enqueued<T>(where)) {
      const auto args = from_json<T>(job.args);
      if (args && fits(*args)) fail_refuted(job);
    }
  }
  template <class T>
  void refute_enqueued(const Where& where = {}) const {
    refute_enqueued<T>([](const T&) { return true; }, where);
  }

  // -- time
  WallTime now() const;
  // Moves the clock; returns what fired, in order. The clock stops at each instant at which an
  // event is due, and waiting workers get up to `settle` to handle it.
  std::vector<Fired> advance(Duration by, AdvanceOptions options = {}) const;
  std::vector<Fired> advance_to(WallTime to, AdvanceOptions options = {}) const;
  // Waits until no job of a queue ("" = of all) is available, running or due.
  void drain(const std::string& queue = "", Duration timeout = std::chrono::seconds(10)) const;
  // The job once it has this state; throws Failure when it cannot reach it, or after `timeout`.
  Job wait_for(JobId job, JobState state = JobState::completed,
               Duration timeout = std::chrono::seconds(10)) const;

  // -- faults
  Chaos chaos(ChaosOptions options = {}) const;
  // Throws NotIdempotent if running a job again changes what `observe` returns. It enqueues one job
  // and loses the outcomes of the first two runs, so the handler runs three times. `observe` is
  // called after each run; it may return any type that to_json takes. Saved step results last from
  // run to run, as after a crash. Throws Failure if a run fails.
  template <class T, class F, class Observe>
  void assert_idempotent(F handler, const T& value, Observe observe,
                         Duration timeout = std::chrono::seconds(30)) const {
    check_idempotent(
        std::string(kind_of<T>()), to_json(value),
        [&handler](const ClaimedJob& job, Context& context) -> HandlerResult {
          MS_TRY_ASSIGN(const T args, from_json<T>(job.args));
          return reflect::call<T>(handler, args, context);
        },
        [&observe] { return to_json(observe()); }, timeout);
  }
  void check_idempotent(std::string kind, std::string args, const Handler& handler,
                        const std::function<std::string()>& observe, Duration timeout) const;

  // Sends any request below /v1; returns the body of the answer. Throws Failure.
  std::string request(std::string_view method, std::string_view path,
                      std::string_view body = "") const;

 private:
  [[noreturn]] static void fail_enqueued(std::string_view kind, std::string_view queue,
                                         const std::vector<Job>& others);
  [[noreturn]] static void fail_refuted(const Job& job);
  std::vector<Fired> move_clock(const std::string& where, AdvanceOptions options) const;
  std::shared_ptr<detail::Server> server_;
};

}  // namespace mainspring::testing
