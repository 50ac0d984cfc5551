// A triggered job's history: ids, status files, trimming.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "host/run_history.h"

using namespace mainspring;
namespace fs = std::filesystem;

namespace {

struct RunHistoryTempDir {
  RunHistoryTempDir() {
    std::string name = (fs::temp_directory_path() / "ms_history.XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~RunHistoryTempDir() { fs::remove_all(path); }
  std::string path;
};

std::string run_history_content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

WallTime at(std::string_view text) {
  auto time = parse_wall_time(text);
  REQUIRE(time);
  return *time;
}

RunRecord run_at(WallTime t) {
  RunRecord run;
  run.status = RunStatus::running;
  run.trigger = "External - x";
  run.started = t;
  return run;
}

std::vector<std::string> ids(const RunHistory& history) {
  auto runs = history.list();
  REQUIRE(runs);
  std::vector<std::string> list;
  for (const RunRecord& run : *runs) list.push_back(run.id);
  return list;
}

}  // namespace

TEST_CASE("a run id is the time of the start in 0.1 ms, and reads back") {
  CHECK(run_id_of(at("2026-11-21T10:46:31.5Z")) == "202611211046315000");
  CHECK(run_id_of(at("2026-01-02T03:04:05.000199Z")) == "202601020304050001");
  CHECK(*time_of_run_id("202611211046315001") == at("2026-11-21T10:46:31.5001Z"));
  for (const char* bad : {"", "2026", "20261121104631500x", "2026112110463150001",
                          "202613211046315000", "202602301046315000", "../../../etc/passwd"}) {
    const auto refused = time_of_run_id(bad);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::invalid_argument);
    CHECK(refused.error().field == "run");
  }
}

TEST_CASE("statuses have the words of WebJobs") {
  for (int i = 0; i < 6; ++i) {
    const auto status = static_cast<RunStatus>(i);
    CHECK(parse_run_status(to_string(status)) == status);
  }
  CHECK(to_string(RunStatus::aborted) == "Aborted");
  CHECK_FALSE(parse_run_status("running"));
}

TEST_CASE("the status file is as WebJobs write it, to the byte, and reads back") {
  RunHistoryTempDir dir;
  RunHistory history(dir.path + "/jobs/triggered/report");
  RunRecord run = run_at(at("2026-11-21T10:46:31.123456Z"));
  auto id = history.begin(run, 50, {});
  REQUIRE(id);
  CHECK(*id == "202611211046311234");
  const std::string status = history.directory_of(*id) + "/status";
  CHECK(
      run_history_content(status) ==
      R"({"Trigger":"External - x","Status":"Running","StartTime":"2026-11-21T10:46:31.123456Z"})");
  run.id = *id;
  run.status = RunStatus::failed;
  run.ended = at("2026-11-21T10:47:00.5Z");
  run.job = 42;
  run.exit_code = 3;
  REQUIRE(history.update(run));
  CHECK(run_history_content(status) ==
        R"({"Trigger":"External - x","Status":"Failed","StartTime":"2026-11-21T10:46:31.123456Z",)"
        R"("EndTime":"2026-11-21T10:47:00.5Z","Job":42,"ExitCode":3})");
  auto read = history.get(*id);
  REQUIRE(read);
  CHECK(read->id == *id);
  CHECK(read->status == RunStatus::failed);
  CHECK(read->trigger == run.trigger);
  CHECK(read->started == run.started);
  CHECK(read->ended == run.ended);
  CHECK(read->job == 42);
  CHECK(read->exit_code == 3);
  CHECK(history.log_path(*id) == history.directory_of(*id) + "/output_log.txt");
  // Only the status file remains.
  CHECK(std::distance(fs::directory_iterator(history.directory_of(*id)),
                      fs::directory_iterator()) == 1);
}

TEST_CASE("a status file of another host, with seven digits and more members, is understood") {
  RunHistoryTempDir dir;
  RunHistory history(dir.path);
  fs::create_directories(dir.path + "/202611211046315000");
  std::ofstream(dir.path + "/202611211046315000/status")
      << R"({"Trigger":null,"Status":"Success","StartTime":"2026-11-21T10:46:31.1234567Z",)"
      << R"("EndTime":"2026-11-21T10:46:32Z","Other":[1,{"a":2}]})"
      << "\n";
  auto run = history.get("202611211046315000");
  REQUIRE(run);
  CHECK(run->status == RunStatus::success);
  CHECK(run->started == at("2026-11-21T10:46:31.123456Z"));
  CHECK(run->ended == at("2026-11-21T10:46:32Z"));
}

TEST_CASE("a run with an unreadable status counts as aborted") {
  RunHistoryTempDir dir;
  RunHistory history(dir.path);
  const std::string id = "202611211046315000";
  fs::create_directories(dir.path + "/" + id);
  const auto check = [&] {
    auto run = history.get(id);
    REQUIRE(run);
    CHECK(run->id == id);
    CHECK(run->status == RunStatus::aborted);
    CHECK(run->started == at("2026-11-21T10:46:31.5Z"));
    CHECK(run->trigger.empty());
    CHECK_FALSE(run->exit_code);
  };
  check();
  for (const char* damaged :
       {"", "{", "[]", R"({"Status":"Runn)", R"({"Trigger":"x","Status":"Odd"})",
        R"({"Trigger":"x","ExitCode":1,"Status":"Success","StartTime":"yesterday"})"}) {
    std::ofstream(dir.path + "/" + id + "/status") << damaged;
    check();
  }
}

