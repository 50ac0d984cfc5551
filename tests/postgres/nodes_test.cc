// Several nodes over one database: each one serves the work of the others at once, the leadership
// moves, and nodes survive an outage of the database or of another node.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <thread>

#include "base/mutex.h"
#include "broker/broker.h"
#include "engine/node.h"
#include "env/clock.h"
#include "postgres/cluster.h"
#include "postgres/tcp_proxy.h"
#include "scale.h"

using namespace mainspring;
using namespace std::chrono_literals;
using pg_testing::PgCluster;
using pg_testing::TcpProxy;

namespace {

constexpr Duration kLimit = 60s;

template <class T>
T must(Result<T> result) {
  if (!result) FAIL(result.error().message);
  return std::move(*result);
}

PgCluster& cluster() {
  static const std::unique_ptr<PgCluster> one = must(PgCluster::make({}));
  return *one;
}

struct TestNode {
  explicit TestNode(const std::string& url, NodeOptions options = {}) {
    options.postgres = PostgresOptions{.url = Secret(url)};
    node = must(Node::open(std::move(options), clock, log, registry));
    node->start();
  }
  ~TestNode() { node->stop(); }
  Broker& broker() { return node->broker(); }
  JobId enqueue(const std::string& queue, std::optional<Duration> delay = {}) {
    Enqueue request;
    request.jobs.push_back(NewJob{.queue = queue, .kind = "work", .delay = delay});
    return must(broker().enqueue(std::move(request))).jobs.front().id;
  }
  Result<ClaimResult> claim(const std::string& queue, Duration wait = 20s) {
    return broker().claim({.worker = "w", .queues = {queue}, .max = 1, .lease = 1min}, wait, {});
  }
  bool leads() { return node->scheduler().leads(clock.now().instant); }
  bool says(const std::string& what) {
    return node->peers()->describe().find(what) != std::string::npos;
  }
  int peers_reached() {
    const std::string text = node->peers()->describe();
    const std::string key = "\"peers_reached\":";
    return std::stoi(text.substr(text.find(key) + key.size()));
  }

  SystemClock clock;
  NullLog log;
  Registry registry;
  std::unique_ptr<Node> node;
};

// Polls until `done` or the limit. For conditions without a notification.
template <class Done>
bool eventually(Done done, Duration limit = kLimit) {
  const SystemClock clock;
  Mutex mutex;
  CondVar never;
  const Instant end = clock.now().instant + limit;
  while (!done()) {
    if (clock.now().instant >= end) return false;
    MutexLock lock(mutex);
    never.wait_for(mutex, 10ms);
  }
  return true;
}

struct Three {
  explicit Three(const NodeOptions& options = {})
      : database(must(cluster().new_database())), url(cluster().url(database)) {
    for (auto& node : nodes) node = std::make_unique<TestNode>(url, options);
    if (options.peers.wake != Wake::automatic) return;
    REQUIRE(eventually([&] {
      return std::all_of(std::begin(nodes), std::end(nodes),
                         [](const auto& node) { return node->peers_reached() == 2; });
    }));
  }
  int leader() {
    REQUIRE(
        eventually([&] { return nodes[0]->leads() || nodes[1]->leads() || nodes[2]->leads(); }));
    for (int i = 0; i < 3; ++i)
      if (nodes[i]->leads()) return i;
    return -1;
  }
  std::string database, url;
  std::unique_ptr<TestNode> nodes[3];
};

// Nodes that do not poll during a test: they wake one another, or nothing does.
NodeOptions never_polls() {
  NodeOptions options;
  options.broker.poll = 1h;
  return options;
}

// A claim that waits on its own thread.
struct Waiting {
  Waiting(TestNode& node, const std::string& queue, Duration wait = 60s)
      : thread([this, &node, queue, wait] {
          result = node.claim(queue, wait);
          answered = node.clock.now().instant;
        }) {
    REQUIRE(eventually([&] { return node.broker().parked_claims() >= 1; }));
  }
  std::size_t jobs() {
    thread.join();
    REQUIRE(result.has_value());
    REQUIRE_MESSAGE(result->has_value(), (*result ? "" : result->error().message));
    return (*result)->jobs.size();
  }
  std::optional<Result<ClaimResult>> result;
  Instant answered;
  std::thread thread;
};

}  // namespace

