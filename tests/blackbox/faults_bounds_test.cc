// Bounds and tenants: large payloads, slow readers, short retentions, many queues, shared keys.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <sstream>
#include <thread>
#include <vector>

#include "testing.h"

namespace blackbox {
namespace {

constexpr int kMebibyte = 1 << 20;

std::string args_of(int bytes) {
  return "\"" + std::string(static_cast<std::size_t>(bytes - 2), 'x') + "\"";
}

void enqueue_large(HttpClient& client, const std::string& queue, int jobs) {
  const std::string body =
      R"({"queue":")" + queue + R"(","kind":"k","args":)" + args_of(kMebibyte) + "}";
  for (int i = 0; i < jobs; ++i) REQUIRE(client.post("/v1/jobs", body).status == 201);
}

// Claims and completes one job after the other until `jobs` are done.
void work_off(std::uint16_t port, const std::string& queue, int jobs) {
  HttpClient client(port);
  for (int done = 0; done < jobs;) {
    const auto claimed = parse(
        client
            .post("/v1/claim", R"({"worker":"w","max":10,"wait":"5s","queues":[")" + queue + "\"]}")
            .body);
    if (!claimed.HasMember("jobs")) continue;
    for (const auto& job : claimed["jobs"].GetArray()) {
      client.post("/v1/finish",
                  fmt::format(R"({{"worker":"w","results":[{{"id":{},"token":{},"outcome":)"
                              R"("complete","result":{}}}]}})",
                              job["id"].GetInt64(), job["token"].GetInt64(), job["id"].GetInt64()));
      ++done;
    }
  }
}

// Asks and never reads the answer.
class SilentPeer {
 public:
  SilentPeer(std::uint16_t port, const std::string& target)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int small = 4096;
    setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    const std::string request = "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
    REQUIRE(send(fd_, request.data(), request.size(), 0) == static_cast<ssize_t>(request.size()));
  }
  ~SilentPeer() { close(fd_); }
  SilentPeer(const SilentPeer&) = delete;
  SilentPeer& operator=(const SilentPeer&) = delete;

 private:
  const int fd_;
};

