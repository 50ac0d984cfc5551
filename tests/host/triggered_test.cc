// Triggered job folders: runs, histories, schedules, and queue folders.
#include <algorithm>

#include "host/harness.h"
#include "host/triggered_jobs.h"

using namespace mainspring;
using namespace mainspring::test;

namespace {

constexpr JobType kTriggered = JobType::triggered;
constexpr std::string_view kWaits =
    "#!/bin/bash\necho hello\nwhile [ ! -e \"$WEBJOBS_SHUTDOWN_FILE\" ]; do sleep 0.02; done\n"
    "exit 4\n";

}  // namespace

TEST_CASE("a run has an id, a log, a history and a job of the engine") {
  HostTest t;
  t.script("triggered/r/run.sh",
           "#!/bin/bash\nprintf '<%s>' \"$@\"; echo\n"
           "echo \"$WEBJOBS_RUN_ID $WEBJOBS_COMMAND_ARGUMENTS\"\n");
  t.start();
  const auto id = t.host->run("r", "one 'two three'", "External - test");
  REQUIRE(id.has_value());
  CHECK(id->size() == 18);
  const RunRecord run = t.await_run("r", *id);
  CHECK(run.status == RunStatus::success);
  CHECK(run.trigger == "External - test");
  CHECK(run.exit_code == 0);
  const std::string log = t.log_of(kTriggered, "r", *id);
  std::string said;
  for (std::size_t at = 0, end = 0; (end = log.find("\r\n", at)) != log.npos; at = end + 2) {
    const std::string line = log.substr(at, end - at);
    said += line.substr(line.find("abcdef: ") + 8) + "\n";
  }
  CHECK(said ==
        "SYS INFO] Status changed to Initializing\n"
        "SYS INFO] Run script 'run.sh' with script host - 'BashScriptHost'\n"
        "SYS INFO] Status changed to Running\n"
        "INFO] <one><two three>\n"
        "INFO] " +
            *id +
            " one 'two three'\n"
            "SYS INFO] Status changed to Success\n");
  CHECK(await([&] { return t.host->log_ended(kTriggered, "r", *id); }));
  const auto engine = t.node->broker().get(run.job);
  REQUIRE(engine.has_value());
  CHECK(engine->queue == "host");
  CHECK(engine->kind == "triggered/r");
  CHECK(await([&] { return t.node->broker().get(run.job)->state == JobState::completed; }));
  const auto history = t.host->history("r");
  REQUIRE(history.has_value());
  CHECK((history->size() == 1 && history->front().id == *id));
  CHECK(t.host->find(kTriggered, "r")->latest_run->id == *id);
  CHECK(t.host->history("never").error().code == ErrorCode::not_found);
  CHECK(t.host->run("never", "", "x").error().code == ErrorCode::not_found);
  CHECK(t.host->run("r", "an 'open quote", "x").error().code == ErrorCode::invalid_argument);
}

TEST_CASE("a second run is refused while one is under way, and nothing is queued") {
  HostTest t;
  t.script("triggered/b/run.sh", kWaits);
  t.start();
  const auto first = t.host->run("b", "", "External - one");
  REQUIRE(first.has_value());
  REQUIRE(t.await_log(kTriggered, "b", "hello"));
  const auto second = t.host->run("b", "", "External - two");
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == ErrorCode::conflict);
  CHECK(second.error().message == "Cannot start a new run since job is already running.");
  CHECK(t.host->history("b")->size() == 1);
  CHECK(t.engine_jobs("triggered/b").size() == 1);
  REQUIRE(t.host->cancel_run("b").has_value());
  CHECK(t.await_run("b", *first).status == RunStatus::stopped);
  CHECK(await([&] { return t.engine_jobs("triggered/b")[0].state == JobState::cancelled; }));
  CHECK(t.host->cancel_run("b").error().code == ErrorCode::conflict);
  // Then there is space again.
  CHECK(await([&] { return t.host->run("b", "", "External - three").has_value(); }));
}