TEST_CASE("a job enqueued on one node is handed to a claim that is parked on another") {
  Three three(never_polls());
  three.nodes[0]->enqueue("warm");
  for (const int other : {1, 2}) {
    Waiting waiting(*three.nodes[other], "q");
    three.nodes[0]->enqueue("q");
    CHECK(waiting.jobs() == 1);  // by the notifier
  }
}

TEST_CASE("a claim of a pattern gets the first job of a queue that is new on another node") {
  Three three(never_polls());
  three.nodes[0]->enqueue("warm");
  for (const char* queue : {"tenant/a", "tenant/b"}) {
    Waiting waiting(*three.nodes[1], "tenant/*");
    three.nodes[0]->enqueue(queue);
    CHECK(waiting.jobs() == 1);
  }
}

TEST_CASE("where nodes may not connect to each other NOTIFY wakes them") {
  NodeOptions options = never_polls();
  options.peers.wake = Wake::notify;
  Three three(options);
  REQUIRE(eventually([&] { return three.nodes[0]->says("\"others\":2"); }));
  for (const auto& node : three.nodes)
    REQUIRE(eventually([&] { return node->says("\"listen\":\"works\""); }));
  Waiting waiting(*three.nodes[1], "q");
  three.nodes[0]->enqueue("q");
  CHECK(waiting.jobs() == 1);
}

TEST_CASE("the commit of an enqueue or complete by SQL wakes waiting claims and callers") {
  Three three(never_polls());
  for (const auto& node : three.nodes)
    REQUIRE(eventually([&] { return node->says("\"listen\":\"works\""); }));
  auto application = must(pg_testing::PgConnection::open(three.url));
  for (const char* call :
       {"mainspring.enqueue('q', 'work')", "mainspring.enqueue('q', 'work', delay => '800 ms')"}) {
    CAPTURE(call);
    Waiting waiting(*three.nodes[1], "q");
    (void)must(application.sql(fmt::format("BEGIN; SELECT {}", call)));
    CHECK(three.nodes[1]->broker().parked_claims() == 1);
    (void)must(application.sql("COMMIT"));
    CHECK(waiting.jobs() == 1);  // by NOTIFY
    const ClaimedJob& job = (*waiting.result)->jobs[0];
    std::optional<Result<Job>> ended;
    std::thread waiter([&] { ended = three.nodes[2]->broker().wait(job.id, 30s, {}); });
    (void)must(application.sql(
        fmt::format("SELECT mainspring.complete({}, {}, '[1]')", job.id, job.token)));
    waiter.join();
    REQUIRE(ended->has_value());
    CHECK((*ended)->result == "[1]");
  }
}

TEST_CASE("a cancel on one node reaches the worker of another over its parked claim") {
  for (const Wake wake : {Wake::automatic, Wake::notify}) {
    NodeOptions options = never_polls();
    options.peers.wake = wake;
    Three three(options);
    for (const auto& node : three.nodes)
      REQUIRE(eventually([&] { return node->says("\"listen\":\"works\""); }));
    REQUIRE(eventually([&] { return three.nodes[0]->says("\"others\":2"); }));
    const JobId id = three.nodes[1]->enqueue("q");
    REQUIRE(must(three.nodes[1]->claim("q")).jobs.size() == 1);
    Waiting waiting(*three.nodes[1], "q");
    CHECK(must(three.nodes[0]->broker().cancel({.id = id, .reason = "no"})).cancel_requested);
    CHECK(waiting.jobs() == 0);
    CHECK((*waiting.result)->cancel == std::vector<JobId>{id});
  }
}

