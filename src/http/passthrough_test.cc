// Requests passed on to a job's own HTTP server, and its valid and invalid responses.
#include <poll.h>

#include "env/random.h"
#include "http/fake_host.h"
#include "model/token_text.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;

namespace {

// A program's HTTP server with literal responses: one per connection, which it then closes.
class Program {
 public:
  Program() : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener_, 64) == 0);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~Program() { ::close(listener_); }
  int port() const { return port_; }

  // Accepts a connection and reads until `end` has arrived.
  int take(std::string_view end = "\r\n\r\n") {
    pollfd wait{listener_, POLLIN, 0};
    REQUIRE(::poll(&wait, 1, 20'000) == 1);
    const int fd = ::accept(listener_, nullptr, nullptr);
    REQUIRE(fd >= 0);
    asked_.clear();
    while (!has(asked_, end)) {
      char buffer[65536];
      const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
      if (got <= 0) break;
      asked_.append(buffer, static_cast<std::size_t>(got));
    }
    return fd;
  }
  static void answer(int fd, std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) break;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    ::close(fd);
  }
  const std::string& asked() const { return asked_; }

 private:
  int listener_;
  int port_ = 0;
  std::string asked_;
};

struct Passing : HostServer {
  Passing()
      : HostServer([] {
          HostRoutes routes;
          routes.webjobs_api = true;
          return routes;
        }()),
        peer(server) {
    host.add(JobType::continuous, "mailer");
    host.set_port(program.port());
  }
  Program program;
  Peer peer;
};

}  // namespace