TEST_CASE("a failed run is failed, its job dead, unless it may be repeated") {
  HostTest t;
  t.script("triggered/once/run.sh", "#!/bin/bash\nexit 9\n");
  t.script("triggered/twice/run.sh", "#!/bin/bash\nexit 9\n");
  t.settings("triggered/twice", R"({"max_attempts":2})");
  t.start();
  const auto once = t.host->run("once", "", "x");
  REQUIRE(once.has_value());
  const RunRecord run = t.await_run("once", *once);
  CHECK((run.status == RunStatus::failed && run.exit_code == 9));
  CHECK(await([&] { return t.engine_jobs("triggered/once")[0].state == JobState::dead; }));
  const auto twice = t.host->run("twice", "", "x");
  REQUIRE(twice.has_value());
  CHECK(t.await_run("twice", *twice).status == RunStatus::failed);
  // The second attempt follows after about 3 s. A retry by hand could come after its end.
  CHECK(await([&] { return t.engine_jobs("triggered/twice")[0].state == JobState::dead; }));
  CHECK(t.host->history("twice")->size() == 2);
}

TEST_CASE("histories are trimmed") {
  HostTest t;
  t.script("triggered/h/run.sh", "#!/bin/bash\n");
  t.options.variables.history_size = 3;
  t.start();
  std::string last;
  for (int i = 0; i < 6; ++i) {
    REQUIRE(await([&] {
      const auto id = t.host->run("h", "", "x");
      if (id) last = *id;
      return id.has_value();
    }));
    CHECK(t.await_run("h", last).status == RunStatus::success);
  }
  CHECK(t.host->history("h")->size() == 3);
  CHECK(t.host->history("h")->front().id == last);
}

TEST_CASE("a run that waits for a slot stays in the history when another run is requested") {
  HostTest t;
  t.script("triggered/busy/run.sh", kWaits);
  t.script("triggered/w/run.sh", "#!/bin/bash\necho done\n");
  t.script("host.json", R"({"pools":{"default":{"concurrency":1}}})");
  t.options.variables.history_size = 1;
  t.options.lease = 9s;  // a cancel arrives with a renewal, each 3 s
  t.start();
  REQUIRE(t.host->run("busy", "", "x").has_value());
  REQUIRE(t.await_log(kTriggered, "busy", "hello"));
  const auto id = t.host->run("w", "", "x");
  REQUIRE(id.has_value());
  CHECK(t.host->run("w", "", "y").error().code == ErrorCode::conflict);
  const auto waiting = t.host->run_of("w", *id);
  REQUIRE(waiting.has_value());
  CHECK(waiting->status == RunStatus::initializing);
  REQUIRE(t.host->cancel_run("busy").has_value());
  CHECK(t.await_run("w", *id).status == RunStatus::success);
}

TEST_CASE("a run that waits after a tick is not trimmed by it") {
  HostTest t;
  t.script("triggered/busy/run.sh", kWaits);
  t.script(
      "triggered/w/run.sh",
      "#!/bin/bash\necho hello\nuntil [ -e \"$WEBJOBS_DATA_PATH/go\" ]; do sleep 0.02; done\n");
  t.script("host.json", R"({"pools":{"default":{"concurrency":1}}})");
  t.options.variables.history_size = 1;
  t.options.lease = 9s;  // a cancel arrives with a renewal, each 3 s
  t.start();
  REQUIRE(t.host->run("busy", "", "x").has_value());
  REQUIRE(t.await_log(kTriggered, "busy", "hello"));
  const auto tick = t.node->broker().enqueue({.jobs = {{.queue = "host",
                                                        .kind = "triggered/w",
                                                        .args = R"({"trigger":"Schedule - x"})",
                                                        .max_attempts = 1}}});
  REQUIRE(tick.has_value());
  const auto id = t.host->run("w", "", "x");
  REQUIRE(id.has_value());
  REQUIRE(t.host->cancel_run("busy").has_value());
  REQUIRE(t.await_log(kTriggered, "w", "hello"));
  CHECK(t.engine_jobs("triggered/w").size() == 2);
  CHECK(t.host->run_of("w", *id).has_value());
  write_script(fs::path(job_data_path(t.options, kTriggered, "w")) / "go", "");
  CHECK(t.await_run("w", *id).status == RunStatus::success);
}

