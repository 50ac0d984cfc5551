// The wire shapes: literal bodies in and out, every refusal with its field, round trips.
#include "api/shapes.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <rapidcheck.h>

#include "api/json.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

template <class T>
Error shapes_refusal(Result<T> result) {
  REQUIRE_FALSE(result.has_value());
  return result.error();
}

template <class Encode>
std::string encoded(Encode&& encode) {
  std::string out;
  encode(out);
  REQUIRE_MESSAGE(check_json("out", out).has_value(), out);
  return out;
}

}  // namespace

TEST_CASE("a claimed job that cannot be read does not take the others with it") {
  const std::string good = R"({"id":2,"token":5,"kind":"k","queue":"q"})";
  for (const char* bad : {R"({"id":1,"token":"what","kind":"k"})", R"({"id":1,"kind":"k"})", "7",
                          "null", R"({"id":1,"token":4,"kind":"k","attempt":-1})"}) {
    CAPTURE(bad);
    const std::string text = bad;
    const auto read =
        decode_claim_response(R"({"jobs":[)" + text + "," + good + R"(],"cancel":[9]})");
    REQUIRE(read);
    REQUIRE(read->jobs.size() == 1);
    CHECK(read->jobs[0].id == 2);
    CHECK(read->cancel == std::vector<JobId>{9});
    CHECK_FALSE(decode_claim_response(R"({"jobs":[)" + text + "]}"));
  }
  CHECK_FALSE(decode_claim_response(R"({"jobs":[)" + good + R"(],"cancel":7})"));
}

TEST_CASE("a claimed job with a number that no program can read is reported dead") {
  const std::string good = R"({"id":2,"token":5,"kind":"k","queue":"q","args":{"a":1,"a":2}})";
  for (const auto& [bad, why] : std::vector<std::pair<std::string, std::string>>{
           {R"({"id":1,"token":4,"kind":"k","args":{"a":[1e400]}})",
            "job.args.a[0] 1e400: must be within 1.8e308, the range of a double"},
           {R"({"id":1,"token":4,"kind":"k","args":1,"attempt":-1})",
            "attempt -1: must be 0 to 2147483647"}}) {
    CAPTURE(bad);
    std::vector<JobOutcome> unreadable;
    const auto read = decode_claim_response(R"({"jobs":[)" + bad + "," + good + "]}", &unreadable);
    REQUIRE(read);
    REQUIRE(read->jobs.size() == 1);
    CHECK(read->jobs[0].args == R"({"a":1,"a":2})");
    REQUIRE(unreadable.size() == 1);
    CHECK(unreadable[0].id == 1);
    CHECK(unreadable[0].token == 4);
    const auto& dead = std::get<Dead>(unreadable[0].outcome);
    CHECK(dead.reason == "unreadable");
    CHECK(dead.description == why);
    const auto alone = decode_claim_response(R"({"jobs":[)" + bad + "]}", &unreadable);
    REQUIRE(alone);
    CHECK(alone->jobs.empty());
  }
}

TEST_CASE("a request for one job decodes as DESIGN specifies") {
  auto request = decode_enqueue_request(
      R"({"queue":"photos","kind":"thumbnail","args":{"path": "a.jpg"},"delay":"10s","priority":3,
          "max_attempts":7,"unique":{"key":"a","for":"1h","on_conflict":"replace"},
          "expires_in":"2h","timeout":"none","tags":["a","b"],
          "headers":{"traceparent":"00-1"},"correlation_id":"c","reply_to":"answers"})");
  REQUIRE(request);
  CHECK(request->single);
  REQUIRE(request->operation.jobs.size() == 1);
  const NewJob& job = request->operation.jobs[0];
  CHECK(job.queue == "photos");
  CHECK(job.kind == "thumbnail");
  CHECK(job.args == R"({"path": "a.jpg"})");
  CHECK(job.delay == 10s);
  CHECK(job.priority == 3);
  CHECK(job.max_attempts == 7);
  REQUIRE(job.unique);
  CHECK(job.unique->key == "a");
  CHECK(job.unique->window == 1h);
  CHECK(job.unique->on_conflict == OnConflict::replace);
  CHECK(job.expires_in == 2h);
  CHECK(job.timeout == kForever);
  CHECK(job.tags == std::vector<std::string>{"a", "b"});
  CHECK(job.headers == R"({"traceparent":"00-1"})");
  CHECK(job.correlation_id == "c");
  CHECK(job.reply_to == "answers");
}

TEST_CASE("omitted fields have their defaults; null means omitted where the default is empty") {
  auto request = decode_enqueue_request(
      R"({"kind":"k","delay":null,"run_at":null,"unique":null,"tags":null,"headers":null,
          "correlation_id":null,"reply_to":null,"expires_in":null,"session":null})");
  REQUIRE(request);
  const NewJob& job = request->operation.jobs[0];
  CHECK(job.queue == "default");
  CHECK(job.args == "{}");
  CHECK(job.priority == 5);
  CHECK(job.max_attempts == 20);
  CHECK(job.timeout == 15min);
  CHECK_FALSE(job.delay);
  CHECK_FALSE(job.unique);
  CHECK(decode_enqueue_request(R"({"kind":"k","args":null})")->operation.jobs[0].args == "null");
  CHECK(decode_enqueue_request(R"({"kind":"k","run_at":"2026-01-31T10:00:00+01:00"})")
            ->operation.jobs[0]
            .run_at == *parse_wall_time("2026-01-31T09:00:00Z"));
}

