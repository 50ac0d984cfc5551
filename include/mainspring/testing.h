// Helpers for the tests of programs that use Mainspring: a test server and questions about its
// jobs.
//
//   mainspring::testing::TestServer server;          // runs `mainspring serve --test`
//   mainspring::Engine engine = server.engine();
//   register_user(engine, "anna@example.org");       // the code under test
//   server.assert_enqueued<Mail>([](const Mail& mail) { return mail.to == "anna@example.org"; });
//   server.advance(24h);                             // schedules, delays and retries fire in order
//
// What does not hold is thrown as Failure, whose what() says why: doctest, GoogleTest and Catch2
// report it as a failed test. All calls are safe from every thread. Guide: docs/guides/testing.md.
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

// The effect of a job changed when it ran again.
class NotIdempotent : public Failure {
 public:
  NotIdempotent(const std::string& kind, std::string which_run, std::string first_seen,
                std::string then_seen);
  const std::string run;    // "a second run", "a third run"
  const std::string first;  // what was observed after one run, and after that one; JSON
  const std::string then;
};

struct ServerOptions {
  std::string binary{};                 // "" = MAINSPRING_BINARY, else mainspring on the PATH
  std::optional<std::uint64_t> seed{};  // of faults that give none; nullopt = random
  // A test server that is running already: nothing is started, and nothing stopped.
  std::string url{};
  std::string token{};
};

struct Where {
  std::string queue{};  // "" = the type's own (T::queue), else "default"
};

// What became due while the clock moved.
struct Fired {
  WallTime at;
  std::string what;  // schedule, scheduled, retry, lease, expiry, workflow
  JobId job = 0;
  WorkflowId workflow = 0;
  std::string queue{}, schedule{}, lock{}, session{};
};

// Which leases outlast an advance that passes their end.
enum class Leases : std::uint8_t {
  live,  // those of live workers are kept: they have renewed it, or a claim of them waits
  keep,  // all are kept
  lose,  // all are lost, as if their workers had crashed
};
struct AdvanceOptions {
  Leases leases = Leases::live;
  // Real time that workers get at each instant at which something is due.
  Duration settle = std::chrono::seconds(1);
};

struct PerformOptions {
  int attempt = 1;
  std::string checkpoint{};                    // JSON that an earlier attempt left
  std::map<std::string, std::string> memos{};  // step results that earlier attempts kept, JSON
  std::string headers{};                       // a JSON object of strings
  StopReason stop = StopReason::none;          // why the handler should stop
};
// What one run of a handler came to.
struct Performed {
  HandlerResult outcome;
  std::vector<Progress> progress;
  std::string checkpoint;             // the last one, "" = none
  std::vector<std::string> messages;  // JSON
  std::map<std::string, std::string> memos;
  std::optional<std::string> session_state;
};
// Runs a handler here and now, without a server, with args as they would come from one. Its
// exceptions pass.
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

// Names of one test alone, so that tests run side by side. What has them ends with the object: jobs
// are cancelled, schedules, triggers and locks removed.
class Namespace {
 public:
  ~Namespace();
  Namespace(Namespace&&) noexcept;
  Namespace& operator=(Namespace&&) = delete;
  const std::string& name() const { return name_; }
  const std::string& prefix() const { return prefix_; }
  // A queue of it. Schedules, locks and sessions are named the same way.
  std::string queue(std::string_view name = "default") const { return prefix_ + std::string(name); }
  // Waits until nothing in it is available, running or due. Workers do the work.
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
// Faults as long as it lives. The same seed gives the same faults to the same jobs. No fault takes
// the last attempt of a job, so each job ends as its handler says.
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
  // Starts one, or uses the one that runs at options.url. Throws Failure.
  explicit TestServer(const ServerOptions& options = {});
  // Stops it, and removes its data. They go too when this process ends in any other way.
  ~TestServer();
  TestServer(TestServer&&) noexcept;
  TestServer& operator=(TestServer&&) = delete;

  const std::string& url() const;
  const std::string& token() const;
  std::uint64_t seed() const;  // 0 of one that was not started here
  // An engine on it. Throws Failure.
  Engine engine(EngineOptions options = {}) const;
  Namespace make_namespace(const std::string& name = "") const;

  // -- what is enqueued: jobs that have not ended, oldest first
  std::vector<Job> jobs(std::string_view kind, std::string_view queue) const;
  template <class T>
  std::vector<Job> all_enqueued(const Where& where = {}) const {
    return jobs(kind_of<T>(), reflect::queue_of<T>(where.queue));
  }
  // The first job whose args fit; throws Failure if there is none.
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
  // Moves the clock; returns what fired, in order. The clock stops at each instant at which
  // something is due, and waiting workers get up to `settle` to do it.
  std::vector<Fired> advance(Duration by, AdvanceOptions options = {}) const;
  std::vector<Fired> advance_to(WallTime to, AdvanceOptions options = {}) const;
  // Waits until nothing of a queue ("" = of all) is available, running or due.
  void drain(const std::string& queue = "", Duration timeout = std::chrono::seconds(10)) const;
  // The job once it has this state; throws Failure when it cannot come or the time is over.
  Job wait_for(JobId job, JobState state = JobState::completed,
               Duration timeout = std::chrono::seconds(10)) const;

  // -- faults
  Chaos chaos(ChaosOptions options = {}) const;
  // Throws NotIdempotent if running a job again changes what `observe` returns. One job is
  // enqueued. The finishes of its first two runs are lost, so its handler runs three times.
  // `observe` is called after each run; it returns anything that to_json takes. Saved step results
  // last from run to run, as they do after a crash. Throws Failure if a run fails.
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

  // Any request below /v1: the body of the answer. Throws Failure.
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