TEST_CASE("a run that another host took shows its state there") {
  HostTest t;
  t.script("triggered/busy/run.sh", kWaits);
  t.script("triggered/w/run.sh", "#!/bin/bash\nexit \"$1\"\n");
  t.script("host.json", R"({"pools":{"default":{"concurrency":1}}})");
  t.start();
  REQUIRE(t.host->run("busy", "", "x").has_value());
  REQUIRE(t.await_log(kTriggered, "busy", "hello"));
  HostOptions other = t.options;
  other.data = (t.directory / "host2").string();
  other.roots = {(t.directory / "jobs2").string()};
  fs::create_directories(t.directory / "jobs2/triggered");
  fs::copy(t.directory / "jobs/triggered/w", t.directory / "jobs2/triggered/w");
  const auto second = t.make(other);
  second->start();
  for (const auto& end : {std::pair{"0", RunStatus::success}, {"3", RunStatus::failed}}) {
    const char* const code = end.first;  // clang 14 cannot capture structured bindings
    const RunStatus status = end.second;
    Result<std::string> id = Error{};
    REQUIRE(await([&] {
      id = t.host->run("w", code, "x");
      return id.has_value();
    }));
    const RunRecord run = t.await_run("w", *id);
    CHECK(run.status == status);
    CHECK(run.ended.has_value());
    CHECK(await([&] { return second->run_of("w", *id)->status == status; }));
  }
}

TEST_CASE("a run without output and CPU use is ended") {
  HostTest t;
  t.script("triggered/i/run.sh", "#!/bin/bash\nread -r never < <(sleep 1000)\n");
  t.options.variables.idle_timeout = 200ms;
  t.start();
  const auto id = t.host->run("i", "", "x");
  REQUIRE(id.has_value());
  CHECK(t.await_run("i", *id).status == RunStatus::failed);
  CHECK(
      t.log_of(kTriggered, "i", *id).find("' was aborted due to no output nor CPU activity for") !=
      std::string::npos);
}

TEST_CASE("the host's stop ends a run, which is aborted") {
  HostTest t;
  t.script("triggered/a/run.sh", kWaits);
  t.start();
  const auto id = t.host->run("a", "", "x");
  REQUIRE(id.has_value());
  REQUIRE(t.await_log(kTriggered, "a", "hello"));
  t.host.reset();
  CHECK(await([&] { return t.engine_jobs("triggered/a")[0].state == JobState::dead; }));
  CHECK(t.engine_jobs("triggered/a")[0].reason == "aborted");
  t.start();
  CHECK(t.host->run_of("a", *id)->status == RunStatus::aborted);
}

TEST_CASE("a run whose host died is shown as aborted") {
  HostTest t;
  t.script("triggered/d/run.sh", "#!/bin/bash\n");
  const std::string data = job_data_path(t.options, kTriggered, "d");
  RunHistory history(data);
  const auto id = history.begin({.status = RunStatus::running, .trigger = "x"}, 50, {});
  REQUIRE(id.has_value());
  t.start();
  CHECK(t.host->run_of("d", *id)->status == RunStatus::aborted);
}

TEST_CASE(
    "a folder's schedule is in the engine, paused without the folder, and removed with the job") {
  HostTest t;
  t.script("triggered/s/run.sh", "#!/bin/bash\necho tick\n");
  t.settings("triggered/s", R"({"schedule":"* * * * * *"})");
  t.start();
  REQUIRE(await([&] { return t.node->broker().get_schedule("host/s").has_value(); }));
  REQUIRE(await([&] {
    const auto history = t.host->history("s");
    return history && history->front().status == RunStatus::success;
  }));
  CHECK(t.host->history("s")->front().trigger == "Schedule - * * * * * *");
  const auto ledger = t.node->broker().ledger("host/s", 10, INT64_MAX);
  REQUIRE(ledger.has_value());
  // The newest tick is skipped if a run takes longer than a second.
  CHECK(std::any_of(ledger->rows.begin(), ledger->rows.end(),
                    [](const LedgerRow& row) { return row.state == TickState::fired; }));
  t.host.reset();
  fs::remove_all(t.directory / "jobs/triggered/s");
  t.start();  // it knows its own schedules
  const auto kept = t.node->broker().get_schedule("host/s");
  REQUIRE(kept.has_value());
  CHECK(kept->paused);
  CHECK(kept->paused_reason == "job host: the folder is missing");
  CHECK(t.node->broker().ledger("host/s", 10, INT64_MAX)->rows.size() >= ledger->rows.size());
  SUBCASE("the folder comes back") {
    t.script("triggered/s/run.sh", "#!/bin/bash\necho tick\n");
    t.settings("triggered/s", R"({"schedule":"* * * * * *"})");
    CHECK(await([&] { return !t.node->broker().get_schedule("host/s")->paused; }));
  }
  SUBCASE("the job is removed") {
    REQUIRE(t.host->remove(JobType::triggered, "s").has_value());
    CHECK_FALSE(t.node->broker().get_schedule("host/s").has_value());
    CHECK_FALSE(t.host->find(JobType::triggered, "s").has_value());
  }
}

