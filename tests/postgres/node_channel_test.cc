// The channel of a node over a real server: presence, NOTIFY, half-open connections, poolers.
#include "store_postgres/node_channel.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/mutex.h"
#include "postgres/cluster.h"
#include "postgres/pgbouncer.h"
#include "postgres/tcp_proxy.h"
#include "store_postgres/inspect.h"

using namespace mainspring;
using namespace std::chrono_literals;
using pg_testing::PgBouncer;
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

// A database with the tables.
std::string new_store() {
  const std::string database = must(cluster().new_database());
  PostgresOptions options;
  options.url = Secret(cluster().url(database));
  const auto migrated = migrate_postgres_store(options);
  if (!migrated) FAIL(migrated.error().message);
  return database;
}

class CountingLog final : public Log {
 public:
  void write(LogLevel level, std::string_view message, const Fields&) override {
    MutexLock lock(mutex_);
    if (level == LogLevel::warn) warnings_.emplace_back(message);
  }
  int warnings(const std::string& with) {
    MutexLock lock(mutex_);
    return static_cast<int>(
        std::count_if(warnings_.begin(), warnings_.end(),
                      [&](const std::string& one) { return one.find(with) != std::string::npos; }));
  }

 private:
  Mutex mutex_;
  std::vector<std::string> warnings_ MS_GUARDED_BY(mutex_);
};

struct Node {
  Node(std::int64_t number, const std::string& url, NodeChannelOptions options = {}) {
    options.url = Secret(url);
    options.node = number;
    options.incarnation = fmt::format("i{}", number);
    options.program = "1.0";
    options.address = fmt::format("127.0.0.1:{}", 7000 + number);
    channel = std::make_unique<NodeChannel>(
        std::move(options), clock, random, log, registry,
        NodeChannel::Handlers{.heard = [this](const ChangeHints& what) { note(what); },
                              .peers = [this](const auto& all) { note_peers(all); }});
    channel->start();
  }
  void note(const ChangeHints& what) {
    MutexLock lock(mutex);
    for (const std::string& queue : what.queues) ++queues[queue];
    if (what.everything) ++everything;
    changed.notify_all();
  }
  void note_peers(const std::vector<NodeChannel::Peer>& all) {
    MutexLock lock(mutex);
    peers.clear();
    for (const auto& peer : all) peers.insert(peer.node);
    changed.notify_all();
  }
  template <class Done>
  bool wait(Done done, Duration most = kLimit) {
    const Instant limit = clock.now().instant + most;
    MutexLock lock(mutex);
    while (!done()) {
      const Instant now = clock.now().instant;
      if (now >= limit) return false;
      changed.wait_for(mutex, limit - now);
    }
    return true;
  }
  bool connected(int times = 1) {
    return wait([&] { return everything >= times; });
  }

  SystemClock clock;
  SystemRandom random;
  CountingLog log;
  Registry registry;
  Mutex mutex;
  CondVar changed;
  std::map<std::string, int> queues;
  int everything = 0;
  std::set<std::int64_t> peers;
  std::unique_ptr<NodeChannel> channel;
};

std::int64_t transactions(const std::string& database) {
  const auto rows = must(cluster().sql(fmt::format(
      "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '{}'", database)));
  return std::stoll(rows.at(0).at(0));
}

}  // namespace

TEST_CASE("nodes receive the notices of other nodes by NOTIFY, not their own") {
  const std::string url = cluster().url(new_store());
  Node a(1, url), b(2, url);
  REQUIRE(a.connected());
  REQUIRE(b.connected());
  CHECK(a.channel->listening() == NodeChannel::Listening::works);
  a.channel->say({.queues = {"mail"}});
  CHECK(b.wait([&] { return b.queues.contains("mail"); }));
  b.channel->say({.queues = {"back"}});
  CHECK(a.wait([&] { return a.queues.contains("back"); }));
  CHECK_FALSE(a.queues.contains("mail"));
}

TEST_CASE("nodes know which other nodes are present and which have left") {
  const std::string url = cluster().url(new_store());
  Node a(1, url);
  {
    Node b(2, url);
    CHECK(b.wait([&] { return b.peers == std::set<std::int64_t>{1}; }));
    CHECK(a.wait([&] { return a.peers == std::set<std::int64_t>{2}; }));
  }
  CHECK(a.wait([&] { return a.peers.empty(); }));
}

TEST_CASE("a node that has not been seen for 15 s is not notified") {
  const std::string database = new_store();
  (void)must(cluster().sql(
      "INSERT INTO mainspring.nodes SELECT n, 'dead', '127.0.0.1:1', '1.0', 0, mainspring.now_us() "
      "- n * 10000000 FROM generate_series(1, 2) n",
      database));
  Node c(3, cluster().url(database));
  CHECK(c.wait([&] { return c.peers == std::set<std::int64_t>{1}; }));
}

TEST_CASE("a client notifies by SQL; an unreadable notice means that anything may have changed") {
  const std::string database = new_store();
  Node a(1, cluster().url(database));
  REQUIRE(a.connected());
  (void)must(cluster().sql(R"(NOTIFY mainspring, '{"queues":["sql"],"color":"red"}')", database));
  CHECK(a.wait([&] { return a.queues.contains("sql"); }));
  const int before = a.everything;
  (void)must(cluster().sql("NOTIFY mainspring, 'hello'", database));
  CHECK(a.wait([&] { return a.everything > before; }));
}

