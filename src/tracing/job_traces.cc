// Trace contexts of jobs, and the spans of jobs.
#include "tracing/job_traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/fnv.h"

namespace mainspring {
namespace {

constexpr std::array<std::string_view, std::variant_size_v<Outcome>> kOutcomes = {
    "complete", "retry", "snooze", "cancel", "dead", "defer"};
constexpr std::string_view kScheduleHeader = "mainspring-schedule";
// Contexts of one enqueue; further jobs of it are not traced.
constexpr std::size_t kMaxSends = 1000;

}  // namespace

struct TraceSends {
  WallTime start;
  struct One {
    std::size_t index = 0;  // of the job in its request
    Span span;
  };
  std::vector<One> all;
};

JobTraces::JobTraces(Sampler sampler, std::string salt, SpanSink& sink, Random& random,
                     TraceServer server)
    : sampler_(sampler),
      salt_(std::move(salt)),
      server_(std::move(server)),
      sink_(sink),
      chance_(random.next()) {}

// Source: https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/
decltype(Span::attributes) JobTraces::messaging(std::string_view operation,
                                                const std::string& queue,
                                                const std::string& kind) const {
  decltype(Span::attributes) out = {{"messaging.system", "mainspring"},
                                    {"messaging.destination.name", queue},
                                    {"messaging.operation.name", std::string(operation)}};
  if (operation != "wait") out.emplace_back("messaging.operation.type", std::string(operation));
  if (!server_.address.empty()) {
    out.emplace_back("server.address", server_.address);
    if (server_.port != 0) out.emplace_back("server.port", std::int64_t{server_.port});
  }
  out.emplace_back("mainspring.job.kind", kind);
  return out;
}

template <std::size_t N>
void JobTraces::fill(std::array<std::uint8_t, N>& bytes) {
  for (std::size_t i = 0; i < N; i += 8) {
    // The steps of splitmix64: see env/random.h.
    std::uint64_t word = chance_.fetch_add(0x9e3779b97f4a7c15u, std::memory_order_relaxed);
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    word ^= word >> 31;
    if (word == 0) word = 1;  // an id of zeros is not valid
    for (std::size_t b = 0; b < 8; ++b) bytes[i + b] = static_cast<std::uint8_t>(word >> 8 * b);
  }
}

bool JobTraces::starts_trace(TraceContext& context) {
  if (sampler_.ratio <= 0) return false;
  fill(context.trace);
  context.sampled = sampler_.samples(context.trace);
  return context.sampled;
}

std::shared_ptr<const TraceSends> JobTraces::sending(Enqueue& request, WallTime now) {
  std::shared_ptr<TraceSends> out;
  for (std::size_t i = 0; i < request.jobs.size(); ++i) {
    NewJob& job = request.jobs[i];
    const auto parent = trace_of(job.headers);
    TraceContext context;
    if (parent) {
      context = *parent;
      if (!sampler_.parent_based) context.sampled = sampler_.samples(context.trace);
      if (!context.sampled) continue;
    } else if (!starts_trace(context)) {
      continue;
    }
    if (out != nullptr && out->all.size() == kMaxSends) break;
    fill(context.span);
    const std::string state(header_text(job.headers, kTraceState));
    if (!set_trace(job.headers, context)) continue;
    if (out == nullptr) out = std::make_shared<TraceSends>(TraceSends{.start = now, .all = {}});
    Span span{.context = context,
              .state = state,
              .name = "send " + job.queue,
              .kind = SpanKind::producer,
              .start = now,
              .attributes = messaging("send", job.queue, job.kind)};
    if (parent) span.parent = parent->span;
    if (!job.correlation_id.empty())
      span.attributes.emplace_back("messaging.message.conversation_id", job.correlation_id);
    out->all.push_back({i, std::move(span)});
  }
  return out;
}

void JobTraces::sent(const TraceSends& sends, const EnqueueResult& result, Now now) {
  for (const TraceSends::One& one : sends.all) {
    if (one.index >= result.jobs.size()) return;
    // A job that existed before keeps its own context.
    if (result.replayed || result.jobs[one.index].duplicate) continue;
    Span span = one.span;
    span.end = std::max(span.start, now.wall);
    const JobId id = result.jobs[one.index].id;
    span.attributes.emplace_back("messaging.message.id", fmt::to_string(id));
    sink_.add(std::move(span));
    waits(id, now.instant);
  }
}

TraceHeaders JobTraces::starting(const std::string& workflow, WallTime now) {
  TraceContext context;
  if (!starts_trace(context)) return {};
  fill(context.span);
  sink_.add({.context = context,
             .parent = {},
             .state = {},
             .name = "start " + workflow,
             .kind = SpanKind::internal,
             .start = now,
             .end = now,
             .attributes = {{"mainspring.workflow.name", workflow}}});
  return TraceHeaders(format_trace_parent(context), "");
}

void JobTraces::finishing(Finish& request) {
  for (JobOutcome& one : request.results) {
    auto* const complete = std::get_if<Complete>(&one.outcome);
    if (complete == nullptr || complete->next.empty()) continue;
    std::optional<TraceHeaders> headers;
    {
      MutexLock lock(mutex_);
      const auto found = running_.find(one.id);
      if (found == running_.end() || found->second.token != one.token) continue;
      const Span& span = found->second.span;
      headers.emplace(format_trace_parent(span.context), span.state);
    }
    for (NewJob& job : complete->next) headers->add_to(job.headers);
  }
}

std::optional<TraceContext> JobTraces::context_of(const ClaimedJob& job) const {
  if (job.headers.empty()) return std::nullopt;
  auto context = trace_of(job.headers);
  if (context) {
    if (!sampler_.parent_based) context->sampled = sampler_.samples(context->trace);
    return context->sampled ? context : std::nullopt;
  }
  // A tick: its trace has an id of its own, the same with every attempt, without a span above.
  const std::string_view schedule = header_text(job.headers, kScheduleHeader);
  if (schedule.empty() || sampler_.ratio <= 0) return std::nullopt;
  context.emplace();
  const std::string seed = fmt::format("{} {} {}", job.id, job.headers, salt_);
  const std::array<std::uint64_t, 2> words = {fnv1a(seed), fnv1a(seed, kOtherFnvBasis)};
  for (std::size_t i = 0; i < 16; ++i)
    context->trace[i] = static_cast<std::uint8_t>(words[i / 8] >> 8 * (i % 8));
  context->sampled = sampler_.samples(context->trace);
  return context->sampled ? context : std::nullopt;
}

void JobTraces::claimed(const std::string& worker, ClaimResult& result, WallTime now) {
  for (ClaimedJob& job : result.jobs) {
    const auto parent = context_of(job);
    std::vector<std::string> gates;
    const auto gone = [&] {
      MutexLock lock(mutex_);
      if (const auto waited = waiting_.find(job.id); waited != waiting_.end()) {
        gates = std::move(waited->second.gates);
        waiting_.erase(waited);
      }
      const auto found = running_.empty() ? running_.end() : running_.find(job.id);
      if (found == running_.end()) return std::optional<Attempt>();
      std::optional<Attempt> out(std::move(found->second));
      running_.erase(found);
      return out;
    }();
    if (gone) end(*gone, "lease_lost", true, now);
    if (!parent) continue;
    const bool root = parent->span == decltype(parent->span){};
    Attempt attempt{.token = job.token, .span = {.context = *parent}};
    Span& span = attempt.span;
    fill(span.context.span);
    span.state = header_text(job.headers, kTraceState);
    if (!root) span.parent = parent->span;
    span.name = "process " + job.queue;
    span.kind = SpanKind::consumer;
    span.start = now;
    span.attributes = messaging("process", job.queue, job.kind);
    const std::string id = fmt::to_string(job.id);
    span.attributes.emplace_back("messaging.message.id", id);
    if (!job.correlation_id.empty())
      span.attributes.emplace_back("messaging.message.conversation_id", job.correlation_id);
    span.attributes.emplace_back("messaging.client.id", worker);
    span.attributes.emplace_back("mainspring.job.attempt", std::int64_t{job.attempt});
    Span wait{.context = *parent,
              .parent = span.parent,
              .state = span.state,
              .name = "wait " + job.queue,
              .start = std::min(job.run_at, now),
              .end = now,
              .attributes = messaging("wait", job.queue, job.kind)};
    if (root) wait.parent = span.context.span;
    fill(wait.context.span);
    wait.attributes.emplace_back("messaging.message.id", id);
    wait.attributes.emplace_back("mainspring.job.attempt", std::int64_t{job.attempt});
    if (!gates.empty()) wait.attributes.emplace_back("mainspring.why.gates", std::move(gates));
    sink_.add(std::move(wait));
    if (!set_trace(job.headers, span.context)) continue;
    MutexLock lock(mutex_);
    if (running_.size() < kMaxRunning) running_.insert_or_assign(job.id, std::move(attempt));
  }
}

void JobTraces::waits(JobId id, Instant now) {
  {
    MutexLock lock(mutex_);
    if (waiting_.size() >= kMaxWaiting) return;
    const bool first = waiting_.empty();
    waiting_.insert_or_assign(id, Waiting{.ask_at = now + kFirstQuestion, .gates = {}});
    if (!first) return;
  }
  MutexLock lock(listener_mutex_);
  if (on_waiting_) on_waiting_();
}

void JobTraces::on_waiting(std::function<void()> callback) {
  MutexLock lock(listener_mutex_);
  on_waiting_ = std::move(callback);
}

Instant JobTraces::next_question() const {
  MutexLock lock(mutex_);
  Instant next = Instant::never();
  for (const auto& [id, waiting] : waiting_) next = std::min(next, waiting.ask_at);
  return next;
}

std::vector<JobId> JobTraces::to_ask(Instant now, std::size_t limit) {
  std::vector<JobId> out;
  MutexLock lock(mutex_);
  for (auto& [id, waiting] : waiting_) {
    if (out.size() == limit) break;
    if (waiting.ask_at > now) continue;
    out.push_back(id);
    waiting.ask_at = now + waiting.pause;
    waiting.pause = std::min(2 * waiting.pause, kLastQuestion);
  }
  return out;
}

void JobTraces::note_gate(JobId id, std::string gate) {
  MutexLock lock(mutex_);
  const auto found = waiting_.find(id);
  if (found == waiting_.end()) return;
  auto& gates = found->second.gates;
  const bool known = std::find(gates.begin(), gates.end(), gate) != gates.end();
  if (!known && gates.size() < kMaxGates) gates.push_back(std::move(gate));
}

void JobTraces::end(Attempt attempt, std::string_view outcome, bool failed, WallTime now) const {
  Span& span = attempt.span;
  span.end = std::max(span.start, now);
  span.failed = failed;
  span.attributes.emplace_back("mainspring.job.outcome", std::string(outcome));
  if (failed) span.attributes.emplace_back("error.type", std::string(outcome));
  sink_.add(std::move(span));
}

void JobTraces::finished(const Finish& finish, const FinishResult& result, Now now) {
  for (std::size_t i = 0; i < finish.results.size(); ++i) {
    if (result.results[i] != FinishStatus::ok) continue;
    std::optional<Attempt> attempt;
    {
      MutexLock lock(mutex_);
      if (running_.empty()) return;
      const auto found = running_.find(finish.results[i].id);
      if (found == running_.end() || found->second.token != finish.results[i].token) continue;
      attempt = std::move(found->second);
      running_.erase(found);
    }
    const Outcome& outcome = finish.results[i].outcome;
    const bool failed =
        std::holds_alternative<Retry>(outcome) || std::holds_alternative<Dead>(outcome);
    const JobId id = finish.results[i].id;
    end(std::move(*attempt), kOutcomes[outcome.index()], failed, now.wall);
    const bool again = std::holds_alternative<Retry>(outcome) ||
                       std::holds_alternative<Snooze>(outcome) ||
                       std::holds_alternative<Defer>(outcome);
    if (again) waits(id, now.instant);
  }
}

void JobTraces::ended(const std::vector<JobId>& ids, WallTime now) {
  for (const JobId id : ids) {
    std::optional<Attempt> attempt;
    {
      MutexLock lock(mutex_);
      if (running_.empty() && waiting_.empty()) return;
      waiting_.erase(id);
      const auto found = running_.find(id);
      if (found == running_.end()) continue;
      attempt = std::move(found->second);
      running_.erase(found);
    }
    end(std::move(*attempt), "ended_by_server", true, now);
  }
}

}  // namespace mainspring