TEST_CASE("a job whose schedule is refused runs on demand, its schedule is paused and says why") {
  HostTest t;
  t.script("triggered/s/run.sh", "#!/bin/bash\ntrue\n");
  t.settings("triggered/s", R"({"schedule":"0 0 0 1 1 *"})");
  t.start();
  REQUIRE(await([&] { return t.node->broker().get_schedule("host/s").has_value(); }));
  t.settings("triggered/s", R"({"schedule":"0 0 1 1 *"})");
  REQUIRE(await([&] { return t.node->broker().get_schedule("host/s")->paused; }));
  CHECK(t.node->broker().get_schedule("host/s")->paused_reason.find("six fields") !=
        std::string::npos);
  const auto run = t.host->run("s", "", "x");
  REQUIRE(run.has_value());
  CHECK(t.await_run("s", *run).status == RunStatus::success);
  const auto view = t.host->find(JobType::triggered, "s");
  REQUIRE(view.has_value());
  CHECK(view->error.empty());
  REQUIRE(view->folder.warnings.size() == 1);
  CHECK(view->folder.warnings[0].find("six fields") != std::string::npos);
  // What a client sends is still refused at once.
  CHECK_FALSE(t.host->put_settings(JobType::triggered, "s", R"({"schedule":"0 0 1 1 *"})"));
}

TEST_CASE("a tick during a run is dropped") {
  HostTest t;
  t.script("triggered/o/run.sh", kWaits);
  t.start();
  REQUIRE(t.host->run("o", "", "x").has_value());
  REQUIRE(t.await_log(kTriggered, "o", "hello"));
  const auto made = t.node->broker().enqueue({.jobs = {{.queue = "host",
                                                        .kind = "triggered/o",
                                                        .args = R"({"trigger":"Schedule - x"})",
                                                        .max_attempts = 1}}});
  REQUIRE(made.has_value());
  const JobId tick = made->jobs[0].id;
  REQUIRE(await([&] { return t.node->broker().get(tick)->state == JobState::cancelled; }));
  CHECK(t.node->broker().get(tick)->reason ==
        "Cannot start a new run since job is already running.");
  CHECK(t.host->history("o")->size() == 1);
}

TEST_CASE("nothing runs while WebJobs are stopped") {
  HostTest t;
  t.script("triggered/n/run.sh", "#!/bin/bash\n");
  t.options.variables.stopped = true;
  t.start();
  const auto run = t.host->run("n", "", "x");
  REQUIRE_FALSE(run.has_value());
  CHECK(run.error().message == "WebJobs are currently in \"stopped\" state.");
}

TEST_CASE("a queue folder runs its script for each job of the queue") {
  HostTest t;
  t.script("queues/photos/run.sh",
           "#!/bin/bash\nread -r job\necho \"job $MAINSPRING_JOB_ID of $MAINSPRING_QUEUE "
           "[$SECRET]\" >&2\necho '{\"done\":true}'\n");
  t.start();
  const auto made = t.node->broker().enqueue({.jobs = {{.queue = "photos", .kind = "thumb"}}});
  REQUIRE(made.has_value());
  const JobId id = made->jobs[0].id;
  const auto job = t.node->broker().wait(id, 30s, {});
  REQUIRE(job.has_value());
  CHECK(job->state == JobState::completed);
  CHECK(job->result == R"({"done":true})");
  CHECK(t.await_log(JobType::queue, "photos", fmt::format("job {} of photos []", id)));
}

