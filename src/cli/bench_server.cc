// Measurements of wake-ups, of a million queued jobs, and of servers in a separate process.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "broker/broker.h"
#include "cli/bench_http.h"
#include "cli/support.h"
#include "client/client.h"
#include "env/random.h"
#include "worker/worker.h"

namespace mainspring::cli::bench {
namespace {

constexpr double kWakeP50 = 1000;       // us
constexpr double kWakeP99 = 5000;       // us
constexpr double kWakeBeyond = 300;     // us, p50 beyond the commit
constexpr double kClaimRatio = 2;       // p99, a million queued against none
constexpr double kMillionMemory = 200;  // MB
constexpr double kStartUp = 2;          // s
constexpr double kIdleMemory = 30;      // MB
constexpr double kIdleCpu = 0.1;        // percent

// -- a server in a separate process ---------------------------------------------------------------

class Child {
 public:
  // Starts `program serve --data DIR` on a free port and waits for its address.
  static Result<std::unique_ptr<Child>> start(const std::string& program,
                                              const std::string& directory);
  ~Child();
  std::uint16_t port() const { return port_; }
  double start_seconds() const { return start_seconds_; }
  double memory_mb() const;
  double cpu_seconds() const;

 private:
  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
  double start_seconds_ = 0;
};

Result<std::unique_ptr<Child>> Child::start(const std::string& program,
                                            const std::string& directory) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Error{.code = ErrorCode::io_error, .message = "bench: no pipe"};
  }
  std::unique_ptr<Child> child(new Child());
  std::vector<std::string> words = {"mainspring", "serve",       "--json",      "--data", directory,
                                    "--listen",   "127.0.0.1:0", "--log-level", "error"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  const SystemClock clock;
  const Instant begin = clock.now().instant;
  const int failed =
      posix_spawn(&child->pid_, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string line;
  char byte = 0;
  while (failed == 0 && line.find('\n') == std::string::npos && read(ends[0], &byte, 1) == 1) {
    line += byte;
  }
  close(ends[0]);
  child->start_seconds_ = microseconds(clock.now().instant - begin) / 1e6;
  constexpr std::string_view kBefore = "http://127.0.0.1:";
  const std::size_t at = line.find(kBefore);
  if (at == std::string::npos) {
    return Error{.code = ErrorCode::io_error, .message = "bench: the server did not start"};
  }
  (void)std::from_chars(line.data() + at + kBefore.size(), line.data() + line.size(), child->port_);
  return child;
}

Child::~Child() {
  if (pid_ <= 0) return;
  (void)kill(pid_, SIGTERM);
  (void)waitpid(pid_, nullptr, 0);
}

std::string read_proc(pid_t pid, const std::string& name) {
  const auto text = read_file(fmt::format("/proc/{}/{}", pid, name), 64 << 10);
  return text ? *text : "";
}

double Child::memory_mb() const {
  const std::string status = read_proc(pid_, "status");
  const std::size_t at = status.find("VmRSS:");
  if (at == std::string::npos) return 0;
  return std::strtod(status.c_str() + at + 6, nullptr) / 1024;
}

// CPU time of all threads, in nanoseconds each: /proc/PID/stat has a resolution of 10 ms.
double Child::cpu_seconds() const {
  double nanoseconds = 0;
  DIR* const tasks = opendir(fmt::format("/proc/{}/task", pid_).c_str());
  if (tasks == nullptr) return 0;
  while (const dirent* task = readdir(tasks)) {
    if (task->d_name[0] == '.') continue;
    const std::string text = read_proc(pid_, fmt::format("task/{}/schedstat", task->d_name));
    nanoseconds += std::strtod(text.c_str(), nullptr);
  }
  (void)closedir(tasks);
  return nanoseconds / 1e9;
}

// The value of the line of /metrics with this prefix; -1 = no such line.
Result<double> metric(int fd, std::string_view name) {
  std::string buffer;
  MS_TRY(exchange(fd, http_request("GET", "/metrics", ""), buffer));
  const std::size_t at = buffer.find(fmt::format("\n{} ", name));
  if (at == std::string::npos) return -1;
  return std::strtod(buffer.c_str() + at + name.size() + 2, nullptr);
}

// -- waking ---------------------------------------------------------------------------------------

// Records when the handler starts.
class PeerNotifier {
 public:
  void ring(Instant at) {
    const MutexLock lock(mutex_);
    at_ = at;
    wake_.notify_all();
  }
  // When it was notified since the last call; never() after 10 s.
  Instant wait() {
    const MutexLock lock(mutex_);
    for (int i = 0; i < 10 && at_ == Instant::never(); ++i) wake_.wait_for(mutex_, 1s);
    return std::exchange(at_, Instant::never());
  }

 private:
  Mutex mutex_;
  CondVar wake_;
  Instant at_ MS_GUARDED_BY(mutex_) = Instant::never();
};

struct WakeTimes {
  std::vector<double> wake;
  std::vector<double> commit;  // of the same jobs
  std::vector<double> beyond;  // wake-up without the commit
};

// Sum and count of the commits' durations, from the node's own histogram.
struct Commits {
  double us = 0;
  double count = 0;
};
Commits commits_of(LocalNode& node) {
  const std::string text = node.registry().render();
  const auto number = [&](std::string_view name) {
    const std::size_t at = text.find(fmt::format("\n{} ", name));
    return at == std::string::npos ? 0.0
                                   : std::strtod(text.c_str() + at + name.size() + 2, nullptr);
  };
  return {number("mainspring_commit_seconds_sum") * 1e6, number("mainspring_commit_seconds_count")};
}

Result<WakeTimes> measure_wakes(Context& context, LocalServer& server) {
  SystemRandom random;
  const SystemClock clock;
  StderrLog log(LogLevel::error);
  ClientOptions options;
  options.url = server.url();
  MS_TRY_ASSIGN(auto client, Client::open(options, random));
  WorkerOptions worker;
  worker.queues = {"wake"};
  worker.slots = 1;
  WorkerRuntime runtime(*client, clock, random, log, worker);
  PeerNotifier started;
  PeerNotifier go_on;  // the handler waits, so that its own commit comes after the measured one
  runtime.on_any([&](const ClaimedJob&, mainspring::Context&) -> HandlerResult {
    started.ring(clock.now().instant);
    (void)go_on.wait();
    return Outcome(Complete{});
  });
  MS_TRY(runtime.start());
  MS_TRY_ASSIGN(const int fd, connect_loopback(server.port()));
  const std::string request =
      http_request("POST", "/v1/jobs", R"({"queue":"wake","kind":"wake","args":{"n":1}})");
  WakeTimes times;
  std::string buffer;
  constexpr int kWarmUp = 20;
  const int samples = std::min(context.plan.samples, 1000) + kWarmUp;
  for (int i = 0; i < samples; ++i) {
    context.report.doing(fmt::format("waking: {} of {}", i, samples));
    // Idle: the worker's claim is parked and nothing is in progress.
    for (int tries = 0; server.node().broker().parked_claims() == 0 && tries < 5000; ++tries) {
      pass(1ms);
    }
    pass(3ms);
    const Commits before = commits_of(server.node());
    const Instant begin = clock.now().instant;
    const auto status = exchange(fd, request, buffer);
    const Instant at = started.wait();
    const Commits after = commits_of(server.node());
    go_on.ring(clock.now().instant);
    if (!status || *status != 201 || at == Instant::never()) {
      close(fd);
      runtime.stop();
      return Error{.code = ErrorCode::io_error, .message = "bench: a job did not start: " + buffer};
    }
    if (i < kWarmUp) continue;
    times.wake.push_back(microseconds(at - begin));
    times.commit.push_back(after.us - before.us);
    times.beyond.push_back(times.wake.back() - times.commit.back());
  }
  close(fd);
  runtime.stop();
  return times;
}

// -- a million ------------------------------------------------------------------------------------

// Claims one job and completes it; returns the time of the claim.
Result<double> claim_once(Broker& broker, bool enqueue_first) {
  const SystemClock clock;
  if (enqueue_first) {
    Enqueue request;
    request.jobs.resize(1);
    request.jobs[0].queue = "bench";
    request.jobs[0].kind = "bench";
    request.jobs[0].args = payload_of(200);
    MS_TRY(broker.enqueue(std::move(request)));
  }
  const Instant begin = clock.now().instant;
  MS_TRY_ASSIGN(const ClaimResult claimed,
                broker.claim({.worker = "bench", .queues = {"bench"}, .kinds = {}, .max = 1},
                             Duration{0}, {}));
  const double us = microseconds(clock.now().instant - begin);
  if (claimed.jobs.empty()) {
    return Error{.code = ErrorCode::internal, .message = "bench: a claim found nothing"};
  }
  const ClaimedJob& job = claimed.jobs[0];
  MS_TRY(broker.finish(
      {.worker = "bench", .results = {{.id = job.id, .token = job.token, .outcome = Complete{}}}}));
  return us;
}

Figure with_bound(Figure figure, double bound, std::string_view unit) {
  figure.target = fmt::format("at most {} {}", bound, unit);
  figure.met = figure.value <= bound;
  return figure;
}

}  // namespace

Result<void> measure_wake(Context& context) {
  MS_TRY_ASSIGN(const auto server, LocalServer::open(context.plan, "wake"));
  MS_TRY_ASSIGN(const WakeTimes times, measure_wakes(context, *server));
  const double commit_us = percentile(times.commit, 0.5);
  const double p50 = percentile(times.wake, 0.5);
  context.report.add(with_bound({.name = "wake",
                                 .setup = "enqueue sent until handler started",
                                 .value = p50,
                                 .unit = "us p50"},
                                kWakeP50, "us"));
  context.report.add(with_bound({.name = "wake",
                                 .setup = "the same",
                                 .value = percentile(times.wake, 0.99),
                                 .unit = "us p99"},
                                kWakeP99, "us"));
  Figure beyond{.name = "wake",
                .setup = "beyond the commit itself",
                .value = percentile(times.beyond, 0.5),
                .unit = "us p50"};
  beyond.more["commit_us"] = commit_us;
  beyond.note = fmt::format("the commit took {:.0f} us", commit_us);
  context.report.add(with_bound(std::move(beyond), kWakeBeyond, "us"));
  return {};
}

Result<void> measure_million(Context& context) {
  const Plan& plan = context.plan;
  MS_TRY_ASSIGN(auto node, LocalNode::open(plan, "million"));
  MS_TRY(preload(node->broker(), LoadOptions{}, plan.preload, context.report));
  MS_TRY_ASSIGN(auto empty, LocalNode::open(plan, "empty"));
  std::vector<double> bare;
  std::vector<double> full;
  for (int i = 0; i < std::min(plan.samples, 1500); ++i) {  // alternately, as disk speed varies
    context.report.doing(fmt::format("claims: {}", i));
    MS_TRY_ASSIGN(const double bare_us, claim_once(empty->broker(), true));
    MS_TRY_ASSIGN(const double full_us, claim_once(node->broker(), false));
    bare.push_back(bare_us);
    full.push_back(full_us);
  }
  empty.reset();
  const std::string queued = format_count(plan.preload) + " queued";
  const double bare_p99 = percentile(bare, 0.99);
  context.report.add({.name = "million",
                      .setup = "claim of one job, empty store",
                      .value = bare_p99,
                      .unit = "us p99",
                      .more = {{"p50_us", percentile(bare, 0.5)}}});
  Figure claim{.name = "million",
               .setup = "claim of one job, " + queued,
               .value = percentile(full, 0.99),
               .unit = "us p99",
               .more = {{"p50_us", percentile(full, 0.5)}}};
  claim.note = fmt::format("{:.2f}x of the empty store", claim.value / bare_p99);
  claim.more["of_empty"] = claim.value / bare_p99;
  claim.target = fmt::format("within {}x of the empty store", kClaimRatio);
  claim.met = claim.value <= kClaimRatio * bare_p99;
  context.report.add(std::move(claim));

  node->keep_files();
  const std::string directory = node->directory();
  node.reset();
  context.report.doing("starting a server on them");
  MS_TRY_ASSIGN(auto child, Child::start(context.program, directory));
  context.report.add(with_bound({.name = "million",
                                 .setup = "start-up, " + queued,
                                 .value = child->start_seconds(),
                                 .unit = "s"},
                                kStartUp, "s"));
  context.report.add(with_bound(
      {.name = "million", .setup = "memory, " + queued, .value = child->memory_mb(), .unit = "MB"},
      kMillionMemory, "MB"));
  child.reset();
  remove_directory(directory);
  return {};
}

Result<void> measure_idle(Context& context) {
  const std::string directory = context.plan.directory + "/idle";
  MS_TRY_ASSIGN(auto child, Child::start(context.program, directory));
  MS_TRY_ASSIGN(const int fd, connect_loopback(child->port()));
  // Work was done before, and a claim is parked: an idle server, not a new one.
  std::string buffer;
  const std::string enqueue =
      http_request("POST", "/v1/jobs", R"({"queue":"other","kind":"k","delay":"1h"})");
  for (int i = 0; i < 100; ++i) MS_TRY(exchange(fd, enqueue, buffer));
  MS_TRY_ASSIGN(const int parked, connect_loopback(child->port()));
  const std::string claim =
      http_request("POST", "/v1/claim", R"({"worker":"w","queues":["bench"],"wait":"60s"})");
  (void)send(parked, claim.data(), claim.size(), MSG_NOSIGNAL);
  context.report.doing(fmt::format("idling for {}", format_duration(context.plan.idle_for)));
  pass(2s);
  MS_TRY_ASSIGN(const double commits, metric(fd, "mainspring_store_commits_total"));
  const double cpu = child->cpu_seconds();
  pass(context.plan.idle_for);
  const double used = child->cpu_seconds() - cpu;
  const double memory = child->memory_mb();
  MS_TRY_ASSIGN(const double commits_after, metric(fd, "mainspring_store_commits_total"));
  close(parked);
  close(fd);
  const double seconds = microseconds(context.plan.idle_for) / 1e6;
  context.report.add(with_bound(
      {.name = "idle", .setup = "store transactions", .value = commits_after - commits, .unit = ""},
      0, "transactions"));
  context.report.add(
      with_bound({.name = "idle", .setup = "processor", .value = used / seconds * 100, .unit = "%"},
                 kIdleCpu, "%"));
  context.report.add(with_bound({.name = "idle", .setup = "memory", .value = memory, .unit = "MB"},
                                kIdleMemory, "MB"));
  child.reset();
  remove_directory(directory);
  return {};
}

}  // namespace mainspring::cli::bench
