// A job host over an engine of this process, in its own directory.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "base/mutex.h"
#include "broker/broker.h"
#include "engine/node.h"
#include "env/random.h"
#include "host/job_host.h"

namespace mainspring::test {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

// Waits until `done`; false after a generous limit.
template <class F>
bool await(F&& done) {
  static constexpr int kTries = 6000;
  Mutex mutex;
  CondVar never;
  for (int i = 0; i < kTries; ++i) {
    if (done()) return true;
    MutexLock lock(mutex);
    never.wait_for(mutex, 10ms);
  }
  return false;
}

inline void write_script(const fs::path& path, std::string_view text) {
  fs::create_directories(path.parent_path());
  // First under another name: a host that reads the folder now must not find half a script.
  const fs::path part = path.string() + ".part";
  std::ofstream(part) << text;
  fs::permissions(part, fs::perms(0755));
  fs::rename(part, path);
}

inline std::string read_all(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

struct HostTest {
  SystemClock clock;
  SystemRandom random;
  NullLog log;
  SystemProcesses processes;
  fs::path directory;
  std::unique_ptr<Registry> registry = std::make_unique<Registry>();
  std::unique_ptr<Node> node;
  std::unique_ptr<JobHost> host;
  HostOptions options;

  HostTest() {
    std::string name = (fs::temp_directory_path() / "host-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    directory = name;
    NodeOptions node_options;
    node_options.sqlite.directory = (directory / "data").string();
    auto opened = Node::open(std::move(node_options), clock, log, *registry);
    REQUIRE(opened.has_value());
    node = std::move(*opened);
    node->start();
    options.roots = {(directory / "jobs").string()};
    options.data = (directory / "host").string();
    if (geteuid() == 0) options.user = "root";
    options.quiet = 50ms;
    options.root_retry = 50ms;
    options.variables.instance_id = "abcdef99";
    options.environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "SECRET=x", "WEBSITE_NAME=shop"};
  }
  ~HostTest() {
    host.reset();
    node->stop();
    fs::remove_all(directory);
  }

  // "continuous/a/run.sh".
  void script(const std::string& path, std::string_view text) {
    write_script(directory / "jobs" / path, text);
  }
  void settings(const std::string& folder, std::string_view json) {
    script(folder + "/settings.job", json);
  }
  std::unique_ptr<JobHost> make(HostOptions wanted) {
    auto made =
        JobHost::open(std::move(wanted), node->broker(), processes, clock, random, log, *registry);
    REQUIRE(made.has_value());
    return std::move(*made);
  }
  void start() {
    host = make(options);
    host->start();
  }

  std::string read_id() { return read_all(fs::path(options.data) / "id"); }
  std::string log_of(JobType type, const std::string& name, const std::string& run = "") {
    const auto text = host->log(type, name, run, 0, 1 << 20);
    return text ? text->text : "";
  }
  bool await_log(JobType type, const std::string& name, std::string_view text) {
    const bool seen = await([&] { return log_of(type, name).find(text) != std::string::npos; });
    if (!seen) MESSAGE("the log has: ", log_of(type, name));
    return seen;
  }
  bool await_status(JobHost& of, const std::string& name, ContinuousStatus status) {
    const bool seen = await([&] {
      const auto job = of.find(JobType::continuous, name);
      return job && job->status == status;
    });
    if (!seen) MESSAGE("the log has: ", log_of(JobType::continuous, name));
    return seen;
  }
  bool await_status(const std::string& name, ContinuousStatus status) {
    return await_status(*host, name, status);
  }
  // The run when it has ended.
  RunRecord await_run(const std::string& name, const std::string& id) {
    RunRecord run;
    const bool ended = await([&] {
      const auto seen = host->run_of(name, id);
      if (!seen || seen->status == RunStatus::initializing || seen->status == RunStatus::running) {
        return false;
      }
      run = *seen;
      return true;
    });
    CHECK(ended);
    return run;
  }
  std::vector<Job> engine_jobs(const std::string& kind) {
    const auto page = node->broker().list({.kind = kind}, 100, 0);
    return page ? page->jobs : std::vector<Job>{};
  }
};

}  // namespace mainspring::test
