// enqueue_row(): rows of a table make jobs, in the writer's transaction.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "postgres/sql_place.h"

namespace mainspring {
namespace {

using pg_testing::Place;

void make_orders(Place& place) {
  place.sql("CREATE TABLE ms.orders (id int PRIMARY KEY, total numeric)");
  place.sql(
      "CREATE TRIGGER orders_jobs AFTER INSERT OR UPDATE OR DELETE ON ms.orders FOR EACH ROW "
      "EXECUTE FUNCTION ms.enqueue_row('orders', 'changed')");
}

std::string args_of(Place& place, int job) {
  const auto rows = place.sql(
      fmt::format("SELECT args::jsonb - 'schema' FROM ms.jobs ORDER BY id LIMIT 1 OFFSET {}", job));
  REQUIRE(rows.size() == 1);
  return rows.at(0).at(0);
}

TEST_CASE("a row that is written makes a job with it, and with what it was before") {
  Place place;
  make_orders(place);
  place.sql("INSERT INTO ms.orders VALUES (7, 1.50)");
  place.sql("UPDATE ms.orders SET total = 2 WHERE id = 7");
  place.sql("DELETE FROM ms.orders");
  CHECK(args_of(place, 0) == R"({"old": null, "row": {"id": 7, "total": 1.50}, "table": "orders", )"
                             R"("operation": "insert"})");
  CHECK(args_of(place, 1) ==
        R"({"old": {"id": 7, "total": 1.50}, "row": {"id": 7, "total": 2}, "table": "orders", )"
        R"("operation": "update"})");
  CHECK(args_of(place, 2) == R"({"old": {"id": 7, "total": 2}, "row": null, "table": "orders", )"
                             R"("operation": "delete"})");
  CHECK(place
            .sql("SELECT count(*) FROM ms.jobs j JOIN ms.queues q ON q.id = j.queue JOIN ms.kinds "
                 "k ON k.id = j.kind WHERE q.name = 'orders' AND k.name = 'changed' AND state = 2")
            .at(0)
            .at(0) == "3");
}

TEST_CASE("a row with a number that JSON does not have is refused, not turned into a text") {
  Place place;
  make_orders(place);
  place.sql("ALTER TABLE ms.orders ADD note text, ADD parts float8[]");
  const auto refused = [&](const std::string& values) {
    const auto got = place.try_sql("INSERT INTO ms.orders VALUES (" + values + ")");
    REQUIRE_FALSE(got.has_value());
    return got.error().message.substr(0, got.error().message.find('\n'));
  };
  const std::string rule = ": must be a number; JSON has no NaN and no Infinity";
  CHECK(refused("1, 'NaN'") == "22023 ERROR:  args.row.total" + rule);
  CHECK(refused("1, 1, '', '{1,-Infinity}'") == "22023 ERROR:  args.row.parts" + rule);
  CHECK(refused("1, 1e400").starts_with("22023 ERROR:  args.row.total 1000"));
  place.sql("INSERT INTO ms.orders VALUES (1, 1, 'NaN', '{1}')");
  CHECK(place.sql("SELECT count(*) FROM ms.jobs").at(0).at(0) == "1");
}

TEST_CASE("a transaction that is rolled back leaves neither the row nor its job") {
  Place place;
  make_orders(place);
  CHECK_FALSE(place
                  .try_sql("DO $$ BEGIN INSERT INTO ms.orders VALUES (1, 1); RAISE EXCEPTION "
                           "'no'; END $$")
                  .has_value());
  CHECK(place.sql("SELECT count(*) FROM ms.jobs").at(0).at(0) == "0");
  CHECK(place.sql("SELECT count(*) FROM ms.orders").at(0).at(0) == "0");
}

TEST_CASE("enqueue_row() refuses to be called otherwise than after each row, with queue and kind") {
  Place place;
  place.sql("CREATE TABLE ms.orders (id int)");
  const auto refused = [&](const std::string& when) {
    place.sql("CREATE OR REPLACE TRIGGER t " + when);
    const auto got = place.try_sql("INSERT INTO ms.orders VALUES (1)");
    REQUIRE_FALSE(got.has_value());
    return got.error().message;
  };
  const auto has = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  const std::string rule = "must be called AFTER, FOR EACH ROW, with both";
  CHECK(has(refused("BEFORE INSERT ON ms.orders FOR EACH ROW EXECUTE FUNCTION "
                    "ms.enqueue_row('q', 'k')"),
            rule));
  CHECK(has(refused("AFTER INSERT ON ms.orders FOR EACH STATEMENT EXECUTE FUNCTION "
                    "ms.enqueue_row('q', 'k')"),
            rule));
  CHECK(has(refused("AFTER INSERT ON ms.orders FOR EACH ROW EXECUTE FUNCTION ms.enqueue_row('q')"),
            rule));
  CHECK(has(refused("AFTER INSERT ON ms.orders FOR EACH ROW EXECUTE FUNCTION "
                    "ms.enqueue_row('a b', 'k')"),
            "queue \"a b\""));
  CHECK(place.sql("SELECT count(*) FROM ms.orders").at(0).at(0) == "0");
}

TEST_CASE("enqueue_row() needs a grant") {
  Place place;
  CHECK(place
            .sql("SELECT count(*) FROM pg_proc p CROSS JOIN aclexplode(p.proacl) a WHERE p.proname "
                 "= 'enqueue_row' AND a.grantee = 0")
            .at(0)
            .at(0) == "0");
  CHECK(place.sql("SELECT bool_or(prosecdef) FROM pg_proc WHERE proname = 'enqueue_row'")
            .at(0)
            .at(0) == "f");
}

}  // namespace
}  // namespace mainspring
