// Bodies and answers that are slow or large: no caller can take the room of others.
#include "http/room.h"

#include "http/http_test_support.h"
#include "http/routes.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;
using http::HeldRoom;
using http::Room;

namespace {

constexpr std::size_t kMiB = 1 << 20;

Room::Payer caller(const std::string& name, bool vital = false) {
  return {.accounts = {{Room::Account::caller, name}}, .vital = vital};
}

// 16 MiB of 64 are reserved.
HttpOptions strict() {
  HttpOptions options;
  options.require_token = true;
  options.max_buffered_bytes = 64 * kMiB;
  return options;
}

// A request whose body has `missing` bytes to come.
void send_part(Peer& peer, const std::string& path, const std::string& token, std::size_t bytes,
               std::size_t missing = 1) {
  peer.send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" + token +
            "Content-Type: application/json\r\nContent-Length: " + std::to_string(bytes + missing) +
            "\r\n\r\n" + std::string(bytes, ' '));
}

std::string enqueue_of(std::string_view queue, std::size_t args_bytes, int jobs = 1) {
  const std::string job = R"({"queue":")" + std::string(queue) + R"(","kind":"k","args":")" +
                          std::string(args_bytes, 'x') + R"("})";
  std::string body = R"({"jobs":[)" + job;
  for (int i = 1; i < jobs; ++i) body += "," + job;
  return body + "]}";
}

}  // namespace

// How many holds of `bytes` each caller gets, one after another.
int holds(const std::shared_ptr<Room>& room, std::vector<std::unique_ptr<HeldRoom>>& held,
          const Room::Payer& payer, std::size_t bytes, int most) {
  for (int i = 0; i < most; ++i) {
    auto one = std::make_unique<HeldRoom>(room, payer);
    if (!one->grow_to(bytes)) return i;
    held.push_back(std::move(one));
  }
  return most;
}

TEST_CASE("each caller has a share of the room, and a part is reserved for running jobs") {
  const auto room = std::make_shared<Room>(64 * kMiB);
  std::vector<std::unique_ptr<HeldRoom>> held;
  CHECK(holds(room, held, caller("a"), 4 * kMiB, 100) == 8);  // two thirds of 48 MiB
  CHECK(holds(room, held, caller("b"), 4 * kMiB, 100) == 2);
  CHECK(holds(room, held, caller("c"), 4 * kMiB, 100) == 1);
  CHECK(holds(room, held, caller("d"), 4 * kMiB, 100) == 1);
  // The general part is full, also for a caller with full access.
  HeldRoom enqueue(room, caller("e")), owner(room, {}), claim(room, caller("a", true)),
      finish(room, caller("b", true)), third(room, caller("f", true));
  CHECK_FALSE(enqueue.grow_to(1));
  CHECK_FALSE(owner.grow_to(1));
  CHECK(claim.grow_to(8 * kMiB));
  // Answers that are sent in any case do not use the reserved part.
  owner.charge(100 * kMiB);
  CHECK(finish.grow_to(8 * kMiB));
  CHECK_FALSE(third.grow_to(1));
  CHECK(room->used() == (48 + 16 + 100) * kMiB);
}

TEST_CASE("the shares of the default room suffice for two large uploads and 50 large results") {
  const auto room = std::make_shared<Room>(HttpOptions().max_buffered_bytes);
  const Room::Payer deployment{
      .accounts = {{Room::Account::address, "nat"}, {Room::Account::caller, "deployment"}}};
  std::vector<std::unique_ptr<HeldRoom>> held;
  {
    HeldRoom small(room, deployment), first(room, deployment), second(room, deployment);
    CHECK(small.grow_to(kMiB));
    for (std::size_t i = 1; i <= 100; ++i) {
      CHECK(first.grow_to(i * kMiB));
      CHECK(second.grow_to(i * kMiB));
    }
    CHECK(holds(room, held, caller("another"), 100 * kMiB, 1) == 1);
    held.clear();
  }
  for (int i = 0; i < 50; ++i) {  // with a token each, and with the same
    const Room::Payer worker{
        .accounts = {{Room::Account::address, "nat"},
                     {Room::Account::caller, i < 25 ? "all" : std::to_string(i)}},
        .vital = true};
    CHECK(holds(room, held, worker, 8 * kMiB + 200, 1) == 1);
  }
  HeldRoom enqueue(room, deployment);
  CHECK(enqueue.grow_to(16 * kMiB));
}

