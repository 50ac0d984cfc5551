// One caller's misfortune stays its own, and what belongs to one attempt does not reach another.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>

#include "hosted_jobs.h"

using namespace blackbox;

namespace {

using Callers = std::vector<std::vector<std::string>>;  // names, each with its scopes

// A server that needs tokens, and a token for each caller.
struct Guarded {
  Served served{{"--require-token"}};
  HttpClient http{served.port()};
  std::map<std::string, std::string> tokens;

  explicit Guarded(const Callers& callers) {
    for (const std::vector<std::string>& scopes : callers) {
      std::vector<std::string> words = {server_binary(), "token",  "create",
                                        scopes[0],       "--data", served.store()};
      for (std::size_t i = 1; i < scopes.size(); ++i) {
        words.emplace_back("--scope");
        words.push_back(scopes[i]);
      }
      const std::string out = run(words, 60'000).output;
      const std::size_t at = out.find("mst_");
      REQUIRE_MESSAGE(at != std::string::npos, out);
      tokens[scopes[0]] = out.substr(at, out.find_first_of(" \n", at) - at);
    }
    REQUIRE(served.start());
  }
  Answer call(const std::string& who, const char* method, const std::string& path,
              const std::string& body = "") {
    return http.request(method, path, body, {"Authorization: Bearer " + tokens.at(who)});
  }
};

// A connection with a request whose body does not come.
class Silent {
 public:
  Silent(std::uint16_t port, const std::string& request)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(send(fd_, request.data(), request.size(), MSG_NOSIGNAL) > 0);
  }
  ~Silent() { close(fd_); }
  Silent(const Silent&) = delete;
  Silent& operator=(const Silent&) = delete;

 private:
  int fd_;
};

// The first job of a claim; REQUIREs one.
struct Claimed {
  std::int64_t id = 0, token = 0;
  int attempt = 0;
  std::string body;
};
Claimed claim(HttpClient& http, const std::string& queue, const std::string& lease = "30s") {
  const Answer answer = http.post(
      "/v1/claim",
      fmt::format(R"({{"worker":"w","queues":["{}"],"wait":"20s","lease":"{}"}})", queue, lease));
  const auto all = parse(answer.body);
  REQUIRE_MESSAGE((all.IsObject() && all.HasMember("jobs") && !all["jobs"].Empty()), answer.body);
  const auto& job = all["jobs"][0];
  return {job["id"].GetInt64(), job["token"].GetInt64(), job["attempt"].GetInt(), answer.body};
}
Answer finish(HttpClient& http, const Claimed& job, const std::string& fields) {
  return http.post("/v1/finish",
                   fmt::format(R"({{"worker":"w","results":[{{"id":{},"token":{},{}}}]}})", job.id,
                               job.token, fields));
}

}  // namespace

TEST_CASE("announced bodies that do not come stop no claim, enqueue or finish") {
  Guarded server(Callers{{"a", "enqueue", "work"}});
  std::vector<std::unique_ptr<Silent>> silent;
  for (int i = 0; i < 100; ++i) {
    silent.push_back(std::make_unique<Silent>(
        server.served.port(), fmt::format("{} HTTP/1.1\r\nHost: localhost\r\n"
                                          "Content-Length: 1048576\r\n\r\n",
                                          i % 2 == 0 ? "GET /livez" : "POST /hooks/name")));
  }
  const std::string large(200'000, 'x');
  CHECK(server.call("a", "POST", "/v1/jobs", R"({"queue":"q","kind":"k","args":")" + large + "\"}")
            .status == 201);
  CHECK(has(server.call("a", "POST", "/v1/claim", R"({"worker":"w","queues":["q"]})").body, large));
  CHECK(server.http.get("/readyz").status == 200);
  CHECK(server.served.stop() == 0);
}

