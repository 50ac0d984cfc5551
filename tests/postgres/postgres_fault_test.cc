// The PostgreSQL store under one fault at a time: acknowledged jobs exist once, refused ones do
// not, no call hangs, and the store recovers by itself.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <thread>

#include "blackbox/process.h"
#include "postgres/bed.h"
#include "postgres/pgbouncer.h"
#include "scale.h"

namespace mainspring::pg_testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

using Numbers = std::vector<int>;

bool accepted(const Result<OperationResult>& result) {
  return result.has_value() && std::holds_alternative<EnqueueResult>(*result);
}

PauseQueue something() {
  return PauseQueue{.queue = "something", .paused = true};
}

TEST_CASE("a connection that is lost while idle does not fail any call") {
  BedOptions options;
  options.patience = seconds(20);
  Bed bed(options);
  CHECK(bed.enqueue(1).has_value());
  for (int i = 2; i < 12; ++i) {
    for (const auto& backend : bed.cluster->backends())
      must(bed.cluster->sql(fmt::format("SELECT pg_terminate_backend({}, 5000)", backend.pid)));
    CAPTURE(i);
    // Its first statement would be to read its copies again.
    if (i % 2 == 0) bed.store->heard({.catalog = true});
    const auto id = bed.enqueue(i);
    if (!id) FAIL_CHECK(id.error().message);
    CHECK(bed.store->get(1).has_value());
  }
  CHECK(bed.numbers() == Numbers{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  bed.must_be_sound();
}

TEST_CASE("a commit that the server made and did not answer is answered as done") {
  BedOptions options;
  options.statement_timeout = seconds(20);
  Bed bed(options);
  CHECK(bed.enqueue(1).has_value());
  // A commit is on disk and then waits for a standby, which never comes.
  must(bed.cluster->set("synchronous_standby_names", "nobody"));
  auto call = bed.begin_enqueue(2);
  REQUIRE(bed.await_commit(" waiting") != 0);
  must(bed.cluster->sql("ALTER SYSTEM RESET synchronous_standby_names"));
  bed.cluster->kill9();
  must(bed.cluster->start());
  const auto result = Bed::end(call);
  const bool told = accepted(result);
  if (!told) {
    // The store may give up earlier; then it must report that, and a repeated call must succeed.
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().code == ErrorCode::timeout);
  }
  bed.must_come_back();
  CHECK(bed.numbers() == Numbers{1, 2});
  bed.must_be_sound();
}

TEST_CASE("a commit whose answer was lost is answered with its assigned ids") {
  BedOptions options;
  options.statement_timeout = options.patience = seconds(20);
  Bed bed(options);
  CHECK(bed.enqueue(1).has_value());
  NewJob job;
  job.queue = "q";
  job.kind = "work";
  const std::vector<std::vector<Operation>> batches = {
      {Enqueue{.jobs = {job}}, Enqueue{.jobs = {job, job}}},
      {something(), Enqueue{.jobs = {job, job}}},
      {Enqueue{.jobs = {job}}, something(), Enqueue{.jobs = {job}}}};
  for (const std::vector<Operation>& batch : batches) {
    must(bed.cluster->set("synchronous_standby_names", "nobody"));
    auto call =
        std::async(std::launch::async, [&] { return bed.store->apply(batch, bed.clock.now()); });
    REQUIRE(bed.await_commit(" waiting") != 0);
    must(bed.cluster->sql("ALTER SYSTEM RESET synchronous_standby_names"));
    bed.cluster->kill9();
    must(bed.cluster->start());
    REQUIRE(call.wait_for(seconds(60)) == std::future_status::ready);
    const BatchReport report = must(call.get());
    for (const OperationResult& result : report.results) {
      const auto* enqueued = std::get_if<EnqueueResult>(&result);
      if (enqueued == nullptr) continue;
      for (const EnqueuedJob& one : enqueued->jobs) CHECK(bed.store->get(one.id).has_value());
    }
  }
  bed.must_be_sound();
}

TEST_CASE("a commit that never reached the disk is made again, once") {
  BedOptions options;
  options.cluster.fsync = true;
  // Between the commit record and its flush.
  options.cluster.settings = {"commit_delay = 100000", "commit_siblings = 0"};
  options.patience = seconds(20);
  options.statement_timeout = seconds(20);
  Bed bed(options);
  Bed::Seen told;
  const int rounds = by_scale(1, 2, 5);
  for (int i = 1; i <= rounds; ++i) {
    const int ready = bed.cluster->times_ready();
    auto call = bed.begin_enqueue(i);
    const int backend = bed.await_commit("");
    REQUIRE(backend != 0);
    CHECK(bed.cluster->kill_backend(backend));
    CHECK(bed.cluster->await_ready(ready + 1));
    told.note(i, Bed::end(call));
    bed.must_come_back();
  }
  CHECK(static_cast<int>(told.done.size()) == rounds);
  bed.must_match(told);
  bed.must_be_sound();
}

TEST_CASE("a lost answer: refused calls have no effect, calls with an effect are acknowledged") {
  BedOptions options = gives_up_soon(true);
  options.patience = seconds(5);
  Bed bed(options);
  Bed::Seen told;
  const int rounds = by_scale(2, 4, 8);
  for (int i = 1; i <= rounds; ++i) {
    const std::int64_t lost = bed.proxy->bytes_lost();
    bed.proxy->set(TcpProxy::Mode::deaf);
    auto call = bed.begin_enqueue(i);
    CHECK(bed.proxy->await_lost(lost + 1, seconds(60)));
    // Some are cut at once, some when the store has waited long enough: their outcome is unknown.
    if (i % 2 == 0) bed.proxy->set(TcpProxy::Mode::pass);
    const auto result = Bed::end(call);
    if (i % 2 == 0) CHECK(result.has_value());
    bed.proxy->set(TcpProxy::Mode::pass);
    told.note(i, result);
    bed.must_come_back();
  }
  bed.must_match(told);
  bed.must_be_sound();
}

TEST_CASE("a network that drops everything: calls end in time and succeed when it is back") {
  Bed bed(gives_up_soon(true));
  CHECK(bed.enqueue(1).has_value());
  const ClaimedJob job = bed.claim();
  bed.proxy->set(TcpProxy::Mode::hold);
  bed.must_be_unavailable(something());
  bed.must_be_unavailable(something());
  const Instant before = bed.clock.now().instant;
  CHECK(bed.store->get(1).error().code == ErrorCode::unavailable);
  CHECK(bed.clock.now().instant - before < bed.longest_call());
  bed.proxy->set(TcpProxy::Mode::pass);
  bed.must_come_back();
  CHECK(bed.store->get(1).has_value());
  CHECK(bed.complete(job) == FinishStatus::ok);
  CHECK(must(bed.store->get(1)).state == JobState::completed);
  bed.must_be_sound();
}

TEST_CASE(
    "a frozen server: calls end in time, and refused calls have no effect when it continues") {
  Bed bed(gives_up_soon(false));
  Bed::Seen told;
  for (int i = 1; i < 5; ++i) {
    told.note(i, bed.enqueue(i));
    bed.cluster->pause();
    const Instant before = bed.clock.now().instant;
    told.note(100 + i, bed.enqueue(100 + i));
    CHECK(bed.clock.now().instant - before < bed.longest_call());
    bed.cluster->resume();
    bed.must_come_back();
  }
  CHECK(told.done.size() >= 4);
  bed.must_match(told);
  bed.must_be_sound();
}

TEST_CASE("a batch still in the network when the store gives up has no effect later") {
  Bed bed(gives_up_soon(true));
  Bed::Seen told;
  for (int i = 1; i < 4; ++i) {
    told.note(i, bed.enqueue(i));
    // The batch waits in the network; then the store asks for its outcome on another connection.
    bed.proxy->set(TcpProxy::Mode::stall);
    auto call = bed.begin_enqueue(100 + i);
    told.note(100 + i, Bed::end(call));
    bed.proxy->set(TcpProxy::Mode::pass);
    CHECK(bed.proxy->await_gone(seconds(60)));
    bed.must_come_back();
  }
  CHECK(told.done.size() >= 3);
  bed.must_match(told);
  bed.must_be_sound();
}

TEST_CASE("a server that is down, and that is stopped at once") {
  Bed bed;
  CHECK(bed.enqueue(1).has_value());
  bed.cluster->kill9();
  bed.must_be_unavailable(something());
  CHECK(bed.store->get(1).error().code == ErrorCode::unavailable);
  must(bed.cluster->start());
  bed.must_come_back();
  must(bed.cluster->stop(PgCluster::Stop::immediate));
  bed.must_be_unavailable(something());
  must(bed.cluster->start());
  bed.must_come_back();
  CHECK(must(bed.store->get(1)).state == JobState::available);
  bed.must_be_sound();
}

TEST_CASE("a locked table: the call is refused in time and has no effect when the lock is gone") {
  Bed bed(gives_up_soon(false));
  CHECK(bed.enqueue(1).has_value());
  auto other = must(PgConnection::open(bed.cluster->url(bed.database, "postgres")));
  must(other.sql("BEGIN; LOCK TABLE " + bed.options.schema + ".jobs"));
  const Instant before = bed.clock.now().instant;
  Bed::Seen told;
  told.done = {1};
  told.note(2, bed.enqueue(2));
  CHECK(bed.clock.now().instant - before < bed.longest_call());
  CHECK(told.refused == 1);
  must(other.sql("ROLLBACK"));
  bed.must_come_back();
  told.note(3, bed.enqueue(3));
  CHECK(told.done.size() == 2);
  bed.must_match(told);
  bed.must_be_sound();
}

TEST_CASE("a statement_timeout of the server's own refuses nothing") {
  BedOptions options;
  options.statement_timeout = options.patience = seconds(20);
  Bed bed(options);
  must(bed.cluster->sql("ALTER ROLE mainspring SET statement_timeout = '150ms'"));
  must(bed.cluster->stop(PgCluster::Stop::fast));
  must(bed.cluster->start());
  bed.must_come_back();
  auto other = must(PgConnection::open(bed.cluster->url(bed.database, "postgres")));
  must(other.sql("BEGIN; LOCK TABLE " + bed.options.schema + ".jobs"));
  auto call = bed.begin_enqueue(1);
  const auto waits = [&] {
    return must(bed.cluster->sql(
                    "SELECT count(*) FROM pg_stat_activity WHERE usename = 'mainspring' AND "
                    "wait_event_type = 'Lock' AND clock_timestamp() - query_start > '300ms'"))
               .at(0)
               .at(0) != "0";
  };
  for (int i = 0; i < 1000 && !waits(); ++i) must(bed.cluster->sql("SELECT pg_sleep(0.01)"));
  must(other.sql("ROLLBACK"));
  CHECK(Bed::end(call).has_value());
  CHECK(bed.numbers() == Numbers{1});
  bed.must_be_sound();
}

TEST_CASE("a deadlock with another client is retried") {
  BedOptions options;
  options.statement_timeout = seconds(20);
  Bed bed(options);
  must(bed.cluster->set("deadlock_timeout", "100ms"));
  const JobId one = must(bed.enqueue(1));
  const JobId two = must(bed.enqueue(2));
  const std::string lock =
      "UPDATE " + bed.options.schema + ".jobs SET priority = priority WHERE id = ";
  auto other = must(PgConnection::open(bed.cluster->url(bed.database, "postgres")));
  must(other.sql(fmt::format("BEGIN; SET LOCAL deadlock_timeout = '1min'; {}{}", lock, two)));
  // One batch: the first job is locked, the second is waited for.
  auto call = std::async(std::launch::async, [&] {
    const std::vector<Operation> batch = {Cancel{one, "x"}, Cancel{two, "y"}};
    return bed.store->apply(batch, bed.clock.now());
  });
  // Its backend detects the deadlock: it has the shorter timeout.
  must(other.send(lock + std::to_string(one)));
  must(other.answer());
  must(other.sql("COMMIT"));
  REQUIRE(call.wait_for(seconds(60)) == std::future_status::ready);
  const auto report = call.get();
  if (!report) FAIL(report.error().message);
  CHECK(must(bed.store->get(one)).state == JobState::cancelled);
  CHECK(must(bed.store->get(two)).state == JobState::cancelled);
  bed.must_be_sound();
}

TEST_CASE("a server without room for another connection") {
  BedOptions options;
  options.cluster.max_connections = 12;
  Bed bed(options);
  CHECK(bed.enqueue(1).has_value());
  std::vector<PgConnection> hoard;
  for (const auto& backend : bed.cluster->backends())
    must(bed.cluster->sql(fmt::format("SELECT pg_terminate_backend({}, 5000)", backend.pid)));
  for (int i = 0; i < 40; ++i) {
    auto c = PgConnection::open(bed.cluster->url(bed.database));
    if (!c) break;
    hoard.push_back(std::move(*c));
  }
  CHECK(hoard.size() < 40);
  bed.must_be_unavailable(something());
  CHECK(bed.store->get(1).error().code == ErrorCode::unavailable);
  hoard.clear();
  bed.must_come_back();
  CHECK(bed.store->get(1).has_value());
  bed.must_be_sound();
}

TEST_CASE("a read-only server is reported as unavailable for writes and can be read") {
  Bed bed;
  CHECK(bed.enqueue(1).has_value());
  must(bed.cluster->set("default_transaction_read_only", "on"));
  const auto refused = bed.enqueue(2);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::unavailable);
  CHECK(bed.store->get(1).has_value());
  CHECK(must(bed.store->durability()).read_only);
  must(bed.cluster->set("default_transaction_read_only", "off"));
  bed.must_come_back();
  CHECK(bed.numbers() == Numbers{1});
  bed.must_be_sound();
}

