// Servers that freeze, stop and restart while workers run: the cost for the jobs.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <string>
#include <vector>

#include "testing.h"

using namespace blackbox;

namespace {

int lines_of(const std::string& path) {
  const std::string text = read_file(path);
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

rapidjson::Document job_of(HttpClient& http, std::int64_t id) {
  rapidjson::Document job = parse(http.get("/v1/jobs/" + std::to_string(id)).body);
  REQUIRE(job.IsObject());
  return job;
}

bool is_completed(HttpClient& http, std::int64_t id) {
  return has(http.get("/v1/jobs/" + std::to_string(id)).body, R"("state":"completed")");
}

// It took one attempt, and no attempt failed.
void check_unharmed(HttpClient& http, std::int64_t id) {
  const rapidjson::Document job = job_of(http, id);
  CAPTURE(http.get("/v1/jobs/" + std::to_string(id)).body);
  CHECK(job["attempt"].GetInt() == 1);
  CHECK((!job.HasMember("errors") || job["errors"].Empty()));
}

std::int64_t enqueue(HttpClient& http, const std::string& queue) {
  const Answer made = http.post("/v1/jobs", fmt::format(R"({{"queue":"{}","kind":"k"}})", queue));
  REQUIRE_MESSAGE(made.status == 201, made.body);
  return parse(made.body)["id"].GetInt64();
}

bool start_worker(Process& worker, const Served& server, const std::string& queue,
                  const std::string& program, std::vector<std::string> more = {}) {
  Command command{.args = {server_binary(), "work", "--server", server.url(), "--queue", queue,
                           "--exec", program}};
  command.args.insert(command.args.end(), more.begin(), more.end());
  command.output = server.scratch() + "/" + queue + ".worker.log";
  return worker.start(command);
}

// Every line that is a warning or an error. A machine that stands still is not the server's fault.
std::string complaints(const std::string& log) {
  std::string found;
  for (std::size_t at = 0; at < log.size();) {
    const std::size_t end = std::min(log.find('\n', at), log.size() - 1) + 1;
    const std::string line = log.substr(at, end - at);
    const bool of_machine = has(line, "the server stood still") || has(line, "does not turn");
    if (!of_machine &&
        (has(line, R"("level":"warn")") || has(line, R"("level":"error")") || has(line, " WARN ") ||
         has(line, " ERROR ") || has(line, "level=warn") || has(line, "level=error")))
      found += line;
    at = end;
  }
  return found;
}

}  // namespace

TEST_CASE("a server that was frozen for longer than its leases uses up no attempts") {
  Served server;
  const std::string jobs = server.scratch() + "/jobs";
  const std::string out = server.scratch() + "/out";
  const auto note = [&](const std::string& file) { return "echo $$ >> " + out + "." + file; };
  const std::string long_run = "; sleep 36; ";
  write_file(jobs + "/continuous/clock/run.sh", note("clock") + "; sleep 1000\n");
  write_file(jobs + "/triggered/report/run.sh", note("report") + long_run + note("report") + "\n");
  write_file(jobs + "/queues/photos/run.sh", note("photos") + long_run + note("photos") + "\n");
  server.set_options({"--jobs", jobs, "--folder-quiet", "100ms"});
  REQUIRE(server.start());
  HttpClient http(server.port());
  const std::int64_t photo = enqueue(http, "photos"), outside = enqueue(http, "outside");
  REQUIRE(eventually(
      [&] { return http.post("/v1/host/jobs/triggered/report/run", "{}").status / 100 == 2; }));
  // Its first run is ended with its lease; the second one is quick.
  Process worker;
  REQUIRE(start_worker(
      worker, server, "outside",
      "sh -c '" + note("outside") + "; [ $(wc -l < " + out + ".outside) -gt 1 ] || sleep 100'"));
  REQUIRE(eventually([&] {
    return lines_of(out + ".clock") == 1 && lines_of(out + ".report") == 1 &&
           lines_of(out + ".photos") == 1 && lines_of(out + ".outside") == 1;
  }));

  server.process().signal(SIGSTOP);
  pause_for(33'000'000);  // longer than the default lease: the clock of the process cannot be moved
  server.process().signal(SIGCONT);

  CHECK(eventually([&] { return is_completed(http, photo) && is_completed(http, outside); }));
  CHECK(eventually([&] { return lines_of(out + ".report") == 2; }));
  check_unharmed(http, photo);
  check_unharmed(http, outside);
  const std::string listed = http.get("/v1/jobs?limit=100").body;
  CHECK_MESSAGE(!has(listed, R"("state":"retryable")"), listed);
  CHECK_MESSAGE(!has(listed, R"("state":"dead")"), listed);
  CHECK(lines_of(out + ".photos") == 2);  // one run: its begin and its end
  CHECK(lines_of(out + ".clock") == 1);   // the same process
  CHECK(http.get("/v1/dead").body.find("lease expired") == std::string::npos);
  CHECK(has(server.log(), "the server was suspended"));
  worker.signal(SIGTERM);
  CHECK(worker.wait(60'000));
  CHECK(server.stop() == 0);
}

TEST_CASE("programs of workers run on through a planned restart that takes longer than a lease") {
  Served server;
  REQUIRE(server.start());
  HttpClient http(server.port());
  const std::string out = server.scratch() + "/out";
  const std::int64_t id = enqueue(http, "long");
  Process worker;
  REQUIRE(start_worker(worker, server, "long",
                       "sh -c 'echo begin >> " + out + "; sleep 20; echo end >> " + out + "'",
                       {"--lease", "8s"}));
  REQUIRE(eventually([&] { return lines_of(out) == 1; }));
  CHECK(server.stop() == 0);
  pause_for(12'000'000);  // longer than the lease, without a server
  http.close();
  REQUIRE(server.start());
  CHECK(eventually([&] { return is_completed(http, id); }));
  check_unharmed(http, id);
  CHECK(read_file(out) == "begin\nend\n");
}

TEST_CASE("after a crash the programs of workers still end with their leases") {
  Served server;
  REQUIRE(server.start());
  HttpClient http(server.port());
  const std::string out = server.scratch() + "/out";
  enqueue(http, "long");
  Process worker;
  REQUIRE(start_worker(worker, server, "long",
                       "sh -c 'trap \"echo ended >> " + out + "; exit 1\" TERM; echo begin >> " +
                           out + "; sleep 60 & wait'",
                       {"--lease", "8s"}));
  REQUIRE(eventually([&] { return lines_of(out) == 1; }));
  server.kill();
  CHECK(eventually([&] { return read_file(out) == "begin\nended\n"; }));
}

TEST_CASE("without an allowance a restart does not wait for workers") {
  Served server({"--restart-allowance", "0s"});
  REQUIRE(server.start());
  HttpClient http(server.port());
  enqueue(http, "q");
  REQUIRE(has(http.post("/v1/claim", R"({"worker":"w","queues":["q"],"lease":"60s"})").body,
              R"("id":1)"));
  CHECK(server.stop(30'000) == 0);  // less than the lease
}

TEST_CASE("a worker can end its own waiting claim, and then gets no job") {
  Served server;
  REQUIRE(server.start());
  HttpClient waits(server.port()), http(server.port());
  REQUIRE(waits.send_only("POST", "/v1/claim", R"({"worker":"w1","queues":["q"],"wait":"60s"})"));
  CHECK(eventually(
      [&] { return http.post("/v1/claim/end", R"({"worker":"w1"})").body == R"({"ended":1})"; }));
  const Answer answer = waits.receive(30'000);
  CHECK(answer.status == 200);
  CHECK(answer.body == R"({"jobs":[]})");
  CHECK(http.post("/v1/claim/end", R"({"worker":"w1"})").body == R"({"ended":0})");
  CHECK(http.post("/v1/claim/end", R"({"worker":""})").status == 400);
  const std::int64_t id = enqueue(http, "q");
  CHECK(has(http.get("/v1/jobs/" + std::to_string(id)).body, R"("state":"available")"));
}

TEST_CASE("a clean stop logs no warnings, with running and waiting work") {
  Served server;
  const std::string jobs = server.scratch() + "/jobs";
  write_file(jobs + "/continuous/clock/run.sh",
             "while [ ! -e \"$WEBJOBS_SHUTDOWN_FILE\" ]; do sleep 0.1; done\n");
  write_file(jobs + "/triggered/report/run.sh", "echo done\n");
  write_file(jobs + "/queues/photos/run.sh", "cat > /dev/null\n");
  server.set_options({"--jobs", jobs, "--folder-quiet", "100ms"});
  REQUIRE(server.start());
  HttpClient http(server.port()), waits(server.port()), events(server.port());
  const std::int64_t photo = enqueue(http, "photos");
  REQUIRE(eventually([&] { return is_completed(http, photo); }));
  REQUIRE(eventually([&] {
    return has(http.get("/v1/host/jobs").body, "clock") &&
           http.post("/v1/host/jobs/triggered/report/run", "{}").status / 100 == 2;
  }));
  REQUIRE(waits.send_only("POST", "/v1/claim", R"({"worker":"w1","queues":["q"],"wait":"60s"})"));
  REQUIRE(events.send_only("GET", "/v1/events", ""));
  REQUIRE(eventually([&] { return has(http.get("/v1/workers").body, "w1"); }));
  CHECK(server.stop() == 0);
  CHECK(complaints(server.log()) == "");
}
