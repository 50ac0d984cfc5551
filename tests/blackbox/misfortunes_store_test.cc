// A store whose files were damaged, emptied or replaced while no server ran.
#include "testing.h"

using namespace blackbox;

TEST_CASE("a server refuses to replace a store whose database was emptied") {
  Served server;
  REQUIRE(server.start());
  CHECK(HttpClient(server.port()).post("/v1/jobs", R"({"queue":"q","kind":"k"})").status == 201);
  CHECK(server.stop() == 0);
  const std::string database = server.store() + "/mainspring.db";
  const std::string whole = read_file(database);
  REQUIRE(!whole.empty());

  write_file(database, "");
  REQUIRE(server.launch());
  REQUIRE(server.process().wait(20'000));
  CHECK(server.process().exit_code() == 65);
  CHECK(has(server.log(), database + " is empty (0 bytes)"));
  CHECK(read_file(database).empty());

  write_file(database, whole);
  REQUIRE(server.start());
  CHECK(HttpClient(server.port()).get("/v1/jobs/1").status == 200);
  CHECK(server.stop() == 0);
}
