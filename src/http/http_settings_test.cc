// GET /v1/settings and GET /v1/store: what they show, to which callers, and how often the store is
// read for it.
#include <zlib.h>

#include "env/random.h"
#include "http/http_test_support.h"
#include "http/store_report.h"
#include "model/token_text.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;

namespace {

HttpOptions shows_settings() {
  HttpOptions options;
  options.settings = {{"store", "postgres://jobs:***@db/x", "none", "environment",
                       "environment MAINSPRING_STORE", true},
                      {"log_level", "info", "info", "default", "", false},
                      {"data", "/srv/\"q\"", "data", "flag", "flag --data", false}};
  return options;
}

}  // namespace

TEST_CASE("GET /v1/settings shows every setting with its origin, secrets hidden") {
  TestServer s(shows_settings());
  Peer peer(s);
  CHECK(peer.call("GET", "/v1/settings").body ==
        R"({"settings":[{"name":"store","value":"postgres://jobs:***@db/x","default":"none",)"
        R"("source":"environment","where":"environment MAINSPRING_STORE","secret":true},)"
        R"({"name":"log_level","value":"info","default":"info","source":"default"},)"
        R"({"name":"data","value":"/srv/\"q\"","default":"data","source":"flag",)"
        R"("where":"flag --data"}]})");
  CHECK(peer.call("GET", "/v1/settings?x=1").status == 400);
  CHECK(peer.call("GET", "/v1/settings", "", scoped_token(s, "read", "tread")).status == 403);
  CHECK(peer.call("GET", "/v1/settings", "", scoped_token(s, "admin=photos", "tadmin=photos"))
            .status == 403);
  CHECK(peer.call("GET", "/v1/settings", "", scoped_token(s, "admin", "tadmin")).status == 200);
}

TEST_CASE("a server without settings shows an empty list") {
  TestServer s;
  CHECK(Peer(s).call("GET", "/v1/settings").body == R"({"settings":[]})");
}

TEST_CASE("GET /v1/store shows sizes and counts; the path only to callers with admin") {
  HttpOptions options;
  options.store_size = [] {
    return StoreSize{.kind = "sqlite",
                     .schema = 1,
                     .bytes = 8192,
                     .wal_bytes = 0,
                     .free_bytes = 4096,
                     .directory = "/"};
  };
  TestServer s(options);
  Peer peer(s);
  peer.call("POST", "/v1/jobs",
            R"({"jobs":[{"queue":"q","kind":"k"},{"queue":"q","kind":"k"},)"
            R"({"queue":"r","kind":"k","delay":"1h"}]})");
  peer.call("POST", "/v1/jobs/1/cancel");
  const Answer answer = peer.call("GET", "/v1/store");
  CHECK(answer.status == 200);
  CHECK(has(answer.body,
            R"({"kind":"sqlite","bytes":8192,"wal_bytes":0,"free_bytes":4096,"disk_free_bytes":)"));
  CHECK(has(answer.body, R"(,"jobs":3,"live":2,"finished":1,"schema":1,"path":"/"})"));
  const Answer reader = peer.call("GET", "/v1/store", "", scoped_token(s, "read", "tread"));
  CHECK(reader.status == 200);
  CHECK(!has(reader.body, "path"));
  CHECK(peer.call("GET", "/v1/store", "", scoped_token(s, "read=q", "tread=q")).status == 403);
}

TEST_CASE("the size of a store on a database server has no path, and its errors are returned") {
  bool away = false;
  HttpOptions options;
  options.store_size = [&]() -> Result<StoreSize> {
    if (away) return Error{.code = ErrorCode::unavailable, .message = "the database is away"};
    return StoreSize{.kind = "postgresql", .schema = 2, .bytes = 1 << 20};
  };
  {
    TestServer s(options);
    CHECK(Peer(s).call("GET", "/v1/store").body ==
          R"({"kind":"postgresql","bytes":1048576,"jobs":0,"live":0,"finished":0,"schema":2})");
  }
  away = true;
  TestServer s(options);
  const Answer answer = Peer(s).call("GET", "/v1/store");
  CHECK(answer.status == 503);
  CHECK(has(answer.body, "the database is away"));
}

