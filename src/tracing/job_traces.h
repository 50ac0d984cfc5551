// JobTraces: the spans of jobs, from what the broker commits.
//
//   enqueue ─▶ "send photos" ─┬─▶ "wait photos"     from when the job was due to its claim
//                             └─▶ "process photos"  one for each attempt, from claim to outcome
//
// A job keeps the context of its send span among its headers. In the answer to a claim, it is
// replaced by the context of the attempt's process span, so the handler's spans belong to that.
// Jobs without a context are not traced, unless the sampler starts a trace when they are enqueued.
// For ticks of schedules, the first claim starts the trace.
//
// Span names, kinds and messaging.* attributes follow the semantic conventions. Source:
// https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <unordered_map>

#include "base/mutex.h"
#include "env/random.h"
#include "store/store.h"
#include "tracing/settings.h"
#include "tracing/span.h"

namespace mainspring {

struct TraceSends;  // the send spans of an enqueue that is not committed yet

class JobTraces {
 public:
  // Running attempts that are remembered. Further ones have no process span.
  static constexpr std::size_t kMaxRunning = 100'000;
  // Waiting jobs that are remembered. The wait spans of further ones name no gates.
  static constexpr std::size_t kMaxWaiting = 10'000;
  static constexpr std::size_t kMaxGates = 8;                          // of a wait
  static constexpr Duration kFirstQuestion = std::chrono::seconds(1);  // then twice as long, up to
  static constexpr Duration kLastQuestion = std::chrono::minutes(5);

  // `sink` outlives it. `salt`: distinguishes this installation's schedules from others'.
  JobTraces(Sampler sampler, std::string salt, SpanSink& sink, Random& random,
            TraceServer server = {});

  // -- for the broker; callable from every thread

  // Gives the jobs their contexts. nullptr: none of them is traced.
  std::shared_ptr<const TraceSends> sending(Enqueue& request, WallTime now);
  void sent(const TraceSends& sends, const EnqueueResult& result, Now now) MS_EXCLUDES(mutex_);
  // Starts a trace for a workflow, if the sampler takes it: headers for the jobs of its steps.
  TraceHeaders starting(const std::string& workflow, WallTime now);
  // Gives jobs that an outcome enqueues the context of the attempt.
  void finishing(Finish& request) MS_EXCLUDES(mutex_);
  void claimed(const std::string& worker, ClaimResult& result, WallTime now) MS_EXCLUDES(mutex_);
  void finished(const Finish& finish, const FinishResult& result, Now now) MS_EXCLUDES(mutex_);
  // Jobs that ended, by an outcome or without one.
  void ended(const std::vector<JobId>& ids, WallTime now) MS_EXCLUDES(mutex_);

  // -- for the code that asks why jobs wait (engine/gate_watch.h)

  // Called when a job starts to wait while none did. nullptr = none; then it is not being called.
  void on_waiting(std::function<void()> callback) MS_EXCLUDES(listener_mutex_);
  // When to ask about the next one; never() = none waits.
  Instant next_question() const MS_EXCLUDES(mutex_);
  // Jobs whose question is due.
  std::vector<JobId> to_ask(Instant now, std::size_t limit) MS_EXCLUDES(mutex_);
  void note_gate(JobId id, std::string gate) MS_EXCLUDES(mutex_);

  // The trace that a job belongs to, if it is sampled. From every thread.
  std::optional<TraceContext> context_of(const ClaimedJob& job) const;

 private:
  struct Waiting {
    Instant ask_at;
    Duration pause = kFirstQuestion;
    std::vector<std::string> gates;  // in the order in which they were found
  };
  void waits(JobId id, Instant now) MS_EXCLUDES(mutex_, listener_mutex_);
  struct Attempt {
    Token token = 0;
    Span span;
  };
  template <std::size_t N>
  void fill(std::array<std::uint8_t, N>& bytes);
  bool starts_trace(TraceContext& context);
  decltype(Span::attributes) messaging(std::string_view operation, const std::string& queue,
                                       const std::string& kind) const;
  void end(Attempt attempt, std::string_view outcome, bool failed, WallTime now) const;

  const Sampler sampler_;
  const std::string salt_;
  const TraceServer server_;
  SpanSink& sink_;
  std::atomic<std::uint64_t> chance_;  // splitmix64 without a lock: ids need no secrecy
  Mutex listener_mutex_;
  std::function<void()> on_waiting_ MS_GUARDED_BY(listener_mutex_);
  mutable Mutex mutex_;
  std::unordered_map<JobId, Waiting> waiting_ MS_GUARDED_BY(mutex_);
  std::unordered_map<JobId, Attempt> running_ MS_GUARDED_BY(mutex_);
};

}  // namespace mainspring
