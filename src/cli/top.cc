// top: shows queues with rates, lag, running jobs and times, refreshed until Ctrl-C.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "api/history_shapes.h"
#include "cli/handlers.h"
#include "cli/support.h"
#include "env/clock.h"
#include "env/signals.h"

namespace mainspring::cli {
namespace {

constexpr Duration kTopEvery = 2s;
constexpr std::int64_t kMostRounds = 1'000'000'000;
constexpr std::string_view kClearScreen = "\033[H\033[2J";
// Wait and run times are those of the last minutes. Each queue costs a request, so only the first
// kMostTimed rows have them, and they are asked for again after kTimesEvery.
constexpr Duration kTimesOf = 5min, kTimesEvery = 10s;
constexpr std::size_t kMostTimed = 32;
// Lines of the screen besides rows: the summary, a blank line, titles, the rest, the cursor.
constexpr int kOtherLines = 5;

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
  std::vector<QueueStats> queues;
  std::map<std::string_view, const QueueStats*> by_name;  // of `queues`
  std::vector<WorkerInfo> workers;
};

struct Times {
  Instant asked_at;
  HistoryTimes wait, run;
};

struct Rates {
  double in = 0, out = 0;  // jobs per second
};

// Rates since the previous sample; none without one, or for a new queue.
Rates rates_of(const QueueStats& queue, const Look& now, const Look* before) {
  if (before == nullptr) return {};
  const auto was = before->by_name.find(queue.name);
  const double seconds = static_cast<double>((now.at.instant - before->at.instant).count()) / 1e6;
  if (was == before->by_name.end() || seconds <= 0) return {};
  const auto rate = [&](std::int64_t more) {
    return std::max(0.0, static_cast<double>(more) / seconds);
  };
  const QueueStats& old = *was->second;
  return {rate(queue.enqueued - old.enqueued), rate(ended_ever(queue) - ended_ever(old))};
}

Duration lag_of(const QueueStats& queue, WallTime now) {
  if (!queue.oldest_available) return Duration(0);
  return std::max(now - *queue.oldest_available, Duration(0));
}

std::string rate_text(double rate) {
  return rate >= 100 ? fmt::format("{:.0f}", rate) : fmt::format("{:.1f}", rate);
}

// The queue with the oldest waiting job comes first.
std::vector<const QueueStats*> by_lag(const Look& now) {
  std::vector<const QueueStats*> queues;
  for (const QueueStats& queue : now.queues) queues.push_back(&queue);
  std::stable_sort(queues.begin(), queues.end(), [&](const QueueStats* a, const QueueStats* b) {
    return lag_of(*a, now.at.wall) > lag_of(*b, now.at.wall);
  });
  return queues;
}

// The rows that fit the terminal; all without one.
std::size_t rows_of(const Io& io, std::size_t queues) {
  const int height = io.height ? io.height() : 0;
  if (height <= 0) return queues;
  return std::min(queues, static_cast<std::size_t>(std::max(height - kOtherLines, 1)));
}

class QueueTimes {
 public:
  explicit QueueTimes(Client& client) : client_(client) {}
  // Of one queue, at most kTimesEvery old; without values if the token may not read them.
  Times of(const std::string& queue, const Now& now) {
    const auto known = known_.find(queue);
    if (known != known_.end() && now.instant - known->second.asked_at < kTimesEvery)
      return known->second;
    Times times{.asked_at = now.instant, .wait = {}, .run = {}};
    HistoryFilter filter;
    filter.queue = queue;
    filter.from = now.wall - kTimesOf;
    if (const auto history = client_.history(filter)) {
      times.wait = history->total.wait;
      times.run = history->total.run;
    }
    if (known_.size() >= 2 * kMostTimed) known_.clear();
    return known_[queue] = times;
  }