TEST_CASE("a bad job is refused with its field, its value and the rule") {
  struct Case {
    std::string_view body, field, message;
    ErrorCode code = ErrorCode::invalid_argument;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"{}", "kind", "kind: must be given"},
           {"", "", "the body is not JSON: unexpected end at byte 0"},
           {R"({"jobs":[]})", "jobs", "jobs: must not be empty"},
           {R"({"jobs":[{"kind":"a"},{}]})", "jobs[1].kind", "kind: must be given"},
           {R"({"jobs":[{"kind":"a"},{"kind":"a","priority":12}]})", "jobs[1].priority",
            "priority 12: must be 0 to 9"},
           {R"({"jobs":[{"kind":"a","queue":"../etc"}]})", "jobs[0].queue",
            "jobs[0].queue \"../etc\": must be 1 to 128 letters, digits or . _ : / -, beginning "
            "with a letter or a digit"},
           {R"({"jobs":[{"kind":"a"}],"x":1})", "x",
            "\"x\": no such field here; known are jobs, fence"},
           {R"({"kind":"a","priorty":1})", "priorty",
            "\"priorty\": no such field here; did you mean \"priority\"?"},
           {R"({"kind":"a","kind":"b"})", "kind", "kind: given twice"},
           {R"({"kind":"a","delay":10})", "delay",
            "delay: must be a duration, a string such as \"250ms\", \"30s\" or \"15m\", not a "
            "number"},
           {R"({"kind":"a","timeout":"0s"})", "timeout",
            "timeout 0s: must be more than 0, or \"none\""},
           {R"({"kind":"a","delay":"1s","run_at":"2026-01-31T09:00:00Z"})", "delay",
            "delay and run_at: give at most one of them"},
           {R"({"kind":"a","unique":{}})", "unique.key", "key: must be given"},
           {R"({"kind":"a","unique":{"key":"k","for":"366d"}})", "unique.for",
            "unique.for 366d: must be 0s to 365d"},
           {R"({"kind":"a","unique":{"key":"k","on_conflict":"drop"}})", "unique.on_conflict",
            "on_conflict \"drop\": must be \"keep\", \"replace\" or \"postpone\""},
           {R"({"kind":"a","on_expiry":"dead"})", "on_expiry",
            "on_expiry: is for jobs that expire, and needs expires_in"},
           {R"({"kind":"a","expires_in":"1h","on_expiry":"retry"})", "on_expiry",
            "on_expiry \"retry\": must be \"cancel\" or \"dead\""},
           {R"({"kind":"a","headers":{"a":1}})", "headers",
            "headers: must be an object whose values are strings"},
           {R"({"kind":"a","tags":["x",7]})", "tags[1]", "tags[1]: must be a string, not a number"},
           {R"([{"kind":"a"}])", "", "the body: must be an object, not an array"},
           {R"({"kind":"a"} ,)", "", "the body is not JSON: extra text after the end at byte 13"},
       }) {
    CAPTURE(c.body);
    const Error error = shapes_refusal(decode_enqueue_request(c.body));
    CHECK(error.code == c.code);
    CHECK(error.field == c.field);
    CHECK(error.message == c.message);
  }
  CHECK(shapes_refusal(decode_enqueue_request(R"({"kind":"a","jobs":[]})")).field == "jobs");
  CHECK(shapes_refusal(decode_enqueue_request(R"({"kind":"a","delay":"10"})")).field == "delay");
  CHECK(shapes_refusal(decode_enqueue_request(R"({"kind":"a","timeout":"soon"})")).field ==
        "timeout");
  CHECK(shapes_refusal(decode_enqueue_request(R"({"kind":"a","run_at":"tomorrow"})")).field ==
        "run_at");
}

TEST_CASE("payloads and batches over their limit are too_large") {
  const std::string big(kMaxArgsBytes, 'x');
  CHECK(shapes_refusal(decode_enqueue_request(R"({"kind":"a","args":")" + big + "\"}")).code ==
        ErrorCode::too_large);
  std::string many = R"({"jobs":[)";
  for (std::size_t i = 0; i <= kMaxEnqueueJobs; ++i)
    many += i == 0 ? "{\"kind\":\"a\"}" : ",{\"kind\":\"a\"}";
  const Error error = shapes_refusal(decode_enqueue_request(many + "]}"));
  CHECK(error.code == ErrorCode::too_large);
  CHECK(error.field == "jobs");
  CHECK(error.message == "jobs has more than 10000 entries");
}

TEST_CASE("the response to an enqueue has the form of its request") {
  const EnqueueResult one{.jobs = {{42, JobState::available, false}}};
  const EnqueueResult two{.jobs = {{42, JobState::available, false}, {7, JobState::running, true}}};
  CHECK(encoded([&](auto& out) { encode_enqueue_response(one, true, out); }) ==
        R"({"id":42,"state":"available"})");
  CHECK(encoded([&](auto& out) { encode_enqueue_response(one, false, out); }) ==
        R"({"jobs":[{"id":42,"state":"available"}]})");
  CHECK(encoded([&](auto& out) { encode_enqueue_response(two, false, out); }) ==
        R"({"jobs":[{"id":42,"state":"available"},{"id":7,"state":"running","duplicate":true}]})");
  auto read = decode_enqueue_response(R"({"id":7,"state":"running","duplicate":true})");
  REQUIRE(read);
  CHECK(read->jobs.at(0).duplicate);
  CHECK(decode_enqueue_response(R"({"jobs":[{"id":1,"state":"available"}],"replayed":true})")
            ->replayed);
  CHECK(shapes_refusal(decode_enqueue_response("{}")).code == ErrorCode::internal);
}

