// The gates in the order in which a job passes them.
#include "broker/why.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/queue_pattern.h"

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
  if (job.run_at <= now) return {Gate::claim, fmt::format("due since {}", when), {}};
  if (job.state == JobState::retryable) {
    const std::string last = job.errors.empty() ? "" : ": " + job.errors.back().message;
    return {Gate::time,
            fmt::format("attempt {} of {} failed; the next is at {}{}", job.attempt,
                        job.max_attempts, when, last),
            job.run_at};
  }
  return {Gate::time, fmt::format("scheduled: runs at {}", when), job.run_at};
}

// Quotes it for a shell.
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

// A worker that neither waits for jobs nor runs one has ended, asks only sometimes, or has been
// told to claim nothing.
bool is_there(const WorkerInfo& worker) {
  return worker.parked || worker.running > 0;
}

std::string seconds_of(Duration duration) {
  return format_duration(std::chrono::round<std::chrono::seconds>(duration));
}

Why held_by_workers(const Job& job, const std::vector<WorkerInfo>& workers) {
  std::vector<const WorkerInfo*> theirs;
  for (const WorkerInfo& worker : workers) {
    const auto takes = [&](const auto& queue) { return fits_pattern(queue, job.queue); };
    if (std::any_of(worker.queues.begin(), worker.queues.end(), takes)) theirs.push_back(&worker);
  }
  if (theirs.empty())
    return {Gate::no_worker, fmt::format("no recent worker takes jobs of queue {}", job.queue), {}};
  const auto* last = *std::min_element(
      theirs.begin(), theirs.end(), [](auto* a, auto* b) { return a->last_seen < b->last_seen; });
  std::erase_if(theirs, [](const WorkerInfo* worker) { return !is_there(*worker); });
  if (theirs.empty()) {
    return {Gate::no_worker,
            fmt::format("no worker waits for jobs of queue {}: the last one, {}, was seen {} ago",
                        job.queue, last->id, seconds_of(last->last_seen)),
            {}};
  }
  if (std::any_of(theirs.begin(), theirs.end(), [](auto* worker) { return worker->parked; })) {
    return {Gate::claim,
            fmt::format("workers wait for jobs of queue {}: the job is about to be claimed, or "
                        "none of them takes jobs of kind {}",
                        job.queue, job.kind),
            {}};
  }
  const bool one = theirs.size() == 1;
  return {Gate::busy_workers,
          fmt::format("{} {} jobs of queue {}; all {} slots are busy", theirs.size(),
                      one ? "worker takes" : "workers take", job.queue, one ? "its" : "their"),
          {}};
}

// Describes the queue's order apart from the priority.
std::string order_words(const Job& job, const QueueLimits& limits, WallTime now) {
  std::string text;
  const int counts = effective_priority(job.priority, job.run_at, limits.ageing, now);
  if (counts != job.priority)
    text += fmt::format("; its priority {} counts as {} by now", job.priority, counts);
  if (limits.per_key.fair) text += "; limit keys are served fairly";
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
          fmt::format("deferred by its worker{}; run it with `mainspring work --queue {} --job "
                      "{}`, or make it available with `mainspring jobs retry {}`",
                      why, job.queue, job.id, job.id),
          {}};
}

Why held_by_quarantine(const Job& job, WallTime now) {
  const Quarantine& q = *job.quarantined;
  const std::string when =
      job.run_at > now ? fmt::format(", not before {}", format_wall_time(job.run_at)) : "";
  return {
      Gate::quarantine,
      fmt::format("in quarantine since {}: its last {} attempts {} lost with their workers; it "
                  "waits for its release{}; `mainspring quarantine release {}` releases it now",
                  format_wall_time(q.since), q.lost, q.lost == 1 ? "was" : "were", when, job.id),
      {}};
}

