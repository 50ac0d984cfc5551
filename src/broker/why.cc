// The gates in the order in which a job passes them.
#include "broker/why.h"

#include <fmt/format.h>

#include <algorithm>

namespace mainspring {
namespace {

std::string how_it_ended(const Job& job) {
  std::string text(to_string(job.state));
  if (!job.reason.empty()) text += ": " + job.reason;
  if (!job.description.empty()) text += ", " + job.description;
  if (job.description.empty() && !job.errors.empty()) text += ", " + job.errors.back().message;
  return "it is " + text;
}

std::string how_it_runs(const Job& job) {
  std::string text =
      fmt::format("it runs at {}, attempt {} of {}", job.worker, job.attempt, job.max_attempts);
  if (job.cancel_requested) text += "; its worker has been asked to stop it";
  return text;
}

Why held_by_time(const Job& job, WallTime now) {
  const std::string when = format_wall_time(job.run_at);
  if (job.run_at <= now) return {Gate::claim, fmt::format("it has been due since {}", when), {}};
  if (job.state == JobState::retryable) {
    const std::string last = job.errors.empty() ? "" : ": " + job.errors.back().message;
    return {Gate::time,
            fmt::format("attempt {} of {} failed; the next is at {}{}", job.attempt,
                        job.max_attempts, when, last),
            job.run_at};
  }
  return {Gate::time, fmt::format("it is scheduled for {}", when), job.run_at};
}

// As a word of a shell.
std::string quoted(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._:/-@+,").find(c) != std::string_view::npos;
  });
  if (plain) return text;
  std::string out = "'";
  for (const char c : text) c == '\'' ? out += "'\\''" : out += c;
  return out + "'";
}

Why held_by_workers(const Job& job, const std::vector<WorkerInfo>& workers) {
  const auto takes = [&](const WorkerInfo& worker) {
    return std::find(worker.queues.begin(), worker.queues.end(), job.queue) != worker.queues.end();
  };
  const auto theirs = std::count_if(workers.begin(), workers.end(), takes);
  if (theirs == 0) {
    return {Gate::no_worker,
            fmt::format("no worker that was heard of lately takes jobs of queue {}", job.queue),
            {}};
  }
  const bool idle = std::any_of(workers.begin(), workers.end(), [&](const WorkerInfo& worker) {
    return takes(worker) && worker.parked;
  });
  if (idle) {
    return {Gate::claim,
            fmt::format("a worker waits for jobs of queue {}: it is about to be claimed, or none "
                        "of them takes jobs of kind {}",
                        job.queue, job.kind),
            {}};
  }
  return {
      Gate::busy_workers,
      fmt::format("{} {} of queue {} {} as much as {}", theirs, theirs == 1 ? "worker" : "workers",
                  job.queue, theirs == 1 ? "has" : "have", theirs == 1 ? "it wants" : "they want"),
      {}};
}

// What else than its priority decides when its turn comes.
std::string order_words(const Job& job, const QueueLimits& limits, WallTime now) {
  std::string text;
  const int counts = effective_priority(job.priority, job.run_at, limits.ageing, now);
  if (counts != job.priority)
    text += fmt::format("; its priority {} counts as {} by now", job.priority, counts);
  if (limits.per_key.fair) text += "; limit keys take turns";
  return text;
}

Why held_by_pause(const QueueStats& queue) {
  std::string text = fmt::format("queue {} is paused", queue.name);
  Why why{Gate::queue_paused, {}, {}};
  if (queue.pause) {
    const QueuePause& pause = *queue.pause;
    if (!pause.by.empty()) text += " by " + pause.by;
    text += " since " + format_wall_time(pause.at);
    if (pause.until) text += " until " + format_wall_time(*pause.until);
    if (!pause.reason.empty()) text += ": " + pause.reason;
    why.until = pause.until;
  }
  why.text = fmt::format("{}; `mainspring queues resume {}` ends the pause", text, queue.name);
  return why;
}

Why held_by_itself(const Job& job) {
  const std::string why = job.reason.empty() ? "" : ": " + job.reason;
  return {Gate::deferred,
          fmt::format("its worker deferred it{}; `mainspring work --queue {} --job {}` takes it, "
                      "`mainspring jobs retry {}` puts it back in line",
                      why, job.queue, job.id, job.id),
          {}};
}

Why held_by_quarantine(const Job& job, WallTime now) {
  const Quarantine& q = *job.quarantined;
  const std::string when =
      job.run_at > now ? fmt::format(", not before {}", format_wall_time(job.run_at)) : "";
  return {
      Gate::quarantine,
      fmt::format("it is in quarantine since {}: {} of its attempts {} lost one behind the "
                  "other, with their workers; it runs alone when its turn comes{}; "
                  "`mainspring quarantine release {}` puts it back in line",
                  format_wall_time(q.since), q.lost, q.lost == 1 ? "was" : "were", when, job.id),
      {}};
}