TEST_CASE("a claim names its worker and queues") {
  auto request = decode_claim_request(
      R"({"worker":"w1","queues":["photos","a/b"],"kinds":["k"],"max":100,"wait":"20s",
          "lease":"45s"})");
  REQUIRE(request);
  CHECK(request->operation.worker == "w1");
  CHECK(request->operation.queues == std::vector<std::string>{"photos", "a/b"});
  CHECK(request->operation.kinds == std::vector<std::string>{"k"});
  CHECK(request->operation.max == 100);
  CHECK(request->operation.lease == 45s);
  CHECK(request->wait == 20s);
  CHECK(decode_claim_request(R"({"worker":"w","queues":["q"]})")->wait == 0s);

  const auto field = [](std::string_view body) {
    return shapes_refusal(decode_claim_request(body)).field;
  };
  CHECK(field(R"({"queues":["q"]})") == "worker");
  CHECK(field(R"({"worker":"w"})") == "queues");
  CHECK(field(R"({"worker":"w","queues":[]})") == "queues");
  CHECK(field(R"({"worker":"w","queues":["q","q"]})") == "queues");
  CHECK(field(R"({"worker":"w","queues":["q",".."]})") == "queues[1]");
  CHECK(field(R"({"worker":"w","queues":["q"],"kinds":[]})") == "kinds");
  CHECK(field(R"({"worker":"w","queues":["q"],"max":0})") == "max");
  CHECK(field(R"({"worker":"w","queues":["q"],"max":1001})") == "max");
  CHECK(field(R"({"worker":"w","queues":["q"],"wait":"61s"})") == "wait");
  CHECK(field(R"({"worker":"w","queues":["q"],"lease":"10ms"})") == "lease");
  CHECK(field(R"({"worker":"w!","queues":["q"]})") == "worker");
  CHECK(decode_claim_request(R"({"worker":"w","queues":["q"],"job":17})")->operation.job == 17);
  CHECK(decode_claim_request(R"({"worker":"w","queues":["q"],"job":null})")->operation.job == 0);
  CHECK(field(R"({"worker":"w","job":17})") == "queues");
  CHECK(field(R"({"worker":"w","queues":["q"],"job":0})") == "job");
  CHECK(field(R"({"worker":"w","queues":["q"],"job":1,"kinds":["k"]})") == "kinds");
  CHECK(field(R"({"worker":"w","queues":["q"],"job":1,"max":2})") == "max");
  CHECK(field(R"({"worker":"w","queues":["q"],"job":1,"wait":"1s"})") == "wait");
  CHECK(field(R"({"worker":"w","job":1,"session":{"queue":"q","key":"s","token":1}})") ==
        "session");
}

