// Schedules and leases of the real binary, from outside: what a kill -9 may not lose or double.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <rapidjson/document.h>

#include <map>
#include <set>

#include "served.h"

using namespace blackbox;

namespace {

rapidjson::Document timing_parse(const std::string& body) {
  rapidjson::Document document;
  document.Parse(body.data(), body.size());
  REQUIRE_MESSAGE(document.IsObject(), body);
  return document;
}
bool timing_has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Seconds since midnight of "2026-01-31T09:00:07Z"; the tests here are shorter than a day.
int second_of(const std::string& time) {
  REQUIRE(time.size() == 20);
  return std::stoi(time.substr(11, 2)) * 3600 + std::stoi(time.substr(14, 2)) * 60 +
         std::stoi(time.substr(17, 2));
}
int seconds_between(int from, int to) {
  return (to - from + 86'400) % 86'400;
}

// Waits for the next job and completes it; returns its nominal time.
std::string run_one(HttpClient& http) {
  const Answer claimed = http.post(
      "/v1/claim", R"({"worker":"w1","queues":["ticks"],"max":1,"wait":"20s","lease":"60s"})");
  REQUIRE(claimed.status == 200);
  const rapidjson::Document answer = timing_parse(claimed.body);
  REQUIRE(answer["jobs"].Size() == 1);
  const auto& job = answer["jobs"][0];
  const std::string finish =
      fmt::format(R"({{"worker":"w1","results":[{{"id":{},"token":{},"outcome":"complete"}}]}})",
                  job["id"].GetInt64(), job["token"].GetInt64());
  CHECK(http.post("/v1/finish", finish).status == 200);
  return job["headers"]["mainspring-nominal"].GetString();
}

}  // namespace

TEST_CASE("SCHED-1, SCHED-2: a schedule of each second loses and doubles no tick over kill -9") {
  Served server;
  REQUIRE(server.start());
  HttpClient http(server.port());
  const Answer put =
      http.request("PUT", "/v1/schedules/each%2Fsecond",
                   R"({"every":"1s","overlap":"allow","job":{"queue":"ticks","kind":"tick"}})");
  REQUIRE_MESSAGE(put.status == 201, put.body);

  std::set<std::string> ran;
  for (int kill = 0; kill < 3; ++kill) {
    for (int tick = 0; tick < 2; ++tick) CHECK(ran.insert(run_one(http)).second);
    server.kill();
    REQUIRE(server.start());
  }
  // Ticks that fired before a kill but did not run still exist.
  for (int tick = 0; tick < 2; ++tick) CHECK(ran.insert(run_one(http)).second);
  CHECK(http.request("POST", "/v1/schedules/each%2Fsecond/pause").status == 200);

  const Answer read = http.get("/v1/schedules/each%2Fsecond/ledger?limit=1000");
  REQUIRE(read.status == 200);
  const rapidjson::Document ledger = timing_parse(read.body);
  std::map<std::int64_t, std::string> jobs;
  int later = -1;
  int first = -1;
  for (const auto& row : ledger["ticks"].GetArray()) {
    CAPTURE(read.body);
    CHECK(std::string(row["state"].GetString()) == "fired");
    CHECK_FALSE(row.HasMember("count"));
    const std::string nominal = row["nominal"].GetString();
    CHECK(jobs.emplace(row["job"].GetInt64(), nominal).second);
    first = second_of(nominal);
    if (later != -1) CHECK(seconds_between(first, later) == 1);  // newest first, every second
    later = first;
  }
  CHECK(jobs.size() >= ran.size());
  const std::string newest = ledger["ticks"][0]["nominal"].GetString();
  CHECK(seconds_between(first, second_of(newest)) + 1 == static_cast<int>(jobs.size()));
  for (const std::string& nominal : ran) CHECK(timing_has(read.body, nominal));
  CHECK(timing_parse(http.get("/v1/schedules/each%2Fsecond").body)["fired"].GetInt64() ==
        static_cast<std::int64_t>(jobs.size()));
  CHECK(http.get("/v1/verify").body.ends_with(R"("problems":[]})"));
  CHECK(server.stop() == 0);
}

TEST_CASE("LEASE: a lease is its holder's after kill -9, and its token never comes again") {
  Served server;
  REQUIRE(server.start());
  HttpClient http(server.port());
  const std::string path = "/v1/leases/report%2Feu/";
  const auto token_of = [](const Answer& grant) {
    REQUIRE_MESSAGE(grant.status == 200, grant.body);
    return timing_parse(grant.body)["token"].GetInt64();
  };
  const std::int64_t token =
      token_of(http.post(path + "acquire", R"({"holder":"one","ttl":"1h"})"));
  server.kill();
  REQUIRE(server.start());
  const Answer other = http.post(path + "acquire", R"({"holder":"two"})");
  CHECK(other.status == 409);
  CHECK(timing_has(other.body, R"("code":"lease_held")"));
  CHECK(timing_has(other.body, "one"));
  CHECK(token_of(http.post(path + "acquire", R"({"holder":"one","ttl":"1h"})")) == token);
  const std::string mine = fmt::format(R"({{"holder":"one","token":{}}})", token);
  CHECK(http.post(path + "renew", mine).status == 200);
  CHECK(http.post(path + "release", mine).status == 200);
  server.kill();
  REQUIRE(server.start());
  const std::int64_t next = token_of(http.post(path + "acquire", R"({"holder":"two"})"));
  CHECK(next > token);
  CHECK(http.post(path + "renew", mine).status == 409);
  const std::string fenced = fmt::format(
      R"({{"queue":"q","kind":"k","fence":{{"lease":"report/eu","token":{}}}}})", token);
  const Answer late = http.post("/v1/jobs", fenced);
  CHECK(late.status == 409);
  CHECK(timing_has(late.body, R"("code":"lease_lost")"));
  CHECK(server.stop() == 0);
}
