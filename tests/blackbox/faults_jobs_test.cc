// Job folders as people leave them: settings with mistakes, deployments over stopped jobs, servers
// that restart meanwhile.
#include <fmt/format.h>
#include <sys/stat.h>

#include <optional>

#include "hosted_jobs.h"

using namespace blackbox;

namespace {

namespace fs = std::filesystem;

const std::string kLoops = "#!/bin/bash\nwhile sleep 0.05; do echo tick; done\n";

std::string utf16(const std::string& ascii) {
  std::string out = "\xff\xfe";
  for (const char c : ascii) out += {c, '\0'};
  return out;
}

}  // namespace

TEST_CASE("settings.job is obeyed as Kudu obeys it: key case, comments, commas, byte order marks") {
  HostedJobs t;
  t.file("triggered/case/run.sh", "true\n");
  t.file("triggered/case/settings.job", R"({"Schedule": "0 0 3 * * *"})");
  t.file("triggered/comment/run.sh", "true\n");
  t.file("triggered/comment/settings.job",
         "// nightly\n{\n  \"schedule\": \"0 0 4 * * *\", /* not at 3 */\n}\n");
  t.file("triggered/mark/run.sh", "true\n");
  t.file("triggered/mark/settings.job", utf16(R"({"schedule": "0 0 5 * * *"})"));
  REQUIRE(t.served.start());
  for (const char* name : {"case", "comment", "mark"}) {
    INFO(std::string(name));
    REQUIRE(eventually(
        [&] { return t.client.get(fmt::format("/v1/schedules/host%2F{}", name)).status == 200; }));
    CHECK(t.text(fmt::format("triggered/{}", name), "error").empty());
  }
}

TEST_CASE("a job whose settings.job cannot be obeyed is marked and does not run") {
  HostedJobs t;
  const std::string ran = t.served.scratch() + "/ran";
  for (const auto& [name, settings] : std::vector<std::pair<std::string, std::string>>{
           {"cut", R"({"is_singleton": true)"},
           {"empty", ""},
           {"word", R"({"is_singleton": "yes"})"},
           {"limit", R"({"limits": {"memroy": "1GiB"}})"}}) {
    t.file("continuous/" + name + "/settings.job", settings);
    t.file("continuous/" + name + "/run.sh", fmt::format("touch {}\nsleep 1000\n", ran));
  }
  t.file("queues/photos/settings.job", R"({"timeout": 90})");
  t.file("queues/photos/run.sh", fmt::format("touch {}\n", ran));
  t.file("triggered/report/settings.job", R"({"pool": 5})");
  t.file("triggered/report/run.sh", fmt::format("touch {}\n", ran));
  t.file("continuous/good/run.sh", kLoops);
  REQUIRE(t.served.start());
  REQUIRE(t.client.post("/v1/jobs", R"({"queue":"work","kind":"k"})").status == 201);
  REQUIRE(t.await("continuous/good", "status", "Running"));
  for (const char* path : {"continuous/cut", "continuous/empty", "continuous/word",
                           "continuous/limit", "queue/photos", "triggered/report"}) {
    INFO(std::string(path));
    CHECK(has(t.text(path, "error"), "settings.job: "));
  }
  const auto run = t.client.post("/v1/host/jobs/triggered/report/run", "{}");
  CHECK(run.status == 409);
  CHECK(has(run.body, "pool 5: must be the name of a pool"));
  const std::string list = t.cli({"jobs-host", "list"}).output;
  CHECK(has(list, "error"));
  CHECK(has(list, "is_singleton \"yes\": must be true or false"));
  CHECK(has(t.cli({"jobs-host", "show", "cut"}).output, "settings.job: "));
  CHECK_FALSE(fs::exists(ran));
  // Once the file is right, the job runs.
  t.file("continuous/word/settings.job", R"({"is_singleton": true})");
  CHECK(t.await("continuous/word", "status", "Running"));
  CHECK(t.text("continuous/word", "error").empty());
}

