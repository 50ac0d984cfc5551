// Servers, databases and roles with unusual defaults: the store sets what it needs, or reports the
// conflicting setting at the start.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "postgres/bed.h"
#include "postgres/pgbouncer.h"

namespace mainspring::pg_testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

template <class T>
T answer(Bed& bed, Operation operation) {
  auto result = bed.apply(std::move(operation));
  if (!result) FAIL(result.error().message);
  if (const auto* error = std::get_if<Error>(&*result)) FAIL(error->message);
  return std::get<T>(std::move(*result));
}

// Each kind of statement once: fast-path batches and others, reads, functions, and the check of
// all.
void use(Bed& bed, const std::string& setting) {
  const auto id = bed.enqueue(1);
  if (!id) FAIL(id.error().message);
  CHECK(bed.complete(bed.claim()) == FinishStatus::ok);
  CHECK(bed.store->get(*id)->state == JobState::completed);
  CHECK(bed.enqueue(2).has_value());
  const ClaimedJob failed = bed.claim();
  answer<FinishResult>(
      bed,
      Finish{.worker = "w", .results = {{failed.id, failed.token, Retry{.error = "a\\u0041 ü"}}}});
  Schedule schedule{.name = "s", .every = seconds(60)};
  schedule.job.queue = "q";
  schedule.job.kind = "k";
  const WallTime next = bed.clock.now().wall;
  answer<PutScheduleResult>(
      bed, PutSchedule{.schedule = schedule, .next = next, .next_fire = next, .paused = {}});
  const FireResult fired = answer<FireResult>(
      bed, FireSchedule{.name = "s", .source = TickSource::trigger, .ticks = {Tick{}}});
  CHECK(fired.fired == 1);
  answer<StepResult>(bed, MoveDue{});
  answer<StepResult>(bed, OpenQueues{});

  auto application = must(PgConnection::open(bed.cluster->url(bed.database)));
  // A timeout of 1 ms may end even this.
  for (int i = 0; i < 100 && !application.sql("SET statement_timeout = 0"); ++i) {
  }
  const auto enqueue = [&](const std::string& args, const std::string& session) {
    return application.sql(
        fmt::format("SELECT {}.enqueue('q', 'k', args => {}, session => {}, delay => '1 month')",
                    bed.options.schema, args, session));
  };
  const auto made = enqueue(R"(E'{"a\\u0041":"x\\"[y\\u0000"}')", "'k'");
  if (!made) FAIL(setting << ": " << made.error().message);
  CHECK_FALSE(enqueue("'{}'", R"(E'back\\slash')").has_value());
  CHECK_FALSE(enqueue("'{'", "'k'").has_value());
  bed.must_be_sound();
}

}  // namespace

TEST_CASE("the store works with any defaults of its role") {
  BedOptions slow;
  slow.statement_timeout = slow.patience = seconds(20);
  Bed bed(slow);
  int n = 0;
  for (const std::string setting : {
           "default_transaction_isolation = 'serializable'",
           "default_transaction_isolation = 'repeatable read'",
           "default_transaction_deferrable = on",
           "standard_conforming_strings = off",
           "backslash_quote = off",
           "statement_timeout = '1ms'",
           "lock_timeout = '1ms'",
           "idle_in_transaction_session_timeout = '1ms'",
           "idle_session_timeout = '300ms'",
           "search_path = 'nowhere, pg_temp, pg_catalog'",
           "DateStyle = 'German, DMY'",
           "IntervalStyle = 'sql_standard'",
           "bytea_output = 'escape'",
           "TimeZone = 'Asia/Kathmandu'",
           "extra_float_digits = -15",
           "client_encoding = 'LATIN1'",
           "row_security = off",
           "array_nulls = off",
           "transform_null_equals = on",
           "plpgsql.extra_errors = 'shadowed_variables'",
       }) {
    CAPTURE(setting);
    must(bed.cluster->sql("ALTER ROLE mainspring SET " + setting));
    bed.options.schema = fmt::format("store{}", ++n);
    bed.store = bed.open_another();
    use(bed, setting);
    must(bed.cluster->sql("ALTER ROLE mainspring RESET ALL"));
  }
}

