// Children that run job after job: order, crashes, time limits, bad answers, starts and ends.
#include "host/queue_scripts.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <set>
#include <thread>

#include "base/mutex.h"
#include "worker/start_failure.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

class FakeContext final : public Context {
 public:
  explicit FakeContext(JobId id) {
    job_.id = id;
    job_.args = "{}";
  }
  ClaimedJob& job() { return job_; }
  const ClaimedJob& job() const override { return job_; }
  std::string idempotency_key() const override { return fmt::format("key-{}", job_.id); }
  std::stop_token stop_token() const override { return stop_.get_token(); }
  StopReason stop_reason() const override { return reason_; }
  void progress(double value, std::string_view text) override {
    value_ = value;
    text_ = text;
    if (on_progress) on_progress();
  }
  Result<void> checkpoint(std::string json) override {
    checkpoint_ = std::move(json);
    return {};
  }
  Result<void> set_session_state(std::string json) override {
    state_ = std::move(json);
    return {};
  }
  Result<void> send(std::string json) override {
    messages_ += json + " ";
    return {};
  }
  void ignore(RemarkFault fault, std::string_view text) override {
    MutexLock lock(ignored_mutex_);
    ignored_ += fmt::format("{}: {}\n", to_string(fault), text);
  }
  std::string ignored() {
    MutexLock lock(ignored_mutex_);
    return ignored_;
  }
  Result<void> flush() override { return {}; }
  Result<std::optional<std::string>> recall(std::string_view) override { return std::nullopt; }
  Result<void> remember(std::string_view, std::string) override { return {}; }
  void stop(StopReason reason) {
    reason_ = reason;
    stop_.request_stop();
  }

  std::function<void()> on_progress;
  double value_ = 0;
  std::string text_, checkpoint_, messages_, state_;

 private:
  Mutex ignored_mutex_;
  std::string ignored_;
  ClaimedJob job_;
  std::stop_source stop_;
  std::atomic<StopReason> reason_ = StopReason::none;
};

// Keeps lines, and lets a test wait for one.
class LinesLog final : public Log {
 public:
  void write(LogLevel, std::string_view message, const Fields& fields) override {
    MutexLock lock(mutex_);
    std::string line(message);
    for (const auto& [name, value] : fields) line += fmt::format(" {}={}", name, value);
    lines_.push_back(line);
    changed_.notify_all();
  }
  bool await(std::string_view text) {
    MutexLock lock(mutex_);
    for (int i = 0; i < 6000; ++i) {
      for (const std::string& line : lines_) {
        if (line.find(text) != std::string::npos) return true;
      }
      changed_.wait_for(mutex_, 10ms);
    }
    return false;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> lines_;
};

// A worker of a queue: reads one job per line; `body` answers it.
std::string python(std::string_view body) {
  return fmt::format(
      "import json, os, sys, time, signal\n"
      "def say(**words): os.write(3, (json.dumps(words) + '\\n').encode())\n"
      "jobs = 0\n"
      "for line in sys.stdin:\n"
      "  job = json.loads(line)\n"
      "  jobs += 1\n"
      "  args = job['args']\n"
      "{}",
      body);
}
constexpr std::string_view kEcho = "  say(id=job['id'], result=args)\n";

struct Rig {
  SystemProcesses processes;
  SystemClock clock;
  LinesLog log;
  PersistentOptions options;
  Mutex mutex;
  std::string output;
  std::unique_ptr<PersistentPool> pool;