 private:
  Client& client_;
  std::map<std::string, Times> known_;  // up to 2 * kMostTimed
};

Cell time_cell(const HistoryTimes& times, Duration value) {
  return {times.count == 0 ? "-" : short_duration(value)};
}

std::string summary_of(const Io& io, const Look& now) {
  std::int64_t running = 0, slots = 0;
  for (const WorkerInfo& worker : now.workers) {
    running += worker.running;
    slots += worker.facts.slots;
  }
  return fmt::format("{}  {}, {} running, {} slots\n", shown_time(io, now.at.wall),
                     counted(std::ssize(now.workers), "worker"), running, slots);
}

std::string screen_of(const Io& io, const Look& now, const Look* before, QueueTimes& times) {
  const std::vector<const QueueStats*> queues = by_lag(now);
  Table table({{.title = "QUEUE", .keep = true},
               {"IN/S", Align::right},
               {"OUT/S", Align::right},
               {"WAITING", Align::right},
               {"RUNNING", Align::right},
               {.title = "RETRY", .align = Align::right, .drop = 3},
               {"DEAD", Align::right},
               {"LAG", Align::right},
               {.title = "WAIT50", .align = Align::right, .drop = 1},
               {"WAIT95", Align::right},
               {.title = "RUN50", .align = Align::right, .drop = 2},
               {"RUN95", Align::right},
               {.title = "STATE", .if_any = true, .whole = true}});
  const std::size_t rows = rows_of(io, queues.size());
  for (std::size_t i = 0; i < rows; ++i) {
    const QueueStats& queue = *queues[i];
    const Rates rates = rates_of(queue, now, before);
    const Times took = i < kMostTimed ? times.of(queue.name, now.at) : Times{};
    table.add({{queue.name},
               {before == nullptr ? "-" : rate_text(rates.in)},
               {before == nullptr ? "-" : rate_text(rates.out)},
               {format_count(jobs_in(queue, JobState::available))},
               {format_count(jobs_in(queue, JobState::running)), Colour::blue},
               {format_count(jobs_in(queue, JobState::retryable)), Colour::yellow},
               {format_count(jobs_in(queue, JobState::dead)), Colour::red},
               {queue.oldest_available ? format_age(lag_of(queue, now.at.wall)) : "-"},
               time_cell(took.wait, took.wait.p50),
               time_cell(took.wait, took.wait.p95),
               time_cell(took.run, took.run.p50),
               time_cell(took.run, took.run.p95),
               {queue.paused ? "paused" : "", Colour::yellow}});
  }
  std::string out = summary_of(io, now) + '\n';
  out += table.empty() ? "no queues\n" : table.render(io);
  const auto rest = static_cast<std::int64_t>(queues.size() - rows);
  if (rest > 0) out += fmt::format("and {} with less lag\n", counted(rest, "queue"));
  return out;
}

Result<Look> look(Jobs& jobs) {
  Look out;
  MS_TRY_ASSIGN(out.queues, jobs.queues());
  for (const QueueStats& queue : out.queues) out.by_name.emplace(queue.name, &queue);
  // A token may have access to queues but not to workers.
  if (auto workers = jobs.workers()) out.workers = std::move(*workers);
  out.at = SystemClock().now();
  return out;
}

std::string top_json(const Look& now, const Look* before, QueueTimes& times) {
  std::set<std::string_view> timed;
  for (const QueueStats* queue : by_lag(now)) {
    if (timed.size() < kMostTimed) timed.insert(queue->name);
  }
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
    w.key("retryable").number(jobs_in(queue, JobState::retryable));
    w.key("dead").number(jobs_in(queue, JobState::dead));
    w.key("lag_ms").milliseconds(lag_of(queue, now.at.wall));
    w.key("paused").boolean(queue.paused);
    if (timed.contains(queue.name)) {
      const Times took = times.of(queue.name, now.at);
      write_times(w, "wait", took.wait);
      write_times(w, "run", took.run);
    }
    w.end_object();
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
  QueueTimes times(*connection->client);
  const std::string clear = io.out_is_terminal ? std::string(kClearScreen) : std::string();
  std::optional<Look> before;
  for (std::int64_t round = 1; round <= rounds && signals.first() == 0; ++round) {
    if (round > 1) pause(pause_for, signals.stop());
    if (signals.first() != 0) break;
    auto now = look(connection->jobs());
    const Look* last = before ? &*before : nullptr;
    // A server that was there is restarting.
    if (!now && last != nullptr && is_away(now.error())) {
      io.err(fmt::format("{}server away, trying again: {}\n", clear, now.error().message));
      continue;
    }
    if (!now) return now.error();
    if (invocation.json) {
      print_line(io, top_json(*now, last, times));
    } else {
      io.out(clear + screen_of(io, *now, last, times));
    }
    before = std::move(*now);
  }
  return kExitOk;
}

}  // namespace mainspring::cli