TEST_CASE("metrics name sampled traces as exemplars, for clients that accept OpenMetrics") {
  TestServer s;
  Peer peer(s);
  const auto run = [&](const std::string& trace, std::string_view flags) {
    peer.call("POST", "/v1/jobs",
              R"({"queue":"q","kind":"k","headers":{"traceparent":"00-)" + trace +
                  "-00f067aa0ba902b7-" + std::string(flags) + R"("}})");
    const auto claimed = s.broker->claim({.worker = "w", .queues = {"q"}}, 1s, {});
    REQUIRE(claimed->jobs.size() == 1);
    const ClaimedJob& job = claimed->jobs[0];
    REQUIRE(s.broker->finish({.worker = "w", .results = {{job.id, job.token, Complete{}}}}));
  };
  const std::string sampled = "4bf92f3577b34da6a3ce929d0e0e4736";
  const std::string unsampled = "5bf92f3577b34da6a3ce929d0e0e4736";
  run(sampled, "01");
  run(unsampled, "00");
  const std::string open =
      peer.call("GET", "/metrics", "", "Accept: application/openmetrics-text\r\n").body;
  const auto lines_with = [&](const std::string& trace) {
    std::map<std::string, int> families;
    for (std::size_t at = 0; (at = open.find("# {trace_id=\"" + trace, at)) != open.npos; ++at) {
      const std::size_t line = open.rfind('\n', at) + 1;
      ++families[open.substr(line, open.find('{', line) - line)];
    }
    return families;
  };
  CHECK(lines_with(sampled) ==
        std::map<std::string, int>{{"mainspring_attempt_seconds_bucket", 1},
                                   {"mainspring_job_wait_seconds_bucket", 1}});
  CHECK(lines_with(unsampled).empty());
  CHECK(!has(peer.call("GET", "/metrics").body, sampled));
}

TEST_CASE("the store is read once in 10 seconds, however often it is asked") {
  TestServer s;
  ManualClock clock;
  int asked = 0;
  http::StoreReport report(*s.broker, clock, [&]() -> Result<StoreSize> {
    ++asked;
    return StoreSize{};
  });
  const auto first = report.get();
  REQUIRE(first.has_value());
  CHECK((*first)->jobs == 0);
  Peer(s).call("POST", "/v1/jobs", R"({"queue":"q","kind":"k"})");
  clock.advance(9s);
  CHECK(*report.get() == *first);
  CHECK(asked == 1);
  clock.advance(1s);
  CHECK((*report.get())->live == 1);
  CHECK(asked == 2);
}

TEST_CASE("metrics are compressed for clients that accept gzip") {
  TestServer server;
  Peer peer(server);
  const Answer plain = peer.call("GET", "/metrics");
  CHECK(plain.headers.count("Content-Encoding") == 0);
  for (const auto& [accepted, is_packed] :
       std::initializer_list<std::pair<std::string, bool>>{{"GZIP", true},
                                                           {"br;q=1 ,x-gzip ; Q=0.5", true},
                                                           {"gzip;x=0;q=0.001", true},
                                                           {"notgzip", false},
                                                           {"gzip2, *", false},
                                                           {"identity;q=0", false},
                                                           {"gzip;q=0;x=1", false},
                                                           {"gzip; q=0.000", false},
                                                           {"gzip;q=no", false},
                                                           {"gzip;q", false},
                                                           {";,;q=1,", false}}) {
    CAPTURE(accepted);
    const Answer got = peer.call("GET", "/metrics", "", "Accept-Encoding: " + accepted + "\r\n");
    CHECK(got.headers.contains("Content-Encoding") == is_packed);
  }
  Answer packed = peer.call("GET", "/metrics", "", "Accept-Encoding: gzip\r\n");
  CHECK(packed.headers.at("Content-Encoding") == "gzip");
  CHECK(packed.headers.at("Vary") == "Accept, Accept-Encoding");
  CHECK(packed.body.size() * 4 < plain.body.size());
  std::string text(plain.body.size() * 2, '\0');
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(packed.body.data());
  stream.avail_in = static_cast<uInt>(packed.body.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  REQUIRE(inflateInit2(&stream, MAX_WBITS + 16) == Z_OK);
  CHECK(inflate(&stream, Z_FINISH) == Z_STREAM_END);
  CHECK(has(text, R"(mainspring_http_requests_total{route="metrics",status="200"} 1)"));
  inflateEnd(&stream);
}