TEST_CASE("a claim may report the worker's host, pid, version, language and slots") {
  const auto read = [](std::string_view members) {
    return decode_claim_request(R"({"worker":"w","queues":["q"])" + std::string(members) + "}");
  };
  CHECK(read("")->operation.facts == nullptr);
  CHECK(read(R"(,"host":null,"pid":null,"version":null,"slots":null)")->operation.facts == nullptr);
  const WorkerFacts facts{"web-7", 4711, "v1.4", "Python 3.11.2", 8};
  const auto all =
      read(R"(,"host":"web-7","pid":4711,"version":"v1.4","language":"Python 3.11.2","slots":8)");
  REQUIRE(all);
  REQUIRE(all->operation.facts != nullptr);
  CHECK(*all->operation.facts == facts);
  std::string text;
  encode_claim_request(*all, text);
  CHECK(*decode_claim_request(text)->operation.facts == facts);

  const auto field = [&](std::string_view members) { return shapes_refusal(read(members)).field; };
  CHECK(field(R"(,"host":")" + std::string(256, 'h') + R"(")") == "host");
  CHECK(field(R"(,"host":"a\u0007b")") == "host");
  CHECK(field(R"(,"version":")" + std::string(101, 'v') + R"(")") == "version");
  CHECK(field(R"(,"language":"\u001b[31m")") == "language");
  CHECK(field(R"(,"pid":0)") == "pid");
  CHECK(field(R"(,"pid":4294967296)") == "pid");
  CHECK(field(R"(,"slots":0)") == "slots");
  CHECK(field(R"(,"slots":1000001)") == "slots");
  CHECK(field(R"(,"slots":"8")") == "slots");
}

TEST_CASE("the engine's own queues are not for callers: to put into, to claim from") {
  const auto claim = [](std::string_view queues) {
    return shapes_refusal(
        decode_claim_request(fmt::format(R"({{"worker":"w","queues":[{}]}})", queues)));
  };
  CHECK(claim(R"("mainspring.callbacks")").field == "queues[0]");
  CHECK(claim(R"("q","mainspring.x")").field == "queues[1]");
  CHECK(claim(R"("mainspring.callbacks")").message ==
        R"(queue "mainspring.callbacks": must not begin with mainspring., which is the engine's)");
  CHECK(decode_claim_request(R"({"worker":"w","queues":["mainspring","my.mainspring.x"]})"));
  const auto enqueue = [](std::string_view body) {
    return shapes_refusal(decode_enqueue_request(body));
  };
  CHECK(enqueue(R"({"queue":"mainspring.callbacks","kind":"callback"})").field == "queue");
  CHECK(enqueue(R"({"queue":"q","kind":"k","reply_to":"mainspring.x"})").field == "reply_to");
  CHECK(enqueue(R"({"jobs":[{"kind":"k"},{"queue":"mainspring.a","kind":"k"}]})").field ==
        "jobs[1].queue");
}

TEST_CASE("claimed jobs are encoded as DESIGN specifies") {
  ClaimedJob job;
  job.id = 42, job.token = 7, job.queue = "photos", job.kind = "thumbnail";
  job.args = R"({"n": 1})", job.run_at = *parse_wall_time("2026-01-31T09:00:00.5Z");
  job.timeout = 15min, job.lease = 29'999'500us;
  ClaimResult result{.jobs = {job}, .cancel = {3, 4}};
  CHECK(encoded([&](auto& out) { encode_claim_response(result, out); }) ==
        R"({"jobs":[{"id":42,"token":7,"attempt":1,"max_attempts":20,"queue":"photos",)"
        R"("kind":"thumbnail","args":{"n": 1},"priority":5,"run_at":"2026-01-31T09:00:00.500Z",)"
        R"("timeout_ms":900000,"lease_expires_in_ms":30000}],"cancel":[3,4]})");
  CHECK(encoded([&](auto& out) { encode_claim_response({}, out); }) == R"({"jobs":[]})");
  result.jobs[0].timeout = kForever;
  const auto text = encoded([&](auto& out) { encode_claim_response(result, out); });
  CHECK(text.find(R"("timeout_ms":null)") != std::string::npos);
  CHECK(decode_claim_response(text)->jobs.at(0).timeout == kForever);
}

TEST_CASE("each of the six outcomes decodes with its own fields only") {
  auto request = decode_finish_request(
      R"({"worker":"w","results":[{"id":1,"token":7,"outcome":"complete","result":{"a":1}},
          {"id":2,"token":8,"outcome":"retry","error":"boom","after":"30s"},
          {"id":3,"token":9,"outcome":"snooze","after":"5m"},
          {"id":4,"token":10,"outcome":"cancel","reason":"enough"},
          {"id":5,"token":11,"outcome":"dead","reason":"bad_input","description":"no such file"},
          {"id":6,"token":12,"outcome":"defer","reason":"no answer yet"}],
          "claim":{"queues":["q"],"max":5,"wait":"1s"}})");
  REQUIRE(request);
  const auto& results = request->operation.results;
  REQUIRE(results.size() == 6);
  CHECK(std::get<Complete>(results[0].outcome).result == R"({"a":1})");
  CHECK(std::get<Retry>(results[1].outcome).error == "boom");
  CHECK(std::get<Retry>(results[1].outcome).after == 30s);
  CHECK(std::get<Snooze>(results[2].outcome).after == 5min);
  CHECK(std::get<CancelJob>(results[3].outcome).reason == "enough");
  CHECK(std::get<Dead>(results[4].outcome).description == "no such file");
  CHECK(std::get<Defer>(results[5].outcome).reason == "no answer yet");
  REQUIRE(request->claim);
  CHECK(request->claim->operation.worker == "w");
  CHECK(request->claim->wait == 1s);

  const auto field = [](std::string_view result) {
    const auto body = fmt::format(R"({{"worker":"w","results":[{}]}})", result);
    return shapes_refusal(decode_finish_request(body)).field;
  };
  CHECK(field(R"({"token":1,"outcome":"complete"})") == "results[0].id");
  CHECK(field(R"({"id":1,"outcome":"complete"})") == "results[0].token");
  CHECK(field(R"({"id":1,"token":1})") == "results[0].outcome");
  CHECK(field(R"({"id":1,"token":1,"outcome":"done"})") == "results[0].outcome");
  CHECK(field(R"({"id":1,"token":1,"outcome":"snooze"})") == "results[0].after");
  CHECK(field(R"({"id":1,"token":1,"outcome":"defer","after":"1s"})") == "results[0].after");
  CHECK(field(R"({"id":1,"token":1,"outcome":"retry","result":1})") == "results[0].result");
  CHECK(field(R"({"id":1,"token":1,"outcome":"complete","error":"x"})") == "results[0].error");
  CHECK(field(R"({"id":1,"token":1,"outcome":"retry","next":[{"queue":"a","kind":"k"}]})") ==
        "results[0].next");
  CHECK(field(R"({"id":1,"token":1,"outcome":"complete","next":[{"queue":"a"}]})") ==
        "results[0].next[0].kind");
  CHECK(field(R"({"id":1,"token":1,"outcome":"complete","next":[{"queue":"a","kind":"k",)"
              R"("unique":{"key":"u"}}]})") == "results[0].next[0].unique");
  CHECK(field(R"({"id":0,"token":1,"outcome":"complete"})") == "results[0].id");
  CHECK(shapes_refusal(decode_finish_request(
                           R"({"worker":"w","results":[],"claim":{"worker":"v","queues":["q"]}})"))
            .field == "claim.worker");
  CHECK(shapes_refusal(decode_finish_request(R"({"worker":"w","results":[],"claim":{"max":1}})"))
            .field == "claim.queues");
}

