// Control groups limit, count and kill their processes: the machine's own groups where it has them,
// and version 2 in a directory that imitates it.
#include "env/cgroups.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "env/cgroup_owner.h"
#include "env/cgroup_tree.h"
#include "env/fd.h"
#include "env/leftovers.h"
#include "env/processes.h"

using namespace mainspring;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

std::string fresh_name(int n) {
  return fmt::format("mainspring-test-{}.{}", getpid(), n);
}

// Whether all of `needed` are active; logs a warning if not.
bool active(const Cgroups& groups, std::vector<std::string> needed) {
  for (const CgroupController& controller : groups.controllers()) {
    if (controller.active) std::erase(needed, controller.name);
  }
  if (needed.empty()) return true;
  for (const CgroupController& controller : groups.controllers()) {
    MESSAGE(controller.name, ": ", controller.detail);
  }
  MESSAGE("no control group for ", needed[0], " here: this case is skipped");
  return false;
}

ProcessSpec python(std::string script, const Cgroup& group) {
  ProcessSpec spec;
  spec.argv = {"python3", "-c", std::move(script)};
  spec.environment = {"PATH=/usr/bin:/bin"};
  spec.kill_grace = 20ms;
  spec.limits.cgroup_procs = group.procs_files();
  return spec;
}

// A stop is requested at the first line on fd 3.
Result<ProcessEnd> run_and_stop(const ProcessSpec& spec) {
  std::stop_source stop;
  return SystemProcesses().run(
      spec, [&](std::string_view) { stop.request_stop(); }, stop.get_token());
}

// Forks forever, each child in its own session, and ignores TERM.
constexpr const char* kBomb =
    "import os, signal\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "tried = False\n"
    "while True:\n"
    "  try:\n"
    "    if os.fork() == 0: os.setsid()\n"
    "  except OSError:\n"
    "    if not tried: os.write(3, b'full\\n')\n"
    "    tried = True\n";

void write_file(const fs::path& path, std::string_view text) {
  std::ofstream(path) << text;
}
std::string text_of(const fs::path& path) {
  return cgroup::read(path).value_or("(none)");
}

// A directory that looks like a v2 hierarchy to a process in /service.
struct ImitatedV2 {
  fs::path root;
  CgroupSources sources;

  explicit ImitatedV2(int n) : root(fs::temp_directory_path() / fresh_name(n)) {
    fs::create_directories(root / "service");
    populate(root / "service");
    sources.mounts =
        fmt::format("31 23 0:28 / {} rw,nosuid shared:4 - cgroup2 cgroup2 rw\n", root.string());
    sources.own = "0::/service\n";
    sources.make_directory = [](const std::string& path) {
      std::error_code error;
      if (!fs::create_directory(path, error)) return error ? error.value() : EEXIST;
      populate(path);
      return 0;
    };
    sources.remove_directory = [](const std::string& path) {
      if (!cgroup::groups_in(path).empty()) return EBUSY;
      fs::remove_all(path);
      return 0;
    };
  }
  ~ImitatedV2() { fs::remove_all(root); }

  static void populate(const fs::path& group) {
    for (const char* file :
         {"cgroup.procs", "cgroup.subtree_control", "memory.max", "memory.swap.max", "pids.max",
          "cpu.max", "cpu.weight", "cgroup.kill", "cgroup.freeze", "memory.peak"}) {
      write_file(group / file, "");
    }
    write_file(group / "cgroup.controllers", "cpuset cpu io memory pids\n");
    write_file(group / "cpu.stat", "usage_usec 1234567\nuser_usec 1\n");
    write_file(group / "memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 0\n");
    write_file(group / "cgroup.events", "populated 0\nfrozen 1\n");
  }
};

const CgroupController& find(const Cgroups& groups, std::string_view name) {
  const auto& all = groups.controllers();
  return *std::find_if(all.begin(), all.end(), [&](const auto& c) { return c.name == name; });
}

}  // namespace

