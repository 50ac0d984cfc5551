// Three nodes over one schema while the server, its processes and its connections are killed
// repeatedly. Then all jobs drain, and the combined history is checked. Some jobs are workflow
// steps.
//
// MS_PG_KILLS sets the number of kills, MS_PG_SEED the seed, MS_PG_HISTORY a file for the history.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "blackbox/checks.h"
#include "blackbox/process.h"
#include "blackbox/testing.h"
#include "postgres/fleet.h"
#include "postgres/places.h"
#include "postgres/tcp_proxy.h"
#include "scale.h"

namespace mainspring::pg_testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kNodes = 3;
// The longest call while the server is down: an unanswered round trip and a new connection.
constexpr Duration kLongestCall = seconds(60);
constexpr Duration kDrainLimit = seconds(300);
constexpr Duration kMaxJump = std::chrono::minutes(20);

std::int64_t number_from(const char* name, std::int64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoll(value, nullptr, 10);
}

// Injects the faults.
class Nemesis {
 public:
  Nemesis(PgCluster& cluster, const std::string& database, std::uint64_t seed)
      : cluster_(cluster), database_(database), chance_(seed) {
    for (int i = 0; i < kNodes; ++i)
      proxies_.push_back(must(TcpProxy::make(cluster.socket_path())));
  }

  std::string url(int node) const {
    return PgCluster::tcp_url(proxies_[static_cast<std::size_t>(node)]->port(), database_);
  }
  std::int64_t kills() const { return kills_; }
  std::string summary() const {
    std::string text;
    for (const auto& [what, times] : done_) text += fmt::format("{} {}, ", times, what);
    return text;
  }

  void strike(std::vector<std::unique_ptr<FleetNode>>& nodes) {
    blackbox::pause_for(chance_.between(10'000, 220'000));
    const auto dice = chance_.between(0, 99);
    if (dice < 25) return terminate();
    if (dice < 45) return kill_backend(false);
    if (dice < 65) return kill_backend(true);
    if (dice < 73) return kill_server();
    if (dice < 77) return stop_immediately();
    if (dice < 81) return pause();
    if (dice < 92) return break_connections();
    if (dice < 96) return lock();
    note("restarts of a node");
    nodes[static_cast<std::size_t>(chance_.between(0, kNodes - 1))]->restart();
  }

  // No more faults.
  void heal() {
    for (const auto& proxy : proxies_) proxy->set(TcpProxy::Mode::pass);
    must(cluster_.sql("SELECT 1"));
  }

 private:
  void note(const std::string& what) { ++done_[what]; }
  void note_kill(const std::string& what) {
    ++kills_;
    note(what);
  }

  void terminate() {
    const auto all = cluster_.backends();
    if (all.empty()) return;
    const int pid = all[chance_.next() % all.size()].pid;
    if (cluster_.sql(fmt::format("SELECT pg_terminate_backend({})", pid)))
      note_kill("terminated backends");
  }

  void kill_backend(bool in_commit) {
    const int ready = cluster_.times_ready();
    constexpr int kLooks = 400;
    for (int i = 0; i < kLooks; ++i) {
      const auto all = cluster_.backends();
      if (all.empty()) continue;
      const auto chosen =
          in_commit ? std::find_if(all.begin(), all.end(),
                                   [](const auto& b) { return b.doing.starts_with("COMMIT"); })
                    : all.begin() + static_cast<std::ptrdiff_t>(chance_.next() % all.size());
      if (chosen == all.end() || !cluster_.kill_backend(chosen->pid)) continue;
      note_kill(in_commit ? "backends killed in a commit" : "backends killed");
      CHECK(cluster_.await_ready(ready + 1));
      return;
    }
  }

  void kill_server() {
    cluster_.kill9();
    note_kill("servers killed");
    blackbox::pause_for(chance_.between(0, 1'500'000));
    must(cluster_.start());
  }

  void stop_immediately() {
    must(cluster_.stop(PgCluster::Stop::immediate));
    note_kill("immediate stops");
    must(cluster_.start());
  }