TEST_CASE("a body that is alone has room; all callers without a token share a quarter") {
  const auto room = std::make_shared<Room>(16 * kMiB);
  {
    HeldRoom large(room, caller("a")), small(room, caller("a"));
    CHECK(large.grow_to(kMiB));
    CHECK(large.grow_to(15 * kMiB));
    CHECK_FALSE(small.grow_to(1));
  }
  CHECK(room->used() == 0);
  std::vector<std::unique_ptr<HeldRoom>> unknown;
  int taken = 0;
  for (int i = 0; i < 4; ++i) {
    unknown.push_back(std::make_unique<HeldRoom>(
        room, Room::Payer{.accounts = {{Room::Account::anonymous_address, std::to_string(i)},
                                       {Room::Account::anonymous, ""}}}));
    taken += unknown.back()->grow_to(2 * kMiB) ? 1 : 0;
  }
  CHECK(taken == 2);
}

TEST_CASE("no request waits for a body that its route does not take or its caller may not send") {
  TestServer server(strict());
  const std::string all = scoped_token(
      server, "enqueue work lease read read:payload result schedule metrics admin define-exec");
  for (const http::Route& route : http::routes()) {
    std::string path(route.pattern);
    for (std::size_t at = 0; (at = path.find('{')) != std::string::npos;)
      path.replace(at, path.find('}') - at + 1, "1");
    CAPTURE(route.id);
    for (const std::string& token : {std::string(), all}) {
      if (route.own_secret || (!token.empty() && route.body != http::BodyRule::none)) continue;
      Peer peer(server);
      peer.send(std::string(route.method) + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" +
                token + "Content-Length: 1048576\r\n\r\n");
      const Answer answer = peer.receive();
      CHECK(answer.status >= 400);
      CHECK(answer.headers.at("Connection") == "close");
    }
  }
  // A body in chunks is refused with the chunk that makes it too large.
  Peer peer(server);
  peer.send("GET /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n" +
            std::string(100, ' '));
  CHECK(peer.receive().status == 413);
  CHECK(buffered_bytes(server) == 0);
}

