// Programs as handlers: their input, their messages, and the meaning of their end.
#include "worker/exec.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "api/json.h"
#include "worker/fake_jobs.h"
#include "worker/start_failure.h"
#include "worker/stepped_clock.h"
#include "worker/worker.h"

using namespace mainspring;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;

// Runs one job through a worker with a shell script as its program.
struct ExecRig {
  FakeJobs jobs;
  SystemClock clock;
  SteppedClock stepped;
  const Clock* time = &clock;  // the worker's: one of them
  SystemRandom random;
  NullLog log;
  SystemProcesses processes;
  WorkerOptions options;
  ExecOptions exec;
  std::unique_ptr<WorkerRuntime> worker;

  explicit ExecRig(std::string script) {
    options.queues = {"q"};
    exec.argv = {"/bin/sh", "-c", std::move(script)};
  }
  void start() {
    worker = std::make_unique<WorkerRuntime>(jobs, *time, random, log, options);
    worker->on_any(exec_handler(processes, exec));
    REQUIRE(worker->start().has_value());
  }
  void run(const std::function<void(ClaimedJob&)>& change = {}) {
    jobs.add("k", "{\"a\":1}", change);
    start();
    REQUIRE(jobs.await_outcomes(1));
  }
};

}  // namespace

TEST_CASE("a command is split into words by quotes and backslashes, and nothing else") {
  CHECK(*split_command("convert -resize 200x200") == Words{"convert", "-resize", "200x200"});
  CHECK(*split_command("  a\t'b c'  \"d \\\" \\\\ \\n\" e\\ f ") ==
        Words{"a", "b c", "d \" \\ \\n", "e f"});
  CHECK(*split_command("a'b'\"c\"d ''") == Words{"abcd", ""});
  CHECK(*split_command("echo $HOME *.c | cat > x; `y` $(z) # no") ==
        Words{"echo", "$HOME", "*.c", "|", "cat", ">", "x;", "`y`", "$(z)", "#", "no"});
  for (const char* bad : {"", "   ", "'a", "\"a", "a \\", "'' b"}) {
    const auto words = split_command(bad);
    REQUIRE_MESSAGE(!words, bad);
    CHECK(words.error().code == ErrorCode::invalid_argument);
  }
}

TEST_CASE("a program gets the job on standard input and in its environment") {
  setenv("MAINSPRING_SECRET", "no", 1);
  ExecRig rig("cat; env | grep ^MAINSPRING_ | sort | tr '\\n' ' ' >&2; exit 75");
  rig.run([](ClaimedJob& job) {
    job.id = 42;
    job.token = 7;
    job.attempt = 2;
    job.priority = 3;
    job.queue = "photos";
    job.kind = "thumb";
    job.checkpoint = "{\"page\":3}";
    job.correlation_id = "c \"1\"";
    job.tags = {"x"};
    job.headers = "{\"h\":\"v\"}";
  });
  const std::string error = rig.jobs.outcome<Retry>(42).error;
  CHECK(error.find("MAINSPRING_JOB_ID=42 ") != std::string::npos);
  CHECK(error.find("MAINSPRING_QUEUE=photos ") != std::string::npos);
  CHECK(error.find("MAINSPRING_KIND=thumb ") != std::string::npos);
  CHECK(error.find("MAINSPRING_ATTEMPT=2 ") != std::string::npos);
  CHECK(error.find("MAINSPRING_MAX_ATTEMPTS=20 ") != std::string::npos);
  CHECK(error.find("MAINSPRING_TOKEN=7") != std::string::npos);
  CHECK(error.find("MAINSPRING_CORRELATION_ID=c \"1\" ") != std::string::npos);
  CHECK(error.find("MAINSPRING_IDEMPOTENCY_KEY=ms-42-") != std::string::npos);
  CHECK(error.find("MAINSPRING_RESULT_FD=3") != std::string::npos);
  CHECK(error.find("SECRET") == std::string::npos);
  unsetenv("MAINSPRING_SECRET");

  ExecRig echo("cat");  // the last line of output is the result: the job itself
  echo.run([](ClaimedJob& job) {
    job.checkpoint = "{\"page\":3}";
    job.tags = {"x"};
  });
  const std::string json = echo.jobs.outcome<Complete>(1).result;
  for (const char* part : {"\"id\":1,", "\"kind\":\"k\"", "\"args\":{\"a\":1}", "\"attempt\":1",
                           "\"checkpoint\":{\"page\":3}", "\"tags\":[\"x\"]"}) {
    CHECK_MESSAGE(json.find(part) != std::string::npos, json);
  }
}