TEST_CASE("JSON that readers change is refused with its path, at each entrance") {
  Served server;
  REQUIRE(server.start());
  HttpClient http(server.port());
  REQUIRE(http.post("/v1/jobs", R"({"queue":"q","kind":"k"})").status == 201);
  const Claimed job = claim(http, "q");
  for (const std::string bad : {R"({"n":1e400})", R"({"n":NaN})", R"({"n":-Infinity})",
                                R"({"n":"\ud800"})", R"({"n":1,"n":2})"}) {
    CAPTURE(bad);
    const std::vector<Answer> refused = {
        http.post("/v1/jobs", R"({"queue":"q","kind":"k","args":)" + bad + "}"),
        finish(http, job, R"("outcome":"complete","result":)" + bad),
        http.post("/v1/renew", fmt::format(R"({{"worker":"w","leases":[{{"id":{},"token":{},)"
                                           R"("checkpoint":{}}}]}})",
                                           job.id, job.token, bad)),
        http.request("PUT", "/v1/schedules/s",
                     R"({"every":"1h","job":{"queue":"q","kind":"k","args":)" + bad + "}}")};
    for (const Answer& answer : refused) {
      CHECK_MESSAGE(answer.status == 400, answer.body);
      CHECK_MESSAGE(has(answer.body, ".n"), answer.body);
    }
    const Finished cli =
        run({server_binary(), "enqueue", "k", "-q", "q", "--args", bad, "--server", server.url()},
            60'000);
    CHECK_MESSAGE(cli.exit_code != 0, cli.output);
  }
  CHECK(finish(http, job, R"("outcome":"complete","result":{"n":1e308})").status == 200);
  CHECK(has(http.get("/v1/queues/q").body, R"("enqueued":1,)"));
  CHECK(server.stop() == 0);
}

TEST_CASE("a store full of unread replies can be emptied") {
  Served server({"--max-live-jobs", "100"});
  REQUIRE(server.start());
  HttpClient http(server.port());
  std::string batch = R"({"jobs":[{"queue":"replies","kind":"reply"})";
  for (int i = 1; i < 100; ++i) batch += R"(,{"queue":"replies","kind":"reply"})";
  REQUIRE(http.post("/v1/jobs", batch + "]}").status == 201);
  const std::string one = R"({"queue":"q","kind":"k"})";
  CHECK(http.post("/v1/jobs", one).status == 429);
  const auto cli = [&](std::vector<std::string> words) {
    words.insert(words.begin(), server_binary());
    words.insert(words.end(), {"--server", server.url()});
    const Finished done = run(words, 60'000);
    CHECK_MESSAGE(done.exit_code == 0, done.output);
  };
  cli({"queues", "set", "replies", "--retention-completed", "1h"});
  cli({"jobs", "cancel", "1"});
  cli({"jobs", "delete", "1"});
  CHECK(http.get("/v1/jobs/1").status == 410);
  cli({"bulk", "cancel", "--kind", "reply"});
  CHECK(eventually([&] { return http.post("/v1/jobs", one).status == 201; }));
  CHECK(server.stop() == 0);
}

TEST_CASE("keys and names of one caller do not reach another") {
  Guarded server(Callers{{"a", "enqueue=a", "work=a", "read=a", "result=a", "admin=a"},
                         {"b", "enqueue=b", "work=b", "read=b"},
                         {"all", "all"}});
  const auto workflow = [&](const std::string& who) {
    return server.call(who, "POST", "/v1/workflows",
                       R"({"name":"w","key":"k","steps":[{"name":"s","job":{"queue":")" + who +
                           R"(","kind":"k"}}]})");
  };
  CHECK(workflow("a").status == 201);
  CHECK(workflow("b").status == 201);
  CHECK(workflow("a").status == 200);
  // The step of a is claimed under a name that b then cannot use.
  const auto work = [&](const std::string& who) {
    return server.call(who, "POST", "/v1/claim", R"({"worker":"one","queues":[")" + who + R"("]})");
  };
  const Answer claimed = work("a");
  CHECK(claimed.status == 200);
  CHECK(work("b").status == 403);
  CHECK(server.call("b", "POST", "/v1/workers/one/stop").status == 403);
  // Attaching a queue to a breaker needs a right on it.
  CHECK(server.call("all", "PUT", "/v1/breakers/shared", "{}").status < 300);
  CHECK(server.call("a", "PUT", "/v1/queues/a/limits", R"({"breaker":"shared"})").status == 403);
  // A job of folders is added by a host only.
  CHECK(server.call("b", "POST", "/v1/jobs", R"({"queue":"host","kind":"k"})").status == 403);
  // A reader of results sees them, whatever other scopes it has.
  const auto jobs = parse(claimed.body);
  REQUIRE(!jobs["jobs"].Empty());
  const std::int64_t id = jobs["jobs"][0]["id"].GetInt64();
  CHECK(has(server
                .call("a", "POST", "/v1/finish",
                      fmt::format(R"({{"worker":"one","results":[{{"id":{},"token":{},)"
                                  R"("outcome":"complete","result":{{"n":7}}}}]}})",
                                  id, jobs["jobs"][0]["token"].GetInt64()))
                .body,
            "\"ok\""));
  CHECK(has(server.call("a", "GET", "/v1/jobs/" + std::to_string(id)).body, R"({"n":7})"));
  CHECK(server.call("b", "GET", "/v1/jobs/" + std::to_string(id)).status == 404);
  CHECK(server.served.stop() == 0);
}