int lines_with(const std::string& text, const std::string& part) {
  int n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("a caller that waits for a job gets its result, even with a short retention") {
  constexpr int kJobs = 150;
  Served server({"--prune-interval", "100ms"});
  REQUIRE(server.start());
  HttpClient client(server.port());
  REQUIRE(client.request("PUT", "/v1/queues/q", R"({"retention":{"completed":"1ms"}})").status ==
          200);
  std::thread worker([&] { work_off(server.port(), "q", 2 * kJobs); });
  std::vector<std::thread> callers;
  std::atomic<int> answered{0};
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      HttpClient own(server.port());
      for (int j = 0; j < kJobs / 3; ++j) {
        const auto now = own.post("/v1/jobs?wait=20s", R"({"queue":"q","kind":"k"})", {}, 60'000);
        if (now.status == 201 && has(now.body, R"("state":"completed")") &&
            has(now.body, R"("result":)"))
          ++answered;
        // The second caller asks for the job by its id; the job waits until then. A caller that is
        // later than the delay, on a busy machine, may find that the job has ended and is removed.
        const auto made = own.post("/v1/jobs", R"({"queue":"q","kind":"k","delay":"300ms"})");
        const auto end =
            own.get(fmt::format("/v1/jobs/{}?wait=20s", parse(made.body)["id"].GetInt64()), 60'000);
        const bool late = end.invoke_us - made.invoke_us > 250'000;
        if (end.status == 200 ? has(end.body, R"("state":"completed")") : late) ++answered;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  worker.join();
  CHECK(answered == 2 * kJobs);
}

TEST_CASE("a list leaves out large args and says so; with them a page ends at 8 MiB") {
  Served server;
  REQUIRE(server.start());
  HttpClient client(server.port());
  enqueue_large(client, "q", 20);
  const auto plain = client.get("/v1/jobs?limit=1000");
  CHECK(plain.status == 200);
  CHECK(plain.body.size() < 100'000);
  CHECK(lines_with(plain.body, R"("args":null,"args_omitted":1048576)") == 20);
  std::string target = "/v1/jobs?limit=1000&whole_args=true";
  int jobs = 0, pages = 0;
  for (std::string cursor; pages < 10;) {
    const auto page = client.get(target + cursor);
    REQUIRE(page.status == 200);
    CHECK(page.body.size() < 10 * kMebibyte);
    const auto read = parse(page.body);
    jobs += static_cast<int>(read["jobs"].Size());
    ++pages;
    if (!read.HasMember("next_cursor") || !read["next_cursor"].IsString()) break;
    cursor = std::string("&cursor=") + read["next_cursor"].GetString();
  }
  CHECK(jobs == 20);
  CHECK(pages == 3);
}

TEST_CASE("a claim ends at 8 MiB") {
  Served server;
  REQUIRE(server.start());
  HttpClient client(server.port());
  enqueue_large(client, "q", 12);
  const auto claimed = client.post("/v1/claim", R"({"worker":"w","queues":["q"],"max":1000})");
  CHECK(claimed.status == 200);
  CHECK(claimed.body.size() < 10 * kMebibyte);
  CHECK(parse(claimed.body)["jobs"].Size() == 8);
  CHECK(parse(client.post("/v1/claim", R"({"worker":"w","queues":["q"],"max":1000})").body)["jobs"]
            .Size() == 4);
}

TEST_CASE("callers that do not read their answers cannot fill the memory") {
  Served server({"--max-buffered-bytes", "32MiB", "--max-body-bytes", "2MiB",
                 "--max-batch-body-bytes", "2MiB"});
  REQUIRE(server.start());
  HttpClient client(server.port());
  enqueue_large(client, "q", 10);
  std::vector<std::unique_ptr<SilentPeer>> slow;
  for (int i = 0; i < 40; ++i)
    slow.push_back(std::make_unique<SilentPeer>(server.port(), "/v1/jobs?whole_args=true"));
  CHECK(eventually([&] {
    const auto refused = client.get("/v1/jobs?limit=100&whole_args=true");
    return refused.status == 429 && has(refused.body, "bytes of answers") &&
           !refused.header("retry-after").empty();
  }));
  CHECK(client.get("/v1/jobs?limit=100").status == 200);  // small answers still work
  CHECK(server.process().rss_kb() < 300 * 1024);
  slow.clear();
  CHECK(eventually([&] { return client.get("/v1/jobs?limit=100&whole_args=true").status == 200; }));
}

TEST_CASE("a limit below one answer lets answers through one at a time") {
  Served server({"--max-buffered-bytes", "4MiB", "--max-body-bytes", "2MiB",
                 "--max-batch-body-bytes", "2MiB"});
  REQUIRE(server.start());
  HttpClient client(server.port());
  enqueue_large(client, "q", 10);
  const auto page = client.get("/v1/jobs?limit=100&whole_args=true");
  CHECK(page.status == 200);
  CHECK(page.body.size() > 8 * kMebibyte);
  const auto claimed = client.post("/v1/claim", R"({"worker":"w","queues":["q"],"max":1000})");
  CHECK(claimed.status == 200);
  CHECK(claimed.body.size() > 8 * kMebibyte);
}

TEST_CASE("lists of schedules, triggers and locks end at 8 MiB too, and the program shows all") {
  Served server;
  REQUIRE(server.start());
  HttpClient client(server.port());
  const std::string job = R"("job":{"kind":"k","args":)" + args_of(1'000'000) + "}";
  for (int i = 0; i < 20; ++i) {
    const auto schedule = client.request("PUT", fmt::format("/v1/schedules/s{}", i),
                                         R"({"cron":"0 3 * * *",)" + job + "}");
    REQUIRE_MESSAGE(schedule.status == 201, schedule.body.substr(0, 300));
    const auto trigger = client.request("PUT", fmt::format("/v1/triggers/t{}", i),
                                        R"({"ended":{"queue":"q","on":["dead"]},)" + job + "}");
    REQUIRE_MESSAGE(trigger.status == 201, trigger.body.substr(0, 300));
  }
  for (int i = 0; i < 150; ++i) {
    const std::string path = fmt::format("/v1/leases/l{:03}", i);
    const auto held = client.post(path + "/acquire", R"({"holder":"h","ttl":"1h"})");
    REQUIRE(held.status == 200);
    const auto renewed = client.post(
        path + "/renew", fmt::format(R"({{"holder":"h","token":{},"value":{}}})",
                                     parse(held.body)["token"].GetInt64(), args_of(60'000)));
    REQUIRE_MESSAGE(renewed.status == 200, renewed.body.substr(0, 300));
  }
  for (const std::string list : {"schedules", "triggers", "leases"}) {
    const auto page = client.get("/v1/" + list + "?limit=1000");
    REQUIRE(page.status == 200);
    CHECK(page.body.size() > 8 * kMebibyte);
    CHECK(page.body.size() < 10 * kMebibyte);
    CHECK(parse(page.body)["next"].IsString());
  }
  const auto shown = [&](const std::string& command, const std::string& name) {
    const Finished list =
        run({server_binary(), command, "list", "--json", "--server", server.url()}, 60'000);
    CHECK(list.exit_code == 0);
    return lines_with(list.output, name);
  };
  CHECK(shown("schedules", R"({"name":"s)") == 20);
  CHECK(shown("triggers", R"({"name":"t)") == 20);
  CHECK(shown("leases", R"({"name":"l)") == 150);
}

TEST_CASE("the steps of a workflow are listed in pages of 8 MiB") {
  constexpr int kSteps = 12;
  Served server;
  REQUIRE(server.start());
  HttpClient client(server.port());
  std::string steps;
  for (int i = 0; i < kSteps; ++i)
    steps +=
        fmt::format(R"({}{{"name":"s{}","job":{{"queue":"q","kind":"k"}}}})", i == 0 ? "" : ",", i);
  const auto started = client.post("/v1/workflows", R"({"name":"w","steps":[)" + steps + "]}");
  REQUIRE_MESSAGE(started.status == 201, started.body);
  const std::string path =
      fmt::format("/v1/workflows/{}/steps?limit=1000", parse(started.body)["id"].GetInt64());
  const auto claimed =
      parse(client.post("/v1/claim", R"({"worker":"w","queues":["q"],"max":100})").body);
  REQUIRE(claimed["jobs"].Size() == kSteps);
  for (const auto& job : claimed["jobs"].GetArray()) {
    const auto finished =
        client.post("/v1/finish",
                    fmt::format(R"({{"worker":"w","results":[{{"id":{},"token":{},"outcome":)"
                                R"("complete","result":{}}}]}})",
                                job["id"].GetInt64(), job["token"].GetInt64(), args_of(1'000'000)));
    REQUIRE_MESSAGE(finished.status == 200, finished.body.substr(0, 300));
  }
  const auto first = client.get(path);
  CHECK(first.body.size() < 10 * kMebibyte);
  const auto page = parse(first.body);
  CHECK(page["steps"].Size() == 9);
  REQUIRE(page["next"].IsInt());
  const auto rest = parse(client.get(fmt::format("{}&after={}", path, page["next"].GetInt())).body);
  CHECK(rest["steps"].Size() == kSteps - 9);
  CHECK(rest["next"].IsNull());
}

TEST_CASE("an idempotency key of one queue does not affect another") {
  Served server;
  REQUIRE(server.start());
  HttpClient client(server.port());
  const std::vector<std::string> key = {"Idempotency-Key: order-7"};
  const auto of_a = client.post("/v1/jobs", R"({"queue":"a","kind":"k"})", key);
  CHECK(of_a.status == 201);
  CHECK(client.post("/v1/jobs", R"({"queue":"b","kind":"k"})", key).status == 201);
  CHECK(
      client
          .post("/v1/jobs", R"({"jobs":[{"queue":"a","kind":"k"},{"queue":"b","kind":"k"}]})", key)
          .status == 201);
  const auto again = client.post("/v1/jobs", R"({"queue":"a","kind":"k"})", key);
  CHECK(again.status == 200);
  CHECK(parse(again.body)["id"].GetInt64() == parse(of_a.body)["id"].GetInt64());
  CHECK(client.post("/v1/jobs", R"({"queue":"a","kind":"other"})", key).status == 409);
}

TEST_CASE("an empty queue is removed by its name, and forgotten after a time") {
  Served server(
      {"--forget-queues", "10s", "--retention-completed", "1ms", "--prune-interval", "100ms"});
  REQUIRE(server.start());
  HttpClient client(server.port());
  for (const char* queue : {"once", "now", "kept", "set"})
    REQUIRE(client.post("/v1/jobs", fmt::format(R"({{"queue":"{}","kind":"k"}})", queue)).status ==
            201);
  const auto remove = [&](const std::string& queue) {
    return run({server_binary(), "queues", "remove", queue, "--server", server.url()}, 60'000);
  };
  CHECK(has(remove("now").output, "has 1 job"));
  CHECK(remove("never").exit_code == 66);
  CHECK(client.request("PUT", "/v1/queues/set/limits", R"({"concurrency":3})").status == 200);
  for (const char* queue : {"once", "now", "set"}) work_off(server.port(), queue, 1);
  CHECK(eventually([&] { return remove("now").exit_code == 0; }));
  CHECK(client.get("/v1/queues/now").status == 404);
  CHECK(eventually([&] { return client.get("/v1/queues/once").status == 404; }));
  CHECK(client.get("/v1/queues/kept").status == 200);
  CHECK(client.get("/v1/queues/set").status == 200);
  CHECK(client.post("/v1/jobs", R"({"queue":"once","kind":"k"})").status == 201);
  CHECK(client.get("/v1/queues/once").status == 200);
}

TEST_CASE("the metrics of thousands of queues are bounded, and their sums stay right") {
  constexpr int kQueues = 3000;
  Served server;
  REQUIRE(server.start());
  HttpClient client(server.port());
  std::string body;
  for (int i = 0; i < kQueues; ++i)
    body += fmt::format(R"({}{{"queue":"q{}","kind":"k"}})", i == 0 ? "" : ",", i);
  REQUIRE(client.post("/v1/jobs", R"({"jobs":[)" + body + "]}").status == 201);
  const std::string metrics = client.get("/metrics").body;
  CHECK(metrics.size() < 500'000);
  CHECK(lines_with(metrics, "mainspring_queue_jobs{") == 8 * 250);
  CHECK(has(metrics, fmt::format(R"(mainspring_queue_jobs{{queue="other",state="available"}} {})",
                                 kQueues - 249)));
}

TEST_CASE("a list of all dead jobs takes a request for each page, not for each job") {
  constexpr int kJobs = 1000;
  Served server;
  REQUIRE(server.start());
  HttpClient http(server.port());
  std::string batch = R"({"jobs":[)";
  for (int i = 0; i < kJobs; ++i)
    batch += (i == 0 ? "" : ",") + std::string(R"({"queue":"q","kind":"k","max_attempts":1})");
  REQUIRE(http.post("/v1/jobs", batch + "]}").status == 201);
  const Answer claimed =
      http.post("/v1/claim", R"({"worker":"w","queues":["q"],"max":1000,"wait":"0s"})");
  REQUIRE(claimed.status == 200);
  const rapidjson::Document document = parse(claimed.body);
  std::string results;
  for (const auto& job : document["jobs"].GetArray()) {
    results += fmt::format(R"({}{{"id":{},"token":{},"outcome":"retry","error":"disk {} broke"}})",
                           results.empty() ? "" : ",", job["id"].GetInt64(),
                           job["token"].GetInt64(), job["id"].GetInt64());
  }
  const Answer finished =
      http.post("/v1/finish", fmt::format(R"({{"worker":"w","results":[{}]}})", results));
  REQUIRE_MESSAGE(finished.status == 200, finished.body.substr(0, 300));

  const auto requests = [&] {
    long sum = 0;
    std::istringstream lines(http.get("/metrics").body);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("mainspring_http_requests_total{"))
        sum += std::stol(line.substr(line.rfind(' ') + 1));
    }
    return sum;
  };
  const long before = requests();
  const Finished list =
      run({server_binary(), "dead", "list", "--all", "--server", server.url()}, 60'000);
  CHECK_MESSAGE(list.exit_code == 0, list.output.substr(0, 300));
  CHECK(requests() - before <= kJobs / 200 + 3);
  CHECK(std::count(list.output.begin(), list.output.end(), '\n') == kJobs + 1);  // and the title
  CHECK(has(list.output, "disk 1 broke"));
  CHECK(has(list.output, "disk 1000 broke"));
  CHECK(server.stop() == 0);
}

}  // namespace blackbox