TEST_CASE("a persistent child takes job after job") {
  HostTest t;
  t.script("queues/words/run.py",
           "import json, os, sys\n"
           "out = os.fdopen(3, 'w', buffering=1)\n"
           "for line in sys.stdin:\n"
           "  job = json.loads(line)\n"
           "  out.write(json.dumps({'id': job['id'], 'result': os.getpid()}) + '\\n')\n");
  t.settings("queues/words", R"({"persistent":true,"max":1})");
  t.start();
  std::string pid;
  for (int i = 0; i < 5; ++i) {
    const auto made = t.node->broker().enqueue({.jobs = {{.queue = "words", .kind = "count"}}});
    REQUIRE(made.has_value());
    const auto job = t.node->broker().wait(made->jobs[0].id, 30s, {});
    REQUIRE(job.has_value());
    REQUIRE(job->state == JobState::completed);
    if (!pid.empty()) CHECK(job->result == pid);
    pid = job->result;
  }
  CHECK(t.host->find(JobType::queue, "words")->children == 1);
}

TEST_CASE("the data directory of a job is listed, and nothing outside of it") {
  HostTest t;
  t.script("triggered/l/run.sh", "#!/bin/bash\nln -s / \"$WEBJOBS_DATA_PATH/link\"\n");
  t.start();
  const auto run = t.host->run("l", "", "x");
  REQUIRE(run.has_value());
  t.await_run("l", *run);
  const auto list = t.host->data_directory("jobs/triggered/l/");
  REQUIRE(list.has_value());
  CHECK(std::any_of(list->begin(), list->end(),
                    [&](const DataEntry& entry) { return entry.name == *run && entry.directory; }));
  CHECK(std::none_of(list->begin(), list->end(),
                     [](const DataEntry& entry) { return entry.name == "link"; }));
  CHECK(t.host->data_directory("jobs/triggered/l/" + *run)->size() >= 2);
  for (const char* path : {"jobs/triggered/l/link", "..", "jobs/../..", "none"}) {
    CHECK_MESSAGE(!t.host->data_directory(path), path);
  }
}

TEST_CASE("a job sees application settings and connection strings by the names of WebJobs") {
  HostTest t;
  t.script("triggered/e/run.sh", "#!/bin/bash\nenv | sort | sed 's/^/has /'\n");
  t.settings("triggered/e", R"({"environment":{"Own":"of the job"}})");
  for (const char* entry :
       {"AzureJobsStorage=a", "AzureJobsDashboard=b", "AzureWebJobsStorage=c",
        "CUSTOMCONNSTR_AzureJobsStorage=d", "APPSETTING_Region=west=1", "APPSETTING_Own=x",
        "APPSETTING_WEBSITE_NAME=y", "APPSETTING_MAINSPRING_TOKEN=z", "Region2=hidden"}) {
    t.options.environment.emplace_back(entry);
  }
  t.start();
  REQUIRE(t.host->run("e", "", "x").has_value());
  REQUIRE(t.await_log(JobType::triggered, "e", "has WEBSITE_NAME="));
  const std::string log = t.log_of(JobType::triggered, "e");
  for (const char* line :
       {"has AzureJobsStorage=a\r\n", "has AzureJobsDashboard=b\r\n",
        "has AzureWebJobsStorage=c\r\n", "has CUSTOMCONNSTR_AzureJobsStorage=d\r\n",
        "has APPSETTING_Region=west=1\r\n", "has Region=west=1\r\n", "has Own=of the job\r\n",
        "has WEBSITE_NAME=shop\r\n"}) {
    CHECK_MESSAGE(log.find(line) != std::string::npos, line, " in ", log);
  }
  CHECK(log.find("has MAINSPRING_TOKEN") == std::string::npos);
  CHECK(log.find("has Region2") == std::string::npos);
}

