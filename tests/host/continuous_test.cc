// Continuous job folders, run by a host over a real engine.
#include "host/continuous_job.h"

#include "host/harness.h"

using namespace mainspring;
using namespace mainspring::test;

namespace {

constexpr JobType kContinuous = JobType::continuous;
constexpr std::string_view kLoop =
    "#!/bin/bash\n"
    "echo hello in $PWD\n"
    "while [ ! -e \"$WEBJOBS_SHUTDOWN_FILE\" ]; do sleep 0.02; done\n"
    "echo told to end\n";

}  // namespace

TEST_CASE("restarts: 60 s, at once after two good minutes, longer when it fails again and again") {
  RestartRule rule({.restart_time = 60s});
  CHECK(rule.after(true, 1s) == 60s);
  for (int i = 0; i < RestartRule::kPatience; ++i) CHECK(rule.after(false, 1s) == 60s);
  CHECK(rule.after(false, 1s) == 120s);
  CHECK(rule.after(false, 1s) == 240s);
  for (int i = 0; i < 20; ++i) (void)rule.after(false, 1s);
  CHECK(rule.after(false, 1s) == RestartRule::kLongest);
  CHECK(rule.after(false, 120s) == 0s);
  CHECK(rule.after(false, 1s) == 60s);
  RestartRule strict({.restart_time = 60s, .back_off = false});
  for (int i = 0; i < 50; ++i) CHECK(strict.after(false, 119s) == 60s);
}

TEST_CASE("a continuous job runs in its working copy with the WebJobs environment") {
  HostTest t;
  t.script("continuous/a/run.sh",
           "#!/bin/bash\necho \"$WEBJOBS_NAME $WEBJOBS_TYPE [$WEBJOBS_RUN_ID] $WEBSITE_NAME "
           "[$SECRET] $WEBSITE_ALWAYS_ON_JOB_RUNNING_a\"\n"
           "[ \"$PWD\" = \"$WEBJOBS_PATH\" ] && [ -d \"$WEBJOBS_DATA_PATH\" ] && "
           "[ \"$WEBJOBS_PORT\" -gt 0 ] && [ ! -e \"$WEBJOBS_SHUTDOWN_FILE\" ] && echo good\n"
           "echo wrong >&2\nsleep 1000\n");
  t.settings("continuous/a", R"({"stopping_wait_time":0})");
  t.start();
  REQUIRE(t.await_log(kContinuous, "a", "wrong"));
  REQUIRE(t.await_status("a", ContinuousStatus::running));
  const std::string log = t.log_of(kContinuous, "a");
  CHECK(log.find(" > abcdef: SYS INFO] Run script 'run.sh' with script host - 'BashScriptHost'") !=
        log.npos);
  CHECK(log.find(" > abcdef: INFO] a continuous [] shop [] true\r\n") != log.npos);
  CHECK(log.find(" > abcdef: INFO] good\r\n") != log.npos);
  CHECK(log.find(" > abcdef: ERR ] wrong\r\n") != log.npos);
  const auto port = t.host->port("a");
  CHECK((port && *port > 1024));
  const auto job = t.host->find(kContinuous, "a");
  REQUIRE(job.has_value());
  CHECK(job->detailed_status == "abcdef - Running\r\n");
  const auto engine = t.node->broker().get(job->job);
  REQUIRE(engine.has_value());
  CHECK((engine->queue == "host" && engine->state == JobState::running));
}

TEST_CASE("a job that fails is retried as its engine job, and started at once when asked") {
  HostTest t;
  t.script("continuous/f/run.sh", "#!/bin/bash\necho run\nexit 3\n");
  t.start();
  REQUIRE(t.await_status("f", ContinuousStatus::pending_restart));
  REQUIRE(t.await_log(kContinuous, "f", "Process went down, waiting for 60 seconds"));
  CHECK(t.log_of(kContinuous, "f").find("Job failed due to exit code 3") != std::string::npos);
  const auto job = t.host->find(kContinuous, "f");
  REQUIRE(job.has_value());
  REQUIRE(await([&] {
    const auto engine = t.node->broker().get(job->job);
    return engine && engine->state == JobState::retryable && engine->errors.size() == 1 &&
           engine->errors[0].message == "exit code 3" && engine->errors[0].program.exit_code == 3;
  }));
  REQUIRE(t.host->start_job("f").has_value());
  CHECK(await([&] {
    const auto engine = t.node->broker().get(job->job);
    return engine && engine->errors.size() == 2;
  }));
}

