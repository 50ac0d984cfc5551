// Three real servers over one database. The leader is killed while work is due: no work is lost,
// and another server starts it soon.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "base/mutex.h"
#include "postgres/places.h"
#include "postgres/shared_server.h"
#include "scale.h"

namespace mainspring::pg_testing {
namespace {

using blackbox::Answer;
using blackbox::HttpClient;
using blackbox::now_us;

// The longest takeover from a dead leader: the lease of LeaderOptions, and some time for a busy
// machine.
constexpr std::int64_t kLeadership = 10'000'000;
constexpr std::int64_t kMargin = 20'000'000;
constexpr std::int64_t kLimit = 120'000'000;
constexpr int kServers = 3;

rapidjson::Document parse(const std::string& body) {
  rapidjson::Document document;
  document.Parse(body.data(), body.size());
  REQUIRE_MESSAGE((!document.HasParseError() && document.IsObject()), body);
  return document;
}

// Polls until `done` or the limit. For conditions without a notification.
template <class Done>
bool eventually(Done done, std::int64_t limit = kLimit) {
  for (const std::int64_t end = now_us() + limit; !done(); blackbox::pause_for(5'000)) {
    if (now_us() >= end) return false;
  }
  return true;
}

class Servers {
 public:
  explicit Servers(const std::vector<std::string>& options = {})
      : database_(must(the_cluster().new_database())) {
    for (int i = 0; i < kServers; ++i) {
      servers_.push_back(std::make_unique<SharedServer>(the_cluster().url(database_), options));
      REQUIRE_MESSAGE(servers_.back()->start(), servers_.back()->log());
    }
  }
  SharedServer& operator[](int i) { return *servers_[static_cast<std::size_t>(i)]; }
  std::vector<std::uint16_t> ports() const {
    std::vector<std::uint16_t> all;
    for (const auto& server : servers_) all.push_back(server->port());
    return all;
  }
  // The server that holds the leader lease, as the first server reports it.
  int leader() {
    int found = -1;
    REQUIRE(eventually([&] {
      HttpClient http(servers_[0]->port());
      const Answer answer = http.get("/v1/leases/mainspring%2Fleader");
      if (answer.status != 200) return false;
      const rapidjson::Document lease = parse(answer.body);
      if (!lease["holder"].IsString()) return false;
      const Rows node = sql(fmt::format("SELECT id FROM mainspring.nodes WHERE incarnation = '{}'",
                                        lease["holder"].GetString()));
      if (node.empty()) return false;
      const std::string number = fmt::format("\"node\":{},", node[0][0]);
      for (int i = 0; i < kServers; ++i) {
        HttpClient each((*this)[i].port());
        if (each.get("/readyz").body.find(number) != std::string::npos) found = i;
      }
      return found >= 0;
    }));
    return found;
  }
  Rows sql(const std::string& text) { return must(the_cluster().sql(text, database_)); }
  PgConnection connect() const {
    return must(PgConnection::open(the_cluster().url(database_, "postgres")));
  }
  // The output of a command on the store while no server runs.
  std::string verify() {
    return blackbox::run(
               {blackbox::server_binary(), "verify", "--store", the_cluster().url(database_)},
               60'000)
        .output;
  }

 private:
  std::string database_;
  std::vector<std::unique_ptr<SharedServer>> servers_;
};

struct Grant {
  std::int64_t at = 0;
  int attempt = 0;
  std::int64_t token = 0;
};

// Claims jobs of a queue from any server that answers, and completes them.
class Worker {
 public:
  Worker(std::vector<std::uint16_t> ports, std::string queue, std::string lease = "5s")
      : ports_(std::move(ports)),
        queue_(std::move(queue)),
        lease_(std::move(lease)),
        thread_([this] { run(); }) {}
  ~Worker() {
    stop_ = true;
    thread_.join();
  }
  std::map<JobId, std::vector<Grant>> grants() const {
    MutexLock lock(mutex_);
    return grants_;
  }
  std::size_t jobs() const { return grants().size(); }
  // When a job was first given out after `since`; 0 = none was.
  std::int64_t first_after(std::int64_t since) const {
    std::int64_t first = 0;
    for (const auto& [id, all] : grants()) {
      for (const Grant& grant : all) {
        if (grant.at > since && (first == 0 || grant.at < first)) first = grant.at;
      }
    }
    return first;
  }

 private:
  void run() {
    for (std::size_t at = 0; !stop_; ++at) {
      HttpClient http(ports_[at % ports_.size()]);
      while (!stop_ && head(http)) continue;
      blackbox::pause_for(20'000);
    }
  }
  // False: ask another server.
  bool head(HttpClient& http) {
    const Answer claimed =
        http.post("/v1/claim", fmt::format(R"({{"worker":"w","queues":["{}"],"max":50,)"
                                           R"("wait":"500ms","lease":"{}"}})",
                                           queue_, lease_));
    if (claimed.status != 200) return false;
    rapidjson::Document answer;
    answer.Parse(claimed.body.data(), claimed.body.size());
    std::string results;
    {
      MutexLock lock(mutex_);
      for (const auto& job : answer["jobs"].GetArray()) {
        const JobId id = job["id"].GetInt64();
        const Grant grant{claimed.return_us, job["attempt"].GetInt(), job["token"].GetInt64()};
        grants_[id].push_back(grant);
        results += fmt::format(R"({}{{"id":{},"token":{},"outcome":"complete"}})",
                               results.empty() ? "" : ",", id, grant.token);
      }
    }
    if (results.empty()) return true;
    return http.post("/v1/finish", fmt::format(R"({{"worker":"w","results":[{}]}})", results))
               .status == 200;
  }

  const std::vector<std::uint16_t> ports_;
  const std::string queue_, lease_;
  std::atomic<bool> stop_{false};
  mutable Mutex mutex_;
  std::map<JobId, std::vector<Grant>> grants_ MS_GUARDED_BY(mutex_);
  std::thread thread_;
};

std::string not_completed(Servers& servers) {
  return servers.sql("SELECT count(*) FROM mainspring.jobs WHERE state <> 4").at(0).at(0);
}

}  // namespace

TEST_CASE("delayed jobs are started by another server when the one that leads is killed idle") {
  Servers servers;
  const int leader = servers.leader();
  std::map<JobId, std::int64_t> due;  // at the latest
  for (int i = 0; i < 30; ++i) {
    HttpClient http(servers[i % kServers].port());
    const int delay_ms = 500 + 200 * i;
    const Answer answer = http.post(
        "/v1/jobs", fmt::format(R"({{"queue":"q","kind":"k","delay":"{}ms"}})", delay_ms));
    REQUIRE(answer.status == 201);
    due[parse(answer.body)["id"].GetInt64()] = answer.return_us + delay_ms * 1000;
  }
  const Worker worker(servers.ports(), "q");
  const std::int64_t killed = servers[leader].kill();
  REQUIRE(eventually([&] { return worker.jobs() == due.size(); }));
  std::int64_t latest = 0;
  for (const auto& granted : worker.grants()) {  // clang 14 cannot capture structured bindings
    const auto id = granted.first;
    const auto& grants = granted.second;
    CAPTURE(id);
    REQUIRE(due.contains(id));
    const std::int64_t late = grants[0].at - std::max(due[id], killed + kLeadership);
    CHECK(late <= kMargin);
    latest = std::max(latest, grants[0].at - killed);
  }
  MESSAGE("the last one started ", latest / 1000, " ms after the kill");
  CHECK(eventually([&] { return not_completed(servers) == "0"; }));
  REQUIRE(servers[leader].start());
  CHECK(servers.verify().find("sound") != std::string::npos);
}

TEST_CASE("a schedule has every tick once though the server that fires it is killed as it fires") {
  Servers servers;
  HttpClient http(servers[0].port());
  REQUIRE(http.request("PUT", "/v1/schedules/every-second",
                       R"({"every":"1s","overlap":"allow","misfire":"all",)"
                       R"("job":{"queue":"ticks","kind":"k"}})")
              .status == 201);
  const Worker worker(servers.ports(), "ticks");
  // As its commit is answered; a little before a tick; a little after.
  constexpr std::int64_t kWaits[] = {0, 990'000, 1'003'000};
  const int kills = by_scale(2, 2, 3);
  for (int i = 0; i < kills; ++i) {
    const std::int64_t wait = kWaits[i];
    CAPTURE(wait);
    const int leader = servers.leader();
    const std::size_t before = worker.jobs();
    REQUIRE(eventually([&] { return worker.jobs() >= before + 2; }));
    blackbox::pause_for(wait);
    const std::int64_t killed = servers[leader].kill();
    // Its committed data may still be in flight.
    REQUIRE(eventually([&] { return worker.first_after(killed + kLeadership / 2) != 0; }));
    const std::int64_t took = worker.first_after(killed + kLeadership / 2) - killed;
    MESSAGE("the next tick fired ", took / 1000, " ms after the kill");
    CHECK(took <= kLeadership + kMargin);
    REQUIRE(servers[leader].start());
  }
  const std::size_t before = worker.jobs();
  REQUIRE(eventually([&] { return worker.jobs() >= before + 2; }));
  REQUIRE(http.post("/v1/schedules/every-second/pause", "{}").status == 200);
  CHECK(eventually([&] { return not_completed(servers) == "0"; }));
  // The ledger, oldest first: each row one tick that fired, a second after the one before.
  const Rows ticks = servers.sql(
      "SELECT nominal, coalesce(job, 0) FROM mainspring.ledger WHERE source = 0 ORDER BY nominal");
  REQUIRE(static_cast<int>(ticks.size()) > 10 * kills);
  std::set<std::string> jobs;
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    CAPTURE(ticks[i][0]);
    CHECK(ticks[i][1] != "0");
    CHECK(jobs.insert(ticks[i][1]).second);
    if (i > 0) CHECK(std::stoll(ticks[i][0]) - std::stoll(ticks[i - 1][0]) == 1'000'000);
  }
  CHECK(worker.jobs() == ticks.size());
  CHECK(servers.verify().find("sound") != std::string::npos);
}

TEST_CASE("expired leases are rescued by another server when the first is killed in the middle") {
  constexpr int kJobs = 2000;
  // Small commits, so that the work takes several of them.
  Servers servers({"--scheduler-batch", "10"});
  const int leader = servers.leader();
  HttpClient http(servers[(leader + 1) % kServers].port());
  std::string jobs;
  for (int i = 0; i < kJobs; ++i)
    jobs += fmt::format(R"({}{{"queue":"q","kind":"k"}})", i == 0 ? "" : ",");
  REQUIRE(http.post("/v1/jobs", fmt::format(R"({{"jobs":[{}]}})", jobs)).status == 201);
  std::map<JobId, Grant> lost;  // by a worker that vanishes
  while (lost.size() < kJobs) {
    const Answer claimed = http.post(
        "/v1/claim", R"({"worker":"gone","queues":["q"],"max":1000,"lease":"10s","wait":"1s"})");
    REQUIRE(claimed.status == 200);
    const rapidjson::Document answer = parse(claimed.body);
    for (const auto& job : answer["jobs"].GetArray())
      lost[job["id"].GetInt64()] = {claimed.invoke_us, 1, job["token"].GetInt64()};
  }
  // Whenever the leader is killed, this job is not rescued yet.
  PgConnection locks = servers.connect();
  must(
      locks.sql("BEGIN; SELECT 1 FROM mainspring.jobs WHERE id = (SELECT max(id) FROM "
                "mainspring.jobs) FOR UPDATE"));
  const auto available = [&] {
    return std::stoi(servers.sql("SELECT count(*) FROM mainspring.jobs WHERE state <> 3")[0][0]);
  };
  REQUIRE(eventually([&] { return available() > 0; }));
  const std::int64_t killed = servers[leader].kill();
  const int rescued = available();
  MESSAGE(rescued, " of ", kJobs, " were rescued when it was killed");
  REQUIRE(rescued < kJobs);
  must(locks.sql("ROLLBACK"));
  const Worker worker(servers.ports(), "q", "1m");
  REQUIRE(eventually([&] { return worker.jobs() == kJobs; }));
  int in_time = 0;
  for (const auto& granted : worker.grants()) {  // clang 14 cannot capture structured bindings
    const auto id = granted.first;
    const auto& grants = granted.second;
    CAPTURE(id);
    REQUIRE(lost.contains(id));
    REQUIRE(grants.size() == 1);
    CHECK(grants[0].attempt == 1);  // never renewed: the lost claim does not count
    CHECK(grants[0].token > lost[id].token);
    CHECK(grants[0].at >= lost[id].at + 10'000'000);
    if (grants[0].at <= killed + kLeadership + kMargin) ++in_time;
  }
  MESSAGE(in_time, " of them started in time");
  CHECK(in_time > rescued);
  CHECK(eventually([&] { return not_completed(servers) == "0"; }));
  CHECK(servers.verify().find("sound") != std::string::npos);
}

}  // namespace mainspring::pg_testing
