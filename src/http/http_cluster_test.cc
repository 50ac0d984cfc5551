// Tests of a follower: it answers as the leader does, and loses no request when the leader changes.
#include <sys/un.h>

#include <deque>
#include <regex>

#include "cluster/leader.h"
#include "cluster/link.h"
#include "http/http_test_support.h"
#include "http/routes.h"

namespace mainspring {
namespace {

using namespace std::chrono_literals;
using namespace test;

const Secret kKey(std::string(64, 'a'));

// A server that is a node of a cluster.
struct TestNode {
  explicit TestNode(HttpOptions options = {}, const Secret& key = kKey)
      : links(*LinkKeys::open(key)), leadership(log, registry) {
    options.leadership = &leadership;
    options.links = links.get();
    server = std::make_unique<TestServer>(options);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(server->server->port()); }
  void advance(Duration by) { server->clock.advance(by); }

  StrictLog log;
  Registry registry;
  std::unique_ptr<LinkKeys> links;
  Leadership leadership;
  std::unique_ptr<TestServer> server;
};

void lead(std::int64_t term, TestNode& leader, std::initializer_list<TestNode*> followers) {
  LeaderView view{.term = term, .node = term, .address = leader.address(), .why = "a test"};
  for (TestNode* follower : followers) follower->leadership.set(view);
  view.is_me = true;
  leader.leadership.set(view);
}

struct Cluster {
  explicit Cluster(const HttpOptions& of_leader = {}, const HttpOptions& of_follower = {})
      : leader(of_leader), follower(of_follower) {
    lead(1, leader, {&follower});
  }
  TestNode leader, follower;
};

std::string enqueue_body(const std::string& queue = "q") {
  return R"({"queue":")" + queue + R"(","kind":"t","args":{"a":1}})";
}

// Ids and times differ between two servers.
std::string without_numbers(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c < '0' || c > '9')
      out += c;
    else if (!out.ends_with('#'))
      out += '#';
  }
  return out;
}

std::string target_of(const http::Route& route) {
  std::string out(route.pattern);
  for (std::size_t at = 0; (at = out.find('{', at)) != std::string::npos;) {
    const std::size_t end = out.find('}', at);
    const std::string name = out.substr(at, end - at + 1);
    out.replace(at, name.size(), name == "{id}" ? "1" : "q");
  }
  return out;
}

std::string shape_of(const Answer& answer) {
  std::string out = std::to_string(answer.status) + "\n";
  for (const auto& [name, value] : answer.headers) {
    if (name != "Date" && name != "Content-Length")
      out += name + ": " + without_numbers(value) + "\n";
  }
  // The audit's hashes depend on its times.
  return out + without_numbers(std::regex_replace(answer.body, std::regex("[0-9a-f]{64}"), "0"));
}

TEST_CASE("a follower answers every route as the leader does") {
  Cluster alone;    // its leader is asked directly
  Cluster cluster;  // through its follower
  Peer direct(*alone.leader.server), relayed(*cluster.follower.server);
  const auto same = [&](std::string_view method, const std::string& target,
                        const std::string& body) {
    CAPTURE(method);
    CAPTURE(target);
    CAPTURE(body);
    const Answer wanted = direct.call(method, target, body);
    const Answer got = relayed.call(method, target, body);
    REQUIRE(wanted.status != 0);
    CHECK(shape_of(got) == shape_of(wanted));
  };
  for (int round = 0; round < 2; ++round) {
    for (const http::Route& route : http::routes()) {
      const std::string target = target_of(route);
      if (target == "/v1/events" || target == "/metrics" || target == "/healthz") continue;
      const std::string method(route.method == "*" ? "POST" : route.method);
      same(method, target, "");
      same(method, target, R"({"unknown":1})");
      same(method, target + "?unknown=1", "");
      if (method == "GET") same("HEAD", target, "");
    }
    same("PATCH", "/v1/jobs", "");
    same("GET", "/nothing/here", "");
    same("POST", "/v1/jobs", enqueue_body());
    same("POST", "/v1/jobs", "{broken");
    same("POST", "/v1/claim", R"({"queues":["q"],"worker":"w"})");
    same("PUT", "/v1/schedules/q", R"({"cron":"0 0 * * *","job":{"queue":"q","kind":"t"}})");
  }
  const auto jobs = [](TestNode& node) {
    return without_numbers(Peer(*node.server).call("GET", "/v1/queues").body);
  };
  CHECK(jobs(cluster.leader) == jobs(alone.leader));
}