TEST_CASE("a job that succeeds runs again and uses up no attempt") {
  HostTest t;
  t.script("continuous/w/run.sh", "#!/bin/bash\necho one more\n");
  t.settings("continuous/w", R"({"restart_time":"0s"})");
  t.start();
  REQUIRE(await([&] {
    const std::string log = t.log_of(kContinuous, "w");
    std::size_t runs = 0;
    for (std::size_t at = 0; (at = log.find("one more", at)) != log.npos; ++at) ++runs;
    return runs >= 5;
  }));
  const auto job = t.host->find(kContinuous, "w");
  const auto engine = t.node->broker().get(job->job);
  REQUIRE(engine.has_value());
  CHECK((engine->attempt <= 1 && engine->errors.empty()));
}

TEST_CASE("the log has each status, and the status is stopped after the end") {
  HostTest t;
  t.script("continuous/l/run.sh",
           "#!/bin/bash\nwhile [ ! -e \"$WEBJOBS_SHUTDOWN_FILE\" ]; do sleep 0.02; done\nexit 4\n");
  write_script(fs::path(job_data_path(t.options, kContinuous, "l")) / "status_before",
               R"({"Status":"Running"})");
  write_script(fs::path(job_data_path(t.options, kContinuous, "l")) / "status_mailed", "its own");
  t.start();
  REQUIRE(t.await_status("l", ContinuousStatus::running));
  REQUIRE(t.host->stop_job("l").has_value());
  REQUIRE(t.await_status("l", ContinuousStatus::stopped));
  const std::string log = t.log_of(kContinuous, "l");
  std::string said;
  for (std::size_t at = 0, end = 0; (end = log.find("\r\n", at)) != log.npos; at = end + 2) {
    const std::string line = log.substr(at, end - at);
    said += line.substr(line.find("abcdef: ") + 8) + "\n";
  }
  CHECK(said ==
        "SYS INFO] Status changed to Starting\n"
        "SYS INFO] Run script 'run.sh' with script host - 'BashScriptHost'\n"
        "SYS INFO] Status changed to Running\n"
        "SYS INFO] Status changed to Disabling\n"
        "SYS INFO] Status changed to Stopping\n"
        "SYS INFO] Status changed to Stopped\n");
  const fs::path data = job_data_path(t.options, kContinuous, "l");
  CHECK(await([&] { return read_all(data / "status_abcdef") == R"({"Status":"Stopped"})"; }));
  CHECK_FALSE(fs::exists(data / "status_before"));  // the file of the previous instance name
  CHECK(fs::exists(data / "status_mailed"));
}

TEST_CASE("a job whose engine job is cancelled is started again after the restart time") {
  HostTest t;
  t.script("continuous/c/run.sh", kLoop);
  t.options.lease = 9s;  // a cancel arrives with a renewal, each 3 s
  t.start();
  REQUIRE(t.await_status("c", ContinuousStatus::running));
  REQUIRE(t.node->broker().cancel({t.host->find(kContinuous, "c")->job, "by hand"}).has_value());
  CHECK(t.await_status("c", ContinuousStatus::pending_restart));
  CHECK(t.host->find(kContinuous, "c")->port == 0);
}

TEST_CASE("stop disables a job for good, start enables it") {
  HostTest t;
  t.script("continuous/s/run.sh", kLoop);
  t.start();
  REQUIRE(t.await_status("s", ContinuousStatus::running));
  const JobId engine = t.host->find(kContinuous, "s")->job;
  REQUIRE(t.host->stop_job("s").has_value());
  REQUIRE(t.await_status("s", ContinuousStatus::stopped));
  CHECK(t.log_of(kContinuous, "s").find("told to end") != std::string::npos);
  CHECK(fs::exists(t.directory / "jobs/continuous/s/disable.job"));
  CHECK(await([&] { return t.node->broker().get(engine)->state == JobState::cancelled; }));

  t.host.reset();
  t.start();  // it stays disabled
  CHECK(t.host->find(kContinuous, "s")->folder.disabled);
  CHECK(t.await_status("s", ContinuousStatus::stopped));
  REQUIRE(t.host->start_job("s").has_value());
  CHECK(t.await_status("s", ContinuousStatus::running));
  CHECK_FALSE(fs::exists(t.directory / "jobs/continuous/s/disable.job"));
  CHECK(t.host->stop_job("nobody").error().code == ErrorCode::not_found);
}