TEST_CASE("a node knows the workers that wait at another, so that it can say why a job waits") {
  Three three;
  Waiting waiting(*three.nodes[1], "mails");
  const auto known = [&](int node) {
    const auto workers = must(three.nodes[node]->broker().workers());
    return std::any_of(workers.begin(), workers.end(), [](const WorkerInfo& worker) {
      return worker.id == "w" && worker.parked &&
             worker.queues == std::vector<std::string>{"mails"};
    });
  };
  CHECK(known(1));
  CHECK(eventually([&] { return known(0) && known(2); }));
  three.nodes[0]->enqueue("mails");
  CHECK(waiting.jobs() == 1);
}

TEST_CASE("a command for a worker reaches the node that the worker asks") {
  for (const Wake wake : {Wake::automatic, Wake::notify}) {
    NodeOptions options;
    options.peers.wake = wake;
    Three three(options);
    for (const auto& node : three.nodes)
      REQUIRE(eventually([&] { return node->says("\"listen\":\"works\""); }));
    REQUIRE(eventually([&] { return three.nodes[0]->says("\"others\":2"); }));
    Waiting waiting(*three.nodes[1], "q");
    Broker& asked = three.nodes[0]->broker();
    std::optional<Result<WorkerInfo>> quiet;
    REQUIRE(eventually([&] {
      quiet = asked.command_worker({.worker = "w", .command = WorkerCommand::quiet});
      return quiet->has_value();
    }));
    CHECK((*quiet)->command == WorkerCommand::quiet);
    CHECK(waiting.jobs() == 0);
    CHECK((*waiting.result)->command == WorkerCommand::quiet);
    CHECK(must(three.nodes[1]->broker().renew({.worker = "w"})).command == WorkerCommand::quiet);
    REQUIRE(asked.command_worker({.worker = "w"}));
    CHECK(eventually([&] {
      return must(three.nodes[1]->broker().renew({.worker = "w"})).command == WorkerCommand::none;
    }));
  }
}

TEST_CASE("a worker version makes one mark, whichever nodes its workers ask") {
  Three three;
  for (int node = 0; node < 3; ++node) {
    Claim claim{.worker = fmt::format("w{}", node), .queues = {"q"}};
    claim.facts = std::make_shared<const WorkerFacts>(
        WorkerFacts{.version = "1.4", .language = "Python 3.11.2"});
    (void)must(three.nodes[node]->broker().claim(std::move(claim), 0s, {}));
  }
  const auto marks = [&] { return must(three.nodes[0]->broker().marks({})).marks; };
  REQUIRE(eventually([&] { return !marks().empty(); }));
  for (const auto& node : three.nodes) REQUIRE(node->broker().probe_write());
  REQUIRE(marks().size() == 1);
  CHECK(marks()[0].text == "Python worker 1.4");
  CHECK(marks()[0].source == MarkSource::worker);
}

TEST_CASE("where nothing wakes them the poll does") {
  NodeOptions options;
  options.peers.wake = Wake::poll;
  Three three(options);
  Waiting waiting(*three.nodes[1], "q");
  three.nodes[0]->enqueue("q");
  CHECK(waiting.jobs() == 1);
}

TEST_CASE("one node leads; another one does as soon as it stops") {
  Three three;
  const int leader = three.leader();
  REQUIRE(leader >= 0);
  CHECK(std::count_if(std::begin(three.nodes), std::end(three.nodes),
                      [](const auto& node) { return node->leads(); }) == 1);
  // Of the leader lease; "" = none.
  const auto holder = [&] {
    return must(
        cluster().sql("SELECT coalesce(max(holder), '') FROM mainspring.named_leases "
                      "WHERE name = 'mainspring/leader' AND state = 0",
                      three.database))[0][0];
  };
  const std::string before = holder();
  CHECK(before != "");
  three.nodes[leader].reset();
  CHECK(holder() != before);  // it was released: no node waits for its end
  three.nodes[leader] = std::make_unique<TestNode>(three.url);
  CHECK(three.leader() != -1);
}