TEST_CASE("a job of another user has a home and a data directory, which are removed with it") {
  if (geteuid() != 0) {
    MESSAGE("not root: jobs of other users were not run");
    return;
  }
  HostTest t;
  t.script(
      "triggered/u/run.sh",
      "#!/bin/bash\necho \"I am $(id -un) $USER $LOGNAME\"\n"
      "[ \"$HOME\" = \"$(getent passwd nobody | cut -d: -f6)\" ] && echo at home\n"
      "echo x >\"$WEBJOBS_DATA_PATH/file\" && stat -c 'file of %U' \"$WEBJOBS_DATA_PATH/file\"\n"
      "echo \"others: $(stat -c %a \"$WEBJOBS_DATA_PATH\")\"\n");
  t.settings("triggered/u", R"({"limits":{"user":"nobody"}})");
  t.options.environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/root", "USER=root",
                           "LOGNAME=root"};
  const auto finished = [&] {
    const auto runs = t.host->history("u");
    return runs && !runs->empty() && runs->front().status != RunStatus::initializing &&
           runs->front().status != RunStatus::running;
  };
  SUBCASE("where it may enter the host's directory") {
    fs::permissions(t.directory, fs::perms(0755));
    t.start();
    REQUIRE(t.host->run("u", "", "x").has_value());
    CHECK(t.await_log(JobType::triggered, "u", "others: 700"));
    for (const char* line : {"I am nobody nobody nobody", "at home", "file of nobody"}) {
      CHECK_MESSAGE(t.log_of(JobType::triggered, "u").find(line) != std::string::npos, line);
    }
    REQUIRE(await(finished));
    const fs::path own = user_data_path(t.options, JobType::triggered, "u");
    CHECK(fs::exists(own));
    REQUIRE(t.host->remove(JobType::triggered, "u").has_value());
    CHECK_FALSE(fs::exists(own));
  }
  SUBCASE("where it may not, the error says what to do") {
    t.start();
    REQUIRE(t.host->run("u", "", "x").has_value());
    CHECK(t.await_log(JobType::triggered, "u", "user \"nobody\" must be able to enter it"));
  }
}

TEST_CASE("a root server runs no folder as root by itself") {
  if (geteuid() != 0) {
    MESSAGE("not root: the users of jobs were not checked");
    return;
  }
  // The server's user, the pool's, the folder's, and the user that runs it or a part of the
  // refusal.
  struct Row {
    const char *server, *pool, *own, *outcome;
  };
  const Row rows[] = {
      {"", "", "", "the server runs as root"},
      {"", "", "root", "the server runs as root"},
      {"", "", "nobody", "the server runs as root"},
      {"", "root", "", "is root, which needs --jobs-user root"},
      {"", "nobody", "", "I am nobody"},
      {"", "nobody", "0", "limits.user \"0\": must be \"nobody\""},
      {"", "nobody", "daemon", "limits.user \"daemon\": must be \"nobody\""},
      {"", "nobody", "65534", "I am nobody"},
      {"nobody", "", "root", "must be \"nobody\""},
      {"nobody", "root", "", "is root, which needs --jobs-user root"},
      {"root", "", "", "I am root"},
      {"root", "", "nobody", "I am nobody"},
      {"root", "nobody", "root", "must be \"nobody\""},
  };
  HostTest t;
  fs::permissions(t.directory, fs::perms(0755));
  const auto limits = [](const char* user) {
    return *user == '\0' ? std::string("{}") : fmt::format(R"({{"user":"{}"}})", user);
  };
  int number = 0;
  for (const Row& row : rows) {
    // A new name: the job of a refused run waits for its next try.
    const std::string name = fmt::format("u{}", ++number);
    CAPTURE(row.server);
    CAPTURE(row.pool);
    CAPTURE(row.own);
    t.host.reset();
    fs::remove_all(t.directory / "jobs");
    fs::remove_all(t.options.data);
    t.options.user = row.server;
    t.script("triggered/" + name + "/run.sh", "#!/bin/bash\necho \"I am $(id -un)\"\n");
    t.settings("triggered/" + name, fmt::format(R"({{"limits":{}}})", limits(row.own)));
    t.script("host.json",
             fmt::format(R"({{"pools":{{"default":{{"limits":{}}}}}}})", limits(row.pool)));
    t.start();
    REQUIRE(t.host->run(name, "", "x").has_value());
    CHECK(t.await_log(kTriggered, name, row.outcome));
  }
}