std::optional<Why> held_by_limits(const QueueStats& queue, WallTime now) {
  const std::int64_t running = queue.counts[static_cast<std::size_t>(JobState::running)];
  const auto& most = queue.limits.concurrency;
  if (most && running >= *most) {
    return Why{Gate::concurrency,
               fmt::format("{} {} of queue {} {}, and no more than {} may run at once", running,
                           running == 1 ? "job" : "jobs", queue.name, running == 1 ? "runs" : "run",
                           *most),
               {}};
  }
  if (!queue.limits.rate || !queue.opens_at || *queue.opens_at <= now) return std::nullopt;
  const RateLimit& rate = *queue.limits.rate;
  return Why{Gate::rate,
             fmt::format("queue {} begins no more than {} {} per {}: it is closed until {}",
                         queue.name, rate.count, rate.count == 1 ? "job" : "jobs",
                         format_duration(rate.per), format_wall_time(*queue.opens_at)),
             queue.opens_at};
}

std::optional<Why> held_by_breaker(const Job& job, const BreakerInfo& breaker, WallTime now) {
  if (breaker.state == BreakerState::open && *breaker.open_until > now) {
    return Why{Gate::breaker,
               fmt::format("breaker {} of queue {} is open until {}", breaker.name, job.queue,
                           format_wall_time(*breaker.open_until)),
               breaker.open_until};
  }
  if (breaker.state != BreakerState::half_open || breaker.probes < breaker.room)
    return std::nullopt;
  return Why{Gate::breaker,
             fmt::format("breaker {} of queue {} is half open: {} {}, and no more than {} may run "
                         "at once until {} succeeded",
                         breaker.name, job.queue, breaker.probes,
                         breaker.probes == 1 ? "probe runs" : "probes run", breaker.room,
                         breaker.room == 1 ? "one has" : "as many have"),
             {}};
}

std::optional<Why> held_by_key(const Job& job, const KeyLimits& limits, const LimitKeyInfo& key,
                               WallTime now) {
  if (job.limit_key.empty()) return std::nullopt;
  const auto& most = limits.concurrency;
  if (most && key.running >= *most) {
    const bool one = key.running == 1;
    return Why{
        Gate::key_concurrency,
        fmt::format("{} {} of queue {} with limit_key \"{}\" {}, and no more than {} may run "
                    "at once",
                    key.running, one ? "job" : "jobs", job.queue, job.limit_key,
                    one ? "runs" : "run", *most),
        {}};
  }
  if (!limits.rate || !key.opens_at || *key.opens_at <= now) return std::nullopt;
  return Why{Gate::key_rate,
             fmt::format("queue {} begins no more than {} {} per {} with limit_key \"{}\": it is "
                         "closed for these until {}",
                         job.queue, limits.rate->count, limits.rate->count == 1 ? "job" : "jobs",
                         format_duration(limits.rate->per), job.limit_key,
                         format_wall_time(*key.opens_at)),
             key.opens_at};
}

// A job with the turn waits where it would be available, while somebody holds the session.
Why held_by_session(const Job& job, const SessionInfo* session) {
  if (session == nullptr)
    return {Gate::session_turn,
            fmt::format("it waits for its turn in session \"{}\"", job.session),
            {}};
  const std::string resume =
      fmt::format("`mainspring sessions resume {} {}`", job.queue, quoted(job.session));
  if (session->turn != 0 && session->turn != job.id) {
    return {Gate::session_turn,
            fmt::format("it waits for job {}, which has the turn in session \"{}\" of {} jobs",
                        session->turn, job.session, session->jobs),
            {}};
  }
  if (session->stop == SessionStop::blocked) {
    return {
        Gate::session_stopped,
        fmt::format("session \"{}\" is blocked by dead job {}: retry that job, or go on without "
                    "it by {}",
                    job.session, session->stopped_by, resume),
        {}};
  }
  if (session->stop == SessionStop::parked) {
    return {Gate::session_stopped,
            fmt::format("session \"{}\" is parked since job {} died: {}", job.session,
                        session->stopped_by, resume),
            {}};
  }
  if (!session->worker.empty()) {
    return {
        Gate::session_held,
        fmt::format("session \"{}\" is held by worker {} for {} at least: only it gets the job",
                    job.session, session->worker,
                    format_duration(std::chrono::ceil<std::chrono::seconds>(session->expires_in))),
        {}};
  }
  return {Gate::session_turn, fmt::format("its turn in session \"{}\" has come", job.session), {}};
}

constexpr Duration kFarthest = std::chrono::hours(24 * 366);

