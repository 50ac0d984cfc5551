// Processes that outlived their parents are found by their mark and ended.
#include "env/leftovers.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "env/fd.h"
#include "env/processes.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

// A mark that no other run of these tests has.
std::string fresh_mark(int n) {
  return fmt::format("MAINSPRING_LEFTOVERS_TEST={}-{}", getpid(), n);
}

// Lines from a pipe: numbers.
std::vector<pid_t> read_numbers(int fd, std::size_t count) {
  std::vector<pid_t> out;
  std::string line;
  for (char c = 0; out.size() < count && read(fd, &c, 1) == 1;) {
    if (c != '\n') {
      line += c;
      continue;
    }
    out.push_back(std::stoi(line));
    line.clear();
  }
  return out;
}

// Starts a child of this process with `mark`, in a shell.
struct Child {
  pid_t pid = 0;
  Fd out;

  Child(const std::string& mark, const std::string& script) : mark_(mark) {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    out = Fd(ends[0]);
    const Fd write_end(ends[1]);
    const char* argv[] = {"/bin/sh", "-c", script.c_str(), nullptr};
    const char* environment[] = {"PATH=/usr/bin:/bin", mark_.c_str(), nullptr};
    pid = fork();
    if (pid == 0) {
      dup2(write_end.get(), 1);
      execve(argv[0], const_cast<char**>(argv), const_cast<char**>(environment));
      _exit(127);
    }
  }
  ~Child() {
    CHECK(end_marked(mark_, 10s).has_value());
    waitpid(pid, nullptr, 0);
  }

 private:
  const std::string mark_;
};

}  // namespace

TEST_CASE("only processes with exactly this entry are found, and not this one") {
  const std::string mark = fresh_mark(1);
  CHECK(find_marked(mark).empty());
  const Child marked(mark, "echo 1; exec sleep 1000");
  const Child longer(mark + "0", "echo 1; exec sleep 1000");
  const Child other(fresh_mark(2), "echo 1; exec sleep 1000");
  for (const Child* child : {&marked, &longer, &other}) read_numbers(child->out.get(), 1);
  CHECK(find_marked(mark) == std::vector<pid_t>{marked.pid});
  CHECK(find_marked("PATH=/usr/bin").empty());
}

TEST_CASE("processes that outlive a killed host and keeper are found in every session and ended") {
  const std::string mark = fresh_mark(3);
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  const pid_t host = fork();
  if (host == 0) {
    setpgid(0, 0);
    ProcessSpec spec;
    spec.argv = {"/bin/sh", "-c",
                 "(setsid sh -c 'echo $$ >&3; exec sleep 1000' &) ;"
                 "(setsid sh -c 'trap \"\" TERM; sh -c \"echo \\$\\$ >&3; exec sleep 1000\"; :' &);"
                 "echo $PPID >&3; exec sleep 1000"};
    spec.environment = {"PATH=/usr/bin:/bin", mark};
    (void)SystemProcesses().run(spec,
                                [&](std::string_view line) {
                                  const std::string text = std::string(line) + "\n";
                                  [[maybe_unused]] const auto n =
                                      write(write_end.get(), text.data(), text.size());
                                },
                                {});
    _exit(0);
  }
  write_end.reset();
  const std::vector<pid_t> pids = read_numbers(read_end.get(), 3);
  REQUIRE(pids.size() == 3);
  // The keeper is the parent of the program. Neither may be notified.
  std::vector<pid_t> tree = find_marked(mark);
  CHECK(tree.size() >= 4);
  const auto keeper = std::find_if(pids.begin(), pids.end(), [&](pid_t pid) {
    return std::find(tree.begin(), tree.end(), pid) == tree.end();
  });
  REQUIRE(keeper != pids.end());
  kill(*keeper, SIGSTOP);
  kill(host, SIGKILL);
  kill(*keeper, SIGKILL);
  waitpid(host, nullptr, 0);
  CHECK_FALSE(find_marked(mark).empty());
  const Result<int> ended = end_marked(mark, 10s);
  REQUIRE_MESSAGE(ended.has_value(), ended.error().message);
  CHECK(*ended >= 3);  // the program itself dies with its keeper, maybe earlier
  CHECK(find_marked(mark).empty());
  CHECK(*end_marked(mark, 10s) == 0);
}

TEST_CASE("processes that fork while they are being ended are all ended") {
  const std::string mark = fresh_mark(4);
  // Each process lives for some tens of milliseconds and forks the next one in that time.
  const Child maker(mark,
                    "for i in 1 2 3 4 5 6 7 8 9 10; do setsid sh -c '"
                    "next() { sleep 0.05; next & exit; }; next' & done; echo 1; exec sleep 1000");
  read_numbers(maker.out.get(), 1);
  const Result<int> ended = end_marked(mark, 20s);
  REQUIRE_MESSAGE(ended.has_value(), ended.error().message);
  CHECK(*ended >= 5);
  CHECK(find_marked(mark).empty());
}

TEST_CASE("processes of other users are invisible without root, and left alone") {
  if (geteuid() != 0) {
    MESSAGE("not root: this case is skipped");
    return;
  }
  const std::string mark = fresh_mark(5);
  const Child child(mark, "echo 1; exec sleep 1000");
  read_numbers(child.out.get(), 1);
  const pid_t looker = fork();
  if (looker == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(100);
    const Result<int> ended = end_marked(mark, 10s);
    _exit(ended && *ended == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(looker, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(find_marked(mark) == std::vector<pid_t>{child.pid});
}

TEST_CASE("the processor time of a tree includes ended processes") {
  const Child child(fresh_mark(6),
                    "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done;"
                    "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done';"
                    "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo 1;"
                    "exec sleep 1000'");
  read_numbers(child.out.get(), 1);
  const std::optional<Duration> all = cpu_time_of_tree(child.pid);
  REQUIRE(all.has_value());
  CHECK(*all > 100ms);
  CHECK(*all < 60s);
  CHECK(cpu_time_of_tree(getpid()).value() >= *all);
  CHECK_FALSE(cpu_time_of_tree(0x3ffffff).has_value());
}
