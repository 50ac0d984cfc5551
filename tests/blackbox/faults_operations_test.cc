// Mistakes of operators at the command line.
#include "testing.h"

using namespace blackbox;

TEST_CASE("a change of a queue that does not exist is refused unless --create is given") {
  Served server;
  REQUIRE(server.start());
  HttpClient http(server.port());
  REQUIRE(http.post("/v1/jobs", R"({"queue":"mails","kind":"k"})").status == 201);
  const auto queues = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {server_binary(), "queues"});
    words.insert(words.end(), {"--server", server.url()});
    return run(words, 60'000);
  };
  for (const std::vector<std::string>& words : {std::vector<std::string>{"pause", "mail"},
                                                {"resume", "mail"},
                                                {"pause", "mails", "mail"},
                                                {"set", "mail", "--retention-dead", "1h"},
                                                {"limit", "mail", "--concurrency", "1"}}) {
    const Finished refused = queues(words);
    CHECK_MESSAGE(refused.exit_code == 66, words[0] << ": " << refused.output);
    CHECK(has(refused.output, "there is no queue \"mail\": check the name"));
  }
  CHECK(http.get("/v1/queues/mail").status == 404);
  for (std::vector<std::string> words : {std::vector<std::string>{"pause", "pausing"},
                                         {"resume", "resuming"},
                                         {"set", "setting", "--retention-dead", "1h"},
                                         {"limit", "limiting", "--concurrency", "1"}}) {
    words.emplace_back("--create");
    const Finished created = queues(words);
    CHECK_MESSAGE(created.exit_code == 0, created.output);
    CHECK(http.get("/v1/queues/" + words[1]).status == 200);
  }
  CHECK(server.stop() == 0);
}
