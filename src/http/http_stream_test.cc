// Logs over real sockets: reads in parts, waits, and many, slow and disconnecting followers.
#include "http/fake_host.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view kMailerLog = "/v1/host/jobs/continuous/mailer/log";

struct LogServer : HostServer {
  explicit LogServer(HttpOptions options = {}) : HostServer({}, std::move(options)) {
    host.add(JobType::continuous, "mailer");
  }
};

// Follows, and waits until the server waits too.
Answer follow(Peer& peer, std::string_view parameters = "") {
  peer.send(
      Peer::request("GET", std::string(kMailerLog) + "?follow=true" + std::string(parameters)));
  return peer.receive();
}

}  // namespace

TEST_CASE("a log is read in parts, from the end too") {
  LogServer s;
  s.host.write("mailer", "", "one\r\ntwo\r\n");
  Peer peer(s.server);
  const auto log = [&](std::string_view query) {
    return peer.call("GET", std::string(kMailerLog) + std::string(query)).body;
  };
  CHECK(log("") ==
        R"({"text":"one\r\ntwo\r\n","next":10,"skipped":0,"at_end":true,"ended":false})");
  CHECK(log("?max=5") == R"({"text":"one\r\n","next":5,"skipped":0,"at_end":false,"ended":false})");
  CHECK(has(log("?position=5"), R"("text":"two\r\n")"));
  CHECK(has(log("?position=-5"), R"("text":"two\r\n")"));
  CHECK(has(log("?position=10"), R"("text":"","next":10)"));
  s.host.end_log("mailer", "");
  CHECK(has(log("?position=10&wait=60s"), R"("ended":true)"));
}

TEST_CASE("a wait for a log is answered when a line arrives, or empty after the wait") {
  LogServer s;
  Peer peer(s.server);
  peer.send(Peer::request("GET", std::string(kMailerLog) + "?wait=60s"));
  wait_until([&] { return s.host.watches() == 1; });
  s.host.write("mailer", "", "now\r\n");
  CHECK(has(peer.receive().body, R"("text":"now\r\n")"));
  wait_until([&] { return s.host.watches() == 0; });
  const Answer nothing = peer.call("GET", std::string(kMailerLog) + "?position=5&wait=50ms");
  CHECK(nothing.body == R"({"text":"","next":5,"skipped":0,"at_end":true,"ended":false})");
  wait_until([&] { return s.host.watches() == 0; });
}