TEST_CASE("a session that was signed out stays so after a restart") {
  Guarded server(Callers{{"all", "all"}});
  const std::string cookie = [&] {
    const std::string set = server.call("all", "POST", "/v1/session").header("set-cookie");
    return "Cookie: " + set.substr(0, set.find(';'));
  }();
  const auto get = [&] { return server.http.request("GET", "/v1/queues", "", {cookie}).status; };
  CHECK(get() == 200);
  CHECK(server.served.stop() == 0);
  REQUIRE(server.served.start());
  CHECK(get() == 200);
  CHECK(server.http.request("DELETE", "/v1/session", "", {cookie, "Sec-Fetch-Site: same-origin"})
            .status == 200);
  CHECK(get() == 401);
  server.served.kill();
  REQUIRE(server.served.start());
  CHECK(get() == 401);
  CHECK_FALSE(has(server.call("all", "GET", "/v1/tokens").body, "session"));
  CHECK(server.served.stop() == 0);
}

TEST_CASE(
    "a job that replaces another has nothing of its attempts; a postponed one expires later") {
  Served server;
  REQUIRE(server.start());
  HttpClient http(server.port());
  const auto enqueue = [&](const std::string& fields) {
    const Answer answer = http.post("/v1/jobs", R"({"queue":"q","kind":"k",)" + fields + "}");
    REQUIRE_MESSAGE(answer.status < 300, answer.body);
    return parse(answer.body)["id"].GetInt64();
  };
  enqueue(R"("args":"A","max_attempts":3,"unique":{"key":"i"})");
  for (int i = 0; i < 2; ++i) {
    const Claimed job = claim(http, "q");
    CHECK(job.attempt == i + 1);
    CHECK(has(http.post("/v1/renew", fmt::format(R"({{"worker":"w","leases":[{{"id":{},"token":{},)"
                                                 R"("checkpoint":"of A"}}]}})",
                                                 job.id, job.token))
                  .body,
              R"("renewed":[{)"));
    CHECK(has(finish(http, job, R"("outcome":"retry","error":"x","after":"0s")").body, "\"ok\""));
  }
  enqueue(R"("args":"B","max_attempts":3,"unique":{"key":"i","on_conflict":"replace"})");
  const Claimed replaced = claim(http, "q");
  CHECK(replaced.attempt == 1);
  CHECK(has(replaced.body, R"("args":"B")"));
  CHECK_FALSE(has(replaced.body, "of A"));

  const std::string postponed =
      R"("delay":"4s","expires_in":"7s","unique":{"key":"d","on_conflict":"postpone"})";
  const auto expires = [&](std::int64_t id) {
    return std::string(
        parse(http.get("/v1/jobs/" + std::to_string(id)).body)["expires_at"].GetString());
  };
  const std::int64_t id = enqueue(postponed);
  const std::string before = expires(id);
  CHECK(enqueue(postponed) == id);
  CHECK(expires(id) > before);
  CHECK(server.stop() == 0);
}

