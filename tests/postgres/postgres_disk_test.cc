// PostgreSQL as a disk of the engine: order of gathered statements, errors, the fence, lost
// commits.
#include <fmt/format.h>

#include <functional>
#include <thread>

#include "postgres/engine_place.h"
#include "postgres/tcp_proxy.h"

namespace mainspring::pg_testing {
namespace {

using sql::Access;
using sql::DiskError;
using sql::DiskFault;
using sql::Statement;

constexpr sql::Query kInsertDue = "INSERT INTO due (run_at, id) VALUES (?, ?)";
constexpr sql::Query kDeleteDue = "DELETE FROM due WHERE run_at = ? AND id = ?";
constexpr sql::Query kCountDue = "SELECT count(*) FROM due";
constexpr sql::Query kPutLock =
    "INSERT INTO named_leases (name, state, holder, token, ttl, since, value) VALUES (?1, 0, ?2, "
    "1, "
    "1, 1, ?3) ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, value = excluded.value";
constexpr sql::Query kHolder = "SELECT holder, value, name FROM named_leases WHERE name = ?";
constexpr sql::Query kProgress = "INSERT INTO extras (id, progress_value, result) VALUES (?, ?, ?)";
constexpr sql::Query kGetProgress = "SELECT progress_value, result FROM extras WHERE id = ?";
constexpr sql::Query kPutCounts = {"", "",
                                   "INSERT INTO job_counts_log (id, a, b) VALUES (?, ?, ?)"};
constexpr sql::Query kDropCounts = {"", "", "INSERT INTO job_counts_log (id) VALUES (?)"};
constexpr sql::Query kCounts = "SELECT a, b FROM job_counts WHERE id = ?";

DiskFault fault_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const DiskError& error) {
    return error.fault;
  }
  FAIL("no error");
  return DiskFault::failed;
}

void end_backends(const EnginePlace& place) {
  place.sql(
      "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE usename = "
      "'mainspring'");
}