TEST_CASE("a program that handles TERM gets it, others get their grace period") {
  HostTest t;
  t.script("continuous/handles/run.sh",
           "#!/bin/bash\ntrap 'echo caught; exit 0' TERM\necho ready\n"
           "while :; do sleep 0.02; done\n");
  t.script("continuous/file/run.sh",
           "#!/bin/bash\necho ready\nwhile [ ! -e \"$WEBJOBS_SHUTDOWN_FILE\" ]; do sleep 0.02; "
           "done\nsleep 0.1\necho finished my work\n");
  t.settings("continuous/handles", R"({"stopping_wait_time":600})");
  t.settings("continuous/file", R"({"stopping_wait_time":600})");
  t.start();
  REQUIRE(t.await_log(kContinuous, "handles", "ready"));
  REQUIRE(t.await_log(kContinuous, "file", "ready"));
  t.host->stop();
  CHECK(t.log_of(kContinuous, "handles").find("caught") != std::string::npos);
  CHECK(t.log_of(kContinuous, "file").find("finished my work") != std::string::npos);
}

TEST_CASE("a changed folder is restarted, a removed folder is stopped") {
  HostTest t;
  t.start();
  t.script("continuous/c/run.sh", kLoop);
  REQUIRE(t.await_log(kContinuous, "c", "hello"));
  t.script("continuous/c/run.sh", "#!/bin/bash\necho version two\nsleep 1000\n");
  t.settings("continuous/c", R"({"stopping_wait_time":0})");
  REQUIRE(t.await_log(kContinuous, "c", "version two"));
  const JobId engine = t.host->find(kContinuous, "c")->job;
  fs::remove_all(t.directory / "jobs/continuous/c");
  CHECK(await([&] { return t.host->find(kContinuous, "c")->missing.has_value(); }));
  CHECK(await([&] { return is_terminal(t.node->broker().get(engine)->state); }));
}

TEST_CASE("a job that is slow to stop does not delay other jobs") {
  HostTest t;
  const std::string slow =
      "#!/bin/bash\ntrap '' TERM\necho hello\nuntil [ -e \"$WEBJOBS_DATA_PATH/go\" ]; do sleep "
      "0.02; "
      "done\necho ended at last\n";
  for (const std::string name : {"back", "removed"}) {
    t.script("continuous/" + name + "/run.sh", slow);
    t.settings("continuous/" + name, R"({"stopping_wait_time":600})");
  }
  t.start();
  REQUIRE(t.await_log(kContinuous, "back", "hello"));
  REQUIRE(t.await_log(kContinuous, "removed", "hello"));
  const auto file = [&](const std::string& name) {
    return fs::path(job_data_path(t.options, kContinuous, name)) / "go";
  };
  fs::remove_all(t.directory / "jobs/continuous/back");
  REQUIRE(await([&] { return t.host->find(kContinuous, "back")->missing.has_value(); }));
  t.script("continuous/other/run.sh", kLoop);
  REQUIRE(t.await_status("other", ContinuousStatus::running));
  REQUIRE(t.host->stop_job("other").has_value());
  // A new folder of its name starts when the job has ended.
  t.script("continuous/back/run.sh", "#!/bin/bash\necho version two\nsleep 1000\n");
  t.settings("continuous/back", R"({"stopping_wait_time":0})");
  REQUIRE(await([&] { return !t.host->find(kContinuous, "back")->missing; }));
  CHECK(t.log_of(kContinuous, "back").find("version two") == std::string::npos);
  write_script(file("back"), "");
  REQUIRE(t.await_log(kContinuous, "back", "version two"));
  const std::string log = t.log_of(kContinuous, "back");
  CHECK(log.find("ended at last") < log.find("version two"));
  // Removing a job with its data deletes the data when the job has ended.
  std::thread remover([&] { CHECK(t.host->remove(kContinuous, "removed").has_value()); });
  CHECK(await([&] { return !t.host->find(kContinuous, "removed").has_value(); }));
  CHECK(fs::exists(file("removed").parent_path()));
  write_script(file("removed"), "");
  remover.join();
  CHECK(await([&] { return !fs::exists(file("removed").parent_path()); }));
}

TEST_CASE("a jobs directory that is created late runs nothing before its quiet period") {
  HostTest t;
  t.options.quiet = 24h;
  t.start();
  const fs::path made = t.directory / "made";
  write_script(made / "continuous/c/run.sh", kLoop);
  fs::create_directories(made / "continuous/nothing_to_run");
  fs::rename(made, t.directory / "jobs");
  REQUIRE(await([&] {  // the host has read it
    const auto problems = t.host->view().problems;
    return problems.size() == 1 && problems[0].find("nothing_to_run") != std::string::npos;
  }));
  CHECK_FALSE(t.host->find(kContinuous, "c").has_value());
  t.host->refresh();
  CHECK(t.await_status("c", ContinuousStatus::running));
}