TEST_CASE("retry and dead carry how a program ended, within limits") {
  const auto read = [](std::string_view outcome, std::string_view members) {
    return decode_finish_request(
        fmt::format(R"({{"worker":"w","results":[{{"id":1,"token":7,"outcome":"{}",{}}}]}})",
                    outcome, members));
  };
  const auto field = [&](std::string_view outcome, std::string_view members) {
    return shapes_refusal(read(outcome, members)).field;
  };
  const auto killed = read("retry", R"("signal":"SIGKILL","oom":true,"peak_memory":52428800)");
  REQUIRE(killed);
  CHECK(std::get<Retry>(killed->operation.results[0].outcome).program ==
        ProgramEnd{.signal = 9, .oom = true, .peak_memory = 52'428'800});
  const auto dead = read("dead", R"("reason":"r","exit_code":65,"signal":null,"oom":null)");
  REQUIRE(dead);
  CHECK(std::get<Dead>(dead->operation.results[0].outcome).program == ProgramEnd{.exit_code = 65});
  CHECK(field("retry", R"("peak_memory":-1)") == "results[0].peak_memory");
  CHECK(field("retry", R"("peak_memory":9007199254740993)") == "results[0].peak_memory");
  CHECK(field("retry", R"("peak_memory":1.5)") == "results[0].peak_memory");
  CHECK(field("retry", R"("exit_code":256)") == "results[0].exit_code");
  CHECK(field("retry", R"("exit_code":1,"signal":"SIGKILL")") == "results[0].exit_code");
  CHECK(field("dead", R"("signal":"KILL")") == "results[0].signal");
  CHECK(field("dead", R"("signal":9)") == "results[0].signal");
  for (const std::string_view other : {"complete", "cancel", "defer"}) {
    CHECK(field(other, R"("peak_memory":1)") == "results[0].peak_memory");
    CHECK(field(other, R"("exit_code":1)") == "results[0].exit_code");
    CHECK(field(other, R"("signal":"SIGHUP")") == "results[0].signal");
    CHECK(field(other, R"("oom":true)") == "results[0].oom");
  }
}

TEST_CASE("long texts are cut, not refused") {
  const std::string text(kMaxTextBytes - 1, 'x');
  const auto body = R"({"worker":"w","results":[{"id":1,"token":1,"outcome":"retry","error":")" +
                    text + "é\\u0000\"}]}";
  auto request = decode_finish_request(body);
  REQUIRE(request);
  CHECK(std::get<Retry>(request->operation.results[0].outcome).error == text);
  const auto renew =
      R"({"worker":"w","leases":[{"id":1,"token":1,"progress":{"value":0.5,"text":")" + text +
      "\"}}]}";
  CHECK(decode_renew_request(renew)->leases[0].progress->text.size() == kMaxProgressTextBytes);
}

TEST_CASE("finish is answered in order, with the next jobs if requested") {
  const FinishResult result{{FinishStatus::ok, FinishStatus::stale, FinishStatus::not_found}};
  const std::vector<JobId> ids = {1, 2, 3};
  CHECK(encoded([&](auto& out) { encode_finish_response(ids, result, nullptr, out); }) ==
        R"({"results":[{"id":1,"status":"ok"},{"id":2,"status":"stale"},)"
        R"({"id":3,"status":"not_found"}]})");
  const ClaimResult claim;
  const auto text = encoded([&](auto& out) { encode_finish_response(ids, result, &claim, out); });
  CHECK(text.ends_with(R"("jobs":[]})"));
  auto read = decode_finish_response(text);
  REQUIRE(read);
  CHECK(read->ids == ids);
  CHECK(read->result.results == result.results);
  CHECK(read->claim);
}

TEST_CASE("queues and workers decode to what was encoded") {
  QueueStats queue;
  queue.name = "photos";
  queue.counts[static_cast<std::size_t>(JobState::available)] = 3;
  queue.enqueued = 9;
  queue.oldest_available = *parse_wall_time("2026-01-31T09:00:00Z");
  queue.retention_dead = 30 * 24h;
  const WallTime now = *queue.oldest_available + 1500ms;
  const auto text = encoded([&](auto& out) { encode_queues({{queue}}, now, false, out); });
  CHECK(text ==
        R"({"queues":[{"name":"photos","paused":false,"pause":null,)"
        R"("counts":{"waiting":0,"scheduled":0,)"
        R"("available":3,"running":0,"completed":0,"retryable":0,"cancelled":0,"dead":0},)"
        R"("oldest_available_ms":1500,"oldest_available_at":"2026-01-31T09:00:00Z",)"
        R"("enqueued":9,"pruned":0,"expired":0,"retention":{"completed":null,"dead":"30d"}}],)"
        R"("next":null})");
  auto queues = decode_queues(text);
  REQUIRE(queues);
  CHECK(queues->items.at(0).counts == queue.counts);
  CHECK(queues->items.at(0).oldest_available == queue.oldest_available);
  CHECK(queues->items.at(0).retention_dead == queue.retention_dead);
  CHECK(queues->next.empty());
  const auto first = encoded([&](auto& out) { encode_queues({{queue}}, now, true, out); });
  CHECK(decode_queues(first)->next == "photos");

  const WorkerInfo worker{"w",
                          {"a", "b"},
                          3,
                          1500ms,
                          true,
                          {"web-7", 4711, "v1.4", "Python 3.11.2", 8},
                          WorkerCommand::quiet};
  auto workers = decode_workers(encoded([&](auto& out) { encode_workers({{worker}}, out); }));
  REQUIRE(workers);
  CHECK(workers->at(0).queues == worker.queues);
  CHECK(workers->at(0).last_seen == worker.last_seen);
  CHECK(workers->at(0).facts == worker.facts);
  CHECK(workers->at(0).command == WorkerCommand::quiet);
}

