// The real binary from outside, in literal HTTP, as with curl; also when the process is killed,
// stopped or overloaded, or its disk is full.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <rapidjson/document.h>
#include <sys/resource.h>

#include <fstream>
#include <memory>

#include "testing.h"

using namespace blackbox;

namespace {

std::int64_t token_of(const std::string& claim_body) {
  const rapidjson::Document document = parse(claim_body);
  REQUIRE(document.IsObject());
  REQUIRE(document["jobs"].Size() == 1);
  return document["jobs"][0]["token"].GetInt64();
}

}  // namespace

TEST_CASE("a job that was completed is completed after kill -9") {
  Served server;
  REQUIRE(server.start());
  HttpClient http(server.port());
  const Answer enqueued =
      http.post("/v1/jobs", R"({"queue":"photos","kind":"thumbnail","args":{"path":"a.jpg"}})");
  CHECK(enqueued.status == 201);
  CHECK(enqueued.body == R"({"id":1,"state":"available"})");
  const Answer claimed =
      http.post("/v1/claim", R"({"worker":"w1","queues":["photos"],"max":10,"wait":"0s"})");
  CHECK(claimed.status == 200);
  CHECK(has(claimed.body, R"("args":{"path":"a.jpg"})"));
  const std::string finish =
      fmt::format(R"({{"worker":"w1","results":[{{"id":1,"token":{},"outcome":"complete",)"
                  R"("result":{{"w":200}}}}]}})",
                  token_of(claimed.body));
  const Answer finished = http.post("/v1/finish", finish);
  CHECK(finished.status == 200);
  CHECK(finished.body == R"({"results":[{"id":1,"status":"ok"}]})");

  server.kill();
  REQUIRE(server.start());
  const Answer read = http.get("/v1/jobs/1");
  CHECK(read.status == 200);
  CHECK(has(read.body, R"("state":"completed")"));
  CHECK(has(read.body, R"("result":{"w":200})"));
  // A repetition is harmless; another token is refused.
  CHECK(http.post("/v1/finish", finish).body == R"({"results":[{"id":1,"status":"ok"}]})");
  const Answer stale = http.post(
      "/v1/finish", R"({"worker":"w1","results":[{"id":1,"token":99,"outcome":"complete"}]})");
  CHECK(stale.body == R"({"results":[{"id":1,"status":"stale"}]})");
  CHECK(server.stop() == 0);
}

