// A watched folder on a real disk: each version of a file makes one job, also across restarts.
#include "folders/folder_watcher.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "broker/broker.h"
#include "disk_sqlite/sqlite_store.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

class QuietLog final : public Log {
 public:
  void write(LogLevel level, std::string_view message, const Fields&) override {
    if (level == LogLevel::error) FAIL_CHECK(std::string(message));
  }
};

struct Fixture {
  Fixture() {
    char name[] = "/tmp/mainspring-watch-XXXXXX";
    root = ::mkdtemp(name);
    in = root + "/in";
    std::filesystem::create_directory(in);
    open();
  }
  ~Fixture() {
    close();
    std::filesystem::remove_all(root);
  }
  void open() {
    SqliteOptions options;
    options.directory = root + "/data";
    auto opened = open_sqlite_store(options, clock.now(), log);
    REQUIRE_MESSAGE(opened.has_value(), opened.error().message);
    store = std::move(*opened);
    registry = std::make_unique<Registry>();
    broker =
        std::make_unique<Broker>(*store, clock, log, *registry, BrokerOptions{.watch_roots = {in}});
    broker->start();
    watcher = std::make_unique<FolderWatcher>(
        *broker, clock, log, *registry,
        FolderWatcher::Options{.host = "here",
                               .leads =
                                   [this] {
                                     ++looks;
                                     return leads.load();
                                   },
                               .commits = [this] { return store->commits(); },
                               .look = 20ms});
    watcher->start();
  }
  void close() {
    watcher->stop();
    broker->stop();
    watcher.reset();
    broker.reset();
    store.reset();
  }
  void put(FolderSource source) {
    Trigger trigger{.name = "t", .http = {}, .folder = std::move(source), .job = {}};
    trigger.job.queue = "q";
    trigger.job.kind = "k";
    trigger.job.args = R"({"name":{"$ref":"file.name"},"size":{"$ref":"file.size"}})";
    const auto done = broker->put_trigger(std::move(trigger), "", std::nullopt);
    REQUIRE_MESSAGE(done.has_value(), done.error().message);
  }
  void write(const std::string& name, std::string_view text) const {
    std::ofstream(in + "/" + name) << text;
  }
  // The args of the next job; "" = no job arrived.
  std::string next(Duration wait = 60s) {
    Claim claim{.worker = "w", .queues = {"q"}, .kinds = {}};
    const auto claimed = broker->claim(claim, wait, {});
    REQUIRE(claimed.has_value());
    return claimed->jobs.empty() ? "" : claimed->jobs[0].args;
  }
  std::int64_t fired() const { return store->trigger("t")->fired; }

  std::string root, in;
  SystemClock clock;
  QuietLog log;
  std::atomic<bool> leads = true;
  std::atomic<int> looks = 0;
  std::unique_ptr<Store> store;
  std::unique_ptr<Registry> registry;
  std::unique_ptr<Broker> broker;
  std::unique_ptr<FolderWatcher> watcher;
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "files that exist, are written or moved in make one job each") {
  write("old.txt", "1");
  write("other.part", "1");
  put({.path = in, .pattern = "*.txt", .stable = 10ms, .node = {}});
  CHECK(next() == R"({"name":"old.txt","size":1})");
  write("new.txt", "12");
  CHECK(next() == R"({"name":"new.txt","size":2})");
  std::filesystem::rename(in + "/other.part", in + "/moved.txt");
  CHECK(next() == R"({"name":"moved.txt","size":1})");
  write("old.txt", "123");
  CHECK(next() == R"({"name":"old.txt","size":3})");
  CHECK(fired() == 4);
}

TEST_CASE_FIXTURE(Fixture, "after a restart files that fired do not fire again, and new ones do") {
  put({.path = in, .pattern = "*", .stable = 10ms, .node = {}});
  write("a", "1");
  CHECK(next() == R"({"name":"a","size":1})");
  close();
  write("b", "12");
  open();
  CHECK(next() == R"({"name":"b","size":2})");
  write("c", "123");
  CHECK(next() == R"({"name":"c","size":3})");
  CHECK(fired() == 3);
}

TEST_CASE_FIXTURE(Fixture, "files wait while the trigger is paused or no node watches the folder") {
  put({.path = in, .pattern = "*", .stable = 10ms, .node = "elsewhere"});
  write("a", "1");
  put({.path = in, .pattern = "*", .stable = 10ms, .node = "here"});
  CHECK(next() == R"({"name":"a","size":1})");
  REQUIRE(broker->pause_trigger({.name = "t", .paused = true}));
  write("b", "12");
  REQUIRE(broker->pause_trigger({.name = "t", .paused = false}));
  CHECK(next() == R"({"name":"b","size":2})");
  CHECK(fired() == 2);
}

TEST_CASE_FIXTURE(Fixture, "a folder that is created later is watched then") {
  put({.path = in + "/later", .pattern = "*", .stable = 10ms, .node = {}});
  std::filesystem::create_directory(in + "/later");
  write("later/a", "1");
  CHECK(next() == R"({"name":"a","size":1})");
}

TEST_CASE_FIXTURE(Fixture,
                  "an idle node reads nothing from the store, with and without a trigger") {
  for (const bool with_trigger : {false, true}) {
    CAPTURE(with_trigger);
    if (with_trigger) {
      put({.path = in, .pattern = "*", .stable = 10ms, .node = "here"});
      write("a", "1");
      CHECK(next() == R"({"name":"a","size":1})");
    }
    // The looks after the last commit.
    const auto wait_for_looks = [&](int n) {
      const int from = looks;
      while (looks < from + n) std::this_thread::yield();
    };
    wait_for_looks(4);
    const std::int64_t reads = store->reads();
    wait_for_looks(10);
    CHECK(store->reads() == reads);
  }
  leads = false;
  leads = true;
  put({.path = in, .pattern = "*.x", .stable = 10ms, .node = {}});
  write("b.x", "12");
  CHECK(next() == R"({"name":"b.x","size":2})");
}