TEST_CASE("bodies that were announced and do not arrive take no room from others") {
  TestServer server(strict());
  const std::string work = scoped_token(server, "enqueue work");
  std::vector<Peer> silent;
  for (int i = 0; i < 80; ++i) {
    silent.emplace_back(server);
    send_part(silent.back(), i % 2 == 0 ? "/hooks/name" : "/v1/finish", i % 2 == 0 ? "" : work, 0,
              kMiB);
  }
  Peer peer(server);
  // The heads of the others have been read: their thread answers.
  CHECK(peer.call("GET", "/livez").status == 200);
  CHECK(peer.call("POST", "/v1/jobs", enqueue_of("q", 100'000), work).status == 201);
  const std::string claim = R"({"worker":"w","queues":["q"]})";
  CHECK(peer.call("POST", "/v1/claim", claim, work).status == 200);
}

TEST_CASE(
    "a caller that fills its share, and others that fill the room, do not stop running jobs") {
  TestServer server(strict());
  const std::string work = scoped_token(server, "enqueue work", "work");
  std::vector<Peer> full;
  for (const int bodies : {4, 1, 1}) {  // of 48 MiB, 16 MiB and 8 MiB that are free
    const std::string token = scoped_token(server, "enqueue", std::to_string(full.size()));
    for (int i = 0; i < bodies; ++i) {
      full.emplace_back(server);
      send_part(full.back(), "/v1/jobs", token, 8 * kMiB - 1);
      wait_until([&] { return buffered_bytes(server) >= (8 * kMiB - 1) * full.size(); });
    }
    Peer more(server);
    send_part(more, "/v1/jobs", token, 0, 8 * kMiB);
    const Answer refused = more.receive();
    CHECK(refused.status == 429);
    CHECK(refused.headers.contains("Retry-After"));
    Peer good(server);
    CHECK(good.call("POST", "/v1/jobs", enqueue_of("q", 100'000), work).status ==
          (full.size() == 6 ? 429 : 201));
  }
  Peer peer(server);
  const std::string claim = R"({"worker":"w","queues":["q"]})";
  const Answer claimed = peer.call("POST", "/v1/claim", claim, work);
  REQUIRE(claimed.status == 200);
  const auto jobs = decode_claim_response(claimed.body);
  REQUIRE(jobs);
  REQUIRE(jobs->jobs.size() == 1);
  const std::string result = R"({"id":)" + std::to_string(jobs->jobs[0].id) + R"(,"token":)" +
                             std::to_string(jobs->jobs[0].token) + R"(,"outcome":"complete",)" +
                             R"("result":")" + std::string(500'000, 'r') + "\"}";
  CHECK(peer.call("POST", "/v1/finish", R"({"worker":"w","results":[)" + result + "]}", work)
            .status == 200);
  CHECK(peer.call("GET", "/readyz").status == 200);
}

TEST_CASE("a body may arrive at the minimum rate, but a large part of it buys no silence") {
  TestServer server;
  Peer slow(server), silent(server);
  const std::string body = Peer::request("POST", "/v1/jobs", enqueue_of("q", 40'000));
  const std::size_t step = 10 * 1024;
  std::size_t at = body.find("\r\n\r\n") + 4;
  slow.send(body.substr(0, at));
  for (; at + step < body.size(); at += step) {
    const std::size_t before = buffered_bytes(server);
    slow.send(body.substr(at, step));
    wait_until([&] { return buffered_bytes(server) == before + step; });
    server.clock.advance(9s);
  }
  slow.send(body.substr(at));
  CHECK(slow.receive().status == 201);
  send_part(silent, "/v1/jobs", "", 4 * kMiB);
  wait_until([&] { return buffered_bytes(server) == 4 * kMiB; });
  server.clock.advance(11s);
  CHECK(silent.receive().status == 408);
}

TEST_CASE("a peer that does not read its large answer is disconnected after ten seconds") {
  TestServer server;
  Peer peer(server), silent(server);
  REQUIRE(peer.call("POST", "/v1/jobs", enqueue_of("q", 1'000'000, 9)).status == 201);
  const std::string claim = R"({"worker":"w","queues":["q"],"max":100})";
  silent.send(Peer::request("POST", "/v1/claim", claim));
  wait_until([&] { return buffered_bytes(server) > 0; });
  wait_until([&] {
    server.clock.advance(1s);  // until the kernel's buffers are full, the peer seems to read
    return buffered_bytes(server) == 0;
  });
}

TEST_CASE("jobs of a claim whose answer has no room are claimed by another worker") {
  HttpOptions options = strict();
  options.max_buffered_bytes = 40 * kMiB;  // `work` fills four fifths; a claim of 8 MiB fits
  TestServer server(options);
  const std::string work = scoped_token(server, "enqueue work", "work");
  const std::string other = scoped_token(server, "enqueue work", "other");
  Peer peer(server), parked(server), slow(server), slower(server);
  CHECK(peer.call("POST", "/v1/jobs", R"({"queue":"q","kind":"k"})", other).status == 201);
  parked.send(Peer::request("POST", "/v1/claim",
                            R"({"worker":"w","queues":["large"],"wait":"20s"})", work));
  wait_until([&] { return server.broker->parked_claims() == 1; });
  send_part(slow, "/v1/finish", work, 16 * kMiB - 1);
  wait_until([&] { return buffered_bytes(server) == 16 * kMiB - 1; });
  send_part(slower, "/v1/finish", work, 16 * kMiB - 1);
  wait_until([&] { return buffered_bytes(server) == 32 * kMiB - 2; });
  CHECK(peer.call("POST", "/v1/jobs", enqueue_of("large", 100'000), other).status == 201);
  CHECK(parked.receive().status == 429);
  const Answer claimed =
      peer.call("POST", "/v1/claim", R"({"worker":"v","queues":["large"],"wait":"20s"})", other);
  REQUIRE_MESSAGE(claimed.status == 200, claimed.body);
  const auto jobs = decode_claim_response(claimed.body);
  REQUIRE(jobs->jobs.size() == 1);
  CHECK(jobs->jobs[0].attempt == 1);
}
