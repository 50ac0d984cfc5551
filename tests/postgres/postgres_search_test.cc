// The index of searchable paths in PostgreSQL: callers of enqueue(), open transactions, and the
// keys that the database extracts from args.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "api/search_keys.h"
#include "postgres/sql_place.h"

namespace mainspring {
namespace {

using pg_testing::must;
using pg_testing::PgConnection;
using pg_testing::Place;
using std::chrono::seconds;

void declare_order(Place& place, std::vector<std::string> paths = {"order"}) {
  place.apply<Done>(SetQueueLimits{.queue = "q", .limits = {.searchable = std::move(paths)}});
}
bool step(Place& place) {
  return place.apply<StepResult>(PruneJobs{}).more;
}
void settle_search(Place& place) {
  for (int steps = 0; place.store->agenda().next_prune <= place.clock.now().wall; ++steps) {
    REQUIRE(steps < 1000);
    step(place);
  }
}
IndexPage orders(Place& place, const std::string& value) {
  const auto page = must(place.store->indexed(
      {.queue = "q", .path = "order", .value = value, .before = 0, .limit = 99}));
  REQUIRE(page);
  return *page;
}

TEST_CASE("a job of the function enqueue() is in the index, or its transaction is refused") {
  Place place;
  declare_order(place, {"other"});
  settle_search(place);
  PgConnection app = Place::connect();
  PgConnection old = Place::connect();
  must(app.sql("BEGIN"));
  must(old.sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1"));  // its snapshot
  declare_order(place);
  settle_search(place);
  const std::string enqueue = place.named("SELECT ms.enqueue('q', 'k', '{\"order\":7}')");
  const JobId first = place.enqueue("'q', 'k', '{\"order\":7}'");
  const auto later = must(app.sql(enqueue));
  must(app.sql("COMMIT"));
  // It would not see the declaration.
  const auto refused = old.sql(enqueue);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("could not serialize access") != std::string::npos);
  must(old.sql("ROLLBACK"));
  const IndexPage page = orders(place, "7");
  CHECK(page.complete_from <= 1);
  CHECK(page.ids == std::vector<JobId>{std::stoll(later.at(0).at(0)), first});
  place.check_invariants();
}

TEST_CASE("an open transaction delays the index, not the jobs, and nothing is missed") {
  Place place;
  place.enqueue("'q', 'k', '{\"order\":1}'");
  PgConnection app = Place::connect();
  const auto held =
      must(app.sql(place.named("BEGIN; SELECT ms.enqueue('q', 'k', '{\"order\":7}')")));
  declare_order(place);
  step(place);
  CHECK(orders(place, "7").complete_from == INT64_MAX);  // a search reads every job
  CHECK(place.store->agenda().next_prune >
        place.clock.now().wall);  // it waits before the next attempt
  const JobId after = place.enqueue("'q', 'k', '{\"order\":7}'");
  must(app.sql("COMMIT"));
  place.clock.advance(seconds(2));
  settle_search(place);
  const IndexPage page = orders(place, "7");
  CHECK(page.complete_from <= 1);
  CHECK(page.ids == std::vector<JobId>{after, std::stoll(held.at(0).at(0))});
  place.check_invariants();
}

TEST_CASE("a job that is being changed is indexed when its writer is done") {
  Place place;
  const JobId id = place.enqueue("'q', 'k', '{\"order\":1}'");
  PgConnection app = Place::connect();
  declare_order(place);
  step(place);  // the triggers exist
  must(app.sql(place.named("BEGIN; UPDATE ms.jobs SET args = '{\"order\":2}'")));
  CHECK_FALSE(step(place));
  CHECK(orders(place, "1").complete_from > id);
  must(app.sql("COMMIT"));
  place.clock.advance(seconds(1));
  settle_search(place);
  CHECK(orders(place, "1").ids.empty());
  CHECK(orders(place, "2").ids == std::vector<JobId>{id});
  place.check_invariants();
}

TEST_CASE("a queue without searchable paths has no triggers") {
  Place place;
  const auto triggers = [&] {
    return place
        .sql(
            "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'ms.jobs'::regclass AND NOT "
            "tgisinternal")
        .at(0)
        .at(0);
  };
  place.enqueue("'q', 'k', '{\"order\":1}'");
  CHECK(triggers() == "0");
  declare_order(place);
  settle_search(place);
  CHECK(triggers() == "2");
  declare_order(place, {});
  settle_search(place);
  CHECK(triggers() == "0");
  CHECK(place.sql("SELECT count(*) FROM ms.search_values").at(0).at(0) == "0");
  declare_order(place);
  declare_order(place, {});  // before a trigger was made
  settle_search(place);
  CHECK(place.sql("SELECT count(*) FROM ms.search_paths").at(0).at(0) == "0");
}

TEST_CASE("the database makes the same keys as the program, or says that it cannot") {
  Place place;
  const std::vector<std::string> values = {"0",
                                           "-0",
                                           "1",
                                           "1.0",
                                           "-1.50",
                                           "1e5",
                                           "1E+5",
                                           "100000",
                                           "1e-7",
                                           "0.0000001",
                                           "1e999999999",
                                           "1e9999999999",
                                           "1e0000000000001",
                                           "123456789012345678901234567890",
                                           "0.10e1",
                                           "true",
                                           "false",
                                           "null",
                                           "{}",
                                           "[1]",
                                           "\"\"",
                                           "\"a\"",
                                           "\"4711\"",
                                           "\"\u00fc\"",
                                           R"("\u00fc\n\"\\\/")",
                                           R"("\ud83d\ude00")",
                                           "\"" + std::string(200, 'x') + "\"",
                                           "\"" + std::string(201, 'x') + "\"",
                                           "\"" + std::string(199, 'x') + "\u00fc\u00fc\""};
  for (const std::string& value : values) {
    for (const std::string& args : {"{\"a\":{\"0\":" + value + "}}", "{\"a\":[" + value + ",1]}",
                                    "{\"a\":{\"0\":1},\"b\":2,\"a\":{\"0\":" + value + "}}"}) {
      CAPTURE(args.substr(0, 60));
      const auto keys = search_keys(args, {{"a", "0"}});
      std::string hex;
      for (const char c : keys.empty() ? std::string() : keys[0].second)
        hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
      const auto rows = place.sql("SELECT coalesce(encode(ms.search_value($text$" + args +
                                  "$text$, 'a.0'), 'hex'), '')");
      CHECK(rows.at(0).at(0) == hex);
    }
  }
  const auto zero =
      place.sql(R"(SELECT encode(ms.search_value('{"b":"\u0000","a":1}', 'a'), 'hex'))");
  CHECK(zero.at(0).at(0) == "3f");
}

}  // namespace
}  // namespace mainspring
