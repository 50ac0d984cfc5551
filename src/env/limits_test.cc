// Limits of a program are set before it runs. A limit that cannot be set is reported by name.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "env/fd.h"
#include "env/leftovers.h"
#include "env/processes.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

ProcessSpec shell(std::string script) {
  ProcessSpec spec;
  spec.argv = {"/bin/sh", "-c", std::move(script)};
  spec.environment = {"PATH=/usr/bin:/bin"};
  return spec;
}

Result<ProcessEnd> run(const ProcessSpec& spec, std::stop_token stop = {}) {
  return SystemProcesses().run(spec, nullptr, std::move(stop));
}

std::string said(const ProcessSpec& spec) {
  const Result<ProcessEnd> end = run(spec);
  REQUIRE_MESSAGE(end.has_value(), end.error().message);
  return end->out.tail;
}

// Whether a test that must be root can run.
bool root() {
  if (geteuid() == 0) return true;
  MESSAGE("not root: this case is skipped");
  return false;
}

// The error for these limits; the program must not have run.
Error refusal(const ProcessLimits& limits) {
  ProcessSpec spec = shell("echo ran >&2");
  spec.limits = limits;
  const Result<ProcessEnd> end = run(spec);
  REQUIRE_FALSE(end.has_value());
  return end.error();
}

}  // namespace

TEST_CASE("limits apply to the program and to all its children") {
  ProcessSpec spec = shell("sh -c 'ulimit -t; ulimit -v; ulimit -f; ulimit -n; ulimit -c; umask'");
  spec.limits = {.nice = {},
                 .cpu_seconds = 30,
                 .address_space_bytes = 512 << 20,
                 .file_bytes = 1 << 20,
                 .open_files = 64,
                 .processes = {},
                 .umask = 027,
                 .no_core = true,
                 .no_new_privs = false,
                 .cgroup_procs = {},
                 .user = ""};
  CHECK(said(spec) == "30\n524288\n2048\n64\n0\n0027\n");
}

TEST_CASE("nice also applies to the autogroup; the keeper's nice is unchanged") {
  ProcessSpec spec = shell("nice; cat /proc/self/autogroup 2>/dev/null | sed 's/.*nice/nice/'");
  spec.limits.nice = 10;
  const std::string out = said(spec);
  const bool autogroups = access("/proc/self/autogroup", F_OK) == 0;
  CHECK(out == (autogroups ? "10\nnice 10\n" : "10\n"));
}

TEST_CASE("a program over its processor time is ended by SIGXCPU") {
  ProcessSpec spec = shell("while :; do :; done");
  spec.limits.cpu_seconds = 1;
  CHECK(run(spec)->signal == SIGXCPU);
}

TEST_CASE("a program that writes too long a file is ended by SIGXFSZ") {
  ProcessSpec spec = shell("head -c 100000 /dev/zero >\"$0\"");
  const std::string path = std::filesystem::temp_directory_path() / "ms_limits_test_file";
  spec.argv.push_back(path);
  spec.limits.file_bytes = 4096;
  const Result<ProcessEnd> end = run(spec);
  CHECK(end->exit_code != 0);
  CHECK(std::filesystem::file_size(path) == 4096);
  std::filesystem::remove(path);
}

TEST_CASE("another user has its own groups, and none of this process") {
  if (!root()) return;
  std::vector<gid_t> before(64);
  before.resize(static_cast<std::size_t>(std::max(0, getgroups(64, before.data()))));
  const gid_t adm = 4;
  REQUIRE(setgroups(1, &adm) == 0);
  ProcessSpec spec = shell("id -un; id -G; cat /etc/shadow 2>&1 | head -1");
  spec.limits.user = "nobody";
  const std::string by_name = said(spec);
  CHECK(by_name.starts_with("nobody\n65534\n"));
  CHECK(by_name.find("denied") != std::string::npos);
  spec.limits.user = "65534";
  CHECK(said(spec) == by_name);
  REQUIRE(setgroups(before.size(), before.data()) == 0);
}

TEST_CASE("a program of another user dies with its keeper") {
  if (!root()) return;
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  ProcessSpec spec = shell("exec sleep 1000");
  spec.limits.user = "nobody";
  spec.limits.no_new_privs = true;
  pid_t program = 0;
  spec.started = [&](ProcessIds ids) {
    program = ids.program;
    kill(ids.keeper, SIGKILL);
  };
  CHECK(run(spec).error().code == ErrorCode::io_error);
  // Its pid may belong to a zombie until init has reaped it.
  for (int i = 0; i < 10'000 && kill(program, 0) == 0; ++i) {
    std::ifstream stat("/proc/" + std::to_string(program) + "/stat");
    std::string text(std::istreambuf_iterator<char>(stat), {});
    if (text.empty() || text.find(") Z") != std::string::npos) return;
    poll(nullptr, 0, 1);
  }
  CHECK(kill(program, 0) != 0);
}