TEST_CASE("bad input is refused, and the message names field, value and rule") {
  Served server;
  REQUIRE(server.start());
  HttpClient http(server.port());
  const Answer priority = http.post(
      "/v1/jobs", R"({"jobs":[{"queue":"q","kind":"k"},{"queue":"q","kind":"k","priority":12}]})");
  CHECK(priority.status == 400);
  CHECK(has(priority.body, R"("code":"invalid_argument")"));
  CHECK(has(priority.body, R"("field":"jobs[1].priority")"));
  CHECK(has(priority.body, "12"));
  CHECK(has(priority.body, "0 to 9"));
  CHECK(http.post("/v1/jobs", "{\"queue\":").status == 400);
  CHECK(http.get("/v1/jobs/77").status == 404);
  CHECK(http.get("/nowhere").status == 404);
  CHECK(http.request("DELETE", "/v1/claim").status == 405);
  CHECK(has(http.get("/v1/queues").body, R"("queues":[])"));  // no partial effect
  const std::string huge(20'000, 'x');
  const std::string refused =
      http.raw("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + huge + "\r\n\r\n", 60'000);
  CHECK(has(refused, " 431 "));
  CHECK(has(http.raw("BOTHER\r\n\r\n", 60'000), " 400 "));
  CHECK(server.stop() == 0);
}

TEST_CASE("an idempotency key makes a repeated enqueue one job, across a kill -9") {
  Served server;
  REQUIRE(server.start());
  HttpClient http(server.port());
  const std::string body = R"({"queue":"q","kind":"k","args":[1]})";
  const std::vector<std::string> key = {"Idempotency-Key: order-17"};
  CHECK(http.post("/v1/jobs", body, key).status == 201);
  server.kill();
  REQUIRE(server.start());
  const Answer again = http.post("/v1/jobs", body, key);
  CHECK(again.status == 200);
  CHECK(again.body == R"({"id":1,"state":"available","duplicate":true,"replayed":true})");
  const Answer other = http.post("/v1/jobs", R"({"queue":"q","kind":"k","args":[2]})", key);
  CHECK(other.status == 409);
  CHECK(has(other.body, R"("code":"conflict")"));
  CHECK(server.stop() == 0);
}

TEST_CASE("a second server on the same directory is refused with the pid of the first") {
  Served server;
  REQUIRE(server.start());
  const Finished second = run({server_binary(), "serve", "--data", server.store(), "--listen",
                               fmt::format("127.0.0.1:{}", free_port())},
                              60'000);
  CHECK(second.exit_code != 0);
  CHECK_MESSAGE(has(second.output, std::to_string(server.process().pid())), second.output);
  CHECK(HttpClient(server.port()).get("/healthz").status == 200);
  CHECK(server.stop() == 0);
}

TEST_CASE("SIGTERM answers parked claims and ends well") {
  Served server;
  REQUIRE(server.start());
  std::vector<std::unique_ptr<HttpClient>> parked;
  for (int i = 0; i < 20; ++i) {
    parked.push_back(std::make_unique<HttpClient>(server.port()));
    REQUIRE(parked.back()->send_only(
        "POST", "/v1/claim",
        fmt::format(R"({{"worker":"w{}","queues":["q"],"max":1,"wait":"60s"}})", i)));
  }
  HttpClient http(server.port());
  // Claims of different connections are not taken in their order.
  REQUIRE(
      eventually([&] { return has(http.get("/metrics").body, "mainspring_parked_claims 20"); }));
  CHECK(server.stop(30'000) == 0);  // much less than the claims would wait
  for (auto& client : parked) {
    const Answer answer = client->receive(1000);
    CHECK(answer.sent == Sent::answered);
    CHECK((answer.status == 200 || answer.status == 503));
  }
  REQUIRE(server.start());
  CHECK(server.stop() == 0);
}

TEST_CASE("ten thousand parked claims are cheap, and one enqueue serves them all") {
  constexpr int kClaims = 10'000;
  [[maybe_unused]] constexpr std::int64_t kMaxKbPerClaim = 8;
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < kClaims + 100) {
    MESSAGE("SKIPPED, LOUDLY: only ", files.rlim_cur, " open files are permitted here");
    return;
  }
  Served server;
  REQUIRE(server.start());
  const std::int64_t before_kb = server.process().rss_kb();
  std::vector<std::unique_ptr<HttpClient>> parked;
  for (int i = 0; i < kClaims; ++i) {
    parked.push_back(std::make_unique<HttpClient>(server.port()));
    REQUIRE(parked.back()->send_only("POST", "/v1/claim",
                                     R"({"worker":"crowd","queues":["q"],"max":1,"wait":"60s"})"));
  }
  HttpClient http(server.port());
  const std::string wanted = fmt::format("mainspring_parked_claims {}", kClaims);
  std::string metrics;
  const bool parked_all = eventually([&] {
    metrics = http.get("/metrics").body;
    return has(metrics, wanted);
  });
  REQUIRE_MESSAGE(parked_all, metrics);
  const std::int64_t grown_kb = server.process().rss_kb() - before_kb;
  MESSAGE("10,000 parked claims: the server grew by ", grown_kb, " KiB to ",
          server.process().rss_kb(), " KiB");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(grown_kb < kMaxKbPerClaim * kClaims);  // sanitizers need several times that
#endif

  std::string jobs = R"({"queue":"q","kind":"k"})";
  for (int i = 1; i < kClaims; ++i) jobs += R"(,{"queue":"q","kind":"k"})";
  CHECK(http.post("/v1/jobs", "{\"jobs\":[" + jobs + "]}").status == 201);
  int served = 0;
  for (auto& client : parked) served += has(client->receive(30'000).body, "\"token\"");
  CHECK(served == kClaims);
  parked.clear();
  CHECK(server.stop() == 0);
}

TEST_CASE("on a full disk enqueue answers 507, finishing works, and it recovers by itself") {
  const SmallDisk disk("size=48m");
  if (!disk.ok()) {
    MESSAGE("SKIPPED, LOUDLY: mounting a tmpfs is not permitted here: ", disk.error());
    return;
  }
  Served server({"--store-reserve-bytes", "8MiB"}, disk.path() + "/store");
  REQUIRE_MESSAGE(server.start(), server.log());
  const std::string filler = disk.path() + "/filler";
  std::ofstream(filler) << std::string(16 << 20, 'x');
  HttpClient http(server.port());
  const std::string job = R"({"queue":"q","kind":"k","args":")" + std::string(200'000, 'a') + "\"}";
  std::vector<std::int64_t> ids;
  Answer answer = http.post("/v1/jobs", job);
  while (answer.status == 201 && ids.size() < 1000) {
    ids.push_back(parse(answer.body)["id"].GetInt64());
    answer = http.post("/v1/jobs", job);
  }
  CHECK(ids.size() > 5);
  CHECK_MESSAGE(answer.status == 507, answer.status, " ", answer.body.substr(0, 300));
  CHECK(has(answer.body, R"("code":"storage_full")"));

  // All jobs can be completed while the disk is full.
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Answer claimed =
        http.post("/v1/claim", R"({"worker":"w","queues":["q"],"max":1,"wait":"0s"})");
    REQUIRE_MESSAGE(claimed.status == 200, claimed.body.substr(0, 300));
    const rapidjson::Document document = parse(claimed.body);
    REQUIRE(document["jobs"].Size() == 1);
    const Answer finished = http.post(
        "/v1/finish",
        fmt::format(R"({{"worker":"w","results":[{{"id":{},"token":{},"outcome":"complete"}}]}})",
                    document["jobs"][0]["id"].GetInt64(), document["jobs"][0]["token"].GetInt64()));
    REQUIRE_MESSAGE(finished.status == 200, finished.body);
    CHECK(has(finished.body, R"("status":"ok")"));
  }

  // With free space enqueue works again by itself.
  std::filesystem::remove(filler);
  const std::int64_t started = now_us();
  do {
    answer = http.post("/v1/jobs", job);
  } while (answer.status == 507 && now_us() - started < 60'000'000);
  CHECK(answer.status == 201);

  // A kill -9 loses none of it.
  server.kill();
  REQUIRE_MESSAGE(server.start(), server.log());
  for (const std::int64_t id : ids) {
    CHECK(has(http.get(fmt::format("/v1/jobs/{}", id)).body, R"("state":"completed")"));
  }
  CHECK(server.stop() == 0);
  const Finished verify = run({server_binary(), "verify", "--data", server.store()}, 60'000);
  CHECK_MESSAGE(verify.exit_code == 0, verify.output);
}
