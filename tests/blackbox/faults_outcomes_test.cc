// Outcomes: unusual programs, results and errors that must not change how a job ends.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "served.h"
#include "testing.h"

using namespace blackbox;

namespace {

constexpr std::size_t kMebibyte = 1 << 20;

struct Bench {
  explicit Bench(std::vector<std::string> options = {}) : server(std::move(options)) {}

  void start() {
    REQUIRE_MESSAGE(server.start(), server.log());
    client.emplace(server.port());
  }
  std::int64_t enqueue(const std::string& job) {
    const Answer answer = client->post("/v1/jobs", job);
    REQUIRE_MESSAGE(answer.status == 201, answer.body);
    return parse(answer.body)["id"].GetInt64();
  }
  std::string job_text(std::int64_t id) { return client->get(fmt::format("/v1/jobs/{}", id)).body; }
  rapidjson::Document job(std::int64_t id) { return parse(job_text(id)); }
  // A script in the directory of this test.
  std::string script(const std::string& name, const std::string& text) {
    const std::string path = server.scratch() + "/" + name;
    write_file(path, text);
    return path;
  }
  Finished ms(std::vector<std::string> words, int milliseconds = 60'000) {
    words.insert(words.begin(), server_binary());
    words.insert(words.end(), {"--server", server.url()});
    return run(words, milliseconds);
  }
  // Runs the jobs of `queue` with a program, until there are no more.
  Finished work(const std::string& queue, const std::string& program) {
    return ms({"work", "--queue", queue, "--exec", program, "--drain"});
  }
  bool ends_as(std::int64_t id, const std::string& state) {
    return eventually([&] { return has(job_text(id), "\"state\":\"" + state + "\""); });
  }

  Served server;
  std::optional<HttpClient> client;
};

std::string folder_options(Bench& bench) {
  return bench.server.scratch() + "/jobs";
}

const std::vector<std::string>& remarks() {
  static const std::vector<std::string> lines = {R"({"progress":{"value":50}})",
                                                 R"({"progress":{"value":1.0000001}})",
                                                 R"({"progress":{"value":-0.001}})",
                                                 R"({"progress":"0.5"})",
                                                 R"({"progress":0.5})",
                                                 R"({"colour":"red"})",
                                                 "null",
                                                 "7",
                                                 "plain text",
                                                 "+ make all",
                                                 R"({"checkpoint":null})"};
  return lines;
}

// A shell script that writes all remarks to descriptor 3, then what `last` says.
std::string remarking(const std::string& last) {
  std::string text = "cat >/dev/null\n";
  for (const std::string& line : remarks()) text += "echo '" + line + "' >&3\n";
  return text + last + "\n";
}

}  // namespace

