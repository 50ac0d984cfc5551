// Sessions at scale over PostgreSQL: with twenty times the sessions, or twenty times the jobs in
// one session, operations read no more rows, by the server's counters.
//
// MS_SESSION_SCALE sets how many sessions and jobs there are in the end (10,000).
#include <cstdlib>

#include "postgres/sql_place.h"

namespace mainspring::pg_testing {
namespace {

constexpr std::int64_t kFew = 500;
constexpr int kAtOnce = 50;
constexpr std::int64_t kSlack = 400;  // rows; a walk over all would be thousands

std::int64_t scale() {
  const char* value = std::getenv("MS_SESSION_SCALE");
  return value == nullptr ? 10'000 : std::strtoll(value, nullptr, 10);
}

class Counting : public Place {
 public:
  // Rows and index entries that `work` reads, without those of opening a store. The server counts
  // them when the connections have ended.
  std::int64_t during(const std::function<void()>& work) {
    const std::int64_t opening = session([] {});
    return session(work) - opening;
  }
  void enqueue_all(std::int64_t first, std::int64_t last,
                   const std::function<std::string(std::int64_t)>& key) {
    for (std::int64_t i = first; i < last;) {
      Enqueue request;
      for (int n = 0; n < 1000 && i < last; ++n, ++i) {
        NewJob& job = request.jobs.emplace_back(NewJob{.queue = "q", .kind = "k"});
        job.session = key(i);
      }
      apply<EnqueueResult>(std::move(request));
    }
    sql("ANALYZE");
  }
  void complete(const std::vector<ClaimedJob>& jobs) {
    Finish request{.worker = "w", .results = {}};
    for (const ClaimedJob& job : jobs)
      request.results.push_back({.id = job.id, .token = job.token, .outcome = Complete{}});
    for (const FinishStatus status : apply<FinishResult>(std::move(request)).results)
      REQUIRE(status == FinishStatus::ok);
  }

 private:
  std::int64_t session(const std::function<void()>& work) {
    const std::int64_t before = rows_read();
    store = open();
    work();
    return rows_read() - before;
  }
  std::int64_t rows_read() {
    store.reset();
    const SystemClock time;
    const Instant limit = time.now().instant + kHearLimit;
    while (sql("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
               "backend_type = 'client backend' AND pid <> pg_backend_pid()")[0][0] != "0") {
      REQUIRE(time.now().instant < limit);
    }
    const std::string schema = options.schema;
    return std::stoll(
        sql(fmt::format("SELECT (SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, "
                        "0)) FROM pg_stat_user_tables WHERE schemaname = '{0}') + (SELECT "
                        "sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = '{0}')",
                        schema))[0][0]);
  }
};

void check_bounded(const std::string& what, std::int64_t few, std::int64_t many) {
  MESSAGE(what << ": " << few << " rows read, then " << many);
  CHECK(few > 0);
  CHECK_MESSAGE(many <= few + few / 4 + kSlack, what << " grows with the store");
}

}  // namespace

TEST_CASE("ORD: claims among many sessions of one job each read no more rows than among few") {
  Counting p;
  const auto key = [](std::int64_t i) { return fmt::format("session {}", i); };
  const auto head = [&] {
    const auto jobs = p.claim("q", kAtOnce);
    REQUIRE(jobs.size() == kAtOnce);
    p.complete(jobs);
  };
  p.enqueue_all(0, kFew, key);
  const std::int64_t few = p.during(head);
  p.store = p.open();
  p.enqueue_all(kFew, scale(), key);
  check_bounded("claim and finish", few, p.during(head));
}

TEST_CASE("ORD: claims in a session of many jobs read no more rows than in one of few") {
  Counting p;
  const auto key = [](std::int64_t) { return std::string("the one"); };
  const auto head = [&] {
    for (int i = 0; i < 5; ++i) {
      const auto jobs = p.claim("q", kAtOnce);
      REQUIRE(jobs.size() == 1);
      p.complete(jobs);
    }
  };
  p.enqueue_all(0, kFew, key);
  const std::int64_t few = p.during(head);
  p.store = p.open();
  p.enqueue_all(kFew, scale(), key);
  check_bounded("claim and finish", few, p.during(head));
}

// The statistics are those of the table when it was empty, as after a vacuum: each plan looks
// cheap.
TEST_CASE(
    "an acquire at the bound of locks reads each lock a few times, also with old statistics") {
  Counting p;
  const std::string table = p.options.schema + ".named_leases";
  p.sql(fmt::format("ALTER TABLE {} SET (autovacuum_enabled = off)", table));
  // Two released ones make room.
  const std::string fill =
      "INSERT INTO {} SELECT 'n' || i, CASE WHEN i < 3 THEN 1 ELSE 0 END, i, 60000000, 60000000, "
      "9000000000000000, 0, 'h' FROM generate_series(1, {}) i";
  p.sql(fmt::format(fmt::runtime(fill), table, kMaxLeases));
  p.sql(fmt::format("DELETE FROM {}", table));
  p.sql(fmt::format("VACUUM (ANALYZE, TRUNCATE off) {}", table));
  p.sql(fmt::format(fmt::runtime(fill), table, kMaxLeases));
  const std::int64_t read =
      p.during([&] { p.apply<LeaseGrant>(AcquireLease{.name = "x", .holder = "h"}); });
  MESSAGE(read << " rows read");
  CHECK(read < 20 * std::int64_t{kMaxLeases});
}

}  // namespace mainspring::pg_testing