TEST_CASE("the log of the latest run is followed to its end, also when another run begins") {
  HostServer s;
  s.host.add(JobType::triggered, "report");
  Peer peer(s.server);
  const std::string_view log = "/v1/host/jobs/triggered/report/log?follow=true";
  CHECK(peer.call("GET", log).status == 404);  // it never ran
  RunRecord run;
  run.id = "202611211046315000";
  s.host.add_run("report", run);
  s.host.write("report", run.id, "first\r\n");
  peer.send(Peer::request("GET", log));
  const Answer head = peer.receive();
  CHECK(head.status == 200);
  CHECK(head.headers.at("Content-Type") == "text/plain; charset=utf-8");
  CHECK(head.headers.at("Transfer-Encoding") == "chunked");
  CHECK(peer.chunk() == "first\r\n");
  RunRecord next;
  next.id = "202611211046320000";
  s.host.add_run("report", next);
  s.host.write("report", next.id, "another\r\n");
  s.host.write("report", run.id, "second\r\n");
  CHECK(peer.chunk() == "second\r\n");
  s.host.write("report", run.id, "last\r\n");
  s.host.end_log("report", run.id);
  CHECK(peer.chunk() == "last\r\n");
  CHECK(peer.chunk().empty());
  // The connection stays usable.
  CHECK(has(peer.call("GET", "/v1/host/jobs/triggered/report/log").body, R"("text":"another)"));
  CHECK(peer.call("GET", "/v1/version").status == 200);
}

TEST_CASE("a follower of an empty log gets the head at once, and lines as they come") {
  LogServer s;
  Peer peer(s.server);
  CHECK(follow(peer).status == 200);
  for (const std::string line : {"a\r\n", "b\r\n", "c\r\n"}) {
    wait_until([&] { return s.host.watches() == 1; });
    s.host.write("mailer", "", line);
    CHECK(peer.chunk() == line);
  }
}

TEST_CASE("a follower that disconnects is removed, also before its first line") {
  LogServer s;
  {
    Peer peer(s.server);
    peer.send(Peer::request("GET", std::string(kMailerLog) + "?wait=60s"));
    wait_until([&] { return s.host.watches() == 1; });
  }
  wait_until([&] { return s.host.watches() == 0; });
  {
    Peer peer(s.server);
    follow(peer);
    wait_until([&] { return s.host.watches() == 1; });
  }
  wait_until([&] { return s.host.watches() == 0; });
  wait_until([&] { return s.server.server->connections() == 0; });
  s.host.write("mailer", "", "unread\r\n");
}

TEST_CASE("a server stop ends its streams cleanly and does not wait for them") {
  auto s = std::make_unique<LogServer>();
  Peer peer(s->server), waiting(s->server);
  follow(peer);
  waiting.send(Peer::request("GET", std::string(kMailerLog) + "?wait=60s"));
  wait_until([&] { return s->host.watches() == 2; });
  s->server.server->stop(20s);
  CHECK(peer.chunk().empty());
  CHECK(peer.ended());
  const Answer empty = waiting.receive();
  CHECK(empty.status == 200);
  CHECK(has(empty.body, R"("text":"")"));
  CHECK(s->host.watches() == 0);
}

TEST_CASE("a client that does not read gets one piece, delays nothing, and later gets everything") {
  LogServer s;
  std::string line(1022, 'x');
  line += "\r\n";
  std::string text;
  for (int i = 0; i < 64 << 10; ++i) text += line;  // 64 MiB: more than sockets hold
  s.host.write("mailer", "", text);
  s.host.end_log("mailer", "");
  Peer slow(s.server), other(s.server);
  CHECK(follow(slow).status == 200);
  int calls = 0;
  // Until the sockets are full: no more of the log is read, and other requests are answered.
  for (int same = 0; same < 200;) {
    CHECK(other.call("GET", "/v1/host").status == 200);
    same = s.host.log_calls() == calls ? same + 1 : 0;
    calls = s.host.log_calls();
  }
  CHECK(calls < 900);  // of 1024
  std::size_t got = 0;
  for (std::string chunk = slow.chunk(); !chunk.empty(); chunk = slow.chunk()) {
    REQUIRE(chunk != "cut");
    got += chunk.size();
  }
  CHECK(got == text.size());
}

TEST_CASE("a thousand followers need no threads, and each gets every line") {
  LogServer s;
  const int before = threads_of_process();
  std::vector<Peer> peers;
  for (int i = 0; i < 1000; ++i) {
    peers.emplace_back(s.server);
    peers.back().send(Peer::request("GET", std::string(kMailerLog) + "?follow=true"));
  }
  for (Peer& peer : peers) CHECK(peer.receive().status == 200);
  wait_until([&] { return s.host.watches() == 1000; });
  CHECK(threads_of_process() <= before);  // an ended thread may have been counted
  s.host.write("mailer", "", "to all\r\n");
  for (Peer& peer : peers) CHECK(peer.chunk() == "to all\r\n");
  wait_until([&] { return s.host.watches() == 1000; });
  s.host.end_log("mailer", "");
  for (Peer& peer : peers) CHECK(peer.chunk().empty());
}

TEST_CASE("a new follower gets 429 while all readers are busy; accepted followers wait for one") {
  HttpOptions options;
  options.max_waiting_reads = 1;
  LogServer s(options);
  std::vector<Peer> peers;
  for (int i = 0; i < 20; ++i) {
    peers.emplace_back(s.server);
    while (follow(peers.back()).status == 429) {
    }
  }
  wait_until([&] { return s.host.watches() == 20; });
  s.host.write("mailer", "", "to all\r\n");
  for (Peer& peer : peers) CHECK(peer.chunk() == "to all\r\n");
}

TEST_CASE("an HTTP/1.0 client follows without chunks, HEAD gets the head only") {
  LogServer s;
  s.host.write("mailer", "", "one\r\n");
  s.host.end_log("mailer", "");
  Peer old(s.server);
  old.send("GET " + std::string(kMailerLog) + "?follow=true HTTP/1.0\r\n\r\n");
  const Answer head = old.receive();
  CHECK(head.status == 200);
  CHECK_FALSE(head.headers.contains("Transfer-Encoding"));
  CHECK(old.rest() == "one\r\n");
  Peer peer(s.server);
  CHECK(peer.call("HEAD", std::string(kMailerLog) + "?follow=true").status == 200);
  CHECK(peer.call("GET", "/v1/version").status == 200);
}