TEST_CASE("the limits of a pool are a ceiling for its folders") {
  HostTest t;
  t.script("host.json", R"({"pools":{"p":{"folders":["in*"],"limits":{"open_files":64,"nice":12,)"
                        R"("file_size":"1MiB"}}}})");
  for (const char* name : {"inside", "outside"}) {
    t.script(fmt::format("triggered/{}/run.sh", name),
             "#!/bin/bash\necho \"$(ulimit -n) $(ulimit -f) $(nice)\"\n");
    t.settings(fmt::format("triggered/{}", name),
               R"({"pool":"p","limits":{"open_files":128,"nice":-5,"file_size":"1GiB"}})");
  }
  t.start();
  REQUIRE(t.host->run("inside", "", "x").has_value());
  CHECK(t.await_log(kTriggered, "inside", "64 1024 12"));
  REQUIRE(t.host->run("outside", "", "x").has_value());
  CHECK(t.await_log(kTriggered, "outside", "pool \"p\": does not take the folder \"outside\""));
}

TEST_CASE("a script that cannot be started costs no attempt, and runs when it can") {
  HostTest t;
  constexpr std::string_view kBad = R"({"limits":{"user":"no-such-user"}})";
  t.script("triggered/r/run.sh", "#!/bin/bash\necho hello\n");
  t.script("queues/q/run.sh", "#!/bin/bash\ncat >/dev/null; echo 5\n");
  for (const char* folder : {"triggered/r", "queues/q"}) t.settings(folder, kBad);
  t.start();
  NewJob job{.queue = "q", .kind = "k"};
  job.max_attempts = 1;
  const auto made = t.node->broker().enqueue({.jobs = {job}});
  REQUIRE(made.has_value());
  const auto run = t.host->run("r", "", "x");
  REQUIRE(run.has_value());
  CHECK(t.await_log(kTriggered, "r", "The script cannot be started"));
  for (const JobType type : {kTriggered, JobType::queue}) {
    const std::string name = type == kTriggered ? "r" : "q";
    const auto why = [&] { return t.host->find(type, name)->error; };
    CHECK(await([&] { return why().starts_with("cannot be started: limits.user"); }));
  }
  for (const char* folder : {"triggered/r", "queues/q"}) t.settings(folder, "{}");
  const RunRecord ended = t.await_run("r", *run);
  CHECK(ended.status == RunStatus::success);
  CHECK(t.host->history("r")->size() == 1);
  const auto of_queue = t.node->broker().wait(made->jobs[0].id, 60s, {});
  REQUIRE(of_queue.has_value());
  CHECK(of_queue->state == JobState::completed);
  CHECK(of_queue->attempt == 1);
  CHECK(t.host->find(kTriggered, "r")->error.empty());
}

TEST_CASE("a queue folder whose log cannot be opened runs its jobs when it can") {
  HostTest t;
  t.script("queues/q/run.sh", "#!/bin/bash\ncat >/dev/null; echo 5\n");
  const fs::path log = job_log_path(t.options, JobType::queue, "q");
  fs::create_directories(log);
  t.start();
  const auto made = t.node->broker().enqueue({.jobs = {{.queue = "q", .kind = "k"}}});
  REQUIRE(made.has_value());
  REQUIRE(await([&] { return t.host->find(JobType::queue, "q").has_value(); }));
  fs::remove(log);
  const auto job = t.node->broker().wait(made->jobs[0].id, 60s, {});
  REQUIRE(job.has_value());
  CHECK(job->state == JobState::completed);
}

