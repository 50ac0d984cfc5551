// Measurements of timing: how late jobs start, and how a million jobs that are due at one instant
// affect other callers.
#include <fmt/format.h>

#include <algorithm>

#include "broker/broker.h"
#include "cli/bench_local.h"
#include "cli/support.h"
#include "env/random.h"
#include "worker/worker.h"

namespace mainspring::cli::bench {
namespace {

constexpr double kLatenessP50 = 2'000;   // us
constexpr double kLatenessP99 = 10'000;  // us
constexpr double kDueBlocked = 100'000;  // us
constexpr Duration kLead = 2s;           // between the enqueue and the first due time

// Jobs of kind "tick": when they started, compared with when they were due.
class Punctuality {
 public:
  HandlerResult operator()(const ClaimedJob& job) {
    const MutexLock lock(mutex_);
    late_.push_back(microseconds(clock_.now().wall - job.run_at));
    if (late_.size() >= wanted_) done_.notify_all();
    return Outcome(Complete{});
  }
  std::vector<double> wait_for(std::size_t wanted, Duration limit) {
    const Instant end = clock_.now().instant + limit;
    const MutexLock lock(mutex_);
    wanted_ = wanted;
    for (Instant now; late_.size() < wanted && (now = clock_.now().instant) < end;)
      done_.wait_for(mutex_, end - now);
    return late_;
  }