TEST_CASE("a fork bomb in ever new sessions is killed with all its processes") {
  const std::string name = fresh_name(1);
  Cgroups groups = Cgroups::open(name);
  if (!active(groups, {"pids"})) return;
  auto group = groups.root()->make("run", {.memory_bytes = {}, .pids = 50, .cpu_percent = {}});
  REQUIRE_MESSAGE(group.has_value(), group.error().message);
  ProcessSpec spec = python(kBomb, **group);
  SUBCASE("by the keeper and its group") {
    spec.kill_rest = [&] { CHECK((*group)->kill_all().has_value()); };
  }
  SUBCASE("by the keeper alone") {}
  const Result<ProcessEnd> end = run_and_stop(spec);
  REQUIRE_MESSAGE(end.has_value(), end.error().message);
  CHECK(end->signal == SIGKILL);
  for (const std::string& file : (*group)->procs_files()) CHECK(text_of(file) == "");
}

TEST_CASE("a group kills processes that keep forking, by each means that a system may have") {
  // Twenty processes that fork and end repeatedly: a pid that was read is gone when it is used.
  // They wait for one another, because otherwise they fill the group before the last one starts.
  constexpr const char* kRunners =
      "import os, time\n"
      "r, w = os.pipe()\n"
      "for i in range(20):\n"
      "  if os.fork() == 0: os.close(w); os.read(r, 1); break\n"  // they start together
      "else: os.close(w); os.write(3, b'up\\n'); time.sleep(1000)\n"
      "os.setsid()\n"
      "while True:\n"
      "  try:\n"
      "    if os.fork() > 0: os._exit(0)\n"
      "  except OSError: pass\n";
  std::vector<std::string> without;
  SUBCASE("with all controls of this system") {}
  SUBCASE("without version 2") {
    without = {" - cgroup2 "};
  }
  SUBCASE("without freezing") {
    without = {" - cgroup2 ", ",freezer"};
  }
  CgroupSources sources;
  sources.own = cgroup::read("/proc/self/cgroup").value_or("");
  std::istringstream mounts(cgroup::read("/proc/self/mountinfo").value_or(""));
  for (std::string line; std::getline(mounts, line);) {
    const auto in_line = [&](const std::string& word) {
      return line.find(word) != std::string::npos;
    };
    if (std::none_of(without.begin(), without.end(), in_line)) sources.mounts += line + "\n";
  }
  const Cgroups groups = Cgroups::open(fresh_name(2), sources);
  if (!active(groups, {"pids"})) return;
  auto group = groups.root()->make("run", {.memory_bytes = {}, .pids = 200, .cpu_percent = {}});
  REQUIRE(group.has_value());
  ProcessSpec spec = python(kRunners, **group);
  ProcessIds ids;
  spec.started = [&](ProcessIds those) { ids = those; };
  // The keeper cannot help: it is killed at the first line.
  Duration took(0);
  spec.kill_rest = [&] {
    const auto begin = std::chrono::steady_clock::now();
    CHECK((*group)->kill_all().has_value());
    took += std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - begin);
  };
  const Result<ProcessEnd> end =
      SystemProcesses().run(spec, [&](std::string_view) { kill(ids.keeper, SIGKILL); }, {});
  CHECK_FALSE(end.has_value());
  CHECK(took < 60s);
  for (const std::string& file : (*group)->procs_files()) CHECK(text_of(file) == "");
  CHECK(
      text_of(fs::path(*std::find_if((*group)->procs_files().begin(), (*group)->procs_files().end(),
                                     [](const std::string& file) {
                                       return fs::exists(fs::path(file).parent_path() / "pids.max");
                                     }))
                  .parent_path() /
              "pids.max") == "200\n");
}

TEST_CASE("a program over its memory is killed, and the group reports it") {
  const std::string name = fresh_name(3);
  Cgroups groups = Cgroups::open(name);
  if (!active(groups, {"memory"})) return;
  {
    auto group =
        groups.root()->make("run", {.memory_bytes = 50 << 20, .pids = {}, .cpu_percent = {}});
    REQUIRE_MESSAGE(group.has_value(), group.error().message);
    CHECK((*group)->oom_kills() == 0);
    const Result<ProcessEnd> end =
        SystemProcesses().run(python("x = bytearray(200 << 20)", **group), nullptr, {});
    REQUIRE(end.has_value());
    CHECK(end->signal == SIGKILL);
    CHECK_FALSE(end->stopped);
    CHECK((*group)->oom_kills() == 1);
    CHECK((*group)->memory_peak().value_or(0) > 40 << 20);
    CHECK((*group)->memory_peak().value_or(0) <= 50 << 20);
    CHECK(groups.root()->oom_kills() == 1);
  }
  CHECK(groups.root()->oom_kills() == 1);  // the group is removed, its counters are kept
}