TEST_CASE("a delayed job of any node runs when it is due, with any leader") {
  Three three(never_polls());
  (void)three.leader();
  Waiting waiting(*three.nodes[2], "later");
  const Instant begin = three.nodes[0]->clock.now().instant;
  for (int i = 0; i < 3; ++i) {
    if (!three.nodes[i]->leads()) {
      three.nodes[i]->enqueue("later", 1s);
      break;
    }
  }
  CHECK(waiting.jobs() == 1);
  // The nodes measure the time of the database, with an error of some milliseconds.
  CHECK(waiting.answered - begin >= 500ms);
}

TEST_CASE("a caller that waits for a job learns its end from another node") {
  Three three;
  const JobId id = three.nodes[0]->enqueue("q");
  std::optional<Result<Job>> ended;
  std::thread waiter([&] { ended = three.nodes[1]->broker().wait(id, 30s, {}); });
  const auto claimed = must(three.nodes[2]->claim("q"));
  REQUIRE(claimed.jobs.size() == 1);
  Finish finish{.worker = "w"};
  finish.results.push_back({.id = id, .token = claimed.jobs[0].token, .outcome = Complete{}});
  (void)must(three.nodes[2]->broker().finish(std::move(finish)));
  waiter.join();
  REQUIRE(ended->has_value());
  CHECK((*ended)->state == JobState::completed);
}

TEST_CASE("an event stream of one node has the events of all nodes and continues at another") {
  NodeOptions options;
  options.broker.events.memory = 1s;
  Three three(options);
  const auto events = [&](int i) -> Events& { return three.nodes[i]->broker().events(); };
  const auto wanted = [&](int i) { return events(i).wanted(three.nodes[i]->clock.now().instant); };
  three.nodes[1]->enqueue("before");
  auto listener = events(0).listen(1);
  REQUIRE(eventually([&] { return wanted(1) && wanted(2); }));
  // Every node knows the start of every other node's events.
  REQUIRE(eventually([&] {
    return std::all_of(std::begin(three.nodes), std::end(three.nodes), [](const auto& node) {
      return node->broker().events().newest_place().marks.all().size() == 3;
    });
  }));
  const JobId id = three.nodes[1]->enqueue("q");
  const ClaimResult claimed = must(three.nodes[2]->claim("q"));
  REQUIRE(claimed.jobs.size() == 1);
  Finish finish{.worker = "w"};
  finish.results.push_back({.id = id, .token = claimed.jobs[0].token, .outcome = Complete{}});
  (void)must(three.nodes[2]->broker().finish(std::move(finish)));
  for (const int i : {0, 1, 2}) {
    std::vector<std::string> told;
    REQUIRE(eventually([&] {
      told.clear();
      for (const EventPtr& event : events(i).read(0, 1000).events) {
        if (!event->mark) told.push_back(fmt::format("{} {}", to_string(event->type), event->job));
      }
      return told.size() >= 3;
    }));
    // By different connections: the order of the first two is not defined.
    std::sort(told.begin(), told.end());
    CHECK(told == std::vector<std::string>{fmt::format("completed {}", id),
                                           fmt::format("enqueued {}", id),
                                           fmt::format("started {}", id)});
  }
  const Events::Place there = events(1).place_after(events(0).newest_place().marks);
  CHECK(there.gap.empty());
  CHECK(there.position == events(1).newest());
  // A node that stops announces it: no event is missing.
  const std::uint64_t before = events(0).newest();
  three.nodes[2]->enqueue("last");
  three.nodes[2].reset();
  REQUIRE(eventually([&] { return three.nodes[0]->peers_reached() == 1; }));
  REQUIRE(eventually([&] { return events(0).newest() > before; }));
  for (const EventPtr& event : events(0).read(before, 100).events)
    CHECK(event->type == EventType::enqueued);
  listener.reset();
  // After 20 s; event_relay_test has it on a clock of its own.
  if (test_scale() == TestScale::full) CHECK(eventually([&] { return !wanted(0) && !wanted(1); }));
}

