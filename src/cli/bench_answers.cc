// Measurements of workflows, and of callers that wait for an answer.
#include <fmt/format.h>
#include <unistd.h>

#include <thread>

#include "broker/broker.h"
#include "cli/bench_http.h"

namespace mainspring::cli::bench {
namespace {

constexpr int kSteps = 3;
constexpr double kWorkflowTarget = 4;  // most plain jobs that a workflow of kSteps may cost
constexpr double kAnswerP99 = 5'000;   // us
constexpr int kAnswersWarmUp = 20;
constexpr const char* kEndless = "endless";  // the queue of the job that bystanders wait for

// Connections that wait for a job that does not end; closed with the object.
class Bystanders {
 public:
  ~Bystanders() {
    for (const int fd : sockets_) close(fd);
  }
  Result<void> gather(LocalServer& server, int count) {
    if (count == 0) return {};
    MS_TRY_ASSIGN(const JobId job, enqueue_one(server, kEndless));
    const std::string request = http_request("GET", fmt::format("/v1/jobs/{}?wait=60s", job), "");
    for (int i = 0; i < count; ++i) {
      MS_TRY_ASSIGN(const int fd, connect_loopback(server.port()));
      sockets_.push_back(fd);
      if (write(fd, request.data(), request.size()) != static_cast<ssize_t>(request.size())) {
        return Error{.code = ErrorCode::io_error, .message = "bench: a request was cut"};
      }
    }
    return {};
  }
  static Result<JobId> enqueue_one(LocalServer& server, const std::string& queue) {
    Enqueue request;
    request.jobs.resize(1);
    request.jobs[0].queue = queue;
    request.jobs[0].kind = "bench";
    MS_TRY_ASSIGN(const EnqueueResult made, server.node().broker().enqueue(std::move(request)));
    return made.jobs.at(0).id;
  }