TEST_CASE("a result of 1 MiB is kept whole, and a larger one is dead after one attempt") {
  Bench bench;
  bench.start();
  const std::string program = "python3 " + bench.script("result.py", R"(
import json, os, sys
args = json.load(sys.stdin)["args"]
text = json.dumps("x" * (args["bytes"] - 2))
if args["fd"] == 1: print(text)
else: os.fdopen(3, "w").write('{"result":%s}\n' % text)
)");
  const auto enqueue = [&](int fd, std::size_t bytes) {
    return bench.enqueue(
        fmt::format(R"({{"queue":"q","kind":"k","args":{{"fd":{},"bytes":{}}}}})", fd, bytes));
  };
  std::vector<std::int64_t> whole, dead;
  for (const int fd : {1, 3}) {
    whole.push_back(enqueue(fd, 300'000));
    whole.push_back(enqueue(fd, kMebibyte));
    dead.push_back(enqueue(fd, kMebibyte + 1));
    dead.push_back(enqueue(fd, 3 * kMebibyte));
  }
  const Finished worker = bench.work("q", program);
  CAPTURE(worker.output);
  REQUIRE(worker.exit_code == 0);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const auto job = bench.job(whole[i]);
    REQUIRE(std::string(job["state"].GetString()) == "completed");
    CHECK(job["result"].GetStringLength() == (i % 2 == 0 ? 300'000 : kMebibyte) - 2);
  }
  for (const std::int64_t id : dead) {
    const auto job = bench.job(id);
    REQUIRE(std::string(job["state"].GetString()) == "dead");
    CHECK(job["attempt"].GetInt() == 1);
    CHECK(std::string(job["reason"].GetString()) == "result_too_large");
    CHECK(has(job["description"].GetString(), "must be at most 1048576"));
  }
}

TEST_CASE("queue folders keep results of 1 MiB, with a process per job and with children") {
  Bench bench;
  const std::string jobs = folder_options(bench);
  bench.server.set_options({"--jobs", jobs});
  write_file(jobs + "/queues/each/run.py", R"(
import json, sys
print(json.dumps("x" * (json.load(sys.stdin)["args"]["bytes"] - 2)))
)");
  write_file(jobs + "/queues/kept/settings.job", R"({"persistent":true,"max":1})");
  write_file(jobs + "/queues/kept/run.py", R"(
import json, os, sys
answers = os.fdopen(3, "w")
for line in sys.stdin:
    job = json.loads(line)
    answers.write(json.dumps({"id": job["id"], "result": "x" * (job["args"]["bytes"] - 2)}) + "\n")
    answers.flush()
)");
  bench.start();
  for (const std::string queue : {"each", "kept"}) {
    const auto enqueue = [&](std::size_t bytes) {
      return bench.enqueue(
          fmt::format(R"({{"queue":"{}","kind":"k","args":{{"bytes":{}}}}})", queue, bytes));
    };
    const std::int64_t whole = enqueue(kMebibyte), large = enqueue(3 * kMebibyte),
                       after = enqueue(10);
    REQUIRE_MESSAGE(bench.ends_as(whole, "completed"), bench.server.log());
    CHECK(bench.job(whole)["result"].GetStringLength() == kMebibyte - 2);
    REQUIRE(bench.ends_as(large, "dead"));
    CHECK(bench.job(large)["attempt"].GetInt() == 1);
    CHECK(std::string(bench.job(large)["reason"].GetString()) == "result_too_large");
    CHECK(bench.ends_as(after, "completed"));
  }
}

TEST_CASE("a filter's output over the limit of results is dead after one attempt") {
  Bench bench;
  bench.start();
  const std::string program = bench.script("filter.py", R"(
import json, sys
n = json.load(sys.stdin)["args"]["bytes"]
print(json.dumps({"text": "x" * n}))
)");
  const std::string pipeline = bench.script(
      "pipeline.json", fmt::format(R"({{"name":"p","filters":[)"
                                   R"({{"name":"first","queue":"first","exec":"python3 {}"}},)"
                                   R"({{"name":"second","queue":"second","exec":"true"}}]}})",
                                   program));
  const std::int64_t fits =
      bench.enqueue(R"({"queue":"first","kind":"item","args":{"bytes":900000}})");
  const std::int64_t large =
      bench.enqueue(R"({"queue":"first","kind":"item","args":{"bytes":3000000}})");
  const Finished ran = bench.ms({"pipeline", "run", pipeline, "--drain"});
  CAPTURE(ran.output);
  CHECK(bench.ends_as(fits, "completed"));
  CHECK(has(bench.job_text(fits), R"("passed_on":1)"));
  REQUIRE(bench.ends_as(large, "dead"));
  CHECK(bench.job(large)["attempt"].GetInt() == 1);
  CHECK(std::string(bench.job(large)["reason"].GetString()) == "result_too_large");
}

TEST_CASE("remarks that are not understood do not change exit code 0, and show as a warning") {
  Bench bench;
  bench.start();
  const std::int64_t id = bench.enqueue(R"({"queue":"q","kind":"k","max_attempts":3})");
  const Finished worker = bench.work(
      "q", "sh " + bench.script("run.sh", remarking("echo '{\"result\":[1]}' >&3; set -x; true")));
  CAPTURE(worker.output);
  REQUIRE(worker.exit_code == 0);
  const auto job = bench.job(id);
  CHECK(std::string(job["state"].GetString()) == "completed");
  CHECK(job["attempt"].GetInt() == 1);
  CHECK(job["errors"].Empty());
  CHECK(has(bench.job_text(id), R"("result":[1])"));
  REQUIRE(job.HasMember("warning"));
  CHECK(has(job["warning"].GetString(), "progress: value 50"));
  CHECK(has(job["warning"].GetString(), "(and 10 more)"));
  CHECK(has(worker.output, "ignored invalid output of a program about its job"));
  const std::string metrics = bench.client->get("/metrics").body;
  for (const auto& [reason, count] : std::vector<std::pair<std::string, int>>{
           {"progress", 5}, {"unknown_field", 1}, {"not_json", 4}, {"checkpoint", 1}}) {
    const std::string line =
        fmt::format("mainspring_program_remarks_ignored_total{{reason=\"{}\"}} {}", reason, count);
    CHECK_MESSAGE(has(metrics, line), line);
  }
  CHECK(has(bench.ms({"jobs", "show", std::to_string(id)}).output, "warning"));
}

TEST_CASE("a child of a queue folder that makes remarks is not ended, and its jobs are complete") {
  Bench bench;
  const std::string jobs = folder_options(bench);
  bench.server.set_options({"--jobs", jobs});
  write_file(jobs + "/queues/kept/settings.job", R"({"persistent":true,"min":1,"max":1})");
  std::string script =
      "import json, os, sys\n"
      "say = os.fdopen(3, 'w', buffering=1)\n"
      "say.write('ready\\n')\n"
      "for line in sys.stdin:\n"
      "    job = json.loads(line)\n";
  for (const std::string& line : remarks()) {
    script += "    say.write('" + line + "\\n')\n";
  }
  script += "    say.write(json.dumps({'id': job['id'], 'result': os.getpid()}) + '\\n')\n";
  write_file(jobs + "/queues/kept/run.py", script);
  bench.start();
  std::vector<std::string> results;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t id = bench.enqueue(R"({"queue":"kept","kind":"k"})");
    REQUIRE_MESSAGE(bench.ends_as(id, "completed"), bench.job_text(id));
    const auto job = bench.job(id);
    CHECK(job["attempt"].GetInt() == 1);
    CHECK(job.HasMember("warning"));
    results.push_back(std::to_string(job["result"].GetInt64()));
  }
  CHECK(results[0] == results[1]);
  CHECK(results[1] == results[2]);
}

TEST_CASE("one result over its limit is refused alone, and its job can be ended otherwise") {
  Bench bench;
  bench.start();
  for (int i = 0; i < 3; ++i) bench.enqueue(R"({"queue":"q","kind":"k"})");
  const auto claimed =
      parse(bench.client->post("/v1/claim", R"({"worker":"w","queues":["q"],"max":3})").body);
  REQUIRE(claimed["jobs"].Size() == 3);
  std::string results;
  for (int i = 0; i < 3; ++i) {
    const auto& job = claimed["jobs"][static_cast<unsigned>(i)];
    results += fmt::format(R"({}{{"id":{},"token":{},"outcome":"complete","result":"{}"}})",
                           i == 0 ? "" : ",", job["id"].GetInt64(), job["token"].GetInt64(),
                           std::string(i == 1 ? kMebibyte : 10, 'x'));
  }
  const Answer answer =
      bench.client->post("/v1/finish", R"({"worker":"w","results":[)" + results + "]}");
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  const auto said = parse(answer.body);
  REQUIRE(said["results"].Size() == 3);
  const char* const wanted[] = {"ok", "refused", "ok"};
  for (unsigned i = 0; i < 3; ++i) {
    CHECK(said["results"][i]["id"].GetInt64() == claimed["jobs"][i]["id"].GetInt64());
    CHECK(std::string(said["results"][i]["status"].GetString()) == wanted[i]);
  }
  const auto& error = said["results"][1]["error"];
  CHECK(std::string(error["code"].GetString()) == "too_large");
  CHECK(std::string(error["field"].GetString()) == "results[1].result");
  CHECK(has(error["message"].GetString(), "must be at most 1048576"));

  const std::int64_t id = claimed["jobs"][1]["id"].GetInt64();
  CHECK(std::string(bench.job(id)["state"].GetString()) == "running");
  const Answer dead = bench.client->post(
      "/v1/finish", fmt::format(R"({{"worker":"w","results":[{{"id":{},"token":{},)"
                                R"("outcome":"dead","reason":"too large"}}]}})",
                                id, claimed["jobs"][1]["token"].GetInt64()));
  CHECK(has(dead.body, R"("status":"ok")"));
}

TEST_CASE("one report over its limit is refused alone, and all leases are renewed") {
  Bench bench;
  bench.start();
  for (int i = 0; i < 2; ++i) bench.enqueue(R"({"queue":"q","kind":"k"})");
  const auto claimed =
      parse(bench.client->post("/v1/claim", R"({"worker":"w","queues":["q"],"max":2})").body);
  std::string leases;
  for (unsigned i = 0; i < 2; ++i) {
    const auto& job = claimed["jobs"][i];
    leases += fmt::format(R"({}{{"id":{},"token":{},"checkpoint":"{}"}})", i == 0 ? "" : ",",
                          job["id"].GetInt64(), job["token"].GetInt64(),
                          std::string(i == 1 ? 300'000 : 10, 'x'));
  }
  const Answer answer =
      bench.client->post("/v1/renew", R"({"worker":"w","leases":[)" + leases + "]}");
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  const auto said = parse(answer.body);
  CHECK(said["renewed"].Size() == 2);
  REQUIRE(said["refused"].Size() == 1);
  CHECK(said["refused"][0]["id"].GetInt64() == claimed["jobs"][1]["id"].GetInt64());
  CHECK(std::string(said["refused"][0]["error"]["field"].GetString()) == "leases[1].checkpoint");
  CHECK(has(bench.job_text(claimed["jobs"][0]["id"].GetInt64()), R"("checkpoint":"xxxxxxxxxx")"));
}

TEST_CASE("lists of dead jobs show the exception of a traceback, and one job all its lines") {
  Bench bench;
  bench.start();
  std::string frames;
  for (int i = 0; i < 30; ++i) {
    frames += fmt::format(R"(  File \"/srv/app/page.py\", line {}, in read\n    read()\n)", i);
  }
  const std::int64_t id = bench.enqueue(R"({"queue":"q","kind":"k","max_attempts":1})");
  const auto claimed =
      parse(bench.client->post("/v1/claim", R"({"worker":"w","queues":["q"],"max":1})").body);
  const Answer dead = bench.client->post(
      "/v1/finish",
      fmt::format(R"({{"worker":"w","results":[{{"id":{},"token":{},"outcome":"retry",)"
                  R"("error":"exit code 1: Traceback (most recent call last):\n{})"
                  R"(ValueError: no such page\n"}}]}})",
                  id, claimed["jobs"][0]["token"].GetInt64(), frames));
  REQUIRE(has(dead.body, R"("status":"ok")"));
  for (const char* list : {"groups", "list"}) {
    const std::string shown = bench.ms({"dead", list}).output;
    CHECK_MESSAGE(has(shown, "exit code 1: ValueError: no such page"), shown);
    CHECK_MESSAGE(!has(shown, "Traceback"), shown);
  }
  const std::string shown = bench.ms({"dead", "show", std::to_string(id)}).output;
  CHECK_MESSAGE(!has(shown, "\\n"), shown);
  CHECK_MESSAGE(has(shown, "line 7, in read\n"), shown);
}