TEST_CASE("an idle cluster of 3 nodes and 100 queues makes fewer than 2 transactions per second") {
  Three three;
  for (int i = 0; i < 100; ++i) {
    const std::string queue = fmt::format("q{}", i);
    const JobId id = three.nodes[0]->enqueue(queue);
    const auto claimed = must(three.nodes[i % 3]->claim(queue));
    Finish finish{.worker = "w"};
    finish.results.push_back({.id = id, .token = claimed.jobs[0].token, .outcome = Complete{}});
    (void)must(three.nodes[i % 3]->broker().finish(std::move(finish)));
  }
  (void)three.leader();
  const auto transactions = [&] {
    const auto rows = must(cluster().sql(
        fmt::format("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '{}'",
                    three.database)));
    return std::stoll(rows.at(0).at(0));
  };
  const SystemClock clock;
  // The server's own housekeeping counts too, and what was done before is published late.
  REQUIRE(cluster().set("autovacuum", "off").has_value());
  (void)eventually([] { return false; }, 11s);
  // The server may publish the counts of a connection up to a minute late: constant load shows in
  // each of three samples.
  double rate = 2.0;
  for (int look = 0; look < 3 && rate >= 2.0; ++look) {
    const auto before = transactions();
    const Instant begin = clock.now().instant;
    (void)eventually([] { return false; }, by_scale(10s, 10s, 20s));
    const double seconds = static_cast<double>((clock.now().instant - begin).count()) / 1e6;
    rate = static_cast<double>(transactions() - before) / seconds;
    MESSAGE("idle: ", rate, " transactions per second");
  }
  CHECK(rate < 2.0);
  REQUIRE(cluster().set("autovacuum", "on").has_value());
}

TEST_CASE("a node that is cut off from the database says so, claims nothing, and comes back") {
  const std::string database = must(cluster().new_database());
  TestNode other(cluster().url(database));
  const auto proxy = must(TcpProxy::make(cluster().socket_path()));
  TestNode cut(PgCluster::tcp_url(proxy->port(), database));
  Waiting waiting(cut, "q", 60s);
  REQUIRE_FALSE(cut.node->peers()->not_ready().has_value());
  proxy->set(TcpProxy::Mode::refuse);
  proxy->cut();
  other.enqueue("q");
  CHECK(eventually([&] { return cut.node->peers()->not_ready().has_value(); }));
  CHECK_FALSE(waiting.result.has_value());
  Enqueue request;
  request.jobs.push_back(NewJob{.queue = "q", .kind = "work"});
  const auto refused = cut.broker().enqueue(std::move(request));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::unavailable);
  CHECK(refused.error().retry_after_ms > 0);
  proxy->set(TcpProxy::Mode::pass);
  CHECK(waiting.jobs() == 1);  // all that it needed was waiting
  CHECK(eventually([&] { return !cut.node->peers()->not_ready().has_value(); }));
}

TEST_CASE("three nodes continue by themselves after a restart of the database") {
  Three three;
  Waiting waiting(*three.nodes[1], "q", 60s);
  auto own = must(PgCluster::make({}));
  const std::string database = must(own->new_database());
  TestNode a(own->url(database)), b(own->url(database));
  a.enqueue("x");
  own->kill9();
  (void)eventually([&] { return a.node->peers()->not_ready().has_value(); }, 10s);
  REQUIRE(own->start().has_value());
  CHECK(eventually([&] {
    Enqueue request;
    request.jobs.push_back(NewJob{.queue = "y", .kind = "work"});
    return b.broker().enqueue(std::move(request)).has_value();
  }));
  CHECK(must(a.claim("y")).jobs.size() == 1);
  CHECK(must(b.claim("x")).jobs.size() == 1);
  three.nodes[2]->enqueue("q");
  CHECK(waiting.jobs() == 1);
}