TEST_CASE("a typo in settings.job keeps the schedule and its ledger") {
  HostedJobs t;
  t.file("triggered/s/run.sh", "true\n");
  t.file("triggered/s/settings.job", R"({"schedule": "* * * * * *"})");
  REQUIRE(t.served.start());
  REQUIRE(eventually([&] { return has(t.ledger("host%2Fs"), "\"fired\""); }));
  const auto schedule = [&] { return t.client.get("/v1/schedules/host%2Fs").body; };
  const auto first_tick = [&] {
    const auto page = parse(t.client.get("/v1/schedules/host%2Fs/ledger?limit=1000").body);
    const auto& rows = page["ticks"].GetArray();
    return rows.Empty() ? std::string() : std::string(rows[rows.Size() - 1]["nominal"].GetString());
  };
  const std::string first = first_tick();
  REQUIRE(first != "");
  // A refused schedule leaves a job that runs by hand; an unreadable file leaves none.
  for (const bool readable : {true, false}) {
    const auto await_problem = [&] {
      return readable || t.await("triggered/s", "error", "settings.job: ");
    };
    t.file("triggered/s/settings.job",
           readable ? R"({"schedule": "* * * * *"})" : R"({"schedule": "* * * * * *)");
    REQUIRE(await_problem());
    REQUIRE(eventually([&] { return has(schedule(), "\"paused\":true"); }));
    CHECK(has(schedule(), readable ? "six fields" : "job host: settings.job: "));
    // Also over a restart.
    REQUIRE(t.served.stop() == 0);
    REQUIRE(t.served.start());
    REQUIRE(await_problem());
    CHECK(first_tick() == first);
    t.file("triggered/s/settings.job", R"({"schedule": "* * * * * *"})");
    REQUIRE(eventually([&] { return has(schedule(), "\"paused\":false"); }));
    CHECK(first_tick() == first);
  }
  // Freezing keeps the ledger too, and what an operator paused stays paused.
  REQUIRE(t.cli({"jobs-host", "settings", "s", R"({"freeze":true,"schedule":"* * * * * *"})"})
              .exit_code == 0);
  REQUIRE(eventually([&] { return has(schedule(), "job host: frozen"); }));
  CHECK(first_tick() == first);
  REQUIRE(t.cli({"schedules", "resume", "host/s"}).exit_code == 0);
  REQUIRE(t.cli({"schedules", "pause", "host/s", "--reason", "by hand"}).exit_code == 0);
  REQUIRE(t.cli({"jobs-host", "settings", "s", R"({"schedule":"* * * * * *"})"}).exit_code == 0);
  CHECK(has(schedule(), "by hand"));
  // A schedule that is taken out of the file goes.
  t.file("triggered/s/settings.job", "{}");
  CHECK(eventually([&] { return t.client.get("/v1/schedules/host%2Fs").status == 404; }));
}

TEST_CASE("jobs-host settings refuses what the host will not run") {
  HostedJobs t;
  t.file("triggered/r/run.sh", "true\n");
  t.file("triggered/r/settings.job", R"({"max_attempts":3})");
  REQUIRE(t.served.start());
  REQUIRE(eventually([&] { return t.client.get("/v1/host/jobs/triggered/r").status == 200; }));
  for (const auto& [json, rule] : std::vector<std::pair<std::string, std::string>>{
           {R"({"schedule":"*/5 * * * *"})", "must be a string of six fields"},
           {R"({"restart_time":5})", "restart_time 5: must be a time from 0s to 365d"},
           {R"({"limits":{"memroy":"1GiB"}})", "limits.memroy: no such key here"}}) {
    const Finished set = t.cli({"jobs-host", "settings", "r", json});
    CHECK_MESSAGE(set.exit_code != 0, json);
    CHECK_MESSAGE(has(set.output, rule), set.output);
  }
  CHECK(read_file(t.jobs + "/triggered/r/settings.job") == R"({"max_attempts":3})");
  // A deployment with such settings is refused as well.
  write_file(t.served.scratch() + "/new/run.sh", "true\n");
  write_file(t.served.scratch() + "/new/settings.job", R"({"schedule":"*/5 * * * *"})");
  const Finished deployed =
      t.cli({"jobs-host", "deploy", "triggered/r", t.served.scratch() + "/new"});
  CHECK(deployed.exit_code != 0);
  CHECK(has(deployed.output, "must be a string of six fields"));
  CHECK(read_file(t.jobs + "/triggered/r/settings.job") == R"({"max_attempts":3})");
}

TEST_CASE(
    "a host.json that cannot be read holds jobs back at the start, and changes nothing later") {
  HostedJobs t;
  t.file("host.json", R"({"pools": {"heavy": {"limits": {"nice": 15)");
  t.file("continuous/c/run.sh", kLoops);
  REQUIRE(t.served.start());
  REQUIRE(t.await("continuous/c", "error", "host.json: "));
  CHECK(t.text("continuous/c", "status") != "Running");
  t.file("host.json", "/* pools */ {\"Pools\": {\"heavy\": {\"limits\": {\"nice\": 15,},},},}");
  REQUIRE(t.await("continuous/c", "status", "Running"));
  t.file("continuous/h/settings.job", R"({"pool":"heavy"})");
  t.file("continuous/h/run.sh", kLoops);
  REQUIRE(t.await("continuous/h", "status", "Running"));
  t.file("host.json", "{");
  REQUIRE(eventually([&] { return has(t.client.get("/v1/host").body, "host.json: "); }));
  CHECK(t.text("continuous/h", "error").empty());
  CHECK(t.text("continuous/h", "status") == "Running");
  CHECK(t.text("continuous/c", "status") == "Running");
}

