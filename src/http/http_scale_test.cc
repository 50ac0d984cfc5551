// The scaling signal: what counts as demand, what is held, and how long values are remembered.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "api/pool_window_shapes.h"
#include "broker/broker.h"
#include "http/http_test_support.h"

using namespace mainspring;
using namespace mainspring::test;

namespace {

using namespace std::chrono_literals;

void enqueue(TestServer& s, int jobs, NewJob job) {
  for (int done = 0; done < jobs; done += 100) {
    std::vector<NewJob> some(static_cast<std::size_t>(std::min(100, jobs - done)), job);
    REQUIRE(s.broker->enqueue({.jobs = std::move(some)}).has_value());
  }
}
NewJob job_of(std::string queue, std::string kind = "k") {
  return {.queue = std::move(queue), .kind = std::move(kind)};
}
std::string scale(Peer& peer, const std::string& query) {
  const Answer answer = peer.call("GET", "/v1/scale?" + query);
  CAPTURE(answer.body);
  REQUIRE(answer.status == 200);
  return answer.body;
}
std::string value(int number) {
  return fmt::format(R"({{"value":{},"desired_workers":{},)", number, number);
}

}  // namespace

TEST_CASE("an empty queue needs no worker, one waiting job needs one, and an unknown queue none") {
  TestServer s;
  Peer peer(s);
  CHECK(scale(peer, "queues=q").starts_with(value(0)));
  enqueue(s, 1, job_of("q"));
  const std::string one = scale(peer, "queues=q&hold=0s");
  CHECK(one.starts_with(value(1)));
  CHECK(has(one, R"("ready":1,"running":0,"due_within_lead":0,"held":0,)"));
  CHECK(has(one, R"("source":"prior")"));
  CHECK(scale(peer, "queues=other").starts_with(value(0)));
}

TEST_CASE("a prefix counts all its queues, and reports each") {
  TestServer s;
  Peer peer(s);
  for (const char* queue : {"tenant/a", "tenant/b", "mail"}) enqueue(s, 30, job_of(queue));
  const std::string body = scale(peer, "queues=tenant/*&target=30s&slots=1&pool=t");
  CHECK(has(body, R"("ready":60,)"));
  CHECK(has(body, R"("queue":"tenant/a")"));
  CHECK_FALSE(has(body, R"("queue":"mail")"));
  CHECK(has(peer.call("GET", "/metrics").body, R"(mainspring_scale_desired_workers{pool="t"} )"));
}

TEST_CASE("jobs that a limit, a pause or a rate holds back ask for no worker") {
  TestServer s;
  Peer peer(s);
  enqueue(s, 1000, job_of("q"));
  int pools = 0;  // each without an earlier value
  const auto limits = [&](const char* text) {
    REQUIRE(peer.call("PUT", "/v1/queues/q/limits", text).status == 200);
    return scale(peer, fmt::format("queues=q&slots=4&max=40&hold=0s&pool=p{}", ++pools));
  };
  const std::string limit = limits(R"({"concurrency":5})");
  CHECK(limit.starts_with(value(2)));
  CHECK(has(limit, R"("held":995,"gate":"limit")"));
  CHECK(has(limits(R"({"concurrency":null,"rate":{"count":2,"per":"1s"}})"), R"("gate":"rate")"));
  CHECK(has(limits(R"({"rate":null})"), R"("held":0,"gate":null,)"));
  REQUIRE(peer.call("POST", "/v1/queues/q/pause").status == 200);
  const std::string paused = scale(peer, "queues=q&slots=4&pool=paused&hold=0s");
  CHECK(paused.starts_with(value(0)));
  CHECK(has(paused, R"("gate":"pause")"));
}

TEST_CASE("jobs of few limit keys ask for the slots of their keys") {
  TestServer s;
  Peer peer(s);
  REQUIRE(peer.call("PUT", "/v1/queues/q/limits", R"({"per_key":{"concurrency":2}})").status ==
          200);
  NewJob job = job_of("q");
  for (const char* key : {"a", "b"}) {
    job.limit_key = key;
    enqueue(s, 500, job);
  }
  // Two slots for the key of the 256 jobs that are sampled, for up to four such parts.
  const std::string body = scale(peer, "queues=q&slots=4&max=40");
  CHECK(body.starts_with(value(2)));
  CHECK(has(body, R"("gate":"key_limit")"));
}

