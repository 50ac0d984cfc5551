// How trace contexts of jobs are passed on, and the spans that JobTraces makes.
#include "tracing/job_traces.h"

#include <doctest/doctest.h>

namespace mainspring {
namespace {

constexpr std::string_view kParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

struct Kept final : SpanSink {
  void add(Span span) override { spans.push_back(std::move(span)); }
  std::vector<Span> spans;
};

struct Rig {
  Rig(Sampler sampler = {}, TraceServer server = {})
      : traces(sampler, "here", sink, random, std::move(server)) {}
  // The headers with which a job is stored.
  std::string enqueue(JobId id, std::string headers = "") {
    Enqueue request{.jobs = {{.queue = "photos", .kind = "thumb", .headers = std::move(headers)}}};
    const auto sends = traces.sending(request, at(0));
    if (sends) traces.sent(*sends, {.jobs = {{.id = id}}}, now(1));
    return request.jobs[0].headers;
  }
  ClaimedJob claim(JobId id, Token token, std::string headers, int attempt = 1) {
    ClaimResult result;
    result.jobs.push_back({.id = id,
                           .token = token,
                           .attempt = attempt,
                           .queue = "photos",
                           .kind = "thumb",
                           .run_at = at(0),
                           .headers = std::move(headers)});
    traces.claimed("w1", result, at(10));
    return result.jobs[0];
  }
  void finish(JobId id, Token token, Outcome outcome, FinishStatus status = FinishStatus::ok) {
    const Finish request{.worker = "w1", .results = {{id, token, std::move(outcome)}}};
    traces.finished(request, {.results = {status}}, now(20));
  }
  static WallTime at(int seconds) { return WallTime::from_ms(1'700'000'000'000 + seconds * 1000); }

  static Now now(int seconds) {
    return {.instant = Instant::from_ms(seconds * 1000), .wall = at(seconds)};
  }

