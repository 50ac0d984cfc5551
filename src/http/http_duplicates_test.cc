// Duplicates within the window of a unique key, seen by a client.
#include "http/http_test_support.h"

using namespace mainspring;
using namespace mainspring::test;

TEST_CASE("a duplicate of a job that was pruned succeeds, waited for or not; the job is gone") {
  TestServer server;
  Peer peer(server);
  const auto enqueue = [&](std::string path) {
    return peer.call("POST", std::move(path),
                     R"({"queue":"q","kind":"k","unique":{"key":"message-1","for":"7d"}})");
  };
  CHECK(peer.call("PUT", "/v1/queues/q", R"({"retention":{"completed":"1ms"}})").status == 200);
  CHECK(enqueue("/v1/jobs").status == 201);
  CHECK(peer.call("POST", "/v1/jobs/1/cancel", "{}").status == 200);
  wait_until([&] { return !server.store->get(1).has_value(); });
  CHECK(peer.call("GET", "/v1/jobs/1").status == 410);
  for (const char* path : {"/v1/jobs", "/v1/jobs?wait=30s"}) {
    const Answer again = enqueue(path);
    CHECK(again.status == 200);
    CHECK(again.body == R"({"id":1,"state":"cancelled","duplicate":true})");
  }
}