TEST_CASE("an open breaker asks for no more workers") {
  TestServer s;
  Peer peer(s);
  REQUIRE(peer.call("PUT", "/v1/breakers/b", "{}").status < 300);
  REQUIRE(peer.call("PUT", "/v1/queues/q/limits", R"({"breaker":"b"})").status == 200);
  enqueue(s, 500, job_of("q"));
  REQUIRE(peer.call("POST", "/v1/breakers/b/open", R"({"for":"10m"})").status == 200);
  const std::string body = scale(peer, "queues=q&hold=0s");
  CHECK(body.starts_with(value(0)));
  CHECK(has(body, R"("held":500,"gate":"breaker")"));
}

TEST_CASE("a kind that costs more slots needs more workers") {
  TestServer s;
  Peer peer(s);
  REQUIRE(peer.call("PUT", "/v1/queues/q/limits", R"({"costs":{"big":3}})").status == 200);
  enqueue(s, 60, job_of("q", "big"));
  CHECK(has(scale(peer, "queues=q&slots=4"), R"("cost":3,)"));
}

TEST_CASE("jobs and ticks due within the lead count, and later ones do not") {
  TestServer s;
  Peer peer(s);
  NewJob job = job_of("q");
  job.delay = 10min;
  enqueue(s, 200, job);
  CHECK(scale(peer, "queues=q").starts_with(value(0)));
  CHECK(has(scale(peer, "queues=q&lead=15m"), R"("due_within_lead":200,)"));
  REQUIRE(
      peer.call(
              "PUT", "/v1/schedules/s",
              R"({"every":"1h","start_at":"2026-01-01T00:00:00Z","job":{"queue":"t","kind":"k"}})")
          .status < 300);
  CHECK(scale(peer, "queues=t&lead=2h").starts_with(value(1)));
  REQUIRE(peer.call("POST", "/v1/schedules/s/pause").status == 200);
  CHECK(scale(peer, "queues=t&lead=2h&hold=0s&pool=p").starts_with(value(0)));
}

TEST_CASE("a wave of more jobs than the store counts is seen, and due jobs are counted rarely") {
  TestServer s;
  Peer peer(s);
  NewJob job = job_of("a");
  job.delay = 10min;
  enqueue(s, kMaxDueCounted + 1000, job);
  CHECK(has(scale(peer, "queues=a&lead=15m"), R"("due_within_lead":100000,)"));
  CHECK(has(scale(peer, "queues=b&lead=15m"), R"("due_within_lead":0,)"));
  const std::int64_t before = s.store->reads();
  for (int i = 0; i < 20; ++i) scale(peer, "queues=a&lead=15m");
  CHECK(s.store->reads() - before <= 10);
}

TEST_CASE("due jobs of many queues are counted together") {
  TestServer s;
  Peer peer(s);
  for (int i = 0; i < 10; ++i) {
    NewJob job = job_of(fmt::format("q{}", i));
    job.delay = i < 3 ? 10min : 10h;
    enqueue(s, 5, job);
  }
  CHECK(has(scale(peer, "queues=q0,q9&lead=15m"),
            R"("queue":"q0","workers":1,"ready":0,"running":0,"due_within_lead":5,)"));
  CHECK_FALSE(has(scale(peer, "queues=q0,q9&lead=15m"), R"("queue":"q9")"));
  const std::int64_t before = s.store->reads();
  const std::string all = scale(peer, "queues=q*&lead=15m&pool=all");
  CHECK(s.store->reads() - before < 10);
  CHECK_FALSE(has(all, R"("due_within_lead":0,"held":0,"work_seconds")"));
}

TEST_CASE("a waiting call is answered once the value changes, and not before") {
  TestServer s;
  Peer peer(s), other(s);
  std::jthread caller(
      [&] { CHECK(scale(other, "queues=q&wait=30s&value=0").starts_with(value(1))); });
  wait_until([&] { return s.broker->events().listened(s.clock.now().instant); });
  enqueue(s, 1, job_of("q"));
  caller.join();
  CHECK(scale(peer, "queues=q&wait=30s&value=7").starts_with(value(1)));
}