TEST_CASE("a worker's command is quiet, stop or null, and unknown ones are refused") {
  const auto command = [](std::string_view text) {
    return decode_worker(fmt::format(R"({{"id":"w","command":{}}})", text));
  };
  CHECK(command("null")->command == WorkerCommand::none);
  CHECK(command("\"stop\"")->command == WorkerCommand::stop);
  CHECK(shapes_refusal(command("\"rest\"")).field == "command");
  for (const WorkerCommand one : {WorkerCommand::none, WorkerCommand::quiet, WorkerCommand::stop}) {
    const auto claim =
        encoded([&](auto& out) { encode_claim_response(ClaimResult{.command = one}, out); });
    CHECK(decode_claim_response(claim)->command == one);
    const auto renewed =
        encoded([&](auto& out) { encode_renew_response(RenewResult{.command = one}, out); });
    CHECK(decode_renew_response(renewed)->command == one);
    const ClaimResult next{.command = one};
    const auto finished =
        encoded([&](auto& out) { encode_finish_response({}, FinishResult{}, &next, out); });
    CHECK(decode_finish_response(finished)->claim->command == one);
  }
}

TEST_CASE("pages, redrive, retention and verification decode to what was encoded") {
  auto page = decode_job_page(R"({"jobs":[],"next_cursor":"41"})");
  REQUIRE(page);
  CHECK(page->next == 41);
  CHECK_FALSE(decode_job_page(R"({"jobs":[],"next_cursor":null})")->next);
  CHECK(shapes_refusal(decode_cursor("abc")).field == "cursor");
  CHECK(shapes_refusal(decode_cursor("-1")).field == "cursor");
  CHECK(decode_cursor("") == 0);

  auto redrive = decode_redrive_request(R"({"queue":"q","tag":"t","limit":5,"after":9})");
  REQUIRE(redrive);
  CHECK(redrive->operation.filter.queue == "q");
  CHECK(redrive->operation.after == 9);
  CHECK(decode_redrive_request("")->operation.limit == 1000);
  CHECK_FALSE(redrive->dry_run);
  CHECK(decode_redrive_request(R"({"dry_run":true})")->dry_run);
  CHECK(shapes_refusal(decode_redrive_request(R"({"limit":0})")).field == "limit");
  for (const char* word : {"queue", "kind", "tag"}) {
    CAPTURE(word);  // "" is no filter: an unset variable must not redrive everything
    const Error none = shapes_refusal(decode_redrive_request(fmt::format(R"({{"{}":""}})", word)));
    CHECK(none.field == word);
    CHECK(none.message == fmt::format("{} \"\": must not be empty; leave it out", word));
  }
  CHECK(shapes_refusal(decode_redrive_request(R"({"queue":"a b"})")).field == "queue");
  CHECK(decode_redrive_response(R"({"redriven":3,"next":null})")->redriven == 3);
  std::string answer;
  encode_redrive_response({.redriven = 2, .next = 9, .ids = {7, 9}}, answer);
  CHECK(answer == R"({"redriven":2,"next":9,"ids":[7,9]})");
  CHECK(decode_redrive_response(answer)->ids == std::vector<JobId>{7, 9});

  auto retention = decode_retention_request("q", R"({"retention":{"completed":"1h"}})");
  REQUIRE(retention);
  CHECK(retention->completed == 1h);
  CHECK_FALSE(retention->dead);
  CHECK(shapes_refusal(decode_retention_request("q", "{}")).field == "retention");
  CHECK(shapes_refusal(decode_retention_request("q", R"({"retention":{"dead":"0s"}})")).field ==
        "retention.dead");
  CHECK(decode_cancel_request(7, "")->id == 7);
  CHECK(decode_cancel_request(7, R"({"reason":"x"})")->reason == "x");
  auto report = decode_verify(R"({"jobs":3,"problems":["x"]})");
  REQUIRE(report);
  CHECK(report->problems.size() == 1);
}

TEST_CASE("errors decode to what was encoded; a foreign error body is reported by its status") {
  const Error error{ErrorCode::overloaded, "full", "jobs", 250};
  const auto text = encoded([&](auto& out) { encode_error(error, out); });
  CHECK(text ==
        R"({"error":{"code":"overloaded","message":"full","field":"jobs","retry_after_ms":250}})");
  const Error read = decode_error(429, text);
  CHECK(read.code == error.code);
  CHECK(read.message == error.message);
  CHECK(read.field == error.field);
  CHECK(read.retry_after_ms == 250);
  CHECK(decode_error(503, "<html>").code == ErrorCode::unavailable);
  CHECK(decode_error(502, "<html>bad gateway").code == ErrorCode::internal);
  CHECK(decode_error(502, "<html>bad gateway").message == "HTTP status 502: <html>bad gateway");
  CHECK(decode_error(409, R"({"error":{"code":"brand_new","message":"m"}})").code ==
        ErrorCode::conflict);
}

// -- round trips of anything

namespace {

std::string any_text() {
  return *rc::gen::container<std::string>(rc::gen::elementOf(std::string("aZ09 \"\\\n\t/<é😀")))
              .as("text");
}
std::string valid_text() {  // random bytes of a multi-byte character would become U+FFFD
  std::string out;
  append_json_string(out, any_text());
  std::string decoded;
  JsonReader in(out, JsonReader::Unknown::refuse);
  RC_ASSERT(in.string(decoded));
  return decoded;
}
std::string any_name() {
  return "q" + *rc::gen::container<std::string>(rc::gen::elementOf(std::string("abc.:/_-09")));
}
std::string any_json() {
  return *rc::gen::element<std::string>("{}", R"({"a": [1,2.50,"x\u00e9"]})", "7", "\"s\"", "[]",
                                        "true");
}
WallTime any_time() {
  return WallTime::from_us(*rc::gen::inRange<std::int64_t>(0, 4102444800'000'000));
}
Duration any_ms() {
  return std::chrono::milliseconds(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000));
}
bool coin() {
  return *rc::gen::arbitrary<bool>();
}