TEST_CASE("no_new_privs is set in the program") {
  ProcessSpec spec = shell("grep NoNewPrivs /proc/self/status");
  spec.limits.no_new_privs = true;
  CHECK(said(spec) == "NoNewPrivs:\t1\n");
}

TEST_CASE("limits out of range are refused by field, value and rule, and nothing runs") {
  CHECK(refusal({.nice = 20}).message == "limits.nice 20: must be -20 to 19");
  CHECK(refusal({.cpu_seconds = 0}).message == "limits.cpu_seconds 0: must be at least 1");
  CHECK(refusal({.open_files = 3}).message == "limits.open_files 3: must be at least 4");
  CHECK(refusal({.umask = 01000}).message == "limits.umask 512: must be 0 to 511");
  const Error unknown = refusal({.user = "no-such-user"});
  CHECK(unknown.code == ErrorCode::invalid_argument);
  CHECK(unknown.field == "limits.user");
  CHECK(unknown.message == "limits.user \"no-such-user\": there is no such user");
  const Error group = refusal({.cgroup_procs = {"/no/such/group/cgroup.procs"}});
  CHECK(group.code == ErrorCode::io_error);
  CHECK(group.message.find("/no/such/group/cgroup.procs") != std::string::npos);
}

TEST_CASE("a failed step in the child is named, and nothing runs") {
  // A file that can be opened but not written.
  const Error group = refusal({.cgroup_procs = {"/dev/null", "/dev/full"}});
  CHECK(group.code == ErrorCode::io_error);
  CHECK(group.message.starts_with("joining the control group \"/dev/full\": No space left"));
  CHECK(group.field == "limits.cgroup_procs");
}

TEST_CASE("without root, the error names the limit that is not allowed and how to allow it") {
  if (!root()) return;
  // In a child process: the change of user cannot be undone.
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(100);
    ProcessSpec spec = shell("echo ran");
    spec.limits.user = "root";
    const Result<ProcessEnd> user = run(spec);
    if (user || user.error().code != ErrorCode::forbidden) _exit(1);
    if (user.error().message.find("run this process as root") == std::string::npos) _exit(2);
    spec.limits.user = "nobody";  // the current user
    if (!run(spec)) _exit(3);
    spec.limits = {.nice = -5};
    const Result<ProcessEnd> nice = run(spec);
    if (nice || nice.error().field != "limits.nice") _exit(4);
    if (nice.error().code != ErrorCode::forbidden) _exit(5);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a sink gets all output in order, and the tail is kept if requested") {
  ProcessSpec spec = shell("seq 1 200000; echo problem >&2");
  spec.output_cap_bytes = 14;
  std::string out, err;
  spec.output = [&](OutputStream stream, std::string_view data) {
    (stream == OutputStream::out ? out : err) += data;
  };
  const Result<ProcessEnd> end = run(spec);
  REQUIRE(end.has_value());
  CHECK(out.size() == 1'288'895);
  CHECK(out.ends_with("\n199999\n200000\n"));
  CHECK(err == "problem\n");
  CHECK(end->out.bytes == 1'288'895);
  CHECK(end->out.tail == "199999\n200000\n");
  CHECK(end->err.bytes == 8);
  spec.output_cap_bytes = 0;
  CHECK(run(spec)->out.tail.empty());
}