TEST_CASE("require_rpo0 refuses a server without a synchronous standby, and says what is missing") {
  NodeOptions options;
  options.postgres = PostgresOptions{.url = Secret(cluster().url(must(cluster().new_database())))};
  options.peers.require_rpo0 = true;
  SystemClock clock;
  NullLog log;
  Registry registry;
  const auto refused = Node::open(std::move(options), clock, log, registry);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::conflict);
  CHECK(refused.error().message.find("no standby is synchronous") != std::string::npos);
  CHECK_FALSE(check_rpo0({.synchronous_commit = "local", .synchronous_standbys = 2}).has_value());
  CHECK(check_rpo0({.synchronous_commit = "on", .synchronous_standbys = 1}).has_value());
}

TEST_CASE("while no standby is synchronous, require_rpo0 refuses changes and says why") {
  // A standby that keeps the log and nothing else.
  const auto own = must(PgCluster::make({}));
  const std::string database = must(own->new_database());
  REQUIRE(own->sql("GRANT pg_read_all_stats TO mainspring").has_value());
  const std::string kept = must(pg_testing::make_server_directory());
  pg_testing::ServerProcess standby;
  const auto started =
      standby.start({.argv = {pg_testing::server_program("pg_receivewal"), "-D", kept,
                              "--synchronous", "-v", "-U", "postgres", "-h", own->directory()},
                     .directory = kept,
                     .user = pg_testing::server_user(),
                     .ready = "starting log streaming"},
                    kLimit);
  REQUIRE_MESSAGE(started.has_value(), started.error().message);
  REQUIRE(own->set("synchronous_standby_names", "*").has_value());
  const auto synchronous = [&] {
    return must(own->sql("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'")).size();
  };
  REQUIRE(eventually([&] { return synchronous() == 1; }));
  NodeOptions options;
  options.peers.require_rpo0 = true;
  TestNode node(own->url(database), options);
  node.enqueue("q");
  const auto running = must(node.claim("q"));
  REQUIRE(running.jobs.size() == 1);
  Waiting waiting(node, "q", 60s);
  const auto enqueue = [&] {
    return node.broker().enqueue({.jobs = {NewJob{.queue = "q", .kind = "work"}}});
  };

  REQUIRE(own->set("synchronous_standby_names", "").has_value());
  REQUIRE(eventually([&] { return node.node->peers()->not_ready().has_value(); }));
  REQUIRE(eventually([&] {
    return node.broker().claim({.worker = "v", .queues = {"z"}}, 0s, {}).has_value() == false;
  }));
  const auto refused = enqueue();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::unavailable);
  CHECK(refused.error().message.find("require_rpo0: no standby is synchronous") !=
        std::string::npos);
  CHECK(refused.error().retry_after_ms > 0);
  Finish finish{.worker = "w"};
  finish.results.push_back(
      {.id = running.jobs[0].id, .token = running.jobs[0].token, .outcome = Complete{}});
  CHECK_FALSE(node.broker().finish(finish).has_value());
  Renew renew{.worker = "w"};
  renew.leases.push_back({.id = running.jobs[0].id, .token = running.jobs[0].token});
  CHECK(must(node.broker().renew(std::move(renew))).renewed.size() == 1);
  CHECK_FALSE(waiting.result.has_value());

  REQUIRE(own->set("synchronous_standby_names", "*").has_value());
  CHECK(eventually([&] { return enqueue().has_value(); }));
  CHECK(waiting.jobs() == 1);
  CHECK(node.broker().finish(std::move(finish)).has_value());
  // Its commits would wait for the standby that goes first.
  REQUIRE(own->set("synchronous_standby_names", "").has_value());
}