// A file system of the given size that only this process sees and that ends with it, or "" if it
// cannot be created.
std::string small_disk(const std::string& size) {
  static int count = 0;
  if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0) return "";
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return "";
  const std::string path = must(make_server_directory()) + fmt::format("/disk{}", ++count);
  std::filesystem::create_directory(path);
  const std::string data = "mode=0755,size=" + size;
  return mount("mainspring", path.c_str(), "tmpfs", 0, data.c_str()) == 0 ? path : "";
}

// Uses up the remaining space.
void fill_disk(const std::string& path) {
  std::ofstream out(path + "/filler");
  const std::string block(4096, 'x');
  while (out << block && out.flush()) {
  }
}

TEST_CASE("a full disk refuses new work only, and what was acknowledged stays") {
  const std::string disk = small_disk("90m");
  if (disk.empty()) {
    MESSAGE("SKIPPED: no file system can be mounted here (root is needed)");
    return;
  }
  BedOptions options;
  options.cluster.data_directory = disk;
  options.cluster.settings = {"max_wal_size = 32MB", "min_wal_size = 32MB"};
  Bed bed(options);
  for (int i = 1; i <= 20; ++i) CHECK(bed.enqueue(i).has_value());
  fill_disk(disk);
  NewJob big;
  big.queue = "big";
  big.kind = "work";
  big.args = "\"" + std::string(900'000, 'x') + "\"";
  int refused = 0;
  for (int i = 0; i < 40 && refused == 0; ++i) {
    for (std::size_t at = 1; at + 1 < big.args.size(); ++at)  // not compressible
      big.args[at] =
          static_cast<char>('a' + (at * at * 31 + at * static_cast<std::size_t>(i)) % 26);
    const auto result = bed.apply(Enqueue{.jobs = {big, big, big}});
    if (result) continue;
    ++refused;
    CAPTURE(result.error().message);
    const bool known = result.error().code == ErrorCode::storage_full ||
                       result.error().code == ErrorCode::unavailable;
    CHECK(known);
    CHECK(result.error().retry_after_ms > 0);
  }
  CHECK(refused > 0);
  std::filesystem::remove(disk + "/filler");
  if (!bed.cluster->running()) must(bed.cluster->start());
  bed.must_come_back();
  for (int i = 0; i < 20; ++i) CHECK(bed.complete(bed.claim()) == FinishStatus::ok);
  bed.must_be_sound();
}

TEST_CASE("of several hosts the one that answers is used") {
  Bed bed(gives_up_soon(true));
  CHECK(bed.enqueue(1).has_value());
  bed.proxy->set(TcpProxy::Mode::hold);
  bed.options.url =
      Secret(fmt::format("postgres://mainspring@/{}?host=127.0.0.1,{}&port={},{}", bed.database,
                         bed.cluster->directory(), bed.proxy->port(), 5432));
  const Instant before = bed.clock.now().instant;
  bed.store = bed.open_another();
  CHECK(bed.clock.now().instant - before < bed.longest_call());
  CHECK(bed.enqueue(2).has_value());
  CHECK(bed.numbers() == Numbers{1, 2});
}

TEST_CASE("connections to silent hosts are attempted in parallel") {
  BedOptions options;
  options.proxy = true;
  Bed bed(options);
  bed.proxy->set(TcpProxy::Mode::hold);
  const std::string silent = fmt::format("127.0.0.1:{}", bed.proxy->port());
  std::string directory;
  for (const char c : bed.cluster->directory()) directory += c == '/' ? "%2F" : std::string(1, c);
  bed.options.connect_timeout = seconds(10);
  bed.options.url = Secret(
      fmt::format("postgres://mainspring@{0},{0},{0},{1}/{2}", silent, directory, bed.database));
  const Instant before = bed.clock.now().instant;
  bed.store = bed.open_another();
  CHECK(bed.enqueue(1).has_value());
  CHECK(bed.clock.now().instant - before < 3 * bed.options.connect_timeout);
}

TEST_CASE("a host that refused is asked again while another one is silent") {
  BedOptions options;
  options.proxy = true;
  Bed bed(options);
  bed.proxy->set(TcpProxy::Mode::hold);
  bed.options.connect_timeout = seconds(30);
  bed.options.url =
      Secret(fmt::format("postgres://mainspring@/{}?host={},127.0.0.1&port={},{}", bed.database,
                         bed.cluster->directory(), 5432, bed.proxy->port()));
  bed.cluster->kill9();
  const Instant before = bed.clock.now().instant;
  auto opened = std::async(std::launch::async, [&bed] { return bed.open_another(); });
  must(bed.cluster->start());
  bed.store = opened.get();
  CHECK(bed.clock.now().instant - before < bed.options.connect_timeout);
  CHECK(bed.enqueue(1).has_value());
}

TEST_CASE("a URL may leave out the ports of its hosts") {
  Bed bed;
  std::string directory;
  for (const char c : bed.cluster->directory()) directory += c == '/' ? "%2F" : std::string(1, c);
  bed.options.url =
      Secret(fmt::format("postgres://mainspring@%2Fnowhere,{0}/{1}", directory, bed.database));
  bed.store = bed.open_another();
  CHECK(bed.enqueue(1).has_value());
}

TEST_CASE("a connection on which nothing can be written any more is replaced") {
  Bed bed;
  CHECK(bed.enqueue(1).has_value());
  const auto set = [&](const std::string& what) {
    must(bed.cluster->sql(fmt::format("ALTER DATABASE {} {}", bed.database, what)));
  };
  set("SET default_transaction_read_only = on");  // for connections from now on
  for (const auto& backend : bed.cluster->backends())
    must(bed.cluster->sql(fmt::format("SELECT pg_terminate_backend({}, 5000)", backend.pid)));
  bed.must_be_unavailable(something());
  set("RESET default_transaction_read_only");
  bed.must_come_back();
  CHECK(bed.enqueue(2).has_value());
  CHECK(bed.numbers() == Numbers{1, 2});
  bed.must_be_sound();
}

TEST_CASE("with a transaction pooler the store has its full function") {
  Bed bed;
  const auto bouncer = must(PgBouncer::make(*bed.cluster, 2));
  bed.options.url = Secret(bouncer->url(bed.database));
  bed.options.prepared = false;
  bed.store = bed.open_another();
  const auto second = bed.open_another();
  for (int i = 1; i <= 30; ++i) {
    CHECK(bed.enqueue(i).has_value());
    Operation claim = Claim{.worker = "other", .queues = {"q"}, .kinds = {}};
    must(second->refresh(bed.clock.now() /* it hears of the job by asking */));
    const auto report = must(second->apply({&claim, 1}, bed.clock.now()));
    for (const ClaimedJob& job : std::get<ClaimResult>(report.results[0]).jobs)
      CHECK(bed.complete(job) == FinishStatus::ok);
    CHECK(bed.store->get(i).has_value());
  }
  bouncer->kill9();
  bed.must_be_unavailable(something());
  must(bouncer->start());
  bed.must_come_back();
  bed.must_be_sound();
}

TEST_CASE("nodes that claim the same queues at once give no job twice and leave none") {
  Bed bed;
  constexpr int kJobs = 600;
  NewJob job;
  job.queue = "q";
  job.kind = "work";
  REQUIRE(bed.apply(Enqueue{.jobs = std::vector<NewJob>(kJobs, job)}).has_value());
  const auto take_all = [&bed](int number) {
    const auto store = bed.open_another();
    std::vector<JobId> mine;
    int empty = 0;
    while (empty < 20) {
      Operation claim =
          Claim{.worker = fmt::format("w{}", number), .queues = {"q"}, .kinds = {}, .max = 7};
      const auto report = must(store->apply({&claim, 1}, bed.clock.now()));
      Finish f{.worker = fmt::format("w{}", number), .results = {}};
      for (const ClaimedJob& j : std::get<ClaimResult>(report.results[0]).jobs) {
        mine.push_back(j.id);
        f.results.push_back({j.id, j.token, Complete{}});
      }
      empty = f.results.empty() ? empty + 1 : 0;
      if (f.results.empty()) continue;
      Operation finish = f;
      const auto done = must(store->apply({&finish, 1}, bed.clock.now()));
      for (const FinishStatus s : std::get<FinishResult>(done.results[0]).results)
        CHECK(s == FinishStatus::ok);
    }
    return mine;
  };
  std::vector<std::future<std::vector<JobId>>> nodes;
  for (int i = 0; i < 3; ++i) nodes.push_back(std::async(std::launch::async, take_all, i));
  std::set<JobId> all;
  std::size_t given = 0;
  for (auto& node : nodes) {
    const std::vector<JobId> mine = node.get();
    given += mine.size();
    all.insert(mine.begin(), mine.end());
  }
  CHECK(given == kJobs);
  CHECK(all.size() == kJobs);
  bed.must_be_sound();
}

}  // namespace
}  // namespace mainspring::pg_testing