TEST_CASE("TERM is sent only to a program that handles it, if requested") {
  const auto stopped = [](std::string script, bool handles, bool no_term) {
    ProcessSpec spec = shell(std::move(script));
    spec.term_if_handled = true;
    spec.no_term = no_term;
    // Long enough for the program to handle TERM, where it may.
    spec.kill_grace = std::chrono::milliseconds(handles ? 60'000 : 200);
    std::stop_source stop;
    const auto started = [&](std::string_view) { stop.request_stop(); };
    const Result<ProcessEnd> end = SystemProcesses().run(spec, started, stop.get_token());
    REQUIRE(end.has_value());
    return std::pair(end->signal, end->exit_code);
  };
  const std::string wait = "echo go >&3; while :; do sleep 0.01; done";
  CHECK(stopped("trap 'exit 7' TERM; " + wait, true, false) == std::pair(0, 7));
  CHECK(stopped(wait, false, false) == std::pair(SIGKILL, -1));
  CHECK(stopped("trap 'exit 7' TERM; " + wait, false, true) == std::pair(SIGKILL, -1));
}

TEST_CASE("while the sink does not return the program waits, and nothing is lost") {
  // The program reports on fd 3 that it has written everything. It cannot before the sink returns.
  ProcessSpec spec = shell("head -c 1000000 /dev/zero; echo done >&3");
  std::size_t bytes = 0, when_done = 0;
  bool first = true;
  spec.output = [&](OutputStream, std::string_view data) {
    if (std::exchange(first, false)) poll(nullptr, 0, 50);  // enough to write more, if it could
    bytes += data.size();
  };
  const Result<ProcessEnd> end =
      SystemProcesses().run(spec, [&](std::string_view) { when_done = bytes; }, {});
  REQUIRE(end.has_value());
  CHECK(bytes == 1'000'000);
  // At most the size of the pipe and one read may be in flight.
  CHECK(when_done >= 1'000'000 - (64 << 10) - (64 << 10));
}

TEST_CASE("a slow sink gets all output written before the end, even after the drain time") {
  ProcessSpec spec = shell("");
  // A pipe of the maximum size, full at the program's end.
  spec.argv = {"python3", "-c",
               "import fcntl, os\n"
               "fcntl.fcntl(1, 1031, 1 << 20)\n"
               "left = 1000000\n"
               "while left > 0: left -= os.write(1, bytes(left))\n"};
  std::size_t bytes = 0;
  spec.output = [&](OutputStream, std::string_view data) {
    poll(nullptr, 0, 90);  // 16 pieces take longer than kDrain
    bytes += data.size();
  };
  const Result<ProcessEnd> end = run(spec);
  REQUIRE_MESSAGE(end.has_value(), end.error().message);
  CHECK(end->exit_code == 0);
  CHECK(bytes == 1'000'000);
}

TEST_CASE("a stop takes effect when the sink returns, although output never ends") {
  ProcessSpec spec = shell("trap '' TERM; yes");
  std::stop_source stop;
  std::size_t bytes = 0;
  int calls_after = 0, when_heeded = -1;
  spec.output = [&](OutputStream, std::string_view data) {
    bytes += data.size();
    if (stop.stop_requested()) ++calls_after;
    if (bytes > 1'000'000) stop.request_stop();
    poll(nullptr, 0, 2);  // slower than the program, so the pipe is never empty
  };
  spec.kill_grace_at_stop = [&] {
    when_heeded = calls_after;
    return Duration(20ms);
  };
  const Result<ProcessEnd> end = run(spec, stop.get_token());
  REQUIRE(end.has_value());
  CHECK(end->stopped);
  CHECK(end->signal == SIGKILL);
  CHECK(when_heeded >= 0);
  CHECK(when_heeded <= 2);  // one piece of each stream
}

TEST_CASE("a descriptor of ours becomes standard input, and is not closed here") {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  ProcessSpec spec = shell("read a; echo \"got $a\" >&3; cat");
  spec.input_fd = read_end.get();
  REQUIRE(write(write_end.get(), "one\n", 4) == 4);
  const Result<ProcessEnd> end =
      SystemProcesses().run(spec,
                            [&](std::string_view line) {
                              CHECK(line == "got one");
                              REQUIRE(write(write_end.get(), "two\n", 4) == 4);
                              write_end.reset();
                            },
                            {});
  CHECK(end->out.tail == "two\n");
  CHECK(fcntl(read_end.get(), F_GETFD) >= 0);
  spec.input_fd = 1'000'000;
  CHECK(run(spec).error().field == "input_fd");
}

TEST_CASE("started is called once, when the program runs, with its number and its keeper's") {
  ProcessSpec spec = shell("echo $$ $PPID; read x");
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  spec.input_fd = read_end.get();
  int calls = 0;
  ProcessIds ids;
  spec.started = [&](ProcessIds those) {
    ++calls;
    ids = those;
    write_end.reset();
  };
  const std::string out = said(spec);
  CHECK(calls == 1);
  CHECK(out == std::to_string(ids.program) + " " + std::to_string(ids.keeper) + "\n");
  spec = shell("true");
  spec.started = [&](ProcessIds) { ++calls; };
  spec.argv = {"/etc/passwd"};
  CHECK_FALSE(run(spec).has_value());
  CHECK(calls == 1);
}

TEST_CASE("remaining processes are killed by the owner's means after every end") {
  ProcessSpec spec = shell("exit 3");
  int calls = 0;
  spec.kill_rest = [&] { ++calls; };
  CHECK(run(spec)->exit_code == 3);
  CHECK(calls == 1);
  spec.argv = {"/etc/passwd"};
  CHECK_FALSE(run(spec).has_value());
  CHECK(calls == 1);
}

TEST_CASE("remaining processes are killed by the owner's means if the keeper was killed") {
  const std::string mark = "MAINSPRING_LIMITS_TEST=" + std::to_string(getpid());
  ProcessSpec spec = shell("(setsid sleep 1000 &); exec sleep 1000");
  spec.environment.push_back(mark);
  spec.started = [](ProcessIds ids) { kill(ids.keeper, SIGKILL); };
  int calls = 0;
  spec.kill_rest = [&] {
    ++calls;
    CHECK(end_marked(mark, 10s).has_value());
  };
  CHECK(run(spec).error().message.find("keeper") != std::string::npos);
  CHECK(calls >= 1);
  CHECK(find_marked(mark).empty());
}