  explicit Rig(std::string script, std::vector<std::string> argv = {"python3", "-u", "-c"}) {
    argv.push_back(std::move(script));
    options.stopping_wait_time = 200ms;
    options.spec = [this, argv] {
      ProcessSpec spec;
      spec.argv = argv;
      spec.environment = {"PATH=/usr/bin:/bin", "MAINSPRING_RESULT_FD=3"};
      spec.output = [this](OutputStream, std::string_view data) {
        MutexLock lock(mutex);
        output += data;
      };
      return Result<ProcessSpec>(std::move(spec));
    };
  }
  void start() {
    pool = std::make_unique<PersistentPool>(processes, clock, log, options);
    pool->start();
  }
  HandlerResult run(JobId id, std::string args = "{}") {
    FakeContext context(id);
    context.job().args = std::move(args);
    return pool->handle(context.job(), context);
  }
  bool await_children(int count) {
    for (int i = 0; i < 12'000 && pool->children() != count; ++i) poll(nullptr, 0, 5);
    return pool->children() == count;
  }
};

template <class T>
T as(const HandlerResult& result) {
  REQUIRE_MESSAGE(result.has_value(), result.error().message);
  REQUIRE(std::holds_alternative<T>(*result));
  return std::get<T>(*result);
}

}  // namespace

TEST_CASE("one child answers job after job, in order, and its output goes to the sink") {
  Rig rig(
      python("  print('job', job['id'], job['attempt'], job['idempotency_key'])\n"
             "  say(id=job['id'], result=[jobs, args])\n"));
  rig.start();
  for (JobId id = 1; id <= 5; ++id) {
    CHECK(as<Complete>(rig.run(id, fmt::format("{{\"n\":{}}}", id * 10))).result ==
          fmt::format("[{}, {{\"n\": {}}}]", id, id * 10));
  }
  CHECK(rig.pool->started() == 1);
  rig.pool.reset();
  CHECK(rig.output.starts_with("job 1 1 key-1\njob 2 1 key-2\n"));
}

TEST_CASE("a shell script can be a child") {
  Rig rig(
      "while read -r line; do echo \"saw $line\"; n=$((n+1));"
      "echo \"{\\\"id\\\":$n,\\\"result\\\":$n}\" >&3; done",
      {"bash", "-c"});
  rig.start();
  CHECK(as<Complete>(rig.run(1)).result == "1");
  CHECK(as<Complete>(rig.run(2)).result == "2");
}

TEST_CASE("every form of answer has its outcome") {
  Rig rig(
      python("  say(id=job['id'], progress={'value': 0.5, 'text': 'half'})\n"
             "  say(id=job['id'], checkpoint={'row': 7})\n"
             "  say(id=job['id'], message=[1])\n"
             "  args['id'] = job['id']\n"
             "  say(**args)\n"));
  rig.start();
  FakeContext context(1);
  context.job().args = R"({"error":"no paper","retry_after":"30s"})";
  const Retry retry = as<Retry>(rig.pool->handle(context.job(), context));
  CHECK(retry.error == "no paper");
  CHECK(retry.after == Duration(30s));
  CHECK(context.value_ == 0.5);
  CHECK(context.text_ == "half");
  CHECK(context.checkpoint_ == R"({"row": 7})");
  CHECK(context.messages_ == "[1] ");
  CHECK_FALSE(as<Retry>(rig.run(2, R"({"error":"no"})")).after.has_value());
  const Dead dead = as<Dead>(rig.run(3, R"({"dead":"bad_address","error":"no such street"})"));
  CHECK(dead.reason == "bad_address");
  CHECK(dead.description == "no such street");
  CHECK(as<Snooze>(rig.run(4, R"({"snooze":"5m"})")).after == Duration(5min));
  CHECK(as<Defer>(rig.run(6, R"({"defer":"no answer yet"})")).reason == "no answer yet");
  CHECK(as<Complete>(rig.run(5, R"({"result":null})")).result == "null");
  CHECK(rig.pool->started() == 1);
}

TEST_CASE("a crash of a child fails only its job, with the reason") {
  Rig rig(
      python("  if args.get('crash'): os.kill(os.getpid(), signal.SIGSEGV)\n"
             "  say(id=job['id'], result=jobs)\n"));
  rig.start();
  CHECK(as<Complete>(rig.run(1)).result == "1");
  CHECK(as<Retry>(rig.run(2, R"({"crash":true})")).error ==
        "the process ended without an answer: killed by SIGSEGV; its output is in the log of its "
        "job folder");
  CHECK(as<Complete>(rig.run(3)).result == "1");
  CHECK(rig.pool->started() == 2);
}

TEST_CASE("the time limit kills a child that does not stop, and another one takes over") {
  Rig rig(
      python("  if args.get('hang'):\n"
             "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
             "    say(id=job['id'], progress={'value': 0.1})\n"
             "    while True: time.sleep(1000)\n"
             "  say(id=job['id'], result=jobs)\n"));
  rig.start();
  FakeContext context(1);
  context.job().args = R"({"hang":true})";
  context.on_progress = [&] { context.stop(StopReason::timeout); };
  CHECK(as<Retry>(rig.pool->handle(context.job(), context)).error == "stopped: timeout");
  CHECK(rig.pool->children() == 0);
  CHECK(as<Complete>(rig.run(2)).result == "1");
  CHECK(rig.pool->started() == 2);
}

TEST_CASE("an answer of a child after its job was stopped is ignored") {
  Rig rig(
      python("  def late(*_):\n"
             "    say(id=job['id'], result='too late')\n"
             "    sys.exit(0)\n"
             "  signal.signal(signal.SIGTERM, late)\n"
             "  say(id=job['id'], progress={'value': 0.1})\n"
             "  while True: time.sleep(1000)\n"));
  rig.start();
  FakeContext context(1);
  context.on_progress = [&] { context.stop(StopReason::cancelled); };
  CHECK(as<Retry>(rig.pool->handle(context.job(), context)).error == "stopped: cancelled");
}

TEST_CASE("invalid answers fail the attempt and replace the child") {
  Rig rig(python("  os.write(3, (args['say'].replace('ID', str(job['id'])) + '\\n').encode())\n"));
  rig.start();
  const auto error = [&](JobId id, std::string_view words) {
    std::string args = "{\"say\":";
    args += fmt::format("\"{}\"}}", words);
    return as<Retry>(rig.run(id, args)).error;
  };
  CHECK(error(1, "{\\\"id\\\":99,\\\"result\\\":1}") ==
        "message on fd 3: id 99: must be that of its job, 1");
  CHECK(error(2, "{\\\"result\\\":1}") == "message on fd 3: id: must be given");
  CHECK(error(3, "{\\\"id\\\":ID,\\\"dead\\\":1}").starts_with("message on fd 3: dead"));
  CHECK(error(4, "{\\\"id\\\":ID,\\\"result\\\":1,\\\"snooze\\\":\\\"1s\\\"}")
            .find("only one can be given") != std::string::npos);
  CHECK(rig.pool->started() == 4);
  CHECK(as<Complete>(rig.run(5, R"({"say":"{\"id\":ID,\"result\":1}"})")).result == "1");
}

TEST_CASE("invalid remarks are reported and change neither the job nor the child") {
  Rig rig(
      "echo ready >&3; read -r line; PS4='+ '; BASH_XTRACEFD=3; set -x; true; set +x\n"
      "for n in 1 2; do for said in 'no json' 7 null '{\"id\":99,\"progress\":{\"value\":1}}' "
      "\"{\\\"id\\\":$n,\\\"progress\\\":{\\\"value\\\":50}}\" "
      "\"{\\\"id\\\":$n,\\\"colour\\\":1}\" "
      "'{\"progress\":{\"value\":1}}'; do echo \"$said\" >&3; done\n"
      "echo \"{\\\"id\\\":$n,\\\"result\\\":$n,\\\"retry_after\\\":\\\"1s\\\"}\" >&3; read -r "
      "line; done",
      {"bash", "-c"});
  rig.options.min_children = 1;
  rig.start();
  REQUIRE(rig.log.await("ignored output of a script's child on fd 3 without a job"));
  for (JobId id = 1; id <= 2; ++id) {
    FakeContext context(id);
    CHECK(as<Complete>(rig.pool->handle(context.job(), context)).result == fmt::to_string(id));
    const std::string ignored = context.ignored();
    for (const char* part :
         {"not_json: \"no json\"", "not_json: \"7\"", "not_json: \"null\"", "unasked: id 99",
          "progress: progress: value 50", "unknown_field: \"colour\"", "unasked: id: must be given",
          "outcome: retry_after"}) {
      CHECK_MESSAGE(ignored.find(part) != std::string::npos, part, " in ", ignored);
    }
  }
  CHECK(rig.pool->started() == 1);
}

TEST_CASE("a result of 1 MiB arrives whole; one over the line limit makes the job dead") {
  Rig rig(python("  say(id=job['id'], result='x' * (args['n'] - 2))\n"));
  rig.start();
  CHECK(as<Complete>(rig.run(1, "{\"n\":1048576}")).result.size() == kMaxResultBytes);
  const Dead dead = as<Dead>(rig.run(2, "{\"n\":3000000}"));
  CHECK(dead.reason == "result_too_large");
  CHECK(dead.description.find("1048576") != std::string::npos);
  CHECK(as<Complete>(rig.run(3, "{\"n\":2}")).result == "\"\"");
  CHECK(rig.pool->started() == 1);
}

TEST_CASE("any other line over the limit is reported, and the answer after it counts") {
  Rig rig(
      python("  say(id=job['id'], message='x' * 3000000)\n"
             "  say(id=job['id'], result=1)\n"));
  rig.start();
  FakeContext context(1);
  CHECK(as<Complete>(rig.pool->handle(context.job(), context)).result == "1");
  CHECK(context.ignored().starts_with("too_long: "));
}

TEST_CASE("a child that writes more than its answer is replaced, and its job completes") {
  Rig rig(
      python("  say(id=job['id'], result=jobs)\n"
             "  say(id=job['id'], result='again')\n"));
  rig.start();
  CHECK(as<Complete>(rig.run(1)).result == "1");
  CHECK(rig.log.await("wrote to fd 3 without a job"));
  CHECK(as<Complete>(rig.run(2)).result == "1");
}

TEST_CASE("children that end repeatedly restart with growing pauses, each failing its job") {
  Rig rig("exit 3", {"/bin/sh", "-c"});
  rig.start();
  const Instant begin = rig.clock.now().instant;
  for (JobId id = 1; id <= 4; ++id) {
    const Retry retry = as<Retry>(rig.run(id));
    CHECK(retry.error.starts_with("the process ended without an answer: exit code 3; "));
    CHECK(retry.program.exit_code == 3);
  }
  // None, then 100 ms and 200 ms before the third and the fourth.
  CHECK(rig.clock.now().instant - begin >= Duration(300ms));
  CHECK(rig.pool->started() == 4);
}

TEST_CASE("a child that ends after each job is replaced at once, and no job is lost") {
  Rig rig(
      python("  say(id=job['id'], result=jobs)\n"
             "  break\n"));
  rig.start();
  for (JobId id = 1; id <= 8; ++id) CHECK(as<Complete>(rig.run(id)).result == "1");
}

TEST_CASE("a program that cannot be started is not the fault of the job") {
  Rig rig("", {"/no/such/program"});
  rig.start();
  const HandlerResult result = rig.run(1);
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code == ErrorCode::not_found);
  CHECK(is_start_failure(result.error()));
  rig.options.spec = [] { return Result<ProcessSpec>(invalid("x", "x: is wrong")); };
  rig.start();
  const HandlerResult wrong = rig.run(2);
  CHECK(wrong.error().message == "x: is wrong");
  CHECK(is_start_failure(wrong.error()));
  CHECK(rig.pool->children() == 0);
}

TEST_CASE("min children start at once, are replaced when they end, and are kept") {
  Rig rig(python(kEcho));
  rig.options.min_children = 2;
  rig.options.max_children = 3;
  rig.options.idle = 0s;
  std::atomic<int> program = 0;
  rig.options.spec = [&, spec = rig.options.spec] {
    Result<ProcessSpec> out = spec();
    out->started = [&](ProcessIds ids) { program = ids.program; };
    return out;
  };
  rig.start();
  REQUIRE(rig.await_children(2));
  for (int i = 0; i < 12'000 && program == 0; ++i) poll(nullptr, 0, 5);
  REQUIRE(program != 0);  // 0 would end this process and its group
  kill(program, SIGKILL);
  CHECK(rig.log.await("ended unexpectedly how=killed by SIGKILL"));
  for (int i = 0; i < 12'000 && rig.pool->started() < 3; ++i) poll(nullptr, 0, 5);
  CHECK(rig.pool->started() == 3);
  CHECK(rig.await_children(2));
}

TEST_CASE("children beyond min are stopped when idle: end of input, then TERM") {
  Rig rig(
      python("  say(id=job['id'], progress={'value': 0.1})\n"
             "  while os.path.exists(args['path']): time.sleep(0.002)\n"
             "  say(id=job['id'], result=1)\n"
             "print('end of input')\n"
             "time.sleep(1000)\n"));
  rig.options.min_children = 1;
  rig.options.max_children = 3;
  rig.options.idle = 20ms;
  rig.start();
  char path[] = "/tmp/ms_queue_scripts_XXXXXX";
  const int file = mkstemp(path);
  REQUIRE(file >= 0);
  close(file);
  std::atomic<int> busy = 0;
  std::vector<std::thread> threads;
  for (JobId id = 1; id <= 3; ++id) {
    threads.emplace_back([&, id] {
      FakeContext context(id);
      context.job().args = fmt::format("{{\"path\":\"{}\"}}", path);
      context.on_progress = [&] {
        if (++busy == 3) unlink(path);  // all three work at once
      };
      CHECK(rig.pool->handle(context.job(), context).has_value());
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(rig.pool->started() == 3);
  CHECK(rig.await_children(1));
  CHECK(rig.pool->started() == 3);
  MutexLock lock(rig.mutex);
  CHECK(rig.output.find("end of input\n") != std::string::npos);
}

TEST_CASE("a job waits for a free child, and stops waiting when a stop is requested") {
  Rig rig(
      python("  say(id=job['id'], progress={'value': 0.1})\n"
             "  while True: time.sleep(1000)\n"));
  rig.start();
  FakeContext first(1), second(2);
  std::thread other;
  first.on_progress = [&] {
    other = std::thread([&] {
      CHECK(as<Retry>(rig.pool->handle(second.job(), second)).error == "stopped: shutdown");
      first.stop(StopReason::lease_lost);
    });
    second.stop(StopReason::shutdown);
  };
  CHECK(as<Retry>(rig.pool->handle(first.job(), first)).error == "stopped: lease_lost");
  other.join();
  CHECK(rig.pool->started() == 1);
}

TEST_CASE("a job larger than a pipe is written as the child reads, and fails with the child") {
  Rig rig(python("  say(id=job['id'], result=len(args['text']))\n"));
  rig.start();
  const std::string large = fmt::format("{{\"text\":\"{}\"}}", std::string(900'000, 'x'));
  CHECK(as<Complete>(rig.run(1, large)).result == "900000");
  Rig deaf("echo '{\"id\":1,\"progress\":{\"value\":1}}' >&3; exec sleep 1000", {"/bin/sh", "-c"});
  deaf.start();
  FakeContext context(1);
  context.job().args = large;
  std::thread stopper([&] { context.stop(StopReason::timeout); });
  CHECK(as<Retry>(deaf.pool->handle(context.job(), context)).error == "stopped: timeout");
  stopper.join();
}

TEST_CASE("a thousand jobs go through two children, each exactly once") {
  Rig rig(python("  say(id=job['id'], result=[args['n'] * 2, os.getpid()])\n"));
  rig.options.max_children = 2;
  rig.start();
  std::atomic<JobId> next = 0;
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {  // more jobs than children
    threads.emplace_back([&] {
      for (JobId id = 0; (id = ++next) <= 1000;) {
        const HandlerResult result = rig.run(id, fmt::format("{{\"n\":{}}}", id));
        if (!result || !std::holds_alternative<Complete>(*result)) continue;
        good += std::get<Complete>(*result).result.starts_with(fmt::format("[{},", id * 2)) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 1000);
  CHECK(rig.pool->started() == 2);
}

TEST_CASE("the end of the pool ends all children, also those that ignore signals") {
  Rig rig("trap '' TERM; while :; do sleep 1000; done", {"/bin/sh", "-c"});
  rig.options.min_children = 2;
  rig.options.max_children = 2;
  rig.options.stopping_wait_time = 20ms;
  rig.start();
  REQUIRE(rig.await_children(2));
  rig.pool.reset();
  rig.pool = std::make_unique<PersistentPool>(rig.processes, rig.clock, rig.log, rig.options);
  rig.pool.reset();  // a pool that was never started
}