TEST_CASE("the result is the one from fd 3, else the last line of output") {
  const auto result = [](std::string script) {
    ExecRig rig(std::move(script));
    rig.run();
    return rig.jobs.ended_as<Complete>(1) ? rig.jobs.outcome<Complete>(1).result : "(failed)";
  };
  CHECK(result("echo '{\"x\":1}'; echo '{\"result\":[2]}' >&3") == "[2]");
  CHECK(result("echo '{\"result\":null}' >&3") == "null");
  CHECK(result("echo working; echo '{\"x\": 1}'; echo") == "{\"x\": 1}");
  CHECK(result("printf 12") == "12");
  CHECK(result("echo all good") == "\"all good\"");
  CHECK(result("true") == "");
  CHECK(result("exec >&-; exec 3>&-") == "");
}

TEST_CASE("a result that JSON readers would change makes the job dead, and names its path") {
  const auto dead = [](std::string script) {
    ExecRig rig(std::move(script));
    rig.run();
    const Dead end = rig.jobs.outcome<Dead>(1);
    CHECK(end.reason == "bad_result");
    return end.description;
  };
  const std::pair<std::string, std::string> results[] = {
      {R"({"n":[1e400]})", "result.n[0] 1e400: must be within 1.8e308, the range of a double"},
      {R"({"n":Infinity})", "result.n Infinity: must be a number; JSON has no NaN and no Infinity"},
      {R"({"n":"\ud800"})", "result.n: must not have half of a surrogate pair"},
      {R"({"n":1,"n":2})", "result.n: given twice"},
      {"NaN", "result NaN: must be a number; JSON has no NaN and no Infinity"}};
  for (const auto& [result, why] : results) {
    CAPTURE(result);
    CHECK(dead(fmt::format("printf '%s\\n' '{}'", result)) == why);
    CHECK(dead(fmt::format("printf '%s\\n' '{{\"result\":{}}}' >&3", result)) == why);
  }
  CHECK(dead(R"(echo '{"result":1,"result":2}' >&3)") == "result: given twice");
}

TEST_CASE("a program gets the state of its session, and sets a new one if it succeeds") {
  const auto left = [](std::string script) {
    ExecRig rig(std::move(script));
    rig.run([](ClaimedJob& job) {
      job.session = "customer/7";
      job.session_state = R"({"n":1})";
    });
    rig.worker->stop();
    return rig.jobs.finishes.at(0).results.at(0);
  };
  const JobOutcome done = left(
      R"(cat; test "$MAINSPRING_SESSION" = customer/7 && echo '{"session_state":{"n":2}}' >&3)");
  CHECK(done.session_state == R"({"n":2})");
  const std::string job = std::get<Complete>(done.outcome).result;
  CHECK_MESSAGE(job.find(R"("session":"customer/7","session_state":{"n":1})") != std::string::npos,
                job);
  CHECK(left(R"(echo '{"session_state":null}' >&3)").session_state == "");
  CHECK(left(R"(echo '{"session_state":2}' >&3; exit 65)").session_state == "2");
  CHECK(left(R"(echo '{"session_state":2}' >&3; exit 1)").session_state == std::nullopt);
  CHECK(left("true").session_state == std::nullopt);
}

TEST_CASE("a result over the limit makes the job dead at once, and names the limit") {
  const auto dead = [](std::string script) {
    ExecRig rig(std::move(script));
    rig.run();
    const Dead end = rig.jobs.outcome<Dead>(1);
    CHECK(end.description.find("must be at most 1048576") != std::string::npos);
    return end.reason;
  };
  const auto of = [](std::size_t bytes) {  // a JSON string
    return fmt::format("printf '\"'; head -c {} /dev/zero | tr '\\0' 1; printf '\"';", bytes - 2);
  };
  CHECK(dead(of(kMaxResultBytes + 1)) == "result_too_large");
  CHECK(dead(of(3 << 20)) == "result_too_large");
  CHECK(dead("printf '\\001'; " + of(kMaxResultBytes - 1)) ==
        "result_too_large");  // as a JSON string
  CHECK(dead("exec 1>&3; printf '{\"result\":'; " + of(kMaxResultBytes + 1) + " echo '}'") ==
        "result_too_large");
  CHECK(dead("exec 1>&3; printf '{\"result\":'; " + of(3 << 20) + " echo '}'") ==
        "result_too_large");

  ExecRig fits(of(kMaxResultBytes));
  fits.run();
  CHECK(fits.jobs.outcome<Complete>(1).result.size() == kMaxResultBytes);
  ExecRig fits_fd3("exec 1>&3; printf '{\"result\":'; " + of(kMaxResultBytes) +
                   " echo ',\"progress\":{\"value\":1}}'");
  fits_fd3.run();
  CHECK(fits_fd3.jobs.outcome<Complete>(1).result.size() == kMaxResultBytes);
}