TEST_CASE("a deployment does not start what an operator has stopped, and says so") {
  HostedJobs t;
  t.file("continuous/m/run.sh", kLoops);
  t.file("continuous/z/run.sh", kLoops);
  REQUIRE(t.served.start());
  REQUIRE(t.await("continuous/m", "status", "Running"));
  REQUIRE(t.await("continuous/z", "status", "Running"));
  REQUIRE(t.cli({"jobs-host", "stop", "m"}).exit_code == 0);
  REQUIRE(t.cli({"jobs-host", "settings", "z", R"({"freeze":true})"}).exit_code == 0);
  REQUIRE(t.await("continuous/m", "status", "Stopped"));
  const std::string started = t.served.scratch() + "/started";
  write_file(t.served.scratch() + "/new/run.sh", fmt::format("touch {}\nsleep 1000\n", started));
  write_file(t.served.scratch() + "/new/settings.job", R"({"stopping_wait_time": 1})");

  for (const std::string& source :
       {t.served.scratch() + "/new", t.served.scratch() + "/new/run.sh"}) {
    const Finished m = t.cli({"jobs-host", "deploy", "continuous/m", source});
    REQUIRE(m.exit_code == 0);
    CHECK(has(m.output, "it stays stopped: start it with mainspring jobs-host start m"));
    CHECK(t.flag("continuous/m", "disabled"));
    const Finished z = t.cli({"jobs-host", "deploy", "continuous/z", source});
    REQUIRE(z.exit_code == 0);
    CHECK(has(z.output, "it stays frozen"));
    CHECK(t.flag("continuous/z", "frozen"));
  }
  t.file("continuous/later/run.sh", kLoops);
  REQUIRE(t.await("continuous/later", "status", "Running"));
  CHECK_FALSE(fs::exists(started));
  REQUIRE(t.cli({"jobs-host", "start", "m"}).exit_code == 0);
  CHECK(eventually([&] { return fs::exists(started); }));
}

TEST_CASE("an empty directory is refused as empty") {
  HostedJobs t;
  REQUIRE(t.served.start());
  fs::create_directories(t.served.scratch() + "/new/sub");
  const Finished deployed =
      t.cli({"jobs-host", "deploy", "triggered/e", t.served.scratch() + "/new"});
  CHECK(deployed.exit_code != 0);
  CHECK(has(deployed.output, "has no files to deploy"));
  const std::string empty_zip = std::string("PK\x05\x06", 4) + std::string(18, '\0');
  write_file(t.served.scratch() + "/empty.zip", empty_zip);
  const Finished zip =
      t.cli({"jobs-host", "deploy", "triggered/e", t.served.scratch() + "/empty.zip"});
  CHECK(zip.exit_code != 0);
  CHECK_MESSAGE(has(zip.output, "has no files in it"), zip.output);
}

TEST_CASE("a missing interpreter is named, not reported as a missing script") {
  HostedJobs t;
  t.file("triggered/i/run", "#!/opt/none/python9 -u\n");
  t.file("triggered/crlf/run", "#!/bin/sh\r\necho x\r\n");
  REQUIRE(t.served.start());
  REQUIRE(eventually([&] { return t.client.get("/v1/host/jobs/triggered/i").status == 200; }));
  // A run whose program cannot be started is tried again; the list of jobs says why.
  for (const auto& [job, why] :
       {std::pair{"i", "/opt/none/python9"}, std::pair{"crlf", "CR LF"}}) {
    CHECK(t.cli({"jobs-host", "run", job}).exit_code == 0);
    CHECK(eventually([&] { return has(t.cli({"jobs-host", "list", "--json"}).output, why); }));
  }
}