TEST_CASE("inner groups share the limits of the outer one") {
  const std::string name = fresh_name(4);
  Cgroups groups = Cgroups::open(name);
  if (!active(groups, {"memory", "pids"})) return;
  auto pool = groups.root()->make("pool", {.memory_bytes = 60 << 20, .pids = 8, .cpu_percent = {}});
  REQUIRE(pool.has_value());
  auto one = (*pool)->make("one", {});
  auto two = (*pool)->make("two", {.memory_bytes = 500 << 20, .pids = {}, .cpu_percent = {}});
  REQUIRE(one.has_value());
  REQUIRE(two.has_value());
  const Result<ProcessEnd> end =
      SystemProcesses().run(python("x = bytearray(200 << 20)", **two), nullptr, {});
  CHECK(end->signal == SIGKILL);
  CHECK((*pool)->oom_kills() == 1);
  CHECK((*one)->oom_kills() == 0);
  // Eight together: the shell and five leave two for the other.
  ProcessSpec holder = python("", **one);
  holder.argv = {"/bin/sh", "-c", "for i in 1 2 3 4 5; do sleep 1000 & done; echo x >&3; wait"};
  std::string second;
  std::stop_source stop;
  const Result<ProcessEnd> held = SystemProcesses().run(
      holder,
      [&](std::string_view) {
        ProcessSpec other = python("", **two);
        other.argv = {"/bin/sh", "-c", "sleep 1000 & sleep 1000 & echo not reached"};
        const Result<ProcessEnd> refused = SystemProcesses().run(other, nullptr, {});
        if (refused) second = refused->err.tail + refused->out.tail;
        stop.request_stop();
      },
      stop.get_token());
  CHECK(held.has_value());
  CHECK(second.find("not reached") == std::string::npos);
  CHECK(second.find("fork") != std::string::npos);
}

TEST_CASE("limits can be changed, processor time is counted, and bad ones are refused") {
  const std::string name = fresh_name(5);
  Cgroups groups = Cgroups::open(name);
  if (!active(groups, {"memory", "pids", "cpu", "cpuacct"})) return;
  CHECK(groups.root()->limit({.memory_bytes = 64 << 20, .pids = 9, .cpu_percent = 150}));
  CHECK(groups.root()->limit({.memory_bytes = 128 << 20, .pids = 5, .cpu_percent = 20}));
  auto group = groups.root()->make("run", {});
  REQUIRE(group.has_value());
  ProcessSpec spec = python(
      "import time\n"
      "begin = time.monotonic()\n"
      "while time.process_time() < 0.2: pass\n"
      "print('slowed' if time.monotonic() - begin > 0.6 else 'free')\n",
      **group);
  CHECK(SystemProcesses().run(spec, nullptr, {})->out.tail == "slowed\n");
  CHECK((*group)->cpu_time().value_or(0s) >= 200ms);
  CHECK(groups.root()->cpu_time().value_or(0s) >= (*group)->cpu_time().value_or(1h));
  CHECK(groups.root()->limit({}));
  CHECK(SystemProcesses().run(spec, nullptr, {})->exit_code == 0);
  CHECK(groups.root()->limit({.memory_bytes = {}, .pids = 0, .cpu_percent = {}}).error().message ==
        "pids 0: must be at least 1");
  CHECK(groups.root()->make("..", {}).error().code == ErrorCode::invalid_argument);
  CHECK(groups.root()->make("a/b", {}).error().code == ErrorCode::invalid_argument);
}

TEST_CASE("a limit of processor time above that of the group around it is no error") {
  Cgroups groups = Cgroups::open(fresh_name(12));
  if (!active(groups, {"cpu", "cpuacct"})) return;
  auto narrow = groups.root()->make("narrow", {.cpu_percent = 20});
  REQUIRE(narrow.has_value());
  auto wide = (*narrow)->make("wide", {.cpu_percent = 10});
  REQUIRE(wide.has_value());
  REQUIRE((*wide)->limit({.cpu_percent = 150}));
  CHECK((*wide)->limit({.cpu_percent = 15}));
  CHECK((*narrow)->make("wide2", {.cpu_percent = 150}).has_value());
}