// After so many others, of which each takes `of` / `n`.
std::optional<WallTime> after(std::int64_t others, Duration of, double n, WallTime from) {
  if (others == 0) return from;
  if (n <= 0) return std::nullopt;
  const double in = static_cast<double>(of.count()) / n * static_cast<double>(others);
  if (in > static_cast<double>(kFarthest.count())) return std::nullopt;
  return from + Duration(static_cast<std::int64_t>(in));
}

}  // namespace

Line line_of(Gate gate) {
  switch (gate) {
    case Gate::concurrency:
    case Gate::rate:
    case Gate::breaker:
    case Gate::busy_workers:
      return Line::queue;
    case Gate::key_concurrency:
    case Gate::key_rate:
      return Line::limit_key;
    default:
      return Line::none;
  }
}

void add_estimate(Why& why, const QueueStats& queue, std::int64_t ahead,
                  const std::optional<Pace::Seen>& pace, WallTime now, const LimitKeyInfo& key) {
  why.ahead = std::min(ahead, kMaxAhead);
  const bool of_key = line_of(why.gate) == Line::limit_key;
  why.text += fmt::format("; {}{}{} {} before it", ahead < kMaxAhead ? "" : "at least ", *why.ahead,
                          of_key ? " with its limit_key" : "", ahead == 1 ? "is" : "are");
  if (ahead >= kMaxAhead) return;
  const auto by_rate = [&](const RateLimit& rate) {
    return after(ahead, rate.per, rate.count, why.until.value_or(now));
  };
  std::string by;
  if (why.gate == Gate::rate) {
    why.estimated_start = by_rate(*queue.limits.rate);
  } else if (why.gate == Gate::key_rate) {
    why.estimated_start = by_rate(*queue.limits.per_key.rate);
  } else if (why.gate == Gate::breaker && why.until && ahead == 0) {
    why.estimated_start = why.until;
  } else if (pace) {
    double ended = static_cast<double>(pace->ended);
    if (of_key) {
      const std::int64_t running = queue.counts[static_cast<std::size_t>(JobState::running)];
      ended *= static_cast<double>(key.running) /
               static_cast<double>(std::max({running, key.running, std::int64_t{1}}));
    }
    const bool opens = why.gate == Gate::breaker && why.until;
    why.estimated_start =
        after(opens ? ahead : ahead + 1, pace->in, ended, opens ? *why.until : now);
    by = fmt::format(" at {} of the last {}", of_key ? "its key's share in the pace" : "the pace",
                     format_duration(std::chrono::round<std::chrono::seconds>(pace->in)));
  }
  if (!why.estimated_start) return;
  why.text += fmt::format("; it begins about {}{}", format_wall_time(*why.estimated_start), by);
}

void add_before_in_quarantine(Why& why, std::int64_t ahead) {
  why.ahead = std::min(ahead, kMaxAhead);
  why.text += fmt::format("; {} {} before it in there", *why.ahead, ahead == 1 ? "is" : "are");
}

Why why_of(const Job& job, const QueueStats* queue, const std::vector<WorkerInfo>& workers,
           const SessionInfo* session, WallTime now, const LimitKeyInfo& key,
           const BreakerInfo* breaker) {
  if (is_terminal(job.state)) return {Gate::ended, how_it_ended(job), {}};
  if (job.state == JobState::running) return {Gate::running, how_it_runs(job), {}};
  if (job.deferred) return held_by_itself(job);
  if (job.state == JobState::waiting && !job.session.empty()) return held_by_session(job, session);
  if (job.state == JobState::waiting) {
    return {Gate::earlier_run, "an earlier run of its schedule has not ended", {}};
  }
  // A pause holds what is due and what is not: it is the more useful answer.
  if (queue != nullptr && queue->paused) {
    return held_by_pause(*queue);
  }
  if (job.quarantined && !job.quarantined->released) return held_by_quarantine(job, now);
  if (job.state != JobState::available) return held_by_time(job, now);
  if (breaker != nullptr) {
    if (auto held = held_by_breaker(job, *breaker, now)) return std::move(*held);
  }
  const auto in_line = [&](Why why) {
    if (queue != nullptr) why.text += order_words(job, queue->limits, now);
    return why;
  };
  if (queue != nullptr && !queue->limits.costs.empty()) {
    if (auto held = held_by_cost(job, *queue, key, now)) return in_line(std::move(*held));
  } else if (queue != nullptr) {
    if (auto limit = held_by_limits(*queue, now)) return in_line(std::move(*limit));
    if (auto of_key = held_by_key(job, queue->limits.per_key, key, now))
      return in_line(std::move(*of_key));
  }
  return in_line(held_by_workers(job, workers));
}

}  // namespace mainspring