TEST_CASE("runs that start within the same 0.1 ms get different ids, also from several objects") {
  RunHistoryTempDir dir;
  constexpr int kThreads = 4, kRuns = 50;
  std::vector<std::thread> threads;
  std::vector<std::vector<std::string>> made(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      RunHistory history(dir.path);
      for (int i = 0; i < kRuns; ++i) {
        auto id = history.begin(run_at(WallTime::from_ms(1'800'000'000'000)), 1000, {});
        if (id) made[static_cast<std::size_t>(t)].push_back(*id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::string> all;
  for (const auto& some : made) all.insert(all.end(), some.begin(), some.end());
  std::sort(all.begin(), all.end(), std::greater<>());
  CHECK(all.size() == kThreads * kRuns);
  CHECK(ids(RunHistory(dir.path)) == all);
  CHECK(std::unique(all.begin(), all.end()) == all.end());
}

TEST_CASE("a chosen id that is taken is a conflict; an invalid one is refused") {
  RunHistoryTempDir dir;
  RunHistory history(dir.path);
  RunRecord run = run_at(at("2026-11-21T10:46:31Z"));
  run.id = "202611211046310000";
  REQUIRE(history.begin(run, 50, {}));
  CHECK(history.begin(run, 50, {}).error().code == ErrorCode::conflict);
  run.id = "../202611211046310";
  CHECK(history.begin(run, 50, {}).error().code == ErrorCode::invalid_argument);
  CHECK(std::distance(fs::directory_iterator(dir.path), fs::directory_iterator()) == 1);
}

TEST_CASE("the oldest runs are trimmed, never active ones and never the new one") {
  RunHistoryTempDir dir;
  RunHistory history(dir.path);
  std::vector<std::string> made;
  for (int i = 0; i < 5; ++i) {
    auto id = history.begin(run_at(WallTime::from_ms(1'800'000'000'000 + i)), 50, {});
    REQUIRE(id);
    made.push_back(*id);
    std::ofstream(history.log_path(*id)) << "output";
  }
  // Remains of an interrupted removal are removed too; other files are kept.
  fs::create_directories(dir.path + "/.gone.202601010000000000");
  fs::create_directories(dir.path + "/notes");
  auto id = history.begin(run_at(WallTime::from_ms(1'800'000'000'010)), 3, {made[0]});
  REQUIRE(id);
  CHECK(ids(history) == std::vector<std::string>{*id, made[4], made[0]});
  CHECK(history.latest() == *id);
  CHECK_FALSE(fs::exists(dir.path + "/.gone.202601010000000000"));
  CHECK(fs::exists(dir.path + "/notes"));
  // The clock was set back: the new run is the oldest by its id, and is kept.
  auto early = history.begin(run_at(WallTime::from_ms(1'700'000'000'000)), 1, {made[0]});
  REQUIRE(early);
  CHECK(ids(history) == std::vector<std::string>{made[0], *early});
}

TEST_CASE("a job without runs has an empty history, and unknown runs are not found") {
  RunHistoryTempDir dir;
  RunHistory history(dir.path + "/none");
  CHECK(ids(history).empty());
  CHECK_FALSE(history.latest());
  for (const char* id : {"202611211046315000", "", "..", "status"}) {
    CHECK(history.get(id).error().code == ErrorCode::not_found);
    RunRecord run = run_at(WallTime());
    run.id = id;
    CHECK(history.update(run).error().code == ErrorCode::not_found);
  }
}
