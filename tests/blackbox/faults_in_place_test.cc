// Jobs that run in their own folder and write there.
#include <fmt/format.h>

#include <algorithm>

#include "hosted_jobs.h"

using namespace blackbox;

namespace fs = std::filesystem;

namespace {

// Writes into its own folder as jobs do, and counts its starts and its rounds elsewhere.
std::string writes_in_place(const std::string& out) {
  return fmt::format(
      "#!/bin/bash\n"
      "echo start >>{0}.starts; touch started-$$; mkdir -p cache/deep __pycache__\n"
      "trap 'exit 0' TERM\n"
      "while sleep 0.03; do\n"
      "  echo x >>app.log; echo x >>.hidden; echo x >>cache/deep/entry; echo x "
      ">>__pycache__/m.pyc\n"
      "  echo x >fresh; mv fresh moved; echo round >>{0}.rounds\n"
      "done\n",
      out);
}

std::size_t lines_of(const std::string& path) {
  const std::string text = read_file(path);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

// Five quiet periods and more.
bool writes_on(const std::string& path) {
  const std::size_t before = lines_of(path);
  return eventually([&] { return lines_of(path) >= before + 30; });
}

}  // namespace

TEST_CASE("a job that writes into its own folder is not restarted, its deployment restarts it") {
  HostedJobs t;
  const std::string out = t.served.scratch() + "/out";
  const auto starts = [&] { return lines_of(out + ".starts"); };
  t.file("continuous/w/lib/words.txt", "one\n");
  t.file("continuous/w/settings.job", R"({"is_in_place":true,"stopping_wait_time":0})");
  t.file("continuous/w/run.sh", writes_in_place(out));
  REQUIRE(t.served.start());
  REQUIRE(eventually([&] { return starts() == 1; }));
  REQUIRE(writes_on(out + ".rounds"));
  CHECK(starts() == 1);
  // Its files restart it although it writes without a pause.
  t.file("continuous/w/lib/words.txt", "one two\n");
  CHECK(eventually([&] { return starts() == 2; }));
  CHECK(has(t.served.log(), "a job folder has changed job=w file=lib/words.txt"));
  t.file("continuous/w/settings.job", R"({"is_in_place":true,"stopping_wait_time":1})");
  CHECK(eventually([&] { return starts() == 3; }));
  t.file("continuous/w/run.sh", writes_in_place(out) + "# changed\n");
  CHECK(eventually([&] { return starts() == 4; }));
  REQUIRE(writes_on(out + ".rounds"));
  CHECK(starts() == 4);
  // What it has written does not become part of its deployment.
  REQUIRE(t.served.stop() == 0);
  REQUIRE(t.served.start());
  REQUIRE(eventually([&] { return starts() == 5; }));
  REQUIRE(writes_on(out + ".rounds"));
  CHECK(starts() == 5);
  // A deployment is one again.
  REQUIRE(
      t.cli({"jobs-host", "deploy", "continuous/w", t.jobs + "/continuous/w/run.sh"}).exit_code ==
      0);
  CHECK(eventually([&] { return starts() == 6; }));
}

TEST_CASE("a file of its deployment that a job writes itself is ignored after a while") {
  HostedJobs t;
  const std::string out = t.served.scratch() + "/out";
  std::string script;
  SUBCASE("at each start") {
    script = fmt::format("echo start >>{0}.starts; echo x >>app.log; exec sleep 1000\n", out);
  }
  SUBCASE("all the time") {
    script =
        fmt::format("echo start >>{0}.starts; while sleep 0.03; do echo x >>app.log; done\n", out);
  }
  t.file("continuous/w/app.log", "from another machine\n");
  t.file("continuous/w/settings.job", R"({"is_in_place":true,"stopping_wait_time":0})");
  t.file("continuous/w/run.sh", script);
  REQUIRE(t.served.start());
  REQUIRE(eventually([&] { return has(t.served.log(), "because the job writes it"); }));
  CHECK(has(t.served.log(), "file=app.log"));
  const std::size_t starts = lines_of(out + ".starts");
  CHECK(starts <= 5);
  // Other changes are noticed.
  t.file("continuous/w/run.sh", fmt::format("touch {}.changed; exec sleep 1000\n", out));
  CHECK(eventually([&] { return fs::exists(out + ".changed"); }));
  CHECK(lines_of(out + ".starts") <= 5);
}

TEST_CASE("a persistent program of a queue that writes into its folder is not restarted") {
  HostedJobs t;
  const std::string out = t.served.scratch() + "/out";
  t.file(
      "queues/q/run.py",
      fmt::format("import json, os, sys, threading, time\n"
                  "def write():\n"
                  "  while True:\n"
                  "    open('cache.db', 'a').write('x\\n')\n"
                  "    open('{}.rounds', 'a').write('round\\n')\n"
                  "    time.sleep(0.05)\n"
                  "threading.Thread(target=write, daemon=True).start()\n"
                  "say = os.fdopen(3, 'w', buffering=1)\n"
                  "for line in sys.stdin:\n"
                  "  job = json.loads(line)\n"
                  "  say.write(json.dumps({{'id': job['id'], 'result': os.getpid()}}) + '\\n')\n",
                  out));
  t.file("queues/q/settings.job",
         R"({"persistent":true,"is_in_place":true,"min":1,"max":1,"stopping_wait_time":0})");
  REQUIRE(t.served.start());
  const auto program = [&] {
    const auto made = parse(t.client.post("/v1/jobs", R"({"queue":"q","kind":"k"})").body);
    const std::string id = fmt::to_string(made["id"].GetInt64());
    const auto job = parse(t.client.get("/v1/jobs/" + id + "?wait=20s").body);
    return job.HasMember("result") ? job["result"].GetInt64() : 0;
  };
  const auto first = program();
  REQUIRE(first != 0);
  REQUIRE(writes_on(out + ".rounds"));
  CHECK(program() == first);
}