 private:
  std::vector<int> sockets_;
};

// A caller waits for a job over HTTP, and the job ends. Measures from the commit of the end, as
// reported to the process that ended the job, to the caller's answer.
Result<double> wake_caller(LocalServer& server, int fd) {
  const SystemClock clock;
  Broker& broker = server.node().broker();
  MS_TRY_ASSIGN(const JobId id, Bystanders::enqueue_one(server, "bench"));
  MS_TRY_ASSIGN(const ClaimResult claimed,
                broker.claim({.worker = "bench", .queues = {"bench"}, .kinds = {}, .max = 1},
                             Duration{0}, {}));
  if (claimed.jobs.size() != 1 || claimed.jobs[0].id != id) {
    return Error{.code = ErrorCode::internal, .message = "bench: a claim found another job"};
  }
  const std::string request = http_request("GET", fmt::format("/v1/jobs/{}?wait=30s", id), "");
  Result<int> status = 0;
  Instant answered;
  std::thread caller([&] {
    std::string buffer;
    status = exchange(fd, request, buffer);
    answered = clock.now().instant;
  });
  pass(5ms);  // the caller waits by now
  const auto finished = broker.finish(
      {.worker = "bench",
       .results = {{.id = id, .token = claimed.jobs[0].token, .outcome = Complete{}}}});
  const Instant committed = clock.now().instant;
  caller.join();
  if (!finished) return finished.error();
  if (!status) return status.error();
  if (*status != 200) {
    return Error{.code = ErrorCode::internal,
                 .message = fmt::format("bench: a waiting caller was answered {}", *status)};
  }
  return std::max(0.0, microseconds(answered - committed));
}

Result<std::vector<double>> wake_callers(Context& context, LocalServer& server, int bystanders) {
  Bystanders others;
  MS_TRY(others.gather(server, bystanders));
  MS_TRY_ASSIGN(const int fd, connect_loopback(server.port()));
  const int samples = std::min(context.plan.samples, 1000) + kAnswersWarmUp;
  std::vector<double> times;
  Result<double> time = 0;
  for (int i = 0; i < samples && time; ++i) {
    context.report.doing(fmt::format("answering: {} of {}", i, samples));
    time = wake_caller(server, fd);
    if (time && i >= kAnswersWarmUp) times.push_back(*time);
  }
  close(fd);
  if (!time) return time.error();
  return times;
}

// Rates of both, and the cost of one workflow in jobs: medians of rounds.
struct Compared {
  Rate jobs, workflows;
  double cost = 0;  // 0 = no round completed a workflow
};

Result<Rate> rate_with(const Plan& plan, const LoadOptions& options) {
  MS_TRY_ASSIGN(const auto node, LocalNode::open(plan, "workflows"));
  LocalLoad load(node->broker(), options);
  load.start();
  const Rate rate = rate_of(plan, node->node().store(), [&] { return load.done(); });
  MS_TRY(load.stop());
  return rate;
}

void add(Rate& sum, std::vector<double>& rates, const Rate& round) {
  sum.seconds += round.seconds;
  sum.commits += round.commits;
  sum.bytes += round.bytes;
  rates.push_back(round.jobs_per_second);
}

// Runs both alternately in short runs: the speed of a disk changes by the minute, and both must see
// the same speed.
Result<Compared> compare(const Context& context, LoadOptions options) {
  Plan round = context.plan;
  round.repeats = 1;
  Compared out;
  std::vector<double> jobs;
  std::vector<double> workflows;
  std::vector<double> costs;
  for (int i = 0; i < 2 * context.plan.repeats - 1; ++i) {
    options.steps = 0;
    MS_TRY_ASSIGN(const Rate plain, rate_with(round, options));
    add(out.jobs, jobs, plain);
    options.steps = kSteps;
    MS_TRY_ASSIGN(Rate chains, rate_with(round, options));
    chains.jobs_per_second /= kSteps;
    add(out.workflows, workflows, chains);
    if (chains.jobs_per_second > 0) costs.push_back(plain.jobs_per_second / chains.jobs_per_second);
  }
  out.jobs.jobs_per_second = median(std::move(jobs));
  out.workflows.jobs_per_second = median(std::move(workflows));
  if (!costs.empty()) out.cost = median(std::move(costs));
  return out;
}

}  // namespace

// With batches, jobs are enqueued together, but workflows can only be started one by one: that puts
// workflows at a disadvantage.
Result<void> measure_workflows(Context& context) {
  constexpr std::pair<int, int> kLoads[] = {{1, 1}, {16, 1}, {16, 10}, {16, 100}};
  for (const auto& [clients, batch] : kLoads) {
    const std::string setup = fmt::format("{} clients, batch {}", clients, batch);
    context.report.doing("jobs and workflows, " + setup);
    MS_TRY_ASSIGN(
        const Compared rates,
        compare(context, {.clients = clients, .batch = batch, .payload = 200, .lifecycle = true}));
    MS_TRY_ASSIGN(Figure plain,
                  rate_figure(context.disk, "workflows", "jobs, " + setup, rates.jobs));
    context.report.add(std::move(plain));
    MS_TRY_ASSIGN(
        Figure figure,
        rate_figure(context.disk, "workflows",
                    fmt::format("workflows of {} steps, {}", kSteps, setup), rates.workflows));
    figure.unit = "1/s";
    figure.target = fmt::format("at most {} jobs", kWorkflowTarget);
    figure.met = rates.cost > 0 && rates.cost <= kWorkflowTarget;
    if (rates.cost > 0) {
      figure.more["cost_in_jobs"] = rates.cost;
      figure.note = fmt::format("one costs {:.2f} jobs", rates.cost);
    } else {
      figure.note = "none was completed in the time; longer runs say more";
    }
    context.report.add(std::move(figure));
  }
  return {};
}

Result<void> measure_answers(Context& context) {
  for (const int bystanders : {0, 500}) {
    MS_TRY_ASSIGN(const auto server, LocalServer::open(context.plan, "answers"));
    MS_TRY_ASSIGN(const std::vector<double> times, wake_callers(context, *server, bystanders));
    const std::string setup = bystanders == 0
                                  ? "commit until a waiting caller is answered"
                                  : fmt::format("the same while {} others wait", bystanders);
    context.report.add(
        {.name = "answers", .setup = setup, .value = percentile(times, 0.5), .unit = "us p50"});
    Figure slow{.name = "answers",
                .setup = setup,
                .value = percentile(times, 0.99),
                .unit = "us p99",
                .target = fmt::format("at most {} us", kAnswerP99)};
    slow.met = slow.value <= kAnswerP99;
    context.report.add(std::move(slow));
  }
  return {};
}

}  // namespace mainspring::cli::bench