TEST_CASE("an invalid remark is reported, and the exit code decides") {
  for (const auto& [line, reason] : std::vector<std::pair<std::string, RemarkFault>>{
           {R"({"progress":{"value":50}})", RemarkFault::progress},
           {R"({"progress":{"value":1.0000001}})", RemarkFault::progress},
           {R"({"progress":{"value":-0.001}})", RemarkFault::progress},
           {R"({"progress":"0.5"})", RemarkFault::progress},
           {R"({"progress":0.5})", RemarkFault::progress},
           {R"({"progress":null})", RemarkFault::progress},
           {R"({"checkpoint":null})", RemarkFault::checkpoint},
           {R"({"progres":{"value":1}})", RemarkFault::unknown_field},
           {R"({"session_state":1})", RemarkFault::session_state},
           {R"({"retry_after":"soon"})", RemarkFault::outcome},
           {R"({"error":7})", RemarkFault::outcome},
           {R"({"step":{"name":7}})", RemarkFault::step},
           {"7", RemarkFault::not_json},
           {"null", RemarkFault::not_json},
           {"+ make all", RemarkFault::not_json},
           {"{\"progress\":{\"value\":0.5}", RemarkFault::not_json}}) {
    CAPTURE(line);
    ExecRig rig(fmt::format(R"(echo '{{"result":{{"rows":9}}}}' >&3; echo '{}' >&3)", line));
    rig.time = &rig.stepped;  // the worker's limit for storing a warning does not end
    rig.run();
    CHECK(rig.jobs.outcome<Complete>(1).result == R"({"rows":9})");
    const auto warning = rig.jobs.with_lock([&] {
      IgnoredRemarks seen;
      for (const Renew& renew : rig.jobs.renews) {
        for (const Renewal& lease : renew.leases) seen = lease.warning.value_or(seen);
      }
      return seen;
    });
    CHECK(warning.counts.at(static_cast<std::size_t>(reason)) == 1);
    CHECK(warning.text.starts_with("attempt 1: ignored: "));
  }
}

TEST_CASE("valid members of a line count beside an invalid one") {
  ExecRig rig(R"(echo '{"progress":50,"result":[1],"colour":"red"}' >&3)");
  rig.run();
  CHECK(rig.jobs.outcome<Complete>(1).result == "[1]");
}

TEST_CASE("a checkpoint or a message that is too large is reported and changes nothing") {
  for (const char* name : {"checkpoint", "message"}) {
    ExecRig rig(
        fmt::format("exec 1>&3; printf '{{\"{}\":\"'; head -c 300000 /dev/zero | "
                    "tr '\\0' 1; echo '\"}}'; echo '{{\"result\":2}}'",
                    name));
    rig.time = &rig.stepped;
    rig.run();
    CHECK(rig.jobs.outcome<Complete>(1).result == "2");
    const bool warned = rig.jobs.with_lock([&] {
      const auto& leases = rig.jobs.renews.back().leases;
      return leases.at(0).warning &&
             leases.at(0).warning->text.find("must be at most") != std::string::npos;
    });
    CHECK(warned);
  }
}

TEST_CASE("a session state over its limit makes the job dead at once") {
  ExecRig rig(
      "exec 1>&3; printf '{\"session_state\":\"'; head -c 300000 /dev/zero | tr '\\0' 1; "
      "echo '\"}'");
  rig.run([](ClaimedJob& job) { job.session = "s"; });
  CHECK(rig.jobs.outcome<Dead>(1).reason == "session_state_too_large");
}

