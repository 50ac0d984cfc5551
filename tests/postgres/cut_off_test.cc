// A node that is cut off from the database: its handlers end before their leases do by the
// database's clock, another node takes their jobs only then, and it comes back by itself.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <thread>

#include "base/mutex.h"
#include "broker/broker.h"
#include "client/client.h"
#include "engine/node.h"
#include "http/server.h"
#include "postgres/places.h"
#include "postgres/tcp_proxy.h"
#include "worker/worker.h"

namespace mainspring::pg_testing {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLimit = 120s;

// The observations of handlers, in the time of the database, which runs on this machine.
struct Seen {
  JobId id = 0;
  Token token = 0;
  std::int64_t started = 0;      // when its handler was called
  std::int64_t told = 0;         // when it received a stop request; 0 = none
  std::int64_t lease_until = 0;  // as the database had it last
  StopReason why = StopReason::none;
  bool still_its_own = false;  // by the token, then
};

class Notes {
 public:
  explicit Notes(const std::string& database) : database_(database) {}
  // Microseconds since 1970, by the database.
  std::int64_t now() const { return number("SELECT extract(epoch FROM clock_timestamp()) * 1e6"); }
  std::int64_t number(const std::string& sql) const {
    return std::stoll(must(the_cluster().sql(fmt::format("SELECT n::bigint FROM ({}) AS q(n)", sql),
                                             database_))[0][0]);
  }
  void read(Seen& seen, std::int64_t& now) const {
    const Rows row = must(the_cluster().sql(
        fmt::format("SELECT (extract(epoch FROM clock_timestamp()) * 1e6)::bigint, lease_until, "
                    "token FROM mainspring.jobs WHERE id = {}",
                    seen.id),
        database_));
    now = std::stoll(row[0][0]);
    seen.lease_until = std::stoll(row[0][1]);
    seen.still_its_own = std::stoll(row[0][2]) == seen.token;
  }
  void add(const std::string& who, const Seen& seen) {
    MutexLock lock(mutex_);
    seen_[who].push_back(seen);
    changed_.notify_all();
  }
  std::vector<Seen> of(const std::string& who) const {
    MutexLock lock(mutex_);
    const auto found = seen_.find(who);
    return found == seen_.end() ? std::vector<Seen>() : found->second;
  }
  // Whether jobs with a stop request may end. A worker's results from before may still arrive
  // although it receives nothing any more. Its job has then completed.
  void let_end(bool may) {
    MutexLock lock(mutex_);
    may_end_ = may;
    changed_.notify_all();
  }
  void await_end() {
    const SystemClock clock;
    const Instant end = clock.now().instant + kLimit;
    MutexLock lock(mutex_);
    while (!may_end_ && clock.now().instant < end) changed_.wait_for(mutex_, 100ms);
  }
  // Waits until there are `count` entries and returns them.
  std::vector<Seen> await(const std::string& who, std::size_t count) {
    const SystemClock clock;
    const Instant end = clock.now().instant + kLimit;
    MutexLock lock(mutex_);
    while (seen_[who].size() < count && clock.now().instant < end) changed_.wait_for(mutex_, 100ms);
    REQUIRE_MESSAGE(seen_[who].size() >= count, who);
    return seen_[who];
  }

 private:
  const std::string database_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<std::string, std::vector<Seen>> seen_ MS_GUARDED_BY(mutex_);
  bool may_end_ MS_GUARDED_BY(mutex_) = true;
};

// Jobs of the kind "long" run until a stop request, others end at once. Adds the notes WHO-started
// and WHO-told.
struct TestWorker {
  TestWorker(Jobs& jobs, std::vector<std::string> queues, std::string who, Notes& notes,
             Duration lease)
      : runtime(jobs, clock, random, log,
                {.queues = std::move(queues),
                 .slots = 4,
                 .lease = lease,
                 .graceful_stop = 2s,
                 .claim_wait = 2s}) {
    runtime.on_any([this, who, &notes](const ClaimedJob& job, Context& context) -> HandlerResult {
      Seen seen{.id = job.id, .token = job.token};
      notes.read(seen, seen.started);
      notes.add(who + "-started", seen);
      if (job.kind != "long") return Complete{};
      Mutex mutex;
      CondVar stopped;
      const std::stop_callback wake(context.stop_token(), [&] {
        MutexLock lock(mutex);
        seen.told = clock.now().wall.us();
        stopped.notify_all();
      });
      {
        MutexLock lock(mutex);
        while (!context.stop_requested()) stopped.wait_for(mutex, kLimit);
      }
      seen.why = context.stop_reason();
      std::int64_t read_at = 0;
      notes.read(seen, read_at);
      notes.add(who + "-told", seen);
      notes.await_end();
      return Complete{};
    });
    REQUIRE(runtime.start().has_value());
  }
  SystemClock clock;
  SystemRandom random;
  NullLog log;
  WorkerRuntime runtime;
};

struct TestNode {
  explicit TestNode(const std::string& url) {
    NodeOptions options;
    options.postgres = PostgresOptions{.url = Secret(url)};
    node = must(Node::open(std::move(options), clock, log, registry));
    node->start();
    HttpOptions door;
    door.port = 0;
    http = std::make_unique<HttpServer>(door, node->broker(), node->store(), node->clock(), log,
                                        registry);
    REQUIRE(http->start().has_value());
  }
  ~TestNode() {
    http->stop(1s);
    node->stop();
  }
  JobId enqueue(const std::string& queue, const std::string& kind) {
    Enqueue request;
    request.jobs.push_back(NewJob{.queue = queue, .kind = kind});
    return must(node->broker().enqueue(std::move(request))).jobs.front().id;
  }
  SystemClock clock;
  NullLog log;
  Registry registry;
  std::unique_ptr<Node> node;
  std::unique_ptr<HttpServer> http;
};

// A node that is connected through a proxy, with a worker in its process and one over HTTP; and
// another node without faults.
struct Two {
  // A handler is stopped a sixth of the lease before its end. A busy machine may be that late.
  explicit Two(Duration lease)
      : database(must(the_cluster().new_database())),
        notes(database),
        proxy(must(TcpProxy::make(the_cluster().socket_path()))),
        other(the_cluster().url(database)),
        cut(PgCluster::tcp_url(proxy->port(), database)),
        client(must(
            Client::open({.url = fmt::format("http://127.0.0.1:{}", cut.http->port())}, random))),
        embedded(cut.node->broker(), {"embedded", "embedded-only"}, "embedded", notes, lease),
        remote(*client, {"remote", "remote-only"}, "remote", notes, lease) {}