TEST_CASE("two nodes work at once where transactions are serializable by default") {
  Bed bed;
  must(
      bed.cluster->sql("ALTER ROLE mainspring SET default_transaction_isolation = 'serializable'"));
  bed.store = bed.open_another();
  const auto second = bed.open_another();
  for (int i = 1; i <= 50; ++i) {
    auto first = bed.begin_enqueue(i);
    NewJob job{.queue = "q", .kind = "work"};
    job.args = fmt::format("[{}]", 100 + i);
    Operation enqueue = Enqueue{.jobs = {job}};
    const auto report = second->apply({&enqueue, 1}, bed.clock.now());
    CHECK(report.has_value());
    CHECK(Bed::end(first).has_value());
  }
  CHECK(bed.numbers().size() == 100);
  bed.must_be_sound();
}

TEST_CASE("a database that is read-only by default is refused by the setting's name") {
  Bed bed;
  NullLog log;
  must(bed.cluster->sql("ALTER ROLE mainspring SET default_transaction_read_only = on"));
  const auto refused = open_postgres_store(bed.options, bed.clock.now(), log);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::conflict);
  const std::string& said = refused.error().message;
  CAPTURE(said);
  const std::size_t command = said.find("ALTER ROLE");
  REQUIRE(command != std::string::npos);
  CHECK(said.find("default_transaction_read_only is on") == 0);
  must(bed.cluster->sql(said.substr(command)));  // the suggested command helps
  bed.store = bed.open_another();
  CHECK(bed.enqueue(1).has_value());
}

TEST_CASE("a database of another encoding is refused") {
  Bed bed;
  NullLog log;
  must(bed.cluster->sql(
      "CREATE DATABASE latin OWNER mainspring ENCODING LATIN1 LOCALE 'C' TEMPLATE template0"));
  bed.options.url = Secret(bed.cluster->url("latin"));
  const auto refused = open_postgres_store(bed.options, bed.clock.now(), log);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::conflict);
  CHECK(refused.error().message.find("encoding is LATIN1") != std::string::npos);
}

TEST_CASE("with a transaction pooler a conflicting setting is refused by its name") {
  Bed bed;
  NullLog log;
  for (const std::string setting :
       {"default_transaction_isolation = 'serializable'", "statement_timeout = '100ms'",
        "lock_timeout = '99ms'", "idle_in_transaction_session_timeout = '100ms'",
        "default_transaction_read_only = on"}) {
    CAPTURE(setting);
    must(bed.cluster->sql("ALTER ROLE mainspring SET " + setting));
    const auto open = [&] {
      const auto bouncer = must(PgBouncer::make(*bed.cluster, 2));
      bed.options.url = Secret(bouncer->url(bed.database));
      bed.options.prepared = false;
      const auto opened = open_postgres_store(bed.options, bed.clock.now(), log);
      return opened ? std::string() : opened.error().message;
    };
    const std::string said = open();
    CAPTURE(said);
    CHECK(said.find(setting.substr(0, setting.find(' '))) == 0);
    const std::size_t command = said.find("ALTER ROLE");
    REQUIRE(command != std::string::npos);
    must(bed.cluster->sql(said.substr(command)));
    CHECK(open() == "");
    must(
        bed.cluster->sql(fmt::format("ALTER ROLE mainspring RESET ALL; ALTER ROLE mainspring IN "
                                     "DATABASE {} RESET ALL",
                                     bed.database)));
  }
}

TEST_CASE("with a pooler the store works with standard_conforming_strings off") {
  BedOptions slow;
  slow.statement_timeout = slow.patience = seconds(20);
  Bed bed(slow);
  must(bed.cluster->sql("ALTER ROLE mainspring SET standard_conforming_strings = off"));
  const auto bouncer = must(PgBouncer::make(*bed.cluster, 2));
  bed.options.url = Secret(bouncer->url(bed.database));
  bed.options.prepared = false;
  bed.options.schema = "pooled";
  bed.store = bed.open_another();
  use(bed, "standard_conforming_strings = off");
}

}  // namespace mainspring::pg_testing
