// A store, a client of its SQL functions, and a listener that receives the notices to nodes.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>

#include "base/mutex.h"
#include "postgres/places.h"
#include "store_postgres/node_channel.h"

namespace mainspring::pg_testing {

constexpr Duration kHearLimit = std::chrono::seconds(60);

inline WallTime database_time() {
  const auto rows =
      must(the_cluster().sql("SELECT (extract(epoch FROM clock_timestamp()) * 1e6)::bigint"));
  return WallTime::from_us(std::stoll(rows.at(0).at(0)));
}

// Until a transaction of a node waits for a lock.
inline void await_waiting_for_a_lock() {
  const auto until = SystemClock().now().instant + kHearLimit;
  while (must(the_cluster().sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND "
                                "application_name LIKE 'mainspring%'"))
             .empty()) {
    if (SystemClock().now().instant >= until) FAIL("no transaction waits");
  }
}

// One operation of that store, which must succeed.
template <class Answer>
Answer apply(Store& store, const Operation& operation, const Clock& clock) {
  auto results = must(store.apply({&operation, 1}, clock.now())).results;
  if (const auto* error = std::get_if<Error>(&results[0])) FAIL(error->message);
  return std::get<Answer>(std::move(results[0]));
}
inline std::vector<ClaimedJob> claim(Store& store, int max, const Clock& clock,
                                     std::vector<std::string> queues = {"q"}) {
  return apply<ClaimResult>(
             store, Claim{.worker = "w", .queues = std::move(queues), .kinds = {}, .max = max},
             clock)
      .jobs;
}

// A store in its own schema. `ms.` in SQL stands for the schema.
class Place {
 public:
  explicit Place(const StoreOptions& store_options = {})
      : clock(database_time()), options(new_place(store_options)), store(open()) {}

  std::unique_ptr<SharedStore> open() const {
    return must(open_postgres_store(options, clock.now(), log));
  }
  static PgConnection connect(const std::string& user = "mainspring") {
    return must(PgConnection::open(the_cluster().url(the_database(), user)));
  }
  std::string named(std::string text) const {
    const std::string name = options.schema + ".";
    for (std::size_t at = 0; (at = text.find("ms.", at)) != std::string::npos; at += name.size())
      text.replace(at, 3, name);
    return text;
  }
  Result<Rows> try_sql(const std::string& text) { return connection_.sql(named(text)); }
  Rows sql(const std::string& text) { return must(try_sql(text)); }
  // `SELECT ms.enqueue(ARGUMENTS)`
  JobId enqueue(const std::string& arguments) {
    return std::stoll(sql("SELECT ms.enqueue(" + arguments + ")").at(0).at(0));
  }
  template <class Answer>
  Answer apply(const Operation& operation) {
    return pg_testing::apply<Answer>(*store, operation, clock);
  }
  JobId enqueue(const NewJob& job) {
    return apply<EnqueueResult>(Enqueue{.jobs = {job}}).jobs.at(0).id;
  }
  std::vector<ClaimedJob> claim(const std::string& queue, int max = 1) {
    return pg_testing::claim(*store, max, clock, {queue});
  }
  void check_invariants() {
    const auto report = must(store->verify());
    CHECK_MESSAGE(report.problems.empty(), report.problems.at(0));
  }

  ManualClock clock;
  mutable NullLog log;
  PostgresOptions options;
  std::unique_ptr<SharedStore> store;

 private:
  PgConnection connection_ = connect();
};

struct Listener {
  explicit Listener(const PostgresOptions& place)
      // Directly to the server: a pooler does not forward notifications.
      : channel({.url = Secret(the_cluster().url(the_database())),
                 .schema = place.schema,
                 .node = 77,
                 .incarnation = "i"},
                clock, random, log, registry,
                {.heard = [this](const ChangeHints& what) { note(what); },
                 .peers = [](const auto&) {}}) {
    channel.start();
    REQUIRE(wait([this] { return channel.listening() == NodeChannel::Listening::works; }));
  }
  void note(const ChangeHints& what) {
    MutexLock lock(mutex);
    for (const std::string& queue : what.queues) queues.insert(queue);
    if (what.next_due != WallTime::never()) due.insert(what.next_due);
    for (const JobId id : what.ended) ended.insert(id);
    changed.notify_all();
  }
  template <class Done>
  bool wait(Done done) {
    const Instant limit = clock.now().instant + kHearLimit;
    MutexLock lock(mutex);
    while (!done()) {
      const Instant now = clock.now().instant;
      if (now >= limit) return false;
      changed.wait_for(mutex, std::min<Duration>(limit - now, std::chrono::milliseconds(20)));
    }
    return true;
  }
  bool hears(const std::string& queue) {
    return wait([&] { return queues.contains(queue); });
  }

  SystemClock clock;
  SystemRandom random;
  NullLog log;
  Registry registry;
  Mutex mutex;
  CondVar changed;
  std::set<std::string> queues;
  std::set<WallTime> due;
  std::set<JobId> ended;
  NodeChannel channel;
};

}  // namespace mainspring::pg_testing