TEST_CASE("what belongs to a node is answered by the node itself") {
  TestNode node;  // without a leader
  Peer peer(*node.server);
  CHECK(peer.call("GET", "/livez").status == 200);
  CHECK(peer.call("GET", "/metrics").status == 200);
  CHECK(peer.call("GET", "/ui/").status ==
        Peer(*Cluster().leader.server).call("GET", "/ui/").status);
  const Answer unready = peer.call("GET", "/readyz");
  CHECK(unready.status == 503);
  CHECK(has(unready.body, "the cluster has no leader"));
  CHECK(has(peer.call("GET", "/healthz?verbose").body, "the cluster has no leader"));
  Cluster cluster;
  CHECK(Peer(*cluster.follower.server).call("GET", "/readyz").status == 200);
  CHECK(
      has(Peer(*cluster.follower.server).call("GET", "/healthz?verbose").body, "(term 1: a test)"));
}

TEST_CASE("bodies of every kind pass: large, chunked, expected, pipelined, in pieces") {
  Cluster cluster;
  Peer peer(*cluster.follower.server);
  std::string batch = R"({"jobs":[)";
  const std::string payload(100'000, 'x');
  for (int i = 0; i < 100; ++i)
    batch += (i == 0 ? "" : ",") + (R"({"queue":"big","kind":"t","args":")" + payload + "\"}");
  batch += "]}";
  CHECK(peer.call("POST", "/v1/jobs", batch).status == 201);
  const Answer claimed =
      peer.call("POST", "/v1/claim", R"({"queues":["big"],"worker":"w","max":100})");
  CHECK(claimed.status == 200);
  CHECK(claimed.body.size() > 8'000'000);

  const std::string body = enqueue_body();
  peer.send("POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (const char c : body) peer.send(std::string("1;ext=1\r\n") + c + "\r\n");
  peer.send("0\r\nTrailer: x\r\n\r\n");
  CHECK(peer.receive().status == 201);

  peer.send(
      "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n");
  CHECK(peer.receive().status == 100);
  peer.send(body);
  CHECK(peer.receive().status == 201);

  std::string many;
  for (int i = 0; i < 50; ++i) many += Peer::request("POST", "/v1/jobs", body);
  for (const char c : many.substr(0, 300)) peer.send(std::string_view(&c, 1));
  peer.send(std::string_view(many).substr(300));
  for (int i = 0; i < 50; ++i) CHECK(peer.receive().status == 201);

  peer.send("GET /v1/version HTTP/1.0\r\n\r\n");
  const std::string old = peer.rest();
  CHECK(has(old, "Connection: close"));
}

TEST_CASE("refusals before the end of a body pass, and end the connection") {
  Cluster cluster;
  for (const std::string_view request :
       {"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n{",
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
        "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        "GET /v1/jobs HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        "GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: "
        "2\r\n\r\n"}) {
    CAPTURE(request);
    Peer direct(*cluster.leader.server), relayed(*cluster.follower.server);
    direct.send(request);
    relayed.send(request);
    const Answer wanted = direct.receive(), got = relayed.receive();
    CHECK(wanted.status >= 400);
    CHECK(shape_of(got) == shape_of(wanted));
    if (wanted.headers.contains("Connection")) CHECK(relayed.ended());
  }
  Peer huge(*cluster.follower.server);
  huge.send("GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(100'000, 'x') +
            "\r\n\r\n");
  CHECK(huge.receive().status == 431);
}

// -- who the caller is

int connect_unix(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

TEST_CASE("the leader audits the caller that the follower sees") {
  if (over_tls()) return;  // a unix socket has no TLS
  TempDir directory;
  HttpOptions unix_socket;
  unix_socket.unix_path = directory.path() + "/socket";
  TestNode leader, follower(unix_socket);
  lead(1, leader, {&follower});
  REQUIRE(Peer(*leader.server).call("POST", "/v1/jobs", enqueue_body()).status == 201);
  const int fd = connect_unix(unix_socket.unix_path);
  const std::string request = Peer::request("POST", "/v1/queues/q/pause", "{}");
  REQUIRE(::send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0);
  char answer[4096];
  REQUIRE(::recv(fd, answer, sizeof answer, 0) > 0);
  ::close(fd);
  CHECK(std::string(answer).starts_with("HTTP/1.1 200"));
  CHECK(has(Peer(*leader.server).call("GET", "/v1/audit").body,
            "unix uid=" + std::to_string(::getuid())));
}

TEST_CASE("tokens and their scopes count at the leader") {
  HttpOptions strict;
  strict.require_token = true;
  Cluster cluster(strict);
  const std::string token = scoped_token(*cluster.leader.server, "read");
  Peer peer(*cluster.follower.server);
  CHECK(peer.call("GET", "/v1/jobs").status == 401);
  CHECK(peer.call("GET", "/v1/jobs", "", token).status == 200);
  CHECK(peer.call("POST", "/v1/jobs", enqueue_body(), token).status == 403);
  CHECK(peer.call("GET", "/v1/jobs").status == 401);
}

TEST_CASE("only a node with the key can name a caller") {
  HttpOptions strict;
  strict.require_token = true;
  TestNode leader(strict);
  lead(1, leader, {});
  Peer forger(leader.server->server->port(), nullptr);
  forger.send(kLinkGreeting);
  forger.send(encode_caller({.term = 1, .local = true, .peer = "unix uid=0"}));
  forger.send(Peer::request("GET", "/v1/jobs"));
  CHECK_FALSE(has(forger.rest(), "HTTP/1.1"));
  TestNode stranger({}, Secret(std::string(64, 'b')));
  stranger.leadership.set({.term = 1, .node = 1, .address = leader.address()});
  Peer peer(*stranger.server);
  wait_until([&] { return peer.call("GET", "/readyz").status == 503; });
  CHECK(has(peer.call("GET", "/readyz").body, "has another key"));
}

// -- the leader is lost, or another node leads

TEST_CASE("without a leader requests wait, then are refused with Retry-After") {
  TestNode node;
  Peer peer(*node.server);
  peer.send(Peer::request("POST", "/v1/jobs", enqueue_body()));
  wait_until([&] { return node.leadership.held == 1; });
  node.advance(6s);
  const Answer refused = peer.receive();
  CHECK(refused.status == 503);
  CHECK(refused.headers.contains("Retry-After"));
  CHECK(code_of(refused) == "unavailable");
  CHECK(node.leadership.held == 0);
  CHECK(node.leadership.held_bytes == 0);
  CHECK(peer.call("GET", "/livez").status == 200);  // the connection stays open
}

TEST_CASE("waiting requests are relayed once a node leads, or answered here") {
  TestNode first, second;
  Peer peer(*first.server), other(*second.server);
  peer.send(Peer::request("POST", "/v1/jobs", enqueue_body()));
  other.send(Peer::request("POST", "/v1/jobs", enqueue_body()));
  wait_until([&] { return first.leadership.held == 1 && second.leadership.held == 1; });
  lead(1, second, {&first});
  CHECK(peer.receive().status == 201);
  CHECK(other.receive().status == 201);
  CHECK(peer.call("GET", "/v1/jobs?queue=q").body == other.call("GET", "/v1/jobs?queue=q").body);
}

TEST_CASE("the requests that wait are bounded") {
  TestNode node;
  std::deque<Peer> peers;
  for (int i = 0; i < 1024; ++i) {
    peers.emplace_back(*node.server);
    peers.back().send(Peer::request("GET", "/v1/jobs"));
  }
  wait_until([&] { return node.leadership.held == 1024; });
  CHECK(Peer(*node.server).call("GET", "/v1/jobs").status == 503);
  CHECK(node.leadership.held == 1024);
}

TEST_CASE("a parked claim continues at the next leader, and an event stream ends") {
  TestNode first, second, follower;
  lead(1, first, {&second, &follower});
  Peer worker(*follower.server), watcher(*follower.server), direct(*first.server);
  worker.send(Peer::request("POST", "/v1/claim", R"({"queues":["q"],"worker":"w","wait":"20s"})"));
  direct.send(Peer::request("POST", "/v1/claim", R"({"queues":["q"],"worker":"v","wait":"20s"})"));
  watcher.send(Peer::request("GET", "/v1/events"));
  CHECK(watcher.receive().status == 200);
  wait_until([&] { return first.server->broker->parked_claims() == 2; });
  lead(2, second, {&first, &follower});
  wait_until([&] { return second.server->broker->parked_claims() >= 1; });
  CHECK(direct.ended());
  watcher.rest();  // ends
  Peer(*second.server).call("POST", "/v1/jobs", enqueue_body());
  const Answer claimed = worker.receive();
  CHECK(claimed.status == 200);
  CHECK(has(claimed.body, R"("queue":"q")"));
}

TEST_CASE("a node that does not lead refuses relayed requests, and they wait for the leader") {
  TestNode leader, follower;
  follower.leadership.set({.term = 3, .node = 3, .address = leader.address()});
  Peer peer(*follower.server);
  peer.send(Peer::request("POST", "/v1/jobs", enqueue_body()));
  wait_until([&] { return has(follower.leadership.not_ready().value_or(""), "does not lead"); });
  lead(3, leader, {});
  CHECK(peer.receive().status == 201);
  wait_until([&] { return !follower.leadership.not_ready(); });
}

// A leader that takes requests and does not answer.
class DeafLeader {
 public:
  DeafLeader() : links_(*LinkKeys::open(kKey)), fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(fd_, 100) == 0);
    socklen_t size = sizeof address;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~DeafLeader() { ::close(fd_); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  // Accepts links until one of them has sent a request; answers pings. Returns the request.
  // `closes`: the connection breaks then.
  std::string take(bool closes) {
    while (true) {
      sessions_.push_back(accept());
      std::string in;
      while (in.find("\r\n\r\n") == std::string::npos) {
        char buffer[4096];
        const int got = SSL_read(sessions_.back(), buffer, sizeof buffer);
        if (got <= 0) break;
        in.append(buffer, static_cast<std::size_t>(got));
        if (in.find("\tp\t") == std::string::npos) continue;
        in.erase(0, in.find('\n') + 1);
        const std::string pong = encode_frame({.ends = true});
        SSL_write(sessions_.back(), pong.data(), static_cast<int>(pong.size()));
      }
      if (in.empty()) continue;
      if (closes) end(sessions_.back());
      return in;
    }
  }

 private:
  SSL* accept() {
    const int fd = ::accept(fd_, nullptr, nullptr);
    char greeting[8];
    REQUIRE(::recv(fd, greeting, sizeof greeting, MSG_WAITALL) == 8);
    SSL* const ssl = SSL_new(links_->accepting().get());
    attach_socket(ssl, fd);
    SSL_accept(ssl);
    fds_.push_back(fd);
    return ssl;
  }
  void end(SSL*& ssl) {
    ::close(fds_.back());
    SSL_free(std::exchange(ssl, nullptr));
  }

  std::unique_ptr<LinkKeys> links_;
  int fd_;
  std::uint16_t port_ = 0;
  std::vector<SSL*> sessions_;
  std::vector<int> fds_;
};

TEST_CASE("a request whose link broke is sent again only if that is safe") {
  DeafLeader deaf;
  TestNode follower, leader;
  follower.leadership.set({.term = 1, .node = 1, .address = deaf.address()});
  Peer unsafe(*follower.server);
  unsafe.send(Peer::request("POST", "/v1/jobs", enqueue_body()));
  CHECK(has(deaf.take(true), "POST /v1/jobs"));
  CHECK(unsafe.ended());  // as if the server itself was lost
  const auto again = [&](const std::string& request) {
    Peer peer(*follower.server);
    peer.send(request);
    for (int i = 0; i < 4; ++i) CHECK(has(deaf.take(true), request));
    CHECK(peer.ended());  // after three repetitions
  };
  again(Peer::request("GET", "/v1/jobs"));
  again(Peer::request("POST", "/v1/claim", R"({"queues":["q"],"worker":"w"})"));
  again(Peer::request("POST", "/v1/jobs", enqueue_body(), "Idempotency-Key: k\r\n"));
  const std::string metrics = follower.registry.render();
  CHECK(has(metrics, "mainspring_forwarded_requests_total{outcome=\"lost\"} 4"));
}

TEST_CASE("a leader that is silent ends its requests, and the node is not ready") {
  DeafLeader deaf;
  TestNode follower, next;
  follower.leadership.set({.term = 1, .node = 1, .address = deaf.address()});
  Peer unsafe(*follower.server), safe(*follower.server);
  unsafe.send(Peer::request("POST", "/v1/jobs", enqueue_body()));
  deaf.take(false);
  safe.send(Peer::request("GET", "/v1/jobs"));
  deaf.take(false);
  // A ping starts each second; each one that gets no answer counts.
  std::thread clock([&] {
    wait_until([&] {
      follower.advance(100ms);
      return follower.leadership.not_ready().has_value();
    });
  });
  CHECK(unsafe.ended());
  clock.join();
  CHECK(has(*follower.leadership.not_ready(), "does not answer"));
  lead(2, next, {&follower});
  CHECK(safe.receive().status == 200);
  CHECK_FALSE(follower.leadership.not_ready().has_value());
}

TEST_CASE("a stop of the leader loses no acknowledged job and hangs no request") {
  auto leader = std::make_unique<TestNode>();
  TestNode next, follower;
  lead(1, *leader, {&follower});
  std::atomic<int> acknowledged = 0, refused = 0, cut = 0;
  std::atomic<bool> stop = false;
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      while (!stop) {
        Peer peer(*follower.server);
        while (!stop) {
          const int status = peer.call("POST", "/v1/jobs", enqueue_body()).status;
          ++(status == 201 ? acknowledged : status == 503 ? refused : cut);
          if (status == 0) break;
        }
      }
    });
  }
  wait_until([&] { return acknowledged > 200; });
  leader->server->server->stop(5s);
  lead(2, next, {&follower});
  const int before = acknowledged;
  wait_until([&] { return acknowledged > before + 200; });
  stop = true;
  for (std::thread& client : clients) client.join();
  CHECK(refused == 0);
  CHECK(cut == 0);  // an orderly stop answers what it has started
}

TEST_CASE("a follower that stops ends parked claims and event streams soon") {
  Cluster cluster;
  Peer worker(*cluster.follower.server), watcher(*cluster.follower.server);
  worker.send(Peer::request("POST", "/v1/claim", R"({"queues":["q"],"worker":"w","wait":"30s"})"));
  watcher.send(Peer::request("GET", "/v1/events"));
  CHECK(watcher.receive().status == 200);
  wait_until([&] { return cluster.leader.server->broker->parked_claims() == 1; });
  cluster.follower.server->server->stop(60s);
  watcher.rest();
  CHECK(worker.ended());
  wait_until([&] { return cluster.leader.server->broker->parked_claims() == 0; });
}

}  // namespace
}  // namespace mainspring