  Kept sink;
  SeededRandom random{7};
  JobTraces traces;
};

const SpanValue* attribute(const Span& span, std::string_view name) {
  for (const auto& [key, value] : span.attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}
std::string text(const Span& span, std::string_view name) {
  const SpanValue* value = attribute(span, name);
  return value == nullptr ? "(none)" : std::get<std::string>(*value);
}

TEST_CASE("a job's spans are one trace: send under the caller, wait and process under send") {
  Rig rig;
  const TraceContext caller = *parse_trace_parent(kParent);
  const std::string stored =
      rig.enqueue(42, "{\"traceparent\":\"" + std::string(kParent) + "\",\"tracestate\":\"a=1\"}");
  const ClaimedJob job = rig.claim(42, 7, stored);
  rig.finish(42, 7, Complete{});
  REQUIRE(rig.sink.spans.size() == 3);
  const Span& send = rig.sink.spans[0];
  const Span& wait = rig.sink.spans[1];
  const Span& process = rig.sink.spans[2];
  for (const Span& span : rig.sink.spans) {
    CHECK(span.context.trace == caller.trace);
    CHECK(span.state == "a=1");
    CHECK_FALSE(span.failed);
    CHECK(text(span, "messaging.system") == "mainspring");
    CHECK(text(span, "messaging.destination.name") == "photos");
    CHECK(text(span, "messaging.message.id") == "42");
  }
  CHECK(send.name == "send photos");
  CHECK(send.kind == SpanKind::producer);
  CHECK(send.parent == caller.span);
  CHECK(text(send, "messaging.operation.type") == "send");
  CHECK(wait.name == "wait photos");
  CHECK(wait.kind == SpanKind::internal);
  CHECK(wait.parent == send.context.span);
  CHECK(wait.start == Rig::at(0));
  CHECK(wait.end == Rig::at(10));
  CHECK(process.name == "process photos");
  CHECK(process.kind == SpanKind::consumer);
  CHECK(process.parent == send.context.span);
  CHECK(process.start == Rig::at(10));
  CHECK(process.end == Rig::at(20));
  CHECK(text(process, "messaging.operation.name") == "process");
  CHECK(text(process, "messaging.client.id") == "w1");
  CHECK(text(process, "mainspring.job.outcome") == "complete");
  // Operations of the handler belong to the attempt.
  CHECK(trace_of(job.headers) == process.context);
  CHECK(trace_of(stored) == send.context);
}

TEST_CASE("spans name the server where it is known") {
  Rig known({}, {.address = "jobs.example", .port = 8080});
  (void)known.enqueue(1);
  REQUIRE(known.sink.spans.size() == 1);
  CHECK(text(known.sink.spans[0], "server.address") == "jobs.example");
  CHECK(std::get<std::int64_t>(*attribute(known.sink.spans[0], "server.port")) == 8080);
  Rig unknown;
  (void)unknown.enqueue(1);
  CHECK(attribute(unknown.sink.spans[0], "server.address") == nullptr);
  CHECK(attribute(unknown.sink.spans[0], "server.port") == nullptr);
}

TEST_CASE("every attempt has its process span, and a retry is the same trace") {
  Rig rig;
  const std::string stored = rig.enqueue(1);
  (void)rig.claim(1, 1, stored);
  rig.finish(1, 1, Retry{"no"});
  (void)rig.claim(1, 2, stored, 2);
  rig.finish(1, 1, Complete{}, FinishStatus::stale);
  rig.finish(1, 2, Dead{"bad", ""});
  REQUIRE(rig.sink.spans.size() == 5);
  const Span& first = rig.sink.spans[2];
  const Span& second = rig.sink.spans[4];
  CHECK(first.failed);
  CHECK(text(first, "error.type") == "retry");
  CHECK(text(second, "error.type") == "dead");
  CHECK(first.context.trace == second.context.trace);
  CHECK(first.context.span != second.context.span);
}

TEST_CASE("a wait span names the gates that held the job, each once") {
  Rig rig;
  int callback = 0;
  rig.traces.on_waiting([&] { ++callback; });
  CHECK(rig.traces.next_question() == Instant::never());
  const std::string stored = rig.enqueue(1);
  CHECK(callback == 1);
  const Instant first = rig.traces.next_question();
  CHECK(first == Rig::now(2).instant);
  CHECK(rig.traces.to_ask(Rig::now(1).instant, 10).empty());
  for (const char* gate : {"time", "queue_paused", "time"}) {
    CHECK(rig.traces.to_ask(rig.traces.next_question(), 10) == std::vector<JobId>{1});
    rig.traces.note_gate(1, gate);
  }
  CHECK(rig.traces.next_question() - first >= std::chrono::seconds(3));
  (void)rig.claim(1, 1, stored);
  CHECK(std::get<std::vector<std::string>>(*attribute(rig.sink.spans[1], "mainspring.why.gates")) ==
        std::vector<std::string>{"time", "queue_paused"});
  CHECK(rig.traces.next_question() == Instant::never());
  rig.finish(1, 1, Snooze{});
  CHECK(callback == 2);
  rig.traces.ended({1}, Rig::at(30));
  CHECK(rig.traces.next_question() == Instant::never());
  rig.traces.note_gate(1, "time");
}

TEST_CASE("an attempt whose lease is lost, or whose job the server ends, has an end span too") {
  Rig rig;
  const std::string stored = rig.enqueue(1);
  (void)rig.claim(1, 1, stored);
  (void)rig.claim(1, 2, stored, 2);
  rig.traces.ended({1, 99}, Rig::at(30));
  rig.traces.ended({1}, Rig::at(31));
  REQUIRE(rig.sink.spans.size() == 5);
  CHECK(text(rig.sink.spans[2], "error.type") == "lease_lost");
  CHECK(text(rig.sink.spans[4], "error.type") == "ended_by_server");
}

TEST_CASE("jobs that are not sampled are unchanged") {
  Rig rig({.parent_based = true, .ratio = 0});
  CHECK(rig.enqueue(1).empty());
  const std::string unsampled =
      "{\"traceparent\":\"" + std::string(kParent.substr(0, 53)) + "00\"}";
  CHECK(rig.enqueue(2, unsampled) == unsampled);
  CHECK(rig.claim(2, 1, unsampled).headers == unsampled);
  CHECK(rig.claim(3, 1, "{\"mainspring-schedule\":\"nightly\"}").headers ==
        "{\"mainspring-schedule\":\"nightly\"}");
  rig.finish(2, 1, Complete{});
  CHECK(rig.sink.spans.empty());
}

TEST_CASE("a tick of a schedule starts a trace, the same with each attempt") {
  Rig rig;
  const std::string tick = R"({"mainspring-schedule":"nightly"})";
  (void)rig.claim(1, 1, tick);
  rig.finish(1, 1, Retry{"no"});
  (void)rig.claim(1, 2, tick, 2);
  (void)rig.claim(2, 3, tick);
  REQUIRE(rig.sink.spans.size() == 4);
  const Span& process = rig.sink.spans[1];
  CHECK_FALSE(process.parent);
  CHECK(rig.sink.spans[0].parent == process.context.span);
  CHECK(rig.sink.spans[2].context.trace == process.context.trace);
  CHECK(rig.sink.spans[3].context.trace != process.context.trace);
}

TEST_CASE("jobs that an outcome enqueues belong to the trace of the attempt") {
  Rig rig;
  const ClaimedJob job = rig.claim(1, 1, rig.enqueue(1));
  Finish request{.worker = "w1", .results = {{1, 1, Complete{.next = {{.kind = "next"}}}}}};
  rig.traces.finishing(request);
  CHECK(trace_of(std::get<Complete>(request.results[0].outcome).next[0].headers) ==
        trace_of(job.headers));
}

TEST_CASE("an existing job gets no second send span") {
  Rig rig;
  Enqueue request{.jobs = {{.queue = "photos"}, {.queue = "photos"}}};
  const auto sends = rig.traces.sending(request, Rig::at(0));
  REQUIRE(sends);
  rig.traces.sent(*sends, {.jobs = {{.id = 1, .duplicate = true}, {.id = 2}}}, Rig::now(1));
  REQUIRE(rig.sink.spans.size() == 1);
  CHECK(text(rig.sink.spans[0], "messaging.message.id") == "2");
}

}  // namespace
}  // namespace mainspring
