// Programs are run, get input, are read, stopped and cleaned up, whatever they do.
#include "env/processes.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

struct Ran {
  Result<ProcessEnd> end{ProcessEnd{}};
  std::vector<std::string> messages;
};

ProcessSpec processes_shell(std::string script) {
  ProcessSpec spec;
  spec.argv = {"/bin/sh", "-c", std::move(script)};
  spec.environment = {"PATH=/usr/bin:/bin"};
  spec.kill_grace = 10s;
  return spec;
}

Ran processes_run(const ProcessSpec& spec, std::stop_token stop = {}) {
  SystemProcesses processes;
  Ran ran;
  ran.end = processes.run(
      spec, [&](std::string_view line) { ran.messages.emplace_back(line); }, std::move(stop));
  return ran;
}

// Runs the program and requests a stop at the first message.
Ran processes_run_and_stop(const ProcessSpec& spec) {
  SystemProcesses processes;
  std::stop_source stop;
  Ran ran;
  ran.end = processes.run(
      spec,
      [&](std::string_view line) {
        ran.messages.emplace_back(line);
        stop.request_stop();
      },
      stop.get_token());
  return ran;
}

bool gone(const std::string& pid) {
  return ::kill(std::stoi(pid), 0) != 0 && errno == ESRCH;
}

}  // namespace

TEST_CASE("a program gets its input, environment and arguments; its two outputs stay separate") {
  ProcessSpec spec = processes_shell("cat; echo \"$WORD-$1\" >&2; echo note >&3; exit 7");
  spec.argv.insert(spec.argv.end(), {"sh", "a b; $(x)"});
  spec.environment.push_back("WORD=hello");
  spec.input = "the job\n";
  const Ran ran = processes_run(spec);
  REQUIRE(ran.end.has_value());
  CHECK(ran.end->exit_code == 7);
  CHECK(ran.end->signal == 0);
  CHECK(ran.end->out.tail == "the job\n");
  CHECK(ran.end->err.tail == "hello-a b; $(x)\n");
  CHECK(ran.messages == std::vector<std::string>{"note"});
  CHECK_FALSE(ran.end->stopped);
}

TEST_CASE("input larger than a pipe does not block a program that never reads it") {
  ProcessSpec spec = processes_shell("exit 0");
  spec.input.assign(1 << 20, 'x');
  CHECK(processes_run(spec).end->exit_code == 0);
  spec = processes_shell("wc -c");
  spec.input.assign(1 << 20, 'x');
  CHECK(processes_run(spec).end->out.tail == "1048576\n");
}

TEST_CASE("a program inherits four descriptors and nothing else") {
  const int leak = open("/dev/null", O_RDONLY);  // without CLOEXEC, on purpose
  REQUIRE(leak >= 0);
  const Ran ran = processes_run(processes_shell("cd /proc/self/fd; echo *"));
  // One more belongs to the shell: the directory that it reads at that moment.
  CHECK((ran.end->out.tail == "0 1 2 3 4\n" || ran.end->out.tail == "0 1 2 3\n"));
  close(leak);
}

TEST_CASE("a program that cannot be started is reported with the reason") {
  ProcessSpec spec = processes_shell("true");
  spec.argv = {"no-such-program-anywhere"};
  CHECK(processes_run(spec).end.error().code == ErrorCode::not_found);
  spec.argv = {"/no/such/file"};
  CHECK(processes_run(spec).end.error().code == ErrorCode::not_found);
  spec.argv = {"/etc/passwd"};
  CHECK(processes_run(spec).end.error().code == ErrorCode::forbidden);
  spec.argv = {};
  CHECK(processes_run(spec).end.error().code == ErrorCode::invalid_argument);
  spec.argv = {"/bin/echo", std::string("a\0b", 3)};
  CHECK(processes_run(spec).end.error().code == ErrorCode::invalid_argument);
  spec = processes_shell("true");
  spec.directory = "/no/such/directory";
  const Ran ran = processes_run(spec);
  CHECK(ran.end.error().code == ErrorCode::invalid_argument);
  CHECK(ran.end.error().message.find("/no/such/directory") != std::string::npos);
}

TEST_CASE("a flood of output is counted, and its tail is kept") {
  ProcessSpec spec = processes_shell("head -c 50000000 /dev/zero; printf END; printf 12345 >&2");
  spec.output_cap_bytes = 1000;
  const Ran ran = processes_run(spec);
  CHECK(ran.end->out.bytes == 50'000'003);
  CHECK(ran.end->out.tail.size() == 1000);
  CHECK(ran.end->out.tail.ends_with("END"));
  CHECK(ran.end->out.cut());
  CHECK(ran.end->err.tail == "12345");
  CHECK_FALSE(ran.end->err.cut());
}