TEST_CASE("a schedule that is defined again does not repeat what has run") {
  Served server;
  REQUIRE(server.start());
  HttpClient http(server.port());
  for (int i = 0; i < 3; ++i) {
    CAPTURE(i);
    const auto put = [&](const std::string& name, const std::string& times) {
      return http
          .request("PUT", "/v1/schedules/" + name,
                   fmt::format(R"({{{},"overlap":"allow","job":{{"queue":"{}","kind":"k",)"
                               R"("args":{}}}}})",
                               times, name, i))
          .status;
    };
    const auto enqueued = [&](const std::string& queue, int count) {
      return has(http.get("/v1/queues/" + queue).body, fmt::format(R"("enqueued":{},)", count));
    };
    CHECK(put("once", R"("at":"2026-01-01T00:00:00Z","misfire_window":"36500d")") < 300);
    CHECK(put("twice", R"("every":"1s","max_runs":2)") < 300);
    CHECK(eventually([&] { return enqueued("once", 1) && enqueued("twice", 2); }));
  }
  CHECK(server.stop() == 0);
}

TEST_CASE("a worker without its program uses up no attempts, and an operator takes jobs back") {
  Served server;
  REQUIRE(server.start());
  HttpClient http(server.port());
  const std::string program = server.scratch() + "/program";
  write_file(program, "#!/bin/sh\n");
  std::filesystem::permissions(program, std::filesystem::perms::all);
  Process worker;
  REQUIRE(worker.start({.args = {server_binary(), "work", "--server", server.url(), "--queue", "q",
                                 "--exec", program},
                        .environment = {},
                        .output = server.scratch() + "/worker.log"}));
  CHECK(eventually([&] { return has(http.get("/v1/workers").body, "\"parked\":true"); }));
  std::filesystem::rename(program, program + ".away");
  REQUIRE(http.post("/v1/jobs", R"({"jobs":[{"queue":"q","kind":"k","max_attempts":1},)"
                                R"({"queue":"q","kind":"k","max_attempts":1}]})")
              .status == 201);
  CHECK(eventually([&] { return has(http.get("/v1/workers").body, "cannot start"); }));
  CHECK(has(http.get("/v1/queues/q").body, R"("dead":0)"));
  std::filesystem::rename(program + ".away", program);
  CHECK(eventually([&] { return has(http.get("/v1/queues/q").body, R"("completed":2)"); }));

  REQUIRE(http.post("/v1/jobs", R"({"queue":"leased","kind":"k"})").status == 201);
  const Claimed job = claim(http, "leased", "12h");
  const Finished taken =
      run({server_binary(), "jobs", "take-back", std::to_string(job.id), "--server", server.url()},
          60'000);
  CHECK_MESSAGE(taken.exit_code == 0, taken.output);
  CHECK(has(finish(http, job, R"("outcome":"complete")").body, "\"stale\""));
  CHECK(claim(http, "leased").attempt == 1);
  CHECK(server.stop() == 0);
}

TEST_CASE("scripts with a byte order mark or a leading - run, and no folder makes itself root") {
  HostedJobs host;
  const std::string id = "echo it is $(id -u)\n";
  host.file("triggered/mark/run.sh", "\xef\xbb\xbf#!/bin/sh\n" + id);
  host.file("triggered/dash/-run.sh", id);
  host.file("triggered/words/run", "#!/usr/bin/env python3 -u -B\nprint('it is x')\n");
  const auto run_of = [&](const std::string& name, const std::string& part) {
    const std::string path = "triggered/" + name;
    CHECK(eventually([&] { return host.client.get("/v1/host/jobs/" + path).status == 200; }));
    (void)host.client.post("/v1/host/jobs/" + path + "/run", "");
    CHECK_MESSAGE(eventually([&] { return has(host.log_of(path), part); }), host.log_of(path));
  };
  REQUIRE(host.served.start());
  for (const char* name : {"mark", "dash", "words"}) run_of(name, "it is ");
  CHECK(host.served.stop() == 0);
  if (geteuid() != 0) return;
  host.file("triggered/greedy/run.sh", id);
  host.file("triggered/greedy/settings.job", R"({"limits":{"user":"root"}})");
  host.set_options({"--jobs-user", "none"});
  REQUIRE(host.served.start());
  run_of("greedy", "the server runs as root");
  CHECK_FALSE(has(host.log_of("triggered/greedy"), "it is 0"));
  CHECK(host.served.stop() == 0);
}