TEST_CASE("engine jobs of an earlier host process are cancelled, and their processes are gone") {
  HostTest t;
  t.start();
  const std::string node = t.read_id().substr(0, 8);
  const std::string kind = "continuous/l:" + node;
  const auto made = t.node->broker().enqueue({.jobs = {{.queue = "host", .kind = kind}}});
  REQUIRE(made.has_value());
  const JobId left = made->jobs[0].id;
  // Another worker claimed it and died.
  const auto claimed = t.node->broker().claim(
      {.worker = "dead", .queues = {"host"}, .kinds = {kind}, .lease = 1s}, 0s, {});
  REQUIRE(claimed->jobs.size() == 1);
  t.script("continuous/l/run.sh", kLoop);
  REQUIRE(t.await_status("l", ContinuousStatus::running));
  CHECK(t.host->find(kContinuous, "l")->job != left);
  CHECK(await([&] { return t.node->broker().get(left)->state == JobState::cancelled; }));
}

TEST_CASE("of two hosts one runs a singleton, and the other takes over when it ends") {
  HostTest t;
  t.script("continuous/one/run.sh", kLoop);
  t.settings("continuous/one", R"({"is_singleton":true})");
  t.start();
  REQUIRE(t.await_status("one", ContinuousStatus::running));
  HostOptions other = t.options;
  other.data = (t.directory / "host2").string();
  other.variables.instance_id = "second";
  const auto second = t.make(other);
  second->start();
  REQUIRE(t.await_status(*second, "one", ContinuousStatus::inactive_instance));
  CHECK(t.host->find(kContinuous, "one")->status == ContinuousStatus::running);
  CHECK(second->port("one").error().code == ErrorCode::not_found);
  t.host->stop();
  CHECK(t.await_status(*second, "one", ContinuousStatus::running));
}

TEST_CASE("a singleton that is disabled on one host keeps running on the other") {
  HostTest t;
  t.script("continuous/d/run.sh", kLoop);
  t.settings("continuous/d", R"({"is_singleton":true})");
  t.start();
  REQUIRE(t.await_status("d", ContinuousStatus::running));
  HostOptions other = t.options;
  other.data = (t.directory / "host2").string();
  other.roots = {(t.directory / "jobs2").string()};
  fs::copy(t.directory / "jobs", t.directory / "jobs2", fs::copy_options::recursive);
  const auto second = t.make(other);
  second->start();
  REQUIRE(t.await_status(*second, "d", ContinuousStatus::inactive_instance));
  REQUIRE(t.host->stop_job("d").has_value());
  REQUIRE(t.await_status("d", ContinuousStatus::stopped));
  REQUIRE(t.await_status(*second, "d", ContinuousStatus::running));
  const auto engine = t.node->broker().get(second->find(kContinuous, "d")->job);
  REQUIRE(engine.has_value());
  CHECK((engine->state == JobState::running && !engine->cancel_requested));
  // When no host wants it any more, its engine job ends.
  REQUIRE(second->stop_job("d").has_value());
  CHECK(await([&] { return t.node->broker().get(engine->id)->state == JobState::cancelled; }));
}

TEST_CASE("a frozen job does not run, and a stopped host runs no jobs") {
  HostTest t;
  t.script("continuous/z/run.sh", kLoop);
  t.settings("continuous/z", R"({"freeze":true})");
  t.start();
  CHECK(t.host->find(kContinuous, "z")->frozen);
  CHECK(t.engine_jobs("continuous/z").empty());
  const auto started = t.host->start_job("z");
  REQUIRE_FALSE(started.has_value());
  CHECK(started.error().code == ErrorCode::conflict);
  CHECK(started.error().message.find("is frozen") != std::string::npos);
  REQUIRE(t.host->put_settings(kContinuous, "z", "{}").has_value());
  CHECK(t.await_status("z", ContinuousStatus::running));
  CHECK(t.host->put_settings(kContinuous, "z", "[]").error().code == ErrorCode::invalid_argument);
  t.host.reset();
  t.options.variables.stopped = true;
  t.start();
  CHECK(t.host->find(kContinuous, "z")->status != ContinuousStatus::running);
}

TEST_CASE("a job of an undefined pool reports it") {
  HostTest t;
  t.script("continuous/p/run.sh", kLoop);
  t.settings("continuous/p", R"({"pool":"nowhere"})");
  t.start();
  CHECK(t.host->find(kContinuous, "p")->error.find("nowhere") != std::string::npos);
  CHECK(t.await_log(kContinuous, "p", "must be defined in host.json"));
}

TEST_CASE("two hosts cannot share a data directory") {
  HostTest t;
  t.start();
  const auto again = JobHost::open(t.options, t.node->broker(), t.processes, t.clock, t.random,
                                   t.log, *t.registry);
  REQUIRE_FALSE(again.has_value());
  CHECK(again.error().code == ErrorCode::conflict);
}