  void pause() {
    note("pauses of the server");
    cluster_.pause();
    blackbox::pause_for(chance_.between(100'000, 2'500'000));
    cluster_.resume();
  }

  void break_connections() {
    TcpProxy& proxy = *proxies_[static_cast<std::size_t>(chance_.between(0, kNodes - 1))];
    const auto dice = chance_.between(0, 99);
    if (dice < 40) {
      note("connections cut");
      return proxy.cut();
    }
    if (dice < 70) {
      note("answers lost");
      proxy.set(TcpProxy::Mode::deaf);
      proxy.await_lost(proxy.bytes_lost() + 1, seconds(1));
    } else {
      note("half-open connections");
      proxy.set(TcpProxy::Mode::hold);
      blackbox::pause_for(chance_.between(100'000, 1'800'000));
    }
    proxy.set(TcpProxy::Mode::pass);
  }

  void lock() {
    note("locked tables");
    auto c = PgConnection::open(cluster_.url(database_, "postgres"));
    if (!c) return;
    (void)c->sql("BEGIN; SET LOCAL lock_timeout = '500ms'; LOCK TABLE fleet.jobs");
    blackbox::pause_for(chance_.between(10'000, 1'500'000));
    (void)c->sql("ROLLBACK");
  }

  PgCluster& cluster_;
  const std::string database_;
  blackbox::Chance chance_;
  std::vector<std::unique_ptr<TcpProxy>> proxies_;
  std::map<std::string, int> done_;
  std::int64_t kills_ = 0;
};

PostgresOptions node_options(const std::string& url) {
  PostgresOptions o;
  o.url = Secret(url);
  o.schema = "fleet";
  o.statement_timeout = seconds(1);
  o.read_timeout = seconds(1);
  o.connect_timeout = seconds(1);
  o.patience = milliseconds(500);
  return o;
}

// For what the test does itself while nothing is killed. The disk may be slow: commits are flushed.
PostgresOptions patient_options(const std::string& url) {
  PostgresOptions o;
  o.url = Secret(url);
  o.schema = "fleet";
  o.statement_timeout = o.read_timeout = o.connect_timeout = o.patience = seconds(60);
  return o;
}

// True when all jobs have ended. Moves time forward for jobs that wait for their back-off.
bool drain(PgCluster& cluster, const std::string& database, Board& board) {
  const SystemClock clock;
  const Instant end = clock.now().instant + kDrainLimit;
  board.set(Board::Phase::drain);
  std::string left;
  Duration step = seconds(5);
  while (clock.now().instant < end) {
    blackbox::pause_for(150'000);
    const auto rows = cluster.sql(
        "SELECT (SELECT count(*) FROM fleet.jobs WHERE state NOT IN (4, 6, 7)) + (SELECT count(*) "
        "FROM fleet.workflows WHERE state < 3)",
        database);
    left = rows ? (*rows)[0][0] : rows.error().message;
    if (left == "0" && board.unsent() == 0) return true;
    board.clock().jump(step);
    // Back-offs grow with the attempts. While requests are still to be repeated, time must not pass
    // the window of their idempotency keys.
    if (board.unsent() == 0) step = std::min(step * 2, kMaxJump);
  }
  const auto states = cluster.sql(
      "SELECT string_agg(DISTINCT state || ' ' || left(data, 200), '; ') FROM fleet.workflows "
      "WHERE "
      "state < 3",
      database);
  if (states) MESSAGE("workflows: " << (*states)[0][0]);
  MESSAGE("left: " << left << " jobs and workflows, " << board.unsent() << " requests");
  return false;
}

void must_hold(const blackbox::History& history, const std::vector<NodeReport>& reports) {
  for (const blackbox::Verdict& verdict : blackbox::check(history)) {
    std::string text =
        fmt::format("{}: {} of {} violated", verdict.invariant, verdict.violated, verdict.checked);
    for (const std::string& witness : verdict.witnesses) text += "\n  " + witness;
    CHECK_MESSAGE(verdict.violated == 0, text);
    // Not every run has a batch with an unknown outcome.
    const bool rare = verdict.invariant.starts_with("ATOM");
    CHECK_MESSAGE((rare || verdict.checked > 0), verdict.invariant);
  }
  std::int64_t unavailable = 0;
  for (const NodeReport& report : reports) {
    for (const std::string& what : report.broken) FAIL_CHECK(what);
    CHECK(report.longest_call < kLongestCall);
    CHECK(report.batches > 100);
    unavailable += report.unavailable;
    std::string said;
    for (const auto& [what, times] : report.refusals) said += fmt::format("{} x {}\n", times, what);
    MESSAGE(said);
  }
  CHECK(unavailable > 0);
}

// The run must have reached the limits of the queues, and deferred jobs.
void must_have_met_limits(const Store& store, const blackbox::History& history,
                          const std::vector<NodeReport>& reports) {
  const auto breakers = must(store.breakers(SystemClock().now().wall));
  REQUIRE(breakers.size() == 1);
  CHECK(breakers[0].opened > 0);
  CHECK(std::any_of(history.finishes.begin(), history.finishes.end(),
                    [](const auto& f) { return f.outcome == "defer" && f.accepted(); }));
  CHECK(std::any_of(reports.begin(), reports.end(),
                    [](const NodeReport& report) { return report.quarantined > 0; }));
  const auto queues = must(store.queues());
  CHECK(std::any_of(queues.begin(), queues.end(),
                    [](const QueueStats& queue) { return queue.limits.per_key.rate.has_value(); }));
}

TEST_CASE(
    "whatever is killed, nothing acknowledged is lost and nothing runs twice under one token") {
  const std::int64_t kills = number_from("MS_PG_KILLS", by_scale<std::int64_t>(40, 100, 210));
  const auto seed = static_cast<std::uint64_t>(number_from("MS_PG_SEED", 1));
  ClusterOptions options;
  // Slower commits, so that kills hit them.
  options.fsync = true;
  options.settings = {"commit_delay = 2000", "commit_siblings = 0"};
  const auto cluster = must(PgCluster::make(options));
  const std::string database = must(cluster->new_database());
  Nemesis nemesis(*cluster, database, seed);
  Board board(kNodes);
  NullLog log;
  // Create the schema before the first kill. A PostgreSQL that is killed while it creates an
  // unlogged table may fail to recover: "could not create file …: File exists".
  must(open_postgres_store(patient_options(cluster->url(database)), board.clock().now(), log));
  std::vector<std::unique_ptr<FleetNode>> nodes;
  // If the test fails, the nodes must end before they are joined.
  const std::shared_ptr<void> ending(nullptr, [&](void*) { board.set(Board::Phase::stop); });
  for (int i = 0; i < kNodes; ++i) {
    nodes.push_back(std::make_unique<FleetNode>(board, i, node_options(nemesis.url(i)),
                                                seed * 100 + static_cast<std::uint64_t>(i)));
    nodes.back()->start();
  }
  while (nemesis.kills() < kills) nemesis.strike(nodes);
  nemesis.heal();
  const auto store =
      must(open_postgres_store(patient_options(cluster->url(database)), board.clock().now(), log));
  // On a slow machine, the first failures in a row may come only now.
  blackbox::eventually([&] {
    const auto breakers = store->breakers(SystemClock().now().wall);
    return breakers && !breakers->empty() && (*breakers)[0].opened > 0;
  });
  CHECK(drain(*cluster, database, board));
  board.set(Board::Phase::stop);
  std::vector<NodeReport> reports;
  blackbox::History history;
  for (const auto& node : nodes) {
    reports.push_back(node->join());
    history.append(std::move(reports.back().history));
  }
  read_back(*store, history);
  const VerifyReport verified = must(store->verify());
  for (const std::string& problem : verified.problems) FAIL_CHECK(problem);
  must_hold(history, reports);
  must_have_met_limits(*store, history, reports);
  const auto flows = board.flows().judge(*store);
  CHECK_MESSAGE(flows.broken.empty(), flows.broken);
  CHECK(flows.completed > 0);
  CHECK(flows.undone > 0);
  if (const char* path = std::getenv("MS_PG_HISTORY")) blackbox::write_jsonl(history, path);
  history.nemeses.resize(static_cast<std::size_t>(nemesis.kills()), {.what = "kill"});
  MESSAGE(nemesis.summary() << blackbox::summary(history) << "\n  " << flows.completed
                            << " workflows completed, " << flows.undone << " undone");
}

}  // namespace
}  // namespace mainspring::pg_testing