TEST_CASE("many notices in a short time are sent in few NOTIFY") {
  const std::string database = new_store();
  const std::string url = cluster().url(database);
  Node a(1, url), b(2, url);
  REQUIRE(a.connected());
  REQUIRE(b.connected());
  for (int i = 0; i < 10'000; ++i) a.channel->say({.queues = {fmt::format("q{}", i % 10)}});
  a.channel->say({.queues = {"last"}});
  CHECK(b.wait([&] { return b.queues.contains("last"); }));
  CHECK(a.registry.counter("mainspring_notify_sent_total", "").value() < 1000);
}

TEST_CASE("a half-open connection is noticed within 10 s, and nothing is lost over it") {
  const std::string database = new_store();
  const auto proxy = must(TcpProxy::make(cluster().socket_path()));
  Node a(1, PgCluster::tcp_url(proxy->port(), database));
  Node b(2, cluster().url(database));
  REQUIRE(a.connected());
  REQUIRE(b.connected());
  REQUIRE(a.wait([&] { return a.peers.size() == 1; }));  // it has nothing to ask now
  REQUIRE(b.wait([&] { return b.peers.size() == 1; }));
  const NodeChannelOptions options;
  CHECK(options.ping_every + options.answer_timeout < 10s);
  const Instant cut = a.clock.now().instant;
  proxy->set(TcpProxy::Mode::hold);
  b.channel->say({.queues = {"unheard"}});
  const auto away = [&] { return a.log.warnings("channel to the database is lost") > 0; };
  while (!away() && a.clock.now().instant < cut + kLimit) {
    (void)a.wait([] { return false; }, 50ms);
  }
  CHECK(away());
  proxy->cut();
  proxy->set(TcpProxy::Mode::pass);
  CHECK(a.connected(2));  // it reports that everything may have changed
  a.channel->say({.queues = {"again"}});
  CHECK(b.wait([&] { return b.queues.contains("again"); }));
}

TEST_CASE("with a pooler that swallows LISTEN the node reports it once and continues") {
  const std::string database = new_store();
  const auto pooler = must(PgBouncer::make(cluster()));
  const std::string url = pooler->url(database);
  Node a(1, url, {.prepared = false});
  REQUIRE(a.connected());
  CHECK(a.channel->listening() == NodeChannel::Listening::does_not_work);
  CHECK(a.log.warnings("LISTEN does not work") == 1);
  Node b(2, cluster().url(database));
  REQUIRE(b.connected());
  a.channel->say({.queues = {"sent"}});  // saying works through it
  CHECK(b.wait([&] { return b.queues.contains("sent"); }));
}

TEST_CASE("LISTEN works as soon as the node receives its own message, also late") {
  const std::string database = new_store();
  Node a(1, cluster().url(database), {.echo_limit = 0s});
  REQUIRE(a.connected());
  const auto works = [&] { return a.channel->listening() == NodeChannel::Listening::works; };
  const Instant limit = a.clock.now().instant + kLimit;
  while (!works() && a.clock.now().instant < limit) (void)a.wait([] { return false; }, 50ms);
  CHECK(works());
}

TEST_CASE("an idle channel costs the database no transactions between its reads") {
  const std::string database = new_store();
  const std::string url = cluster().url(database);
  // A slow machine neither loses the channel nor gets to the next read.
  const NodeChannelOptions options{.answer_timeout = 1min, .ping_every = 50ms, .peers_every = 1h};
  REQUIRE(cluster().set("autovacuum", "off").has_value());  // it has transactions of its own
  Node a(1, url, options), b(2, url, options);
  REQUIRE(a.connected());
  REQUIRE(b.wait([&] { return b.peers.size() == 1; }));
  REQUIRE(a.wait([&] { return a.peers.size() == 1; }));
  // The server publishes what was done before some seconds late. Transactions of pings would show
  // in each of several samples.
  (void)a.wait([] { return false; }, 1500ms);
  std::int64_t done = 1;
  for (int look = 0; look < 6 && done != 0; ++look) {
    const std::int64_t before = transactions(database);
    (void)a.wait([] { return false; }, 3s);  // 60 pings of each
    done = transactions(database) - before;
  }
  CHECK(done == 0);
  REQUIRE(cluster().set("autovacuum", "on").has_value());
}

TEST_CASE("all nodes have one key, made by the first") {
  const std::string url = cluster().url(new_store());
  SystemClock clock;
  SystemRandom random;
  const NodeChannelOptions options{.url = Secret(url)};
  const Secret first = must(shared_peer_key(options, clock, random));
  const Secret second = must(shared_peer_key(options, clock, random));
  CHECK(first.reveal().size() == 64);
  CHECK((first.reveal() == second.reveal()));
}

TEST_CASE("a notice is read as written, and one that is too long means that anything changed") {
  const ChangeHints what{.queues = {"a\"b", "c"},
                         .released = {"l"},
                         .cancels = {{.job = 9, .worker = "w \"1\""}},
                         .ended = {7, 8},
                         .next_due = WallTime::from_ms(1'767'225'600'123),
                         .catalog = true};
  const Notice back = must(decode_notice(encode_notice(what, 9)));
  CHECK(back.node == 9);
  CHECK((back.heard.queues == what.queues));
  CHECK((back.heard.released == what.released));
  CHECK((back.heard.cancels == what.cancels));
  CHECK((back.heard.ended == what.ended));
  CHECK((back.heard.next_due == what.next_due));
  CHECK(back.heard.catalog);
  ChangeHints much;
  for (int i = 0; i < 1000; ++i) much.queues.push_back(fmt::format("queue-{}", i));
  const std::string text = encode_notice(much, 9);
  CHECK(text.size() < 8000);
  CHECK(must(decode_notice(text)).heard.everything);
  CHECK_FALSE(decode_notice("{\"queues\":7}").has_value());
}