NewJob any_new_job() {
  NewJob job;
  job.queue = any_name(), job.kind = any_name(), job.args = any_json();
  job.priority = *rc::gen::inRange(0, 10);
  job.max_attempts = *rc::gen::inRange(1, 1001);
  if (coin()) {
    job.delay = any_ms();
  } else if (coin()) {
    job.run_at = any_time();
  }
  if (coin()) job.unique = Unique{"k" + valid_text(), any_ms(), OnConflict::postpone};
  if (coin()) job.expires_in = job.delay.value_or(0ms) + any_ms() + 1ms;
  if (job.expires_in && coin()) job.on_expiry = OnExpiry::dead;
  job.timeout = coin() ? kForever : any_ms() + 1us;
  if (coin()) job.tags = {"t" + valid_text().substr(0, 0), any_name().substr(0, 60)};
  if (coin()) job.headers = R"({"a":"b"})";
  if (coin()) job.correlation_id = valid_text();
  if (coin()) job.reply_to = any_name();
  if (coin()) {
    job.follow_ups.push_back({.queue = any_name(), .kind = any_name(), .data = any_json()});
    job.follow_ups.push_back({.queue = any_name(), .kind = any_name(), .on = 5, .data = ""});
  }
  return job;
}

bool same(const NewJob& a, const NewJob& b) {
  const bool unique =
      a.unique.has_value() == b.unique.has_value() &&
      (!a.unique || (a.unique->key == b.unique->key && a.unique->window == b.unique->window &&
                     a.unique->on_conflict == b.unique->on_conflict));
  return unique && a.queue == b.queue && a.kind == b.kind && a.args == b.args &&
         a.priority == b.priority && a.run_at == b.run_at && a.delay == b.delay &&
         a.max_attempts == b.max_attempts && a.expires_in == b.expires_in &&
         a.on_expiry == b.on_expiry && a.timeout == b.timeout && a.tags == b.tags &&
         a.headers == b.headers && a.correlation_id == b.correlation_id &&
         a.reply_to == b.reply_to && a.follow_ups == b.follow_ups;
}

ProgramEnd any_program_end() {
  ProgramEnd end{.oom = coin()};
  if (coin()) end.signal = *rc::gen::inRange(1, 32);
  if (end.signal == 0 && coin()) end.exit_code = *rc::gen::inRange(0, kMaxExitCode + 1);
  if (coin()) end.peak_memory = *rc::gen::inRange<std::int64_t>(0, kMaxPeakMemoryBytes);
  return end;
}

template <class F>
void shapes_check_property(const char* what, F&& property) {
  CHECK(rc::check(what, std::forward<F>(property)));
}

}  // namespace

TEST_CASE("a server decodes an enqueue to what a client encoded") {
  shapes_check_property("enqueue", [] {
    Enqueue request;
    const int count = *rc::gen::inRange(1, 5);
    for (int i = 0; i < count; ++i) request.jobs.push_back(any_new_job());
    std::string body;
    encode_enqueue_request(request, body);
    auto read = decode_enqueue_request(body);
    if (!read) RC_FAIL(read.error().message + " in " + body);
    RC_ASSERT(read->single == (count == 1));
    RC_ASSERT(read->operation.jobs.size() == request.jobs.size());
    for (std::size_t i = 0; i < request.jobs.size(); ++i)
      RC_ASSERT(same(read->operation.jobs[i], request.jobs[i]));
  });
}

TEST_CASE("a client decodes a job to what a server encoded") {
  shapes_check_property("job", [] {
    Job job;
    job.id = *rc::gen::inRange<JobId>(1, INT64_MAX);
    job.queue = any_name(), job.kind = any_name(), job.args = any_json();
    job.state = static_cast<JobState>(*rc::gen::inRange(0, kJobStateCount));
    job.run_at = any_time(), job.created_at = any_time();
    job.attempt = *rc::gen::inRange(0, 1000);
    job.token = *rc::gen::inRange<Token>(0, INT64_MAX);
    job.version = *rc::gen::inRange<std::int64_t>(1, INT64_MAX);
    job.worker = valid_text(), job.unique_key = valid_text(), job.reason = valid_text();
    job.description = valid_text(), job.correlation_id = valid_text();
    job.cancel_requested = coin();
    job.deferred = coin();
    if (coin()) job.quarantined = Quarantine{job.run_at, 3, coin()};
    if (coin()) job.tags = {"a", "b"};
    if (coin()) job.headers = R"({"a":"b"})";
    if (coin()) job.timeout = any_ms();
    if (coin()) job.expires_at = any_time();
    if (coin()) job.started_at = any_time();
    if (coin()) job.finished_at = any_time();
    if (coin()) job.progress = Progress{*rc::gen::inRange(0, 1001) / 1000.0, valid_text()};
    if (coin()) job.warning = valid_text();
    if (coin()) job.checkpoint = any_json();
    if (coin()) job.result = any_json();
    if (coin())
      job.errors.push_back({3, any_time(), "w", valid_text(), any_ms(), any_program_end()});
    std::string body;
    encode_job(job, JobDetail::full, body);
    auto read = decode_job(body);
    if (!read) RC_FAIL(read.error().message + " in " + body);
    RC_ASSERT(read->errors == job.errors);
    RC_ASSERT(read->progress == job.progress);
    RC_ASSERT(read->warning == job.warning);
    RC_ASSERT(std::tie(read->id, read->queue, read->kind, read->args, read->state, read->run_at,
                       read->created_at, read->attempt, read->token, read->version, read->worker) ==
              std::tie(job.id, job.queue, job.kind, job.args, job.state, job.run_at, job.created_at,
                       job.attempt, job.token, job.version, job.worker));
    RC_ASSERT(std::tie(read->unique_key, read->reason, read->description, read->correlation_id,
                       read->tags, read->headers, read->timeout, read->expires_at, read->started_at,
                       read->finished_at, read->checkpoint, read->result, read->cancel_requested,
                       read->deferred, read->quarantined) ==
              std::tie(job.unique_key, job.reason, job.description, job.correlation_id, job.tags,
                       job.headers, job.timeout, job.expires_at, job.started_at, job.finished_at,
                       job.checkpoint, job.result, job.cancel_requested, job.deferred,
                       job.quarantined));
  });
}