TEST_CASE("an invalid outcome does not count as a completion") {
  ExecRig defer(R"(echo '{"defer":7}' >&3)");
  defer.run();
  CHECK(defer.jobs.outcome<Retry>(1).error.starts_with("defer"));
  ExecRig result(R"(echo '{"result":{x}}' >&3)");
  result.run();
  CHECK(result.jobs.outcome<Dead>(1).reason == "bad_result");
}

TEST_CASE("exit codes and signals have the documented meaning") {
  const auto outcome_of = [](std::string script) {
    ExecRig rig(std::move(script));
    rig.run();
    return rig.jobs.with_lock([&] { return rig.jobs.outcomes.at(1); });
  };
  const auto retry = [](const Outcome& o) { return std::get<Retry>(o); };
  CHECK(std::get<Defer>(outcome_of("echo '{\"defer\":\"why\"}' >&3")).reason == "why");
  CHECK(retry(outcome_of("echo '{\"defer\":\"\"}' >&3; exit 75")).error == "exit code 75");
  CHECK(retry(outcome_of("exit 75")).error == "exit code 75");
  CHECK(retry(outcome_of("exit 1")).error == "exit code 1");
  CHECK(retry(outcome_of("echo one >&2; echo two >&2; exit 2")).error == "exit code 2: one\ntwo");
  CHECK(retry(outcome_of("kill -SEGV $$")).error == "killed by SIGSEGV");
  CHECK(retry(outcome_of("x=$(head -c 80000000 /dev/zero | tr '\\0' a); kill -KILL $$"))
            .error.starts_with("killed by SIGKILL, peak memory "));
  CHECK(retry(outcome_of("exit 3")).program.exit_code == 3);
  CHECK(retry(outcome_of("exit 3")).program.signal == 0);
  CHECK(retry(outcome_of("kill -SEGV $$")).program.signal == SIGSEGV);
  CHECK(retry(outcome_of("kill -SEGV $$")).program.exit_code == std::nullopt);
  const auto large = [&](std::string_view rest) {
    return outcome_of(fmt::format("x=$(head -c 80000000 /dev/zero | tr '\\0' a); {}", rest));
  };
  CHECK(retry(large("exit 1")).program.peak_memory.value_or(0) > 80'000'000);
  CHECK(retry(large("echo '{\"error\":\"e\"}' >&3; exit 1")).program.peak_memory > 80'000'000);
  CHECK(std::get<Dead>(large("exit 65")).program.peak_memory > 80'000'000);
  CHECK(std::get<Dead>(large("exit 65")).program.exit_code == 65);
  const Retry said =
      retry(outcome_of("echo '{\"error\":\"no network\",\"retry_after\":\"30s\"}' >&3; exit 75"));
  CHECK(said.error == "no network");
  CHECK(said.after == Duration(30s));
  CHECK(retry(outcome_of("echo '{\"open_breaker_for\":\"2m\"}' >&3; exit 1")).open_breaker_for ==
        Duration(2min));
  const Dead dead = std::get<Dead>(outcome_of("echo broken file >&2; exit 65"));
  CHECK(dead.reason == "exit_65");
  CHECK(dead.description == "exit code 65: broken file");
  CHECK(std::get<Dead>(outcome_of("echo '{\"reason\":\"bad_image\"}' >&3; exit 65")).reason ==
        "bad_image");
}

TEST_CASE("the last lines of a long standard error are the error") {
  ExecRig rig("i=0; while [ $i -lt 100 ]; do i=$((i+1)); echo line $i >&2; done; exit 1");
  rig.run();
  const std::string error = rig.jobs.outcome<Retry>(1).error;
  CHECK(error.starts_with("exit code 1: line 81\n"));
  CHECK(error.ends_with("line 100"));
}