TEST_CASE("a worker warns once about leases that it cannot renew, not twice a second") {
  Bench bench;
  bench.start();
  bench.enqueue(R"({"queue":"q","kind":"k"})");
  const std::string started = bench.server.scratch() + "/started";
  const std::string log = bench.server.scratch() + "/worker.log";
  Process worker;
  REQUIRE(worker.start(
      {.args = {server_binary(), "work", "--server", bench.server.url(), "--queue", "q", "--lease",
                "9s", "--exec", "sh " + bench.script("run.sh", "touch " + started + "; sleep 60")},
       .output = log}));
  REQUIRE(eventually([&] { return std::filesystem::exists(started); }));
  bench.server.kill();
  CHECK(eventually([&] { return has(read_file(log), "lease lost"); }));
  const std::string said = read_file(log);
  std::size_t warnings = 0;
  for (std::size_t at = 0; (at = said.find("cannot renew leases", at)) != std::string::npos; ++at) {
    ++warnings;
  }
  CHECK_MESSAGE(warnings == 1, said);
  worker.kill();
}

TEST_CASE("the log says which signal ended the server, and who sent it") {
  Bench bench;
  bench.start();
  CHECK(bench.server.stop() == 0);
  const std::string log = bench.server.log();
  CHECK_MESSAGE(has(log, "stopping"), log);
  CHECK_MESSAGE(has(log, fmt::format("SIGTERM from process {}", getpid())), log);
  CHECK_MESSAGE(has(log, fmt::format("of user {}", getuid())), log);
}

TEST_CASE("--version prints the version") {
  const Finished flag = run({server_binary(), "--version"}, 60'000);
  CHECK(flag.exit_code == 0);
  CHECK(flag.output == run({server_binary(), "version"}, 60'000).output);
}
