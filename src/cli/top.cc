// top: shows queues with rates, lag and running jobs, refreshed until Ctrl-C.
#include <fmt/format.h>

#include <algorithm>

#include "cli/handlers.h"
#include "cli/support.h"
#include "env/clock.h"
#include "env/signals.h"

namespace mainspring::cli {
namespace {

constexpr Duration kTopEvery = 2s;
constexpr std::int64_t kMostRounds = 1'000'000'000;
constexpr std::string_view kClearScreen = "\033[H\033[2J";

std::int64_t jobs_in(const QueueStats& queue, JobState state) {
  return queue.counts[static_cast<std::size_t>(state)];
}

// Jobs that ended since the queue was created, including pruned ones.
std::int64_t ended_ever(const QueueStats& queue) {
  std::int64_t live = 0;
  for (const JobState state : {JobState::waiting, JobState::scheduled, JobState::available,
                               JobState::running, JobState::retryable}) {
    live += jobs_in(queue, state);
  }
  return queue.enqueued - live;
}

struct Look {
  Now at;
  std::vector<QueueStats> queues;  // by name
  std::vector<WorkerInfo> workers;
};

struct Rates {
  double in = 0, out = 0;  // jobs per second
};

// Rates since the previous sample; none without one, or for a new queue.
Rates rates_of(const QueueStats& queue, const Look& now, const Look* before) {
  if (before == nullptr) return {};
  const auto was = std::find_if(before->queues.begin(), before->queues.end(),
                                [&](const QueueStats& one) { return one.name == queue.name; });
  const double seconds = static_cast<double>((now.at.instant - before->at.instant).count()) / 1e6;
  if (was == before->queues.end() || seconds <= 0) return {};
  const auto rate = [&](std::int64_t more) {
    return std::max(0.0, static_cast<double>(more) / seconds);
  };
  return {rate(queue.enqueued - was->enqueued), rate(ended_ever(queue) - ended_ever(*was))};
}

Duration lag_of(const QueueStats& queue, WallTime now) {
  if (!queue.oldest_available) return Duration(0);
  return std::max(now - *queue.oldest_available, Duration(0));
}

std::string rate_text(double rate) {
  return rate >= 100 ? fmt::format("{:.0f}", rate) : fmt::format("{:.1f}", rate);
}

// The queue with the oldest waiting job comes first.
std::string screen_of(const Io& io, const Look& now, const Look* before) {
  std::vector<const QueueStats*> queues;
  for (const QueueStats& queue : now.queues) queues.push_back(&queue);
  std::stable_sort(queues.begin(), queues.end(), [&](const QueueStats* a, const QueueStats* b) {
    return lag_of(*a, now.at.wall) > lag_of(*b, now.at.wall);
  });
  Table table({{"QUEUE"},
               {"IN/S", Align::right},
               {"OUT/S", Align::right},
               {"WAITING", Align::right},
               {"RUNNING", Align::right},
               {"RETRY", Align::right},
               {"DEAD", Align::right},
               {"LAG", Align::right},
               {"STATE"}});
  for (const QueueStats* queue : queues) {
    const Rates rates = rates_of(*queue, now, before);
    table.add({{queue->name},
               {before == nullptr ? "-" : rate_text(rates.in)},
               {before == nullptr ? "-" : rate_text(rates.out)},
               {format_count(jobs_in(*queue, JobState::available))},
               {format_count(jobs_in(*queue, JobState::running)), Colour::blue},
               {format_count(jobs_in(*queue, JobState::retryable)), Colour::yellow},
               {format_count(jobs_in(*queue, JobState::dead)), Colour::red},
               {queue->oldest_available ? format_age(lag_of(*queue, now.at.wall)) : "-"},
               {queue->paused ? "paused" : "", Colour::yellow}});
  }
  std::int64_t running = 0, slots = 0;
  for (const WorkerInfo& worker : now.workers) {
    running += worker.running;
    slots += worker.facts.slots;
  }
  return fmt::format("{}  {}, {} running, {} slots\n\n{}", shown_time(io, now.at.wall),
                     counted(std::ssize(now.workers), "worker"), running, slots,
                     table.empty() ? "no queues\n" : table.render(io));
}

Result<Look> look(Jobs& jobs) {
  Look out;
  MS_TRY_ASSIGN(out.queues, jobs.queues());
  // A token may have access to queues but not to workers.
  if (auto workers = jobs.workers()) out.workers = std::move(*workers);
  out.at = SystemClock().now();
  return out;
}

std::string top_json(const Look& now, const Look* before) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("at").time(now.at.wall).key("queues").begin_array();
  for (const QueueStats& queue : now.queues) {
    const Rates rates = rates_of(queue, now, before);
    w.begin_object().key("name").string(queue.name);
    w.key("in_per_second").raw(fmt::format("{:.3f}", rates.in));
    w.key("out_per_second").raw(fmt::format("{:.3f}", rates.out));
    w.key("available").number(jobs_in(queue, JobState::available));
    w.key("running").number(jobs_in(queue, JobState::running));
    w.key("lag_ms").milliseconds(lag_of(queue, now.at.wall)).end_object();
  }
  w.end_array().end_object();
  return out;
}

}  // namespace

Result<int> run_top(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto every, invocation.duration("every"));
  const Duration pause_for = every.value_or(kTopEvery);
  if (pause_for < 100ms || pause_for > 1h)
    return invalid("every",
                   fmt::format("--every {}: must be 100ms to 1h", format_duration(pause_for)));
  MS_TRY_ASSIGN(const auto count, invocation.number("count", 1, kMostRounds));
  // A script gets two samples: the second has rates.
  constexpr std::int64_t kForScripts = 2;
  const std::int64_t rounds = count.value_or(io.out_is_terminal ? kMostRounds : kForScripts);
  StopSignals signals;
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  std::optional<Look> before;
  for (std::int64_t round = 1; round <= rounds && signals.first() == 0; ++round) {
    MS_TRY_ASSIGN(Look now, look(connection->jobs()));
    const Look* last = before ? &*before : nullptr;
    if (invocation.json) {
      print_line(io, top_json(now, last));
    } else {
      io.out((io.out_is_terminal ? std::string(kClearScreen) : std::string()) +
             screen_of(io, now, last));
    }
    before = std::move(now);
    if (round < rounds) pause(pause_for, signals.stop());
  }
  return kExitOk;
}

}  // namespace mainspring::cli