TEST_CASE("each side decodes a finish and a claim to what the other encoded") {
  shapes_check_property("finish", [] {
    Finish finish{.worker = any_name()};
    NewJob next = any_new_job();
    next.unique.reset();
    const std::vector<Outcome> outcomes = {Complete{any_json()},
                                           Complete{any_json(), {next, next}},
                                           Complete{},
                                           Retry{valid_text(), any_ms()},
                                           Retry{valid_text(), {}},
                                           Snooze{any_ms()},
                                           Defer{valid_text()},
                                           Defer{},
                                           CancelJob{valid_text()},
                                           Dead{valid_text(), valid_text()},
                                           Retry{"e", {}, {}, any_program_end()},
                                           Dead{"r", "d", any_program_end()}};
    for (const Outcome& outcome : outcomes)
      finish.results.push_back({*rc::gen::inRange<JobId>(1, INT64_MAX), 7, outcome});
    const ClaimRequest claim{
        {.worker = finish.worker, .queues = {any_name()}, .kinds = {}, .max = 9, .lease = 45s},
        std::chrono::milliseconds(*rc::gen::inRange(0, 60'000))};
    std::string body;
    encode_finish_request(finish, &claim, body);
    auto read = decode_finish_request(body);
    if (!read) RC_FAIL(read.error().message + " in " + body);
    RC_ASSERT(read->claim.has_value());
    RC_ASSERT(read->claim->wait == claim.wait);
    RC_ASSERT(read->claim->operation.queues == claim.operation.queues);
    RC_ASSERT(read->claim->operation.lease == claim.operation.lease);
    Finish again = read->operation;
    std::string second;
    encode_finish_request(again, &*read->claim, second);
    RC_ASSERT(second == body);
  });
  std::string named;
  encode_claim_request({{.worker = "w", .queues = {"q"}, .kinds = {"k"}, .max = 9, .job = 17}, 20s},
                       named);
  CHECK(named == R"({"worker":"w","queues":["q"],"max":1,"job":17})");
  shapes_check_property("claimed jobs", [] {
    ClaimedJob job;
    job.id = 9, job.token = *rc::gen::inRange<Token>(1, INT64_MAX), job.queue = any_name();
    job.kind = any_name(), job.args = any_json(), job.run_at = any_time();
    job.timeout = coin() ? kForever : any_ms(), job.lease = any_ms();
    if (coin()) job.checkpoint = any_json();
    if (coin()) job.headers = R"({"a":"b"})";
    if (coin()) job.tags = {"a"};
    job.correlation_id = valid_text(), job.reply_to = valid_text();
    job.deferred = coin(), job.cost = *rc::gen::inRange(1, 1001);
    std::string body, second;
    encode_claim_response({.jobs = {job, job}, .cancel = {5}}, body);
    auto read = decode_claim_response(body);
    if (!read) RC_FAIL(read.error().message + " in " + body);
    RC_ASSERT(read->jobs.size() == 2u);
    RC_ASSERT(read->jobs[0].args == job.args);
    RC_ASSERT(read->jobs[0].lease == job.lease);
    encode_claim_response(*read, second);
    RC_ASSERT(second == body);
  });
}

TEST_CASE("any broken body is refused without a crash") {
  const std::string good =
      R"({"jobs":[{"queue":"q","kind":"k","args":{"a":[1,2]},"unique":{"key":"x"},"tags":["t"]}]})";
  shapes_check_property("broken", [&] {
    std::string body = good;
    const int changes = *rc::gen::inRange(1, 4);
    for (int i = 0; i < changes; ++i) {
      const auto at = *rc::gen::inRange<std::size_t>(0, body.size());
      if (coin()) {
        body[at] = static_cast<char>(*rc::gen::arbitrary<unsigned char>());
      } else {
        body.erase(at, *rc::gen::inRange<std::size_t>(1, 8));
        if (body.empty()) body = "x";
      }
    }
    auto read = decode_enqueue_request(body);
    RC_ASSERT(read.has_value() || !read.error().message.empty());
    static_cast<void>(decode_claim_request(body));
    static_cast<void>(decode_finish_request(body));
    static_cast<void>(decode_renew_request(body));
    static_cast<void>(decode_job(body));
  });
}