TEST_SUITE("PostgreSQL disk") {
  TEST_CASE("values are read as they were written") {
    const EnginePlace place;
    const auto disk = place.leader();
    Statement put(*disk, kPutLock), get(*disk, kHolder), progress(*disk, kProgress),
        get_progress(*disk, kGetProgress);
    const std::string odd("\x01zero\0and \xff", 11);
    disk->begin(Access::write);
    put.bind("a", odd, nullptr).run();
    put.bind(odd, "", "Ünicode").run();
    progress.bind(7, 0.25, std::optional<std::string_view>()).run();
    disk->commit();
    REQUIRE(get.bind("a").step());
    CHECK(get.text(0) == odd);
    CHECK(get.is_null(1));
    CHECK(get.text(1) == "");
    CHECK_FALSE(get.step());
    REQUIRE(get.bind(odd).step());
    CHECK(get.text(0) == "");
    CHECK_FALSE(get.is_null(0));
    CHECK(get.text(1) == "Ünicode");
    CHECK(get.text(2) == odd);
    REQUIRE(get_progress.bind(7).step());
    CHECK(get_progress.real(0) == 0.25);
    CHECK(get_progress.is_null(1));
    CHECK(fault_of([&] { progress.bind(7, 0.5, nullptr).run(); }) == DiskFault::failed);
  }

  TEST_CASE("a batch of writes is one round trip, in the order of its statements") {
    const EnginePlace place;
    const auto disk = place.leader();
    Statement insert(*disk, kInsertDue), remove(*disk, kDeleteDue), put(*disk, kPutLock);
    for (int round = 0; round < 2; ++round) {
      const std::int64_t before = place.round_trips;
      disk->begin(Access::write);
      for (int i = 1; i <= 1000; ++i) insert.bind(i, i).run();
      for (int i = 1; i <= 1000; i += 2) remove.bind(i, i).run();
      insert.bind(1, 1).run();
      put.bind("a", "first", fmt::format("{}", round)).run();
      put.bind("b", "other", nullptr).run();
      put.bind("a", "second", nullptr).run();
      for (int i = 2; i <= 1000; i += 2) remove.bind(i, i).run();
      disk->commit();
      // The first use of a statement asks for its types.
      if (round == 1) CHECK(place.round_trips == before + 1);
      CHECK(place.sql("SELECT id FROM due") == Rows{{"1"}});
      CHECK(place.sql("SELECT name, holder, value FROM named_leases ORDER BY name") ==
            Rows{{"a", "second", ""}, {"b", "other", ""}});
      remove.bind(1, 1).run();
    }
  }

  TEST_CASE("a read sees the writes before it") {
    const EnginePlace place;
    const auto disk = place.leader();
    Statement insert(*disk, kInsertDue), remove(*disk, kDeleteDue);
    disk->begin(Access::write);
    insert.bind(1, 1).run();
    insert.bind(1, 2).run();
    CHECK(disk->query_int(kCountDue) == 2);
    remove.bind(1, 2).run();
    remove.bind(1, 3).run();
    CHECK(remove.changes() == 0);
    remove.bind(1, 1).run();
    CHECK(remove.changes() == 1);
    CHECK(disk->query_int(kCountDue) == 0);
    disk->commit();
  }

  TEST_CASE("a statement that fails fails the batch, and nothing of it is written") {
    const EnginePlace place;
    const auto disk = place.leader();
    Statement insert(*disk, kInsertDue);
    insert.bind(1, 1).run();
    disk->begin(Access::write);
    insert.bind(1, 2).run();
    insert.bind(1, 1).run();
    CHECK(fault_of([&] { disk->commit(); }) == DiskFault::failed);
    disk->roll_back();
    CHECK(disk->query_int(kCountDue) == 1);
    disk->begin(Access::write);
    insert.bind(1, 3).run();
    disk->roll_back();
    disk->begin(Access::write);
    insert.bind(1, 4).run();
    disk->commit();
    CHECK(place.sql("SELECT id FROM due ORDER BY id") == Rows{{"1"}, {"4"}});
  }

  TEST_CASE("a leader whose term has passed writes nothing") {
    const EnginePlace place;
    const auto old = place.leader();
    Statement insert(*old, kInsertDue);
    old->begin(Access::write);
    insert.bind(1, 1).run();
    const auto next = place.leader();
    CHECK(next->term() == old->term() + 1);
    CHECK(fault_of([&] { old->commit(); }) == DiskFault::failed);
    old->roll_back();
    CHECK(fault_of([&] { insert.bind(1, 2).run(); }) == DiskFault::failed);
    old->roll_back();
    Statement later(*next, kInsertDue);
    later.bind(1, 3).run();
    CHECK(place.sql("SELECT id FROM due") == Rows{{"3"}});
  }

  TEST_CASE("counters: the last row counts, and old rows are removed") {
    const EnginePlace place;
    const auto disk = place.leader();
    Statement put(*disk, kPutCounts), drop(*disk, kDropCounts), get(*disk, kCounts);
    const auto a_of = [&](int id) {
      get.bind(id);
      const sql::ResetGuard guard(get);
      return get.step() ? get.integer(0) : -1;
    };
    put.bind(7, 1, nullptr).run();
    put.bind(8, 1, nullptr).run();
    constexpr int kCommits = 2500;
    for (int i = 0; i < kCommits; ++i) {
      disk->begin(Access::write);
      put.bind(7, i, 2 * i).run();
      disk->commit();
    }
    CHECK(a_of(7) == kCommits - 1);
    CHECK(a_of(8) == 1);
    CHECK(a_of(0) == 1);
    drop.bind(7).run();
    CHECK(a_of(7) == -1);
    CHECK(std::stoi(place.sql("SELECT count(*) FROM job_counts_log")[0][0]) <= 1010);
    CHECK(std::stoi(place.sql("SELECT count(*) FROM commits")[0][0]) <= 2010);
  }

  TEST_CASE("a reader keeps its snapshot") {
    const EnginePlace place;
    const auto disk = place.leader();
    const auto reader = place.reader();
    Statement insert(*disk, kInsertDue);
    insert.bind(1, 1).run();
    {
      const sql::Snapshot snapshot(*reader);
      CHECK(reader->query_int(kCountDue) == 1);
      insert.bind(1, 2).run();
      CHECK(reader->query_int(kCountDue) == 1);
    }
    CHECK(reader->query_int(kCountDue) == 2);
  }

  TEST_CASE("a lost connection: nothing is written, and the next batch connects") {
    const EnginePlace place;
    const auto disk = place.leader();
    Statement insert(*disk, kInsertDue);
    disk->begin(Access::write);
    insert.bind(1, 1).run();
    CHECK(disk->query_int(kCountDue) == 1);
    end_backends(place);
    insert.bind(1, 2).run();
    CHECK(fault_of([&] { disk->commit(); }) == DiskFault::busy);
    disk->roll_back();
    end_backends(place);
    CHECK(disk->query_int(kCountDue) == 0);
    insert.bind(1, 3).run();
    CHECK(disk->query_int(kCountDue) == 1);
  }

  TEST_CASE("a store whose connections are lost continues") {
    const EnginePlace place;
    NullLog log;
    const auto store = place.open_store({}, place.clock.now(), log);
    const auto enqueue = [&] {
      const Operation operation = Enqueue{.jobs = {{.queue = "q", .kind = "k", .args = "1"}}};
      return store->apply({&operation, 1}, place.clock.now());
    };
    REQUIRE(enqueue());
    CHECK(store->get(1)->state == JobState::available);
    end_backends(place);
    const auto lost = enqueue();
    REQUIRE_FALSE(lost);
    CHECK(lost.error().code == ErrorCode::unavailable);
    CHECK(store->get(1)->state == JobState::available);
    REQUIRE(enqueue());
    CHECK(store->get(2)->state == JobState::available);
    CHECK(store->verify()->problems.empty());
    CHECK(store->verify()->jobs == 2);
  }

  TEST_CASE("enqueue, claim and finish of plain jobs are one round trip each") {
    const EnginePlace place;
    NullLog log;
    const auto store = place.open_store({}, place.clock.now(), log);
    const auto apply = [&](Operation operation) {
      return must(store->apply({&operation, 1}, place.clock.now())).results.at(0);
    };
    for (int round = 0; round < 3; ++round) {
      Enqueue enqueue;
      for (int i = 0; i < 100; ++i)
        enqueue.jobs.push_back({.queue = "q", .kind = "k", .args = fmt::format("{}", i)});
      std::int64_t before = place.round_trips;
      apply(std::move(enqueue));
      // The first round learns the types of parameters, and makes the queue.
      if (round > 0) CHECK(place.round_trips == before + 1);
      before = place.round_trips;
      const auto claimed = std::get<ClaimResult>(
          apply(Claim{.worker = "w", .queues = {"q"}, .kinds = {}, .max = 100}));
      REQUIRE(claimed.jobs.size() == 100);
      CHECK(claimed.jobs[7].args == "7");
      if (round > 0) CHECK(place.round_trips == before + 1);
      Finish finish{.worker = "w", .results = {}};
      for (const ClaimedJob& job : claimed.jobs)
        finish.results.push_back({.id = job.id, .token = job.token, .outcome = Complete{}});
      before = place.round_trips;
      apply(std::move(finish));
      if (round > 0) CHECK(place.round_trips == before + 1);
    }
    CHECK(store->verify()->problems.empty());
  }

  TEST_CASE("the outcome of a commit whose answer is lost is known") {
    const EnginePlace place;
    const auto proxy = must(TcpProxy::make(the_cluster().socket_path()));
    pg::EngineConnectionOptions options = place.options();
    options.connection.url = Secret(PgCluster::tcp_url(proxy->port(), the_database()));
    pg::EngineConnection disk(options, pg::EngineConnection::Role::leader, place.clock);
    Statement insert(disk, kInsertDue);
    insert.bind(1, 1).run();
    disk.begin(Access::write);
    insert.bind(1, 2).run();
    proxy->set(TcpProxy::Mode::deaf);
    std::jthread cutter([&] {
      // The answer of COMMIT is among these bytes.
      CHECK(proxy->await_lost(1, std::chrono::seconds(60)));
      while (place.sql("SELECT 1 FROM due WHERE id = 2").empty()) {
      }
      proxy->set(TcpProxy::Mode::pass);
    });
    disk.commit();
    cutter.join();
    insert.bind(1, 3).run();
    CHECK(disk.query_int(kCountDue) == 3);
    // Without a new connection it is unknown: then the batch must not be called refused.
    disk.begin(Access::write);
    insert.bind(1, 4).run();
    proxy->set(TcpProxy::Mode::refuse);
    proxy->cut();
    CHECK(fault_of([&] { disk.commit(); }) == DiskFault::failed);
    disk.roll_back();
    proxy->set(TcpProxy::Mode::pass);
    CHECK(disk.query_int(kCountDue) == 3);
  }
}

}  // namespace
}  // namespace mainspring::pg_testing