TEST_CASE("a request is passed on with its method, headers, query and body; so is the response") {
  Passing s;
  s.peer.send(
      "PATCH /api/continuouswebjobs/mailer/passthrough/a%2Fb/c?x=1&x=%zz HTTP/1.1\r\n"
      "Host: localhost\r\nX-Mine: yes\r\nConnection: X-Secret\r\nX-Secret: no\r\n"
      "Transfer-Encoding: chunked\r\nContent-Type: text/odd\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
  const int fd = s.program.take("abc");
  const std::string& asked = s.program.asked();
  CHECK(asked.starts_with("PATCH /a%2Fb/c?x=1&x=%zz HTTP/1.1\r\n"));
  CHECK(has(asked, "Host: 127.0.0.1:" + std::to_string(s.program.port()) + "\r\n"));
  CHECK_FALSE(has(asked, "Host: localhost"));
  CHECK(has(asked, "X-Mine: yes\r\n"));
  CHECK(has(asked, "Content-Type: text/odd\r\n"));
  CHECK(has(asked, "Content-Length: 3\r\n"));
  CHECK_FALSE(has(asked, "X-Secret"));
  CHECK_FALSE(has(asked, "chunked"));
  CHECK(asked.ends_with("\r\n\r\nabc"));
  Program::answer(fd,
                  "HTTP/1.1 418 I'm a teapot\r\nContent-Type: text/tea\r\nX-Yours: too\r\n"
                  "Keep-Alive: timeout=5\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "5\r\nhello\r\n0\r\n\r\n");
  const Answer answer = s.peer.receive();
  CHECK(answer.status == 418);
  CHECK(answer.headers.at("Content-Type") == "text/tea");
  CHECK(answer.headers.at("X-Yours") == "too");
  CHECK_FALSE(answer.headers.contains("Keep-Alive"));
  CHECK(answer.headers.at("Content-Length") == "5");
  CHECK(answer.body == "hello");
  CHECK(s.peer.call("GET", "/v1/version").status == 200);
}

TEST_CASE("a token is for this server and is not passed to the program") {
  Passing s;
  SystemRandom random;
  const Secret text = make_token_text(random);
  TokenRecord token;
  token.name = "t";
  token.digest = *digest_of_token(text.reveal());
  token.scopes = *Scopes::parse("enqueue");
  std::atomic<bool> made = false;
  s.server.broker->submit(CreateToken{token}, [&](OperationResult) { made = true; });
  wait_until([&] { return made.load(); });
  s.peer.send(Peer::request("GET", "/api/continuouswebjobs/mailer/passthrough/x", "",
                            "authorization: Bearer " + text.reveal() + "\r\nX-Mine: yes\r\n"));
  const int fd = s.program.take();
  CHECK(has(s.program.asked(), "X-Mine: yes\r\n"));
  CHECK_FALSE(has(s.program.asked(), "uthorization"));
  CHECK_FALSE(has(s.program.asked(), text.reveal()));
  Program::answer(fd, "HTTP/1.1 204 No Content\r\n\r\n");
  CHECK(s.peer.receive().status == 204);
}

TEST_CASE("a page of a program has no rights of this server's pages, and sets no cookies") {
  Passing s;
  s.peer.send(Peer::request("GET", "/api/continuouswebjobs/mailer/passthrough/"));
  const int fd = s.program.take();
  Program::answer(
      fd,
      "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nset-cookie: mainspring_session=x\r\n"
      "Clear-Site-Data: \"*\"\r\nAlt-Svc: h2=\":1\"\r\nX-Yours: too\r\n"
      "Content-Length: 5\r\n\r\n<html");
  const Answer answer = s.peer.receive();
  CHECK(answer.headers.at("Content-Type") == "text/html");
  CHECK(answer.headers.at("Content-Security-Policy") == "sandbox");
  CHECK(answer.headers.at("X-Yours") == "too");
  for (const char* dropped : {"set-cookie", "Set-Cookie", "Clear-Site-Data", "Alt-Svc"})
    CHECK_FALSE(answer.headers.contains(dropped));
}

TEST_CASE("the root of a program, HEAD, and answers without a body") {
  Passing s;
  for (std::string_view path : {"", "/", "/?q"}) {
    s.peer.send(Peer::request("GET", "/api/continuousjobs/mailer/passthrough" + std::string(path)));
    const int fd = s.program.take();
    CHECK(s.program.asked().starts_with(path.ends_with('q') ? "GET /?q HTTP" : "GET / HTTP"));
    Program::answer(fd, "HTTP/1.1 204 No Content\r\n\r\n");
    CHECK(s.peer.receive().status == 204);
  }
  s.peer.send(Peer::request("HEAD", "/api/continuouswebjobs/mailer/passthrough/x"));
  const int fd = s.program.take();
  CHECK(s.program.asked().starts_with("HEAD /x HTTP"));
  Program::answer(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
  CHECK(s.peer.receive(true).status == 200);
  CHECK(s.peer.call("GET", "/v1/version").status == 200);
}

TEST_CASE("a program that is missing, disconnects or answers garbage gives 404") {
  Passing s;
  const std::string get = Peer::request("GET", "/api/continuouswebjobs/mailer/passthrough/x");
  for (std::string_view answer :
       {"", "nonsense", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    CAPTURE(answer);
    s.peer.send(get);
    Program::answer(s.program.take(), answer);
    const Answer refused = s.peer.receive();
    CHECK(refused.status == 404);
    CHECK(refused.body.starts_with(R"({"Message":)"));
  }
  s.host.set_port(0);
  s.peer.send(get);
  CHECK(s.peer.receive().status == 404);
  CHECK(s.peer.call("GET", "/api/continuouswebjobs/unknown/passthrough/x").status == 404);
}

TEST_CASE("at most sixteen requests are passed on at once, and finished ones make room") {
  Passing s;
  const std::string get = Peer::request("GET", "/api/continuouswebjobs/mailer/passthrough/x");
  for (int round = 0; round < 2; ++round) {
    std::vector<Peer> peers;
    std::vector<int> taken;
    for (int i = 0; i < 16; ++i) {
      peers.emplace_back(s.server);
      peers.back().send(get);
      taken.push_back(s.program.take());
    }
    s.peer.send(get);
    CHECK(s.peer.receive().status == 503);
    // Other requests are served meanwhile.
    CHECK(s.peer.call("GET", "/api/webjobs").status == 200);
    for (int i = 0; i < 16; ++i) {
      Program::answer(taken[static_cast<std::size_t>(i)],
                      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
      CHECK(peers[static_cast<std::size_t>(i)].receive().body == "ok");
    }
    s.peer.send(get);
    Program::answer(s.program.take(), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    CHECK(s.peer.receive().status == 200);
  }
}

TEST_CASE("the server stops while a program does not answer") {
  auto s = std::make_unique<Passing>();
  s->peer.send(Peer::request("GET", "/api/continuouswebjobs/mailer/passthrough/x"));
  const int fd = s->program.take();
  s->server.server->stop(50ms);
  CHECK(s->peer.ended());
  ::close(fd);
}