TEST_CASE("a group of low weight yields the processors to others, and gets them when alone") {
  Cgroups groups = Cgroups::open(fresh_name(11));
  if (!active(groups, {"cpu", "cpuacct"})) return;
  auto light = groups.root()->make("light", {.cpu_weight = 1});
  auto usual = groups.root()->make("usual", {});
  REQUIRE_MESSAGE(light.has_value(), light.error().message);
  REQUIRE(usual.has_value());
  CHECK_FALSE(groups.root()->make("bad", {.cpu_weight = 10'001}).has_value());
  // Both on one processor, until the second one has had some time on it. Both run all the time, so
  // it does not matter when this process looks.
  constexpr const char* kPinned =
      "import os\n"
      "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
      "os.write(3, b'up\\n')\n"
      "while True: pass\n";
  const auto used = [](const auto& group) { return group->cpu_time().value_or(0s); };
  Duration of_light(0), of_usual(0);
  std::stop_source stop, stop_usual;
  const Result<ProcessEnd> end = SystemProcesses().run(
      python(kPinned, **light),
      [&](std::string_view) {
        const auto compare = [&](std::string_view) {
          const Duration light_before = used(*light), usual_before = used(*usual);
          while (used(*usual) - usual_before < 300ms) poll(nullptr, 0, 10);
          of_light = used(*light) - light_before;
          of_usual = used(*usual) - usual_before;
          stop_usual.request_stop();
        };
        CHECK(SystemProcesses().run(python(kPinned, **usual), compare, stop_usual.get_token()));
        stop.request_stop();
      },
      stop.get_token());
  REQUIRE(end.has_value());
  CHECK(of_usual >= 300ms);
  CHECK(of_light < of_usual / 2);  // as much if the weights were equal
}

TEST_CASE("a group that contains processes is not created again") {
  const std::string name = fresh_name(6);
  Cgroups groups = Cgroups::open(name);
  if (!active(groups, {"pids"})) return;
  auto group = groups.root()->make("run", {});
  REQUIRE(group.has_value());
  std::stop_source stop;
  ProcessSpec spec = python("import os, time; os.write(3, b'up\\n'); time.sleep(1000)", **group);
  ErrorCode code = ErrorCode::internal;
  (void)SystemProcesses().run(
      spec,
      [&](std::string_view) {
        auto again = groups.root()->make("run", {});
        if (!again) code = again.error().code;
        stop.request_stop();
      },
      stop.get_token());
  CHECK(code == ErrorCode::conflict);
}

TEST_CASE("leftover processes and groups of an earlier process of the same name are removed") {
  const std::string name = fresh_name(7);
  const std::string mark = fmt::format("MAINSPRING_CGROUPS_TEST={}", getpid());
  if (!active(Cgroups::open(name), {"pids"})) return;
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t host = fork();
  if (host == 0) {
    Cgroups groups = Cgroups::open(name);
    auto group = groups.root()->make("run", {});
    ProcessSpec spec = python("import os, time; os.write(3, b'up\\n'); time.sleep(1000)", **group);
    spec.environment.push_back(mark);
    ProcessIds ids;
    spec.started = [&](ProcessIds those) { ids = those; };
    (void)SystemProcesses().run(spec,
                                [&](std::string_view) {
                                  // No process cleans up the program or its groups.
                                  kill(ids.keeper, SIGSTOP);
                                  [[maybe_unused]] const auto n = write(ends[1], &ids, sizeof ids);
                                  kill(getpid(), SIGKILL);
                                },
                                {});
    _exit(0);
  }
  ProcessIds ids;
  REQUIRE(read(ends[0], &ids, sizeof ids) == sizeof ids);
  waitpid(host, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
  CHECK(find_marked(mark).size() == 1);
  {
    Cgroups groups = Cgroups::open(name);
    CHECK(find_marked(mark).empty());
    for (const std::string& file : groups.root()->procs_files()) {
      CHECK(cgroup::groups_in(fs::path(file).parent_path()).empty());
    }
  }
  kill(ids.keeper, SIGKILL);
}

TEST_CASE("the end of a group removes its directories") {
  const std::string name = fresh_name(8);
  std::vector<std::string> files;
  {
    Cgroups groups = Cgroups::open(name);
    if (!active(groups, {"pids"})) return;
    files = groups.root()->procs_files();
    auto pool = groups.root()->make("pool", {});
    auto run = (*pool)->make("run", {});
    pool->reset();  // the parent first: its children are removed with it
    CHECK_FALSE(fs::exists(fs::path(files[0]).parent_path() / "pool"));
  }
  for (const std::string& file : files) CHECK_FALSE(fs::exists(file));
}

// The groups in which `name` is made, in each hierarchy.
std::vector<fs::path> above(const Cgroups& groups) {
  std::vector<fs::path> out;
  for (const std::string& file : groups.root()->procs_files()) {
    out.push_back(fs::path(file).parent_path().parent_path());
  }
  return out;
}

TEST_CASE("the next process of a family removes empty groups of a dead one") {
  const std::string dead = fresh_name(20);
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t host = fork();
  if (host == 0) {
    Cgroups groups = Cgroups::open(dead);
    auto pool = groups.root() == nullptr ? nullptr : groups.root()->make("pool", {}).value();
    auto run = pool ? pool->make("run", {}).value() : nullptr;
    [[maybe_unused]] const auto n = write(ready[1], "x", 1);
    for (;;) pause();
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  close(ready[0]);
  close(ready[1]);
  const Cgroups groups = Cgroups::open(fresh_name(21));
  if (active(groups, {"pids"})) {
    CHECK(groups.dead_removed() == 0);
    for (const fs::path& group : above(groups)) CHECK(fs::exists(group / dead / "pool/run"));
  }
  kill(host, SIGKILL);
  waitpid(host, nullptr, 0);
  if (groups.root() == nullptr) return;
  CHECK(Cgroups::open("mainspring-other.x").dead_removed() == 0);
  for (const fs::path& group : above(groups)) CHECK(fs::exists(group / dead));
  const Cgroups later = Cgroups::open(fresh_name(22));
  CHECK(later.dead_removed() == static_cast<int>(above(groups).size()));
  for (const fs::path& group : above(groups)) {
    CHECK_FALSE(fs::exists(group / dead));
    CHECK(fs::exists(group / fresh_name(21)));  // no process in it, but its owner is alive
  }
}

TEST_CASE("processes that start at once do not mistake each other's new groups for a dead one's") {
  constexpr int kThreads = 4, kRounds = 15;
  std::atomic<int> without = 0, failed = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < kRounds; ++round) {
        const Cgroups groups = Cgroups::open(fresh_name(100 + kRounds * thread + round));
        if (groups.root() == nullptr) continue;
        for (const std::string& file : groups.root()->procs_files()) without += !fs::exists(file);
        failed += !groups.root()->make("run", {}).has_value();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(without == 0);
  CHECK(failed == 0);
}

TEST_CASE("a group that another process removed before it had an owner is created again") {
  const fs::path path = fs::temp_directory_path() / fresh_name(24);
  int made = 0;
  Fd owner;
  const auto make = [&](const std::string& directory) {
    fs::create_directory(directory);
    if (++made == 1) fs::remove(directory);
    return 0;
  };
  CHECK(cgroup::make_owned(path, make, owner) == 0);
  CHECK(made == 2);
  CHECK(fs::exists(path));
  CHECK(owner);
  Fd another;
  CHECK_FALSE(cgroup::take_over(path, another));  // waits a second: its owner is alive
  owner.reset();
  CHECK(cgroup::take_over(path, another));
  fs::remove(path);
}

TEST_CASE("groups with processes, and groups of other families, are left alone") {
  const ImitatedV2 v2(23);
  const fs::path own = v2.root / "service";
  const auto group = [&](const char* name, std::string_view processes) {
    v2.sources.make_directory(own / name);
    write_file(own / name / "cgroup.procs", processes);
  };
  group("host.busy", "1\n");
  group("host.busy.self", "");
  group("host.gone.self", "");
  group("host.mine.self", "");
  group("host", "");
  group("hosts.idle", "");
  group("a.host.idle", "");
  group("host.idle", "");
  const Cgroups groups = Cgroups::open("host.mine", v2.sources);
  CHECK(groups.dead_removed() == 2);
  CHECK_FALSE(fs::exists(own / "host.idle"));
  CHECK_FALSE(fs::exists(own / "host.gone.self"));
  for (const char* name :
       {"host.busy", "host.busy.self", "host.mine.self", "host", "hosts.idle", "a.host.idle"}) {
    CHECK_MESSAGE(fs::exists(own / name), name);
  }
}

TEST_CASE("v2: controllers are enabled for children, and limits written in the v2 format") {
  const ImitatedV2 v2(9);
  Cgroups groups = Cgroups::open("host", v2.sources);
  for (const char* name : {"memory", "pids", "cpu", "cpuacct", "freezer"}) {
    CHECK(find(groups, name).active);
    CHECK(find(groups, name).detail == "v2");
  }
  const fs::path own = v2.root / "service";
  CHECK(text_of(own / "cgroup.subtree_control").starts_with("+"));
  REQUIRE(groups.root() != nullptr);
  CHECK(text_of(own / "host/cgroup.subtree_control") == "");
  auto run = groups.root()->make(
      "run", {.memory_bytes = 1000, .pids = 7, .cpu_percent = 150, .cpu_weight = 10});
  REQUIRE_MESSAGE(run.has_value(), run.error().message);
  CHECK(text_of(own / "host/cgroup.subtree_control").starts_with("+"));
  CHECK(text_of(own / "host/run/memory.max") == "1000");
  CHECK(text_of(own / "host/run/memory.swap.max") == "0");
  CHECK(text_of(own / "host/run/pids.max") == "7");
  CHECK(text_of(own / "host/run/cpu.max") == "150000 100000");
  CHECK(text_of(own / "host/run/cpu.weight") == "10");
  REQUIRE((*run)->limit({}).has_value());
  CHECK(text_of(own / "host/run/cpu.weight") == "100");
  CHECK(text_of(own / "host/run/memory.max") == "max");
  CHECK(text_of(own / "host/run/memory.swap.max") == "max");
  CHECK(text_of(own / "host/run/cpu.max") == "max 100000");
  CHECK((*run)->cpu_time() == Duration(1'234'567));
  CHECK((*run)->oom_kills() == 2);
  CHECK((*run)->procs_files() == std::vector{(own / "host/run/cgroup.procs").string()});
  run->reset();
  CHECK_FALSE(fs::exists(own / "host/run"));
}

TEST_CASE("v2: cgroup.kill kills all, or they are frozen and killed one by one without it") {
  const ImitatedV2 v2(10);
  Cgroups groups = Cgroups::open("host", v2.sources);
  const fs::path group = v2.root / "service/host";
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  write_file(group / "cgroup.procs", fmt::format("{}\n", child));
  fs::remove(group / "cgroup.kill");
  std::thread kernel([&] {  // as the kernel does: a dead process is not a member
    waitpid(child, nullptr, 0);
    write_file(group / "cgroup.procs", "");
  });
  CHECK(groups.root()->kill_all().has_value());
  kernel.join();
  CHECK(text_of(group / "cgroup.freeze") == "0");
}

TEST_CASE("a system without control groups reports which are missing") {
  const CgroupSources none{.mounts = "23 1 0:21 / /proc rw - proc proc rw\nrubbish\n",
                           .own = "0::/\nrubbish",
                           .make_directory = {},
                           .remove_directory = {}};
  const Cgroups groups = Cgroups::open("host", none);
  CHECK(groups.root() == nullptr);
  CHECK(find(groups, "memory").detail == "not mounted");
  CHECK(groups.controllers().size() == 5);
  CHECK(Cgroups::open("../host").root() == nullptr);
}

TEST_CASE("groups are found where a container sees them") {
  CgroupSources sources;
  sources.mounts =
      "40 30 0:30 /docker/abc /sys/fs/cgroup/memory\\040x ro - cgroup cgroup rw,memory\n"
      "41 30 0:31 / /sys/fs/cgroup/cpu,cpuacct rw master:9 - cgroup cgroup rw,cpu,cpuacct\n"
      "42 30 0:32 /elsewhere /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
      "43 30 0:33 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n";
  sources.own = "4:memory:/docker/abc/in\n3:cpu,cpuacct:/a:b\n2:pids:/docker/abc\n1:name=x:/\n";
  const std::vector<cgroup::Hierarchy> found = cgroup::find(sources);
  REQUIRE(found.size() == 3);
  CHECK(found[0].own == "/sys/fs/cgroup/memory x/in");
  CHECK(found[1].own == "/sys/fs/cgroup/cpu,cpuacct/a:b");
  CHECK(found[1].controllers == std::vector<std::string>{"cpu", "cpuacct"});
  CHECK(found[2].own == "");
}