TEST_CASE("an idle server answers without a read of the store") {
  TestServer s;
  Peer peer(s);
  enqueue(s, 1, job_of("other"));
  scale(peer, "queues=q");
  wait_until([&] {  // the history of the enqueue is written, and seen
    const std::int64_t before = s.store->reads();
    scale(peer, "queues=q");
    return s.store->reads() == before;
  });
  const std::int64_t before = s.store->reads();
  for (int i = 0; i < 20; ++i) scale(peer, "queues=q");
  CHECK(s.store->reads() - before <= 1);
}

TEST_CASE("a declared pool needs no parameters, has gauges, and its windows are upcoming") {
  HttpOptions options;
  options.scale_pools = *parse_scale_pools("pools.toml", R"(
[mail]
queues = ["mail"]
max = 20
[[mail.window]]
min = 4
cron = "* * * * *"
for = "2h"
[[mail.window]]
max = 9
cron = "* * * * *"
for = "2h"
[other]
queues = "tenant/*"
[[other.window]]
min = 1
cron = "0 0 1 1 *"
for = "1h"
)");
  TestServer s(options);
  Peer peer(s);
  CHECK(
      has(peer.call("GET", "/metrics").body, R"(mainspring_scale_desired_workers{pool="mail"} 4)"));
  enqueue(s, 3000, job_of("mail"));
  enqueue(s, 3000, job_of("other"));
  const std::string body = scale(peer, "pool=mail&queues=");
  CHECK(body.starts_with(value(9)));
  CHECK(has(body, R"("ready":3000,)"));
  CHECK(has(body, R"("min":4,"max":9,)"));
  CHECK(has(scale(peer, "pool=mail&max=5&queues=other"),
            R"("min":4,"max":5,"queues":[{"queue":"other")"));
  CHECK(has(scale(peer, "pool=unknown&queues=mail"), R"("min":0,"max":100,)"));
  const auto upcoming = decode_upcoming_answer(peer.call("GET", "/v1/upcoming?within=1h").body);
  REQUIRE(upcoming);
  REQUIRE(upcoming->windows.size() == 2);
  CHECK(upcoming->windows[0].pool == "mail");
  CHECK(upcoming->windows[0].min == 4);
  CHECK(upcoming->windows[1].max == 9);
  CHECK(upcoming->windows[0].from <= upcoming->from);
}

TEST_CASE("windows are shown to callers who may read a queue of their pool") {
  HttpOptions options;
  options.scale_pools = *parse_scale_pools("pools.toml", R"(
[all]
[[all.window]]
min = 1
cron = "* * * * *"
for = "1h"
[mail]
queues = "mail"
[[mail.window]]
min = 1
cron = "* * * * *"
for = "1h"
[tenants]
queues = "tenant/*"
[[tenants.window]]
min = 1
cron = "* * * * *"
for = "1h"
)");
  TestServer s(options);
  int tokens = 0;
  const auto pools = [&](const char* scopes) {
    Peer peer(s);
    const std::string auth = scoped_token(s, scopes, fmt::format("t{}", ++tokens));
    const auto answer = decode_upcoming_answer(peer.call("GET", "/v1/upcoming", "", auth).body);
    REQUIRE(answer);
    std::string out;
    for (const PoolWindow& one : answer->windows) out += one.pool + " ";
    return out;
  };
  CHECK(pools("read") == "all mail tenants ");
  CHECK(pools("read=mail") == "all mail ");
  CHECK(pools("read=tenant/a") == "all tenants ");
  Peer peer(s);
  const std::string auth = scoped_token(s, "read=other", "other");
  CHECK(peer.call("GET", "/v1/scale?pool=mail", "", auth).status == 403);
}

TEST_CASE("an invalid scaling request is refused with its field") {
  TestServer s;
  Peer peer(s);
  check_refusals(peer, {{"GET", "/v1/scale?min=5&max=4", "", 400, "invalid_argument", "min"},
                        {"GET", "/v1/scale?target=soon", "", 400, "invalid_argument", "target"},
                        {"GET", "/v1/scale?queues=a%20b", "", 400, "invalid_argument", "queues"},
                        {"GET", "/v1/scale?window=min%3D4", "", 400, "invalid_argument", "window"},
                        {"GET", "/v1/scale?slots=x", "", 400, "invalid_argument", "slots"}});
}
