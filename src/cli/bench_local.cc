// Measurements in process.
#include "cli/bench_local.h"

#include <fmt/format.h>

#include <algorithm>

#include "broker/broker.h"
#include "cli/support.h"

namespace mainspring::cli::bench {
namespace {

constexpr double kAloneTarget = 1.35;     // times fdatasync, p50
constexpr double kLifecycle100 = 75'000;  // jobs/s
constexpr double kLifecycle1000 = 140'000;
constexpr double kShared100 = 45'000;  // the same over PostgreSQL on this machine
constexpr double kShared1000 = 90'000;
constexpr double kQueuesTarget = 0.4;  // of the single-queue lifecycle
constexpr int kQueues = 1'000;
constexpr double kSessionsTarget = 0.5;  // of the lifecycle without sessions
constexpr std::int64_t kWaiting = 100'000;

Result<Rate> local_rate(Context& context, const LoadOptions& options, LocalNode& node) {
  LocalLoad load(node.broker(), options);
  load.start();
  const Rate rate = rate_of(context.plan, node.node().store(), [&] { return load.done(); });
  MS_TRY(load.stop());
  return rate;
}

Result<void> measure_grid(Context& context, bool lifecycle) {
  const Plan& plan = context.plan;
  for (const int payload : plan.payloads) {
    for (const int clients : plan.clients) {
      for (const int batch : plan.batches) {
        if (too_heavy(clients, batch, payload)) continue;
        const std::string setup = combination("in process", clients, batch, payload);
        context.report.doing(setup);
        MS_TRY_ASSIGN(const auto node, LocalNode::open(plan, "local"));
        const LoadOptions options{
            .clients = clients, .batch = batch, .payload = payload, .lifecycle = lifecycle};
        MS_TRY_ASSIGN(const Rate rate, local_rate(context, options, *node));
        MS_TRY_ASSIGN(Figure figure,
                      rate_figure(context.disk, lifecycle ? "lifecycle" : "enqueue", setup, rate));
        if (lifecycle && payload == 200 && clients <= 16) {
          const bool shared = plan.postgres.has_value();
          if (batch == 100) set_target(figure, shared ? kShared100 : kLifecycle100);
          if (batch == 1000) set_target(figure, shared ? kShared1000 : kLifecycle1000);
        }
        figure.clients = clients;
        figure.batch = batch;
        figure.payload = payload;
        context.report.add(std::move(figure));
      }
    }
  }
  return {};
}

}  // namespace

Result<void> measure_alone(Context& context) {
  MS_TRY_ASSIGN(const auto node, LocalNode::open(context.plan, "alone"));
  const SystemClock clock;
  // Until the store's log wraps around. Before that every commit extends the file, which costs the
  // disk more; a store is in that state only for about its first thousand commits.
  constexpr int kWarmUp = 1500;
  for (const int payload : context.plan.payloads) {
    context.report.doing("one job at a time");
    std::vector<double> times;
    std::int64_t bytes = 0;
    for (int i = 0; i < context.plan.samples + kWarmUp; ++i) {
      if (i == kWarmUp) bytes = bytes_written();
      Enqueue request;
      request.jobs.resize(1);
      request.jobs[0].queue = "bench";
      request.jobs[0].kind = "bench";
      request.jobs[0].args = payload_of(payload);
      const Instant before = clock.now().instant;
      MS_TRY(node->broker().enqueue(std::move(request)));
      if (i >= kWarmUp) times.push_back(microseconds(clock.now().instant - before));
    }
    bytes = bytes_written() - bytes;
    MS_TRY_ASSIGN(Figure figure,
                  alone_figure(context, combination("in process", 1, 1, payload), times, bytes));
    figure.target = fmt::format("within {}x of the disk", kAloneTarget);
    figure.met = figure.disk <= kAloneTarget;
    context.report.add(std::move(figure));
  }
  return {};
}

Result<void> measure_enqueue(Context& context) {
  return measure_grid(context, false);
}

Result<void> measure_lifecycle(Context& context) {
  return measure_grid(context, true);
}

Result<void> measure_queues(Context& context) {
  std::vector<std::string> queues;
  for (int i = 0; i < kQueues; ++i) queues.push_back(fmt::format("bench-{}", i));
  for (const int clients : {1, 16}) {
    LoadOptions options{.clients = clients, .batch = 100, .payload = 200, .lifecycle = true};
    double rates[2] = {};
    for (const bool many : {false, true}) {
      options.queues = many ? queues : std::vector<std::string>{"bench"};
      const std::string setup =
          fmt::format("{}, {} waiting, {} clients, batch 100", many ? "1,000 queues" : "1 queue",
                      format_count(kWaiting), clients);
      context.report.doing(setup);
      MS_TRY_ASSIGN(const auto node, LocalNode::open(context.plan, "queues"));
      MS_TRY(preload(node->broker(), options, kWaiting, context.report));
      MS_TRY_ASSIGN(const Rate rate, local_rate(context, options, *node));
      MS_TRY_ASSIGN(Figure figure, rate_figure(context.disk, "queues", setup, rate));
      rates[many ? 1 : 0] = rate.jobs_per_second;
      if (many) {
        const double share = rates[1] / rates[0];
        figure.more["of_single_queue"] = share;
        figure.note = fmt::format("{:.2f}x of the single queue", share);
        figure.target = fmt::format("at least {}x of the single queue", kQueuesTarget);
        figure.met = share >= kQueuesTarget;
      }
      context.report.add(std::move(figure));
    }
  }
  return {};
}

Result<void> measure_sessions(Context& context) {
  for (const int clients : {1, 16}) {
    LoadOptions options{.clients = clients, .batch = 100, .payload = 200, .lifecycle = true};
    double without = 0;
    for (const int sessions : {0, 1'000, 100'000}) {
      options.sessions = sessions;
      const std::string setup =
          fmt::format("{}, {} waiting, {} clients, batch 100",
                      sessions == 0 ? "no sessions" : format_count(sessions) + " sessions",
                      format_count(kWaiting), clients);
      context.report.doing(setup);
      MS_TRY_ASSIGN(const auto node, LocalNode::open(context.plan, "sessions"));
      MS_TRY(preload(node->broker(), options, kWaiting, context.report));
      MS_TRY_ASSIGN(const Rate rate, local_rate(context, options, *node));
      MS_TRY_ASSIGN(Figure figure, rate_figure(context.disk, "sessions", setup, rate));
      if (sessions == 0) {
        without = rate.jobs_per_second;
      } else {
        const double share = rate.jobs_per_second / without;
        figure.more["of_plain"] = share;
        figure.note = fmt::format("{:.2f}x of that without sessions", share);
        figure.target = fmt::format("at least {}x of that without", kSessionsTarget);
        figure.met = share >= kSessionsTarget;
      }
      context.report.add(std::move(figure));
    }
  }
  return {};
}

}  // namespace mainspring::cli::bench