TEST_CASE("run --wait reports the success of a run whose job was removed meanwhile") {
  HostedJobs t;
  const std::string go = t.served.scratch() + "/go";
  // Removed while it runs, it still ends well: it has its stopping_wait_time.
  t.file("triggered/w/run.sh",
         fmt::format("echo script started\nuntil [ -e {} ]; do sleep 0.02; done\nexit 0\n", go));
  REQUIRE(t.served.start());
  REQUIRE(eventually([&] { return t.client.get("/v1/host/jobs/triggered/w").status == 200; }));
  Process waits;
  const std::string output = t.served.scratch() + "/output";
  REQUIRE(waits.start(
      {.args = {server_binary(), "jobs-host", "run", "w", "--wait", "--server", t.served.url()},
       .environment = {},
       .output = output}));
  REQUIRE(eventually([&] { return has(read_file(output), "script started"); }));
  Process removes;
  REQUIRE(removes.start(
      {.args = {server_binary(), "jobs-host", "remove", "w", "--server", t.served.url()},
       .environment = {},
       .output = t.served.scratch() + "/removed"}));
  REQUIRE(eventually([&] { return t.client.get("/v1/host/jobs/triggered/w").status == 404; }));
  write_file(go, "");
  REQUIRE(waits.wait(60'000));
  CHECK_MESSAGE(waits.exit_code() == 0, read_file(output));
  REQUIRE(removes.wait(60'000));
}

TEST_CASE("logs -f continues after a restart of the server") {
  HostedJobs t;
  t.file("continuous/f/run.sh", kLoops);
  REQUIRE(t.served.start());
  REQUIRE(t.await("continuous/f", "status", "Running"));
  Process follows;
  const std::string output = t.served.scratch() + "/output";
  REQUIRE(follows.start({.args = {server_binary(), "logs", "f", "-f", "--server", t.served.url()},
                         .environment = {},
                         .output = output}));
  REQUIRE(eventually([&] { return has(read_file(output), "tick"); }));
  for (int i = 0; i < 2; ++i) {
    i == 0 ? (void)t.served.stop() : t.served.kill();
    REQUIRE(eventually([&] { return has(read_file(output), "waiting: "); }));
    const auto runs = [&] {
      std::size_t count = 0;
      const std::string text = read_file(output);
      for (std::size_t at = 0; (at = text.find("Run script", at)) != std::string::npos; ++at)
        ++count;
      return count;
    };
    const std::size_t before = runs();
    REQUIRE(t.served.start());
    CHECK(eventually([&] { return runs() > before; }));
    CHECK(follows.running());
  }
}

namespace {

// A server that wants tokens, and a script that uses the one of its job.
struct WithTokens {
  HostedJobs t;
  std::string worker_token, admin;
  std::vector<std::string> as_admin;
  const std::string out = t.served.scratch() + "/out";
  const std::string script = fmt::format(
      "#!/bin/bash\n"
      "env >{0}.env\n"
      "{1} enqueue $1 follow-up >{0}.own 2>&1; echo $? >>{0}.own\n"
      "{1} enqueue other k >{0}.other 2>&1; echo $? >>{0}.other\n"
      "touch {0}.done\n",
      out, server_binary());

  WithTokens() {
    worker_token = token("w", {"work=q", "enqueue=q", "enqueue=other"});
    admin = token("a", {"admin", "read", "read:payload", "enqueue", "define-exec"});
    as_admin = {"Authorization: Bearer " + admin};
    t.set_options({"--require-token"});
  }
  std::string token(const std::string& name, const std::vector<std::string>& scopes) {
    std::vector<std::string> words = {server_binary(), "token",          "create", name,
                                      "--data",        t.served.store(), "--json"};
    for (const std::string& scope : scopes) words.insert(words.end(), {"--scope", scope});
    const Finished made = run(words, 60'000);
    REQUIRE_MESSAGE(made.exit_code == 0, made.output);
    return parse(made.output)["token"].GetString();
  }
  bool enqueue(const std::string& queue) {
    const std::string body = fmt::format(R"({{"queue":"{}","kind":"k"}})", queue);
    return t.client.post("/v1/jobs", body, as_admin).status == 201;
  }
  int work() {
    return t
        .cli({"work", "--queue", "q", "--kind", "k", "--exec", t.served.scratch() + "/program q",
              "--once"},
             {{"MAINSPRING_ACCESS_TOKEN", worker_token}})
        .exit_code;
  }
};

}  // namespace

TEST_CASE("programs know their server, and never the token of their worker") {
  WithTokens f;
  HostedJobs& t = f.t;
  const std::string& out = f.out;
  REQUIRE(t.served.start());
  const std::string program = t.served.scratch() + "/program";
  write_file(program, f.script);
  chmod(program.c_str(), 0755);
  REQUIRE(f.enqueue("q"));
  CHECK(f.work() == 0);
  REQUIRE(fs::exists(out + ".done"));
  const std::string env = "\n" + read_file(out + ".env");
  CHECK(has(env, "\nMAINSPRING_SERVER=" + t.served.url() + "\n"));
  CHECK_FALSE(has(env, f.worker_token));
  CHECK_FALSE(has(env, "MAINSPRING_ACCESS_TOKEN"));
  const std::string own = read_file(out + ".own"), other = read_file(out + ".other");
  CHECK_MESSAGE(own.ends_with("\n0\n"), own);
  CHECK_MESSAGE(has(other, "needs the scope"), other);
  const auto at = env.find("MAINSPRING_JOB_TOKEN=msj_");
  REQUIRE(at != std::string::npos);
  const std::size_t begin = env.find("msj_", at);
  const std::string job_token = env.substr(begin, env.find('\n', begin) - begin);
  const std::vector<std::string> as_job = {"Authorization: Bearer " + job_token};
  const auto enqueued = [&] {
    return t.client.post("/v1/jobs", R"({"queue":"q","kind":"other"})", as_job).status;
  };
  CHECK(enqueued() == 201);
  CHECK(t.client.post("/v1/claim", R"({"queues":["q"],"worker":"x"})", as_job).status == 403);
  // It survives a restart of the server, but not the token of the worker that asked for it.
  REQUIRE(t.served.stop() == 0);
  REQUIRE(t.served.start());
  CHECK(enqueued() == 201);
  REQUIRE(t.client.request("DELETE", "/v1/tokens/w", "", f.as_admin).status == 200);
  CHECK(enqueued() == 401);
}

TEST_CASE("scripts of folders know their server, and have tokens of their own") {
  WithTokens f;
  HostedJobs& t = f.t;
  const std::string& out = f.out;
  t.file("queues/q/run.sh", f.script + "exit 0\n");
  t.file("queues/q/settings.job", R"({"kinds":["k"]})");
  t.file("queues/p/run.py",
         fmt::format("import json, os, sys\n"
                     "say = os.fdopen(3, 'w', buffering=1)\n"
                     "for line in sys.stdin:\n"
                     "  job = json.loads(line)\n"
                     "  open('{}.line', 'w').write(job['job_token'] + "
                     "os.environ['MAINSPRING_SERVER'])\n"
                     "  say.write(json.dumps({{'id': job['id'], 'result': 1}}) + "
                     "'\\n')\n",
                     out));
  t.file("queues/p/settings.job", R"({"persistent":true})");
  t.file("triggered/r/run.sh", fmt::format("env >{0}.env; touch {0}.done\n", out));
  REQUIRE(t.served.start());
  REQUIRE(t.client.post("/v1/jobs", R"({"queue":"p","kind":"k"})", f.as_admin).status == 201);
  REQUIRE(eventually([&] { return has(read_file(out + ".line"), t.served.url()); }));
  CHECK(read_file(out + ".line").starts_with("msj_"));
  REQUIRE(eventually([&] {
    return t.client.request("POST", "/v1/host/jobs/triggered/r/run", "{}", f.as_admin).status ==
           202;
  }));
  REQUIRE(eventually([&] { return fs::exists(out + ".done"); }));
  CHECK(has(read_file(out + ".env"), "MAINSPRING_SERVER=" + t.served.url()));
  CHECK(has(read_file(out + ".env"), "MAINSPRING_JOB_TOKEN=msj_"));
  fs::remove(out + ".done");
  REQUIRE(t.client.post("/v1/jobs", R"({"queue":"q","kind":"k"})", f.as_admin).status == 201);
  // $1 is empty in a queue folder: the queue is in the environment.
  REQUIRE(eventually([&] { return fs::exists(out + ".done"); }));
  CHECK(has(read_file(out + ".env"), "MAINSPRING_JOB_TOKEN=msj_"));
  CHECK(has(read_file(out + ".other"), "needs the scope"));
}

TEST_CASE("without tokens programs get the server's address alone") {
  HostedJobs t;
  const std::string out = t.served.scratch() + "/out";
  t.file("continuous/c/run.sh", fmt::format("env >{0}.new; mv {0}.new {0}.c; sleep 1000\n", out));
  REQUIRE(t.served.start());
  REQUIRE(eventually([&] { return has(read_file(out + ".c"), "WEBJOBS_NAME=c"); }));
  CHECK(has(read_file(out + ".c"), "MAINSPRING_SERVER=" + t.served.url()));
  CHECK_FALSE(has(read_file(out + ".c"), "TOKEN"));
  REQUIRE(t.client.post("/v1/jobs", R"({"queue":"q","kind":"k"})").status == 201);
  REQUIRE(t.cli({"work", "--queue", "q", "--exec", fmt::format("sh -c 'env >{}.w'", out), "--once"})
              .exit_code == 0);
  CHECK(has(read_file(out + ".w"), "MAINSPRING_SERVER=" + t.served.url()));
  CHECK_FALSE(has(read_file(out + ".w"), "JOB_TOKEN"));
}