TEST_CASE("messages are lines; too long ones are dropped and counted") {
  ProcessSpec spec = processes_shell(
      "printf 'one\\n' >&3; head -c 200 /dev/zero | tr '\\0' x >&3; printf '\\ntwo\\nlast' >&3");
  spec.message_cap_bytes = 100;
  std::vector<std::string> told;
  spec.message_dropped = [&](std::string_view beginning) { told.emplace_back(beginning); };
  const Ran ran = processes_run(spec);
  CHECK(told == std::vector<std::string>{std::string(100, 'x')});
  CHECK(ran.messages == std::vector<std::string>{"one", "two", "last"});
  CHECK(ran.end->messages_dropped == 1);
}

TEST_CASE("a daemon that holds the pipes ends with its program") {
  // Double fork into another session, with standard output and fd 3 still open.
  const Ran ran = processes_run(
      processes_shell("d=$(mktemp -d); mkfifo $d/up;"
                      "(setsid sh -c \"echo \\$\\$ >&3; echo >$d/up; exec sleep 1000\" &);"
                      "read x <$d/up; rm -r $d; exit 3"));
  REQUIRE(ran.end.has_value());
  CHECK(ran.end->exit_code == 3);
  REQUIRE(ran.messages.size() == 1);
  CHECK(gone(ran.messages[0]));
}

TEST_CASE("TERM ends a program that listens") {
  const Ran ran = processes_run_and_stop(processes_shell(
      "trap 'echo bye; exit 9' TERM; echo up >&3; while :; do sleep 1000 & wait; done"));
  CHECK(ran.end->exit_code == 9);
  CHECK(ran.end->out.tail == "bye\n");
  CHECK(ran.end->stopped);
}

TEST_CASE("KILL ends a tree that ignores TERM, in every session of it") {
  ProcessSpec spec = processes_shell(
      "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' &);"
      "echo $$ >&3; while :; do sleep 1000; done");
  spec.kill_grace = 30ms;
  const Ran ran = processes_run_and_stop(spec);
  REQUIRE(ran.end.has_value());
  CHECK(ran.end->signal == SIGKILL);
  CHECK(ran.end->exit_code == -1);
  CHECK(ran.end->stopped);
  REQUIRE(ran.messages.size() == 1);
  CHECK(gone(ran.messages[0]));
  CHECK(signal_name(ran.end->signal) == "SIGKILL");
}

TEST_CASE("a stop requested before the start ends the program too") {
  std::stop_source stop;
  stop.request_stop();
  ProcessSpec spec = processes_shell("sleep 1000");
  const Ran ran = processes_run(spec, stop.get_token());
  CHECK(ran.end->signal == SIGTERM);
}

TEST_CASE("a signal that ends a program is reported") {
  const Ran ran = processes_run(processes_shell("kill -SEGV $$"));
  CHECK(ran.end->signal == SIGSEGV);
}

TEST_CASE("the process tree dies with its parent, however the parent dies") {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const pid_t host = fork();
  if (host == 0) {
    SystemProcesses processes;
    (void)processes.run(
        processes_shell(
            "(setsid sh -c 'echo $$ >&3; exec sleep 1000' &); echo $$ >&3; exec sleep 1000"),
        [&](std::string_view line) {
          const std::string text = std::string(line) + "\n";
          [[maybe_unused]] const auto n = write(ends[1], text.data(), text.size());
        },
        {});
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char c = 0;
  while (std::count(text.begin(), text.end(), '\n') < 2 && read(ends[0], &c, 1) == 1) text += c;
  const std::size_t cut = text.find('\n');
  REQUIRE(cut != std::string::npos);
  const std::string pids[] = {text.substr(0, cut), text.substr(cut + 1)};
  ::kill(host, SIGKILL);
  waitpid(host, nullptr, 0);
  for (const std::string& pid : pids) {
    const int fd = static_cast<int>(syscall(SYS_pidfd_open, std::stoi(pid), 0));
    if (fd < 0) continue;  // already gone
    pollfd end = {fd, POLLIN, 0};
    CHECK(poll(&end, 1, 10'000) == 1);
    close(fd);
  }
  close(ends[0]);
}

TEST_CASE("many processes at once from many threads leak no descriptor") {
  const auto open_fds = [] {
    int n = 0;
    for (int fd = 0; fd < 1024; ++fd) n += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    return n;
  };
  const int before = open_fds();
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        const Ran ran = processes_run(processes_shell("echo hi; sleep 1000 & exit 0"));
        good += ran.end.has_value() && ran.end->exit_code == 0 && ran.end->out.tail == "hi\n";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 40);
  CHECK(open_fds() == before);
}

TEST_CASE("the end reports the peak memory of the program") {
  // A shell word of that size.
  const Ran large =
      processes_run(processes_shell("x=$(head -c 80000000 /dev/zero | tr '\\0' a); kill -KILL $$"));
  REQUIRE(large.end);
  CHECK(large.end->signal == SIGKILL);
  CHECK(large.end->peak_memory.value_or(0) > 80'000'000);
  CHECK(large.end->peak_memory.value_or(0) < 1'000'000'000);
  const Ran small = processes_run(processes_shell("exit 0"));
  REQUIRE(small.end);
  CHECK(small.end->peak_memory.value_or(0) < 80'000'000);
}