 private:
  SystemClock clock_;
  Mutex mutex_;
  CondVar done_;
  std::size_t wanted_ MS_GUARDED_BY(mutex_) = 0;
  std::vector<double> late_ MS_GUARDED_BY(mutex_);
};

Figure bounded(Figure figure, double at_most, std::string_view bound) {
  figure.target = fmt::format("at most {}", bound);
  figure.met = figure.value <= at_most;
  return figure;
}

// Repeats a call until it is stopped; records how long each call took.
template <class Call>
std::vector<double> times_while(const std::stop_token& stop, Call call) {
  const SystemClock clock;
  std::vector<double> times;
  while (!stop.stop_requested()) {
    const Instant before = clock.now().instant;
    if (!call()) break;
    times.push_back(microseconds(clock.now().instant - before));
  }
  return times;
}

Result<void> enqueue_at(Broker& broker, const std::string& queue, WallTime first, Duration span,
                        std::int64_t count, Report& report) {
  constexpr std::int64_t kChunk = 5'000;
  for (std::int64_t made = 0; made < count;) {
    Enqueue request;
    request.jobs.resize(static_cast<std::size_t>(std::min(kChunk, count - made)));
    for (NewJob& job : request.jobs) {
      job.queue = queue;
      job.kind = "tick";
      job.run_at = first + span * made++ / count;
    }
    MS_TRY(broker.enqueue(std::move(request)));
    report.doing(fmt::format("scheduling: {} of {}", format_count(made), format_count(count)));
  }
  return {};
}

}  // namespace

Result<void> measure_lateness(Context& context) {
  const std::int64_t jobs = context.plan.quick ? 1'000 : 10'000;
  const Duration span = context.plan.quick ? 6s : 60s;
  MS_TRY_ASSIGN(const auto node, LocalNode::open(context.plan, "lateness"));
  const SystemClock clock;
  SystemRandom random;
  StderrLog log(LogLevel::error);
  Punctuality punctuality;
  MS_TRY(enqueue_at(node->broker(), "bench", clock.now().wall + kLead, span, jobs, context.report));
  WorkerRuntime worker(node->broker(), clock, random, log, {.queues = {"bench"}, .slots = 4});
  worker.on("tick", [&](const ClaimedJob& job, mainspring::Context&) { return punctuality(job); });
  MS_TRY(worker.start());
  context.report.doing(fmt::format("{} jobs over {}", format_count(jobs), format_duration(span)));
  const std::vector<double> late =
      punctuality.wait_for(static_cast<std::size_t>(jobs), kLead + span + 30s);
  worker.stop();
  if (static_cast<std::int64_t>(late.size()) < jobs) {
    return Error{.code = ErrorCode::timeout,
                 .message = fmt::format("{} of {} jobs started", late.size(), jobs)};
  }
  const std::string setup =
      fmt::format("{} jobs over {}, start after run_at", format_count(jobs), format_duration(span));
  Figure p50{.name = "lateness", .setup = setup, .value = percentile(late, 0.5), .unit = "us p50"};
  p50.more["max_us"] = percentile(late, 1);
  p50.more["disk_4k_us"] = context.disk.sync_us(1).value_or(0);
  p50.note =
      fmt::format("least {:.0f} us, most {:.0f} us", percentile(late, 0), percentile(late, 1));
  context.report.add(bounded(std::move(p50), kLatenessP50, "2 ms"));
  context.report.add(bounded(
      {.name = "lateness", .setup = setup, .value = percentile(late, 0.99), .unit = "us p99"},
      kLatenessP99, "10 ms"));
  return {};
}

Result<void> measure_due(Context& context) {
  const std::int64_t jobs = context.plan.preload;
  MS_TRY_ASSIGN(const auto node, LocalNode::open(context.plan, "due"));
  Broker& broker = node->broker();
  const SystemClock clock;
  // The due time must be after scheduling has finished, however long it takes.
  const Duration allowance = context.plan.quick ? 8s : 40s;
  const WallTime due = clock.now().wall + allowance;
  MS_TRY(enqueue_at(broker, "due", due, 0s, jobs, context.report));
  MS_TRY(preload(broker, LoadOptions{}, 100'000, context.report));
  if (clock.now().wall > due)
    return Error{.code = ErrorCode::timeout, .message = "scheduling took longer than allowed for"};
  context.report.doing("waiting for their time");
  const Duration rest = due - clock.now().wall;
  pass(rest > 1s ? rest - 1s : 0s);

  std::stop_source stop;
  std::vector<double> enqueues, claims;
  std::thread enqueuer([&] {
    enqueues = times_while(stop.get_token(), [&] {
      Enqueue request;
      request.jobs = {NewJob{.queue = "other", .kind = "bench"}};
      return broker.enqueue(std::move(request)).has_value();
    });
  });
  std::thread claimer([&] {
    claims = times_while(stop.get_token(), [&] {
      return broker.claim({.worker = "bench", .queues = {"bench"}, .max = 1}, 0s, {}).has_value();
    });
  });
  const Instant end = clock.now().instant + 120s;
  const auto moved = [&] {
    const auto queues = broker.queues();
    for (const QueueStats& queue : queues ? *queues : std::vector<QueueStats>{}) {
      if (queue.name == "due") return queue.counts[static_cast<int>(JobState::available)] >= jobs;
    }
    return false;
  };
  while (!moved() && clock.now().instant < end) pass(10ms);
  const double took = microseconds(clock.now().wall - due) / 1e6;
  stop.request_stop();
  enqueuer.join();
  claimer.join();
  const std::string what = fmt::format("while {} jobs become due at once", format_count(jobs));
  context.report.add({.name = "due",
                      .setup = fmt::format("until {} jobs are available", format_count(jobs)),
                      .value = took,
                      .unit = "s"});
  context.report.add(bounded(
      {.name = "due",
       .setup = "longest enqueue " + what,
       .value = percentile(enqueues, 1),
       .unit = "us",
       .more = {{"p50_us", percentile(enqueues, 0.5)}, {"p99_us", percentile(enqueues, 0.99)}},
       .note = fmt::format("p50 {:.0f} us, p99 {:.0f} us, {} of them", percentile(enqueues, 0.5),
                           percentile(enqueues, 0.99),
                           format_count(static_cast<std::int64_t>(enqueues.size())))},
      kDueBlocked, "100 ms"));
  context.report.add(
      bounded({.name = "due",
               .setup = "longest claim " + what,
               .value = percentile(claims, 1),
               .unit = "us",
               .more = {{"p50_us", percentile(claims, 0.5)}, {"p99_us", percentile(claims, 0.99)}},
               .note = fmt::format("p50 {:.0f} us, p99 {:.0f} us, {} of them",
                                   percentile(claims, 0.5), percentile(claims, 0.99),
                                   format_count(static_cast<std::int64_t>(claims.size())))},
              kDueBlocked, "100 ms"));
  return {};
}

}  // namespace mainspring::cli::bench