TEST_CASE("a program that cannot be started is the worker's trouble, not the job's") {
  ExecRig rig("exit 0");
  const fs::path directory = fs::temp_directory_path() / fmt::format("exec-test-{}", getpid());
  fs::create_directories(directory);
  const std::string program = (directory / "program").string();
  const auto write = [&](std::string_view text, int mode) {
    std::ofstream(program) << text;
    fs::permissions(program, fs::perms(mode));
  };
  std::ofstream busy;
  SUBCASE("it is missing") {
    rig.exec.argv = {program};
  }
  SUBCASE("it is not executable") {
    rig.exec.argv = {(write("#!/bin/sh\n", 0644), program)};
  }
  SUBCASE("its interpreter is missing") {
    rig.exec.argv = {(write("#!/no/such/interpreter\n", 0755), program)};
  }
  SUBCASE("it is being written: text file busy") {
    fs::copy_file("/bin/true", program);
    busy.open(program, std::ios::app);
    rig.exec.argv = {program};
  }
  SUBCASE("its directory is missing") {
    rig.exec.directory = program;
  }
  SUBCASE("its user is unknown") {
    rig.exec.prepare = [](ProcessSpec& spec) -> Result<void> {
      spec.limits.user = "no-such-user";
      return {};
    };
  }
  rig.run();
  fs::remove_all(directory);
  CHECK(rig.jobs.ended_as<Snooze>(1));
  CHECK(rig.jobs.outcome<Snooze>(1).after == Duration(0));
  CHECK_FALSE(rig.worker->start_trouble().empty());
}

TEST_CASE("a worker without its program claims nothing for a while, and recovers by itself") {
  ExecRig rig("exit 0");
  rig.time = &rig.stepped;
  std::atomic<bool> gone = true;
  rig.exec.prepare = [&gone](ProcessSpec& spec) -> Result<void> {
    if (gone) spec.argv = {"/no/such/program"};
    return {};
  };
  rig.run();
  CHECK(rig.jobs.ended_as<Snooze>(1));
  const auto claims = [&] { return rig.jobs.with_lock([&] { return rig.jobs.claims.size(); }); };
  const std::size_t before = claims();
  rig.jobs.add("k");
  rig.stepped.await_another_look();
  CHECK(claims() == before);
  rig.stepped.advance(1s);
  REQUIRE(rig.jobs.await_outcomes(2));
  CHECK(rig.jobs.ended_as<Snooze>(2));
  CHECK(rig.jobs.with_lock(
      [&] { return rig.jobs.claims.back().facts->language.ends_with(kCannotStart); }));
  CHECK_FALSE(rig.worker->start_trouble().empty());
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.claims.back().facts->trouble; }) ==
        rig.worker->start_trouble());
  // The second pause is longer.
  rig.jobs.add("k");
  rig.stepped.advance(1s);
  rig.stepped.await_another_look();
  CHECK_FALSE(rig.jobs.ended_as<Snooze>(3));
  gone = false;
  rig.stepped.advance(1s);
  REQUIRE(rig.jobs.await_outcomes(3));
  CHECK(rig.jobs.ended_as<Complete>(3));
  REQUIRE(rig.jobs.await([&] { return rig.jobs.claims.back().facts->language == "C++"; }));
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.claims.back().facts->trouble.empty(); }));
  CHECK(rig.worker->start_trouble().empty());
}

TEST_CASE("the pause of a worker without its program grows up to a minute") {
  CHECK(start_pause(1) == 1s);
  CHECK(start_pause(2) == 2s);
  CHECK(start_pause(6) == 32s);
  CHECK(start_pause(7) == 1min);
  CHECK(start_pause(1'000'000) == 1min);
}

TEST_CASE("a shortage of descriptors gives the job back without counting the attempt") {
  ExecRig rig("exit 0");
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  rig.run();
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(rig.jobs.ended_as<Snooze>(1));
}

TEST_CASE("progress and checkpoints on fd 3 reach the server while the program runs") {
  ExecRig rig(
      "echo '{\"progress\":{\"value\":0.5,\"text\":\"half\"}}' >&3;"
      "echo '{\"checkpoint\":{\"page\":9}}' >&3; sleep 1000 & wait");
  rig.jobs.on_renew = [&](const Renew& renew) -> Result<RenewResult> {
    return RenewResult{.renewed = {{1, renew.lease}}};
  };
  rig.jobs.add("k");
  rig.start();
  // Each goes with a renewal of its own if the program was interrupted between its lines.
  REQUIRE(rig.jobs.await([&] {
    bool checkpoint = false, progress = false;
    for (const Renew& renew : rig.jobs.renews) {
      checkpoint = checkpoint || renew.leases[0].checkpoint == "{\"page\":9}";
      progress = progress || renew.leases[0].progress == Progress{0.5, "half"};
    }
    return checkpoint && progress;
  }));
  rig.jobs.tell_cancel(1);
  REQUIRE(rig.jobs.await_outcomes(1));
  CHECK(rig.jobs.ended_as<CancelJob>(1));
}