TEST_CASE("scripts with a byte order mark, a name like an option or options in #! run") {
  HostTest t;
  constexpr std::string_view kBom = "\xef\xbb\xbf";
  constexpr std::string_view kPython = "import sys\nprint('hello', *sys.argv[1:])\n";
  constexpr std::string_view kShell = "set -e\necho hello \"$@\"\n";
  const std::pair<const char*, std::string> scripts[] = {
      {"-run.sh", std::string(kShell)},
      {"-u.py", std::string(kPython)},
      {"-run", fmt::format("#!/bin/sh\n{}", kShell)},
      {"run.sh", fmt::format("{}#!/bin/bash -e\n{}", kBom, kShell)},
      {"main.sh", fmt::format("{}{}", kBom, kShell)},
      {"run.py", fmt::format("{}#!/usr/bin/env python3\n{}", kBom, kPython)},
      {"run", fmt::format("#!/usr/bin/env python3 -u -B\n{}", kPython)},
      {"tool", fmt::format("{}#!/usr/bin/env python3\n{}", kBom, kPython)},
      {"start", fmt::format("{}#!/bin/sh -e\n{}", kBom, kShell)},
      {"job", fmt::format("{}#! /usr/bin/env bash -e\r\n{}", kBom, kShell)},
  };
  const char* names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
  for (std::size_t i = 0; i < std::size(scripts); ++i)
    t.script(fmt::format("triggered/{}/{}", names[i], scripts[i].first), scripts[i].second);
  t.start();
  for (std::size_t i = 0; i < std::size(scripts); ++i) {
    CAPTURE(scripts[i].first);
    const auto id = t.host->run(names[i], "-x 'two words'", "x");
    REQUIRE(id.has_value());
    CHECK(t.await_run(names[i], *id).status == RunStatus::success);
    const std::string log = t.log_of(kTriggered, names[i]);
    CHECK_MESSAGE(log.find("hello -x two words") != log.npos, log);
    CHECK_MESSAGE(log.find("ERR") == log.npos, log);
  }
}

TEST_CASE("the host names ignored settings of host.json and of each job type") {
  HostTest t;
  t.script("host.json", R"({"pools":{"a":{"concurrency":"2"}}})");
  for (const char* type : {"triggered", "queues", "continuous"}) {
    t.script(fmt::format("{}/j/run.sh", type), "#!/bin/bash\nexec sleep 1000\n");
    t.settings(fmt::format("{}/j", type), R"({"stopping_wait_time":"60"})");
  }
  t.start();
  const HostView view = t.host->view();
  REQUIRE(view.problems.size() == 4);
  CHECK(view.problems[0] ==
        "host.json: pools.a.concurrency \"2\": must be a whole number, 1 to 10000");
  for (std::size_t i = 1; i < 4; ++i)
    CHECK(view.problems[i].starts_with("j: stopping_wait_time \"60\""));
}

TEST_CASE("a run whose folder is removed is ended; only the command removes its data") {
  HostTest t;
  const std::string bye = (t.directory / "bye").string();
  t.script("triggered/r/run.sh",
           "#!/bin/bash\necho up\nwhile [ ! -e \"$WEBJOBS_SHUTDOWN_FILE\" ]; do sleep 0.02; done\n"
           "echo x >" +
               bye + "\n[ -e \"$WEBJOBS_DATA_PATH\" ] && echo x >" + bye + "2\nexit 1\n");
  t.start();
  REQUIRE(t.host->run("r", "", "x").has_value());
  REQUIRE(t.await_log(JobType::triggered, "r", "up"));
  const fs::path data = job_data_path(t.options, JobType::triggered, "r");
  const auto job = [&] { return t.node->broker().get(1)->state; };
  SUBCASE("by a command") {
    REQUIRE(t.host->remove(JobType::triggered, "r").has_value());
    REQUIRE(await([&] { return job() == JobState::cancelled; }));
    CHECK(fs::exists(bye + "2"));
    CHECK_FALSE(fs::exists(data));
  }
  SUBCASE("by hand: the data stays, also over a restart of the host") {
    fs::remove_all(t.directory / "jobs/triggered/r");
    REQUIRE(await([&] { return job() == JobState::cancelled; }));
    CHECK(fs::exists(bye));
    CHECK(fs::exists(data));
    t.host.reset();
    t.start();
    CHECK(fs::exists(data));
    CHECK(t.host->find(JobType::triggered, "r")->missing.has_value());
    CHECK(t.host->history("r")->size() == 1);
  }
  // The name is free again.
  t.script("triggered/r/run.sh", "#!/bin/bash\necho new script\n");
  REQUIRE(await([&] { return t.host->run("r", "", "x").has_value(); }));
  CHECK(t.await_log(JobType::triggered, "r", "new script"));
}