std::optional<Why> held_by_limits(const QueueStats& queue, WallTime now) {
  const std::int64_t running = queue.counts[static_cast<std::size_t>(JobState::running)];
  const auto& most = queue.limits.concurrency;
  if (most && running >= *most) {
    return Why{
        Gate::concurrency,
        fmt::format("{} {} of queue {} {}; the limit is {}", running, running == 1 ? "job" : "jobs",
                    queue.name, running == 1 ? "runs" : "run", *most),
        {}};
  }
  if (!queue.limits.rate || !queue.opens_at || *queue.opens_at <= now) return std::nullopt;
  const RateLimit& rate = *queue.limits.rate;
  return Why{Gate::rate,
             fmt::format("queue {} starts at most {} {} per {}: closed until {}", queue.name,
                         rate.count, rate.count == 1 ? "job" : "jobs", format_duration(rate.per),
                         format_wall_time(*queue.opens_at)),
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
             fmt::format("breaker {} of queue {} is half open: {} {}; the limit is {} until {} "
                         "succeeded",
                         breaker.name, job.queue, breaker.probes,
                         breaker.probes == 1 ? "probe runs" : "probes run", breaker.room,
                         breaker.room == 1 ? "one has" : "that many have"),
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
        fmt::format("{} {} of queue {} with limit_key \"{}\" {}; the limit is {}", key.running,
                    one ? "job" : "jobs", job.queue, job.limit_key, one ? "runs" : "run", *most),
        {}};
  }
  if (!limits.rate || !key.opens_at || *key.opens_at <= now) return std::nullopt;
  return Why{Gate::key_rate,
             fmt::format("queue {} starts at most {} {} per {} with limit_key \"{}\": closed for "
                         "this key until {}",
                         job.queue, limits.rate->count, limits.rate->count == 1 ? "job" : "jobs",
                         format_duration(limits.rate->per), job.limit_key,
                         format_wall_time(*key.opens_at)),
             key.opens_at};
}

// The head of a session has no other gate than the session's holder.
Why held_by_session(const Job& job, const SessionInfo* session) {
  if (session == nullptr)
    return {
        Gate::session_head, fmt::format("waits for its turn in session \"{}\"", job.session), {}};
  const std::string resume =
      fmt::format("`mainspring sessions resume {} {}`", job.queue, quoted(job.session));
  if (session->head != 0 && session->head != job.id) {
    return {Gate::session_head,
            fmt::format("waits for job {}, the head of session \"{}\" with {} jobs", session->head,
                        job.session, session->jobs),
            {}};
  }
  if (session->stop == SessionStop::blocked) {
    return {
        Gate::session_stopped,
        fmt::format("session \"{}\" is blocked by dead job {}: retry that job, or continue without "
                    "it: {}",
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
        fmt::format("session \"{}\" is held by worker {} for at least {}: only that worker gets "
                    "the job",
                    job.session, session->worker,
                    format_duration(std::chrono::ceil<std::chrono::seconds>(session->expires_in))),
        {}};
  }
  return {Gate::session_head, fmt::format("is the head of session \"{}\"", job.session), {}};
}

constexpr Duration kFarthest = std::chrono::hours(24 * 366);

// The start time after this many others, each of which takes `of` / `n`.
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
  why.text +=
      ahead == 0
          ? std::string("; it is next")
          : fmt::format("; {}{}{} {} before it", ahead < kMaxAhead ? "" : "at least ", *why.ahead,
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
    by = fmt::format(" at {} of the last {}", of_key ? "its key's share of the pace" : "the pace",
                     seconds_of(pace->in));
  }
  if (!why.estimated_start) return;
  why.text += fmt::format("; estimated start {}{}", format_wall_time(*why.estimated_start), by);
}

void add_before_in_quarantine(Why& why, std::int64_t ahead) {
  why.ahead = std::min(ahead, kMaxAhead);
  why.text += ahead == 0 ? std::string("; it is next")
                         : fmt::format("; {} {} before it", *why.ahead, ahead == 1 ? "is" : "are");
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
  // A pause holds back due and future jobs: it is the more useful answer.
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