TEST_CASE("messages on fd 3 reach the server in order, before the job is complete") {
  ExecRig rig(
      "for i in 1 2 3; do echo \"{\\\"message\\\":{\\\"row\\\":$i}}\" >&3; done;"
      "echo '{\"message\":null,\"result\":4}' >&3");
  rig.run();
  std::string all;
  rig.jobs.with_lock([&] {
    for (const Renew& renew : rig.jobs.renews) {
      for (const std::string& message : renew.leases.at(0).messages) all += message + " ";
    }
  });
  CHECK(all == R"({"row":1} {"row":2} {"row":3} null )");
  CHECK(rig.jobs.outcome<Complete>(1).result == "4");
}

TEST_CASE("over its time limit a program gets TERM, then KILL with its tree") {
  ExecRig rig("trap '' TERM; (setsid sleep 1000 &); while :; do sleep 1000; done");
  rig.exec.kill_grace = 30ms;
  rig.run([](ClaimedJob& job) { job.timeout = 5s; });  // by then it ignores TERM
  CHECK(
      rig.jobs.outcome<Retry>(1).error.starts_with("over its time limit of 5s: killed by SIGKILL"));

  ExecRig obedient("sleep 1000");
  obedient.run([](ClaimedJob& job) { job.timeout = 50ms; });
  CHECK(obedient.jobs.outcome<Retry>(1).error == "over its time limit of 50ms: killed by SIGTERM");
}

TEST_CASE("at shutdown programs are stopped and their attempts refunded") {
  ExecRig rig(
      "echo '{\"progress\":{\"value\":0}}' >&3; trap '' TERM; while :; do sleep 1000; done");
  rig.options.graceful_stop = 50ms;
  rig.exec.hurried_kill_grace = 20ms;
  rig.jobs.add("k");
  rig.start();
  REQUIRE(rig.jobs.await([&] { return !rig.jobs.renews.empty(); }));
  rig.worker->stop();
  CHECK(rig.jobs.ended_as<Snooze>(1));
}

TEST_CASE("a program reads its steps, and later finds its saved results") {
  ExecRig rig(R"(
    ask() { echo "$1" >&3; read -r answer <&4; echo "$answer"; }
    ask '{"step":{"name":"pay","ask":"1"}}'
    ask '{"step":{"name":"pay","ask":"2","result":{"id":"c1"}}}'
    ask '{"step":{"name":"pay","ask":"3"}}'
    ask '{"step":{"name":"no name"}}'
    ask '{"step":{"name":7}}'
    ask '{"step":{"name":"pay","ask":"4","result":2}}'
    exit 75)");
  // All of its output, as the error of the attempt.
  rig.exec.argv[2] = "exec 1>&2; " + rig.exec.argv[2];
  rig.run();
  const std::string said = rig.jobs.outcome<Retry>(1).error;
  for (const char* part : {R"({"ask":"1","name":"pay","found":false})",
                           R"({"ask":"2","name":"pay","found":true,"result":{"id":"c1"}})",
                           R"({"ask":"3","name":"pay","found":true,"result":{"id":"c1"}})",
                           R"("code":"invalid_argument"})", R"("code":"conflict"})",
                           R"({"ask":"","name":"","error":"step: name)"}) {
    CHECK_MESSAGE(said.find(part) != std::string::npos, said);
  }
  CHECK(rig.jobs.with_lock([&] { return rig.jobs.kept[1]["pay"]; }) == R"({"id":"c1"})");
}

TEST_CASE("a program that asks and does not read is logged, and delays nothing") {
  ExecRig rig(R"(
    i=0
    while [ $i -lt 20000 ]; do
      echo '{"step":{"name":"pay","ask":"a question"}}' >&3; i=$((i+1))
    done
    echo '{"result":1}' >&3)");
  rig.time = &rig.stepped;
  rig.run();
  CHECK(rig.jobs.outcome<Complete>(1).result == "1");
  CHECK(rig.jobs.with_lock([&] {
    const auto& warning = rig.jobs.renews.back().leases.at(0).warning;
    return warning && warning->text.find("not read from descriptor 4") != std::string::npos;
  }));
}