  std::string database;
  Notes notes;
  std::unique_ptr<TcpProxy> proxy;
  SystemRandom random;
  TestNode other, cut;
  std::unique_ptr<Client> client;
  TestWorker embedded, remote;
};

const std::vector<std::string> kWorkers = {"embedded", "remote"};

void must_have_stopped_in_time(const Seen& told) {
  CHECK(told.why == StopReason::lease_lost);
  CHECK(told.still_its_own);
  CHECK(told.told < told.lease_until);
}

}  // namespace

TEST_CASE("a node cut off from the database ends its jobs before another node starts them") {
  struct How {
    std::string name;
    TcpProxy::Mode mode;
    bool cut;
  };
  for (const How& how : {How{"nothing passes, nothing is closed", TcpProxy::Mode::hold, false},
                         How{"answers vanish", TcpProxy::Mode::deaf, false},
                         How{"connections are reset and refused", TcpProxy::Mode::refuse, true}}) {
    CAPTURE(how.name);
    Two two(12s);
    two.notes.let_end(false);
    std::map<std::string, JobId> jobs;
    for (const std::string& who : kWorkers) {
      jobs[who] = two.other.enqueue(who, "long");
      two.notes.await(who + "-started", 1);
    }
    const TestWorker peer(two.other.node->broker(), {"embedded", "remote"}, "other", two.notes,
                          12s);
    two.proxy->set(how.mode);
    if (how.cut) two.proxy->cut();
    const std::int64_t cut_at = two.notes.now();

    std::map<JobId, Seen> told;
    for (const std::string& who : kWorkers) {
      CAPTURE(who);
      const Seen seen = two.notes.await(who + "-told", 1)[0];
      CHECK(seen.id == jobs[who]);
      CHECK(seen.told >= cut_at);
      must_have_stopped_in_time(seen);
      told[seen.id] = seen;
    }
    for (const Seen& started : two.notes.await("other-started", 2)) {
      REQUIRE(told.contains(started.id));
      CHECK(started.token > told[started.id].token);
      CHECK(started.started >= told[started.id].lease_until);
    }
    two.notes.let_end(true);
    // It claims nothing while it is cut off, and all waiting jobs when it is back.
    for (const std::string& who : kWorkers) {
      two.other.enqueue(who, "short");
      two.other.enqueue(who + "-only", "short");
    }
    (void)two.notes.await("other-started", 4);
    for (const std::string& who : kWorkers) CHECK(two.notes.of(who + "-started").size() == 1);
    two.proxy->set(TcpProxy::Mode::pass);
    for (const std::string& who : kWorkers) (void)two.notes.await(who + "-started", 2);
    const SystemClock clock;
    const Instant limit = clock.now().instant + kLimit;
    while (two.cut.node->peers()->not_ready())
      REQUIRE_MESSAGE(clock.now().instant < limit, "is still not ready");
  }
}

TEST_CASE("a lease is measured from the start of its commit, even if the answer is late") {
  Two two(3s);
  for (const std::string& who : kWorkers) {
    CAPTURE(who);
    two.other.enqueue(who, "short");  // so that all caches are warm
    two.notes.await(who + "-started", 1);
    // A claim takes two round trips or three: half of the lease is over when its answer is here.
    two.proxy->delay(250ms);
    two.other.enqueue(who, "long");
    two.notes.await(who + "-started", 2);
    two.proxy->set(TcpProxy::Mode::hold);
    const Seen told = two.notes.await(who + "-told", 1)[0];
    MESSAGE(who, ": ", (told.lease_until - told.told) / 1000, " ms were left");
    must_have_stopped_in_time(told);
    two.proxy->delay(0ms);
    two.proxy->set(TcpProxy::Mode::pass);
  }
}

TEST_CASE("a job is not started if its lease is over when the claim is answered") {
  Two two(3s);
  two.proxy->delay(600ms);
  const auto claims = [&] {
    return two.notes.number("SELECT max(version) FROM mainspring.jobs WHERE state <> 4");
  };
  for (const std::string& who : kWorkers) two.other.enqueue(who, "short");
  // Claimed, and given back.
  const SystemClock clock;
  const Instant limit = clock.now().instant + kLimit;
  while (claims() < 3) REQUIRE_MESSAGE(clock.now().instant < limit, "was not claimed");
  two.proxy->delay(0ms);
  for (const std::string& who : kWorkers) {
    const Seen seen = two.notes.await(who + "-started", 1)[0];
    CHECK(seen.started < seen.lease_until);
    CHECK(seen.still_its_own);
  }
}

}  // namespace mainspring::pg_testing
