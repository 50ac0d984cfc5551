// The server over TLS and over a Unix socket.
#include <sys/stat.h>
#include <sys/un.h>

#include <fstream>

#include "http/http_test_support.h"

using namespace mainspring;
using namespace mainspring::test;
using mainspring::testing::Certificates;

namespace {

constexpr std::string_view kParked = R"({"worker":"w","queues":["q"],"wait":"30s"})";

HttpOptions tls_options() {
  HttpOptions options;
  options.tls = test_tls().server.get();
  return options;
}

Peer tls_peer(TestServer& server) {
  return Peer(server.server->port(), test_tls().client.get());
}

Peer plain_peer(TestServer& server) {
  return Peer(server.server->port(), nullptr);
}

class UnixPeer {
 public:
  explicit UnixPeer(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  UnixPeer(const UnixPeer&) = delete;
  UnixPeer& operator=(const UnixPeer&) = delete;
  ~UnixPeer() { ::close(fd_); }
  bool connected() const { return connected_; }
  std::string get(const std::string& path) {
    const std::string request =
        "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    ::send(fd_, request.data(), request.size(), MSG_NOSIGNAL);
    std::string out;
    char part[4096];
    ssize_t size = 0;
    while ((size = ::recv(fd_, part, sizeof part, 0)) > 0) {
      out.append(part, static_cast<std::size_t>(size));
    }
    return out;
  }

 private:
  int fd_;
  bool connected_ = false;
};

// A server that listens on a Unix socket, without a store or a broker.
struct Bound {
  explicit Bound(TestServer& node, const std::string& path) {
    HttpOptions options;
    options.unix_path = path;
    server = std::make_unique<HttpServer>(options, *node.broker, *node.store, node.clock, node.log,
                                          registry);
    started = server->start();
  }
  Registry registry;
  std::unique_ptr<HttpServer> server;
  Result<void> started;
};

}  // namespace

TEST_CASE("over TLS: requests on one connection, and the URL has https") {
  TestServer server(tls_options());
  CHECK(server.server->url() == "https://127.0.0.1:" + std::to_string(server.server->port()));
  Peer peer = tls_peer(server);
  CHECK(peer.call("GET", "/healthz").status == 200);
  CHECK(peer.call("POST", "/v1/jobs", R"({"queue":"q","kind":"k"})").status == 201);
  CHECK(peer.call("GET", "/v1/queues").status == 200);
  CHECK(std::string(SSL_get_version(peer.ssl())) == "TLSv1.3");
}

TEST_CASE("a plain-text request to a TLS port is answered with an error that says to use https") {
  TestServer server(tls_options());
  Peer peer = plain_peer(server);
  const Answer answer = peer.call("POST", "/v1/jobs", R"({"queue":"q","kind":"k"})");
  CHECK(answer.status == 400);
  CHECK(answer.headers.at("Content-Type") == "text/plain");
  CHECK(has(answer.body, "https://"));
  CHECK(peer.ended());
  CHECK(tls_peer(server).call("GET", "/healthz").status == 200);
}

TEST_CASE("over TLS: a request that arrives while a claim is parked is answered after it") {
  TestServer server(tls_options());
  Peer worker = tls_peer(server);
  worker.send(Peer::request("POST", "/v1/claim", kParked));
  wait_until([&] { return server.broker->parked_claims() == 1; });
  worker.send(Peer::request("GET", "/healthz") + Peer::request("GET", "/v1/version"));
  Peer other = tls_peer(server);
  CHECK(other.call("POST", "/v1/jobs", R"({"queue":"q","kind":"k"})").status == 201);
  CHECK(worker.receive().status == 200);
  CHECK(has(worker.receive().body, "status"));
  CHECK(has(worker.receive().body, "version"));
}

TEST_CASE("over TLS: a parked claim of a peer that closes or vanishes takes no job") {
  TestServer server(tls_options());
  for (const bool says_so : {true, false}) {
    CAPTURE(says_so);
    Peer worker = tls_peer(server);
    worker.send(Peer::request("POST", "/v1/claim", kParked));
    wait_until([&] { return server.broker->parked_claims() == 1; });
    if (says_so) {
      SSL_shutdown(worker.ssl());
    } else {
      worker.close();
    }
    wait_until([&] { return server.broker->parked_claims() == 0; });
  }
}

TEST_CASE("an unfinished handshake is cut off after header_timeout") {
  HttpOptions options = tls_options();
  options.header_timeout = std::chrono::milliseconds(100);
  TestServer server(options);
  Peer silent = plain_peer(server), half = plain_peer(server);
  half.send(std::string_view("\x16\x03\x01\x02\x00\x01", 6));
  CHECK(half.ended());
  CHECK(silent.ended());
  wait_until([&] { return server.server->connections() == 0; });
}

TEST_CASE("connections of slow and silent peers are closed") {
  HttpOptions idle;
  idle.idle_timeout = std::chrono::milliseconds(10);
  TestServer hurried(idle);
  CHECK(Peer(hurried).ended());
  HttpOptions head;
  head.header_timeout = std::chrono::seconds(1);
  TestServer server(head);
  // Over TLS the handshake has that time, too: a slow machine may use it up.
  bool answered = false;
  for (int i = 0; i < 20 && !answered; ++i) {
    Peer slow(server);
    slow.send("GET /healthz HT");
    const int status = slow.receive().status;
    answered = status != 0;
    if (answered) CHECK(status == 408);
    CHECK(slow.ended());
  }
  CHECK(answered);
}

TEST_CASE("garbage on a TLS port ends only its own connection") {
  TestServer server(tls_options());
  Peer good = tls_peer(server);
  for (int i = 0; i < 20; ++i) {
    Peer junk = plain_peer(server);
    junk.send(std::string(1000, static_cast<char>(i + 1)));
    (void)junk.rest();  // an alert, then the end
  }
  CHECK(good.call("GET", "/healthz").status == 200);
  wait_until([&] { return server.server->connections() == 1; });
}

TEST_CASE("the server closes an idle connection with a clean TLS shutdown") {
  HttpOptions options = tls_options();
  options.idle_timeout = std::chrono::milliseconds(100);
  TestServer server(options);
  bool answered = false;
  for (int i = 0; i < 20 && !answered; ++i) {
    Peer peer = tls_peer(server);
    const int status = peer.call("GET", "/healthz").status;
    answered = status != 0;  // a slow machine may send the request after the timeout
    if (answered) CHECK(status == 200);
    CHECK(peer.ended());
    CHECK(SSL_get_shutdown(peer.ssl()) == SSL_RECEIVED_SHUTDOWN);
  }
  CHECK(answered);
}

TEST_CASE("new connections get the new certificate, and old ones stay open") {
  Certificates certificates;
  certificates.issue("server", {"localhost"});
  const auto tls = *TlsServer::open(certificates.server());
  const auto client = *make_client_context(certificates.client());
  HttpOptions options;
  options.tls = tls.get();
  TestServer server(options);
  Peer old(server.server->port(), client.get());
  old.send(Peer::request("POST", "/v1/claim", kParked));
  wait_until([&] { return server.broker->parked_claims() == 1; });
  certificates.issue("server", {"localhost"});
  REQUIRE(tls->reload());
  Peer fresh(server.server->port(), client.get());
  CHECK(fresh.call("POST", "/v1/jobs", R"({"queue":"q","kind":"k"})").status == 201);
  CHECK(has(old.receive().body, "\"jobs\""));
  CHECK(old.call("GET", "/healthz").status == 200);
  CHECK(X509_cmp(SSL_get0_peer_certificate(old.ssl()), SSL_get0_peer_certificate(fresh.ssl())) !=
        0);
}

TEST_CASE("over TLS: large bodies and large answers, pipelined") {
  TestServer server(tls_options());
  Peer peer = tls_peer(server);
  const std::string payload(700'000, 'p');
  const std::string body = R"({"queue":"q","kind":"k","args":")" + payload + "\"}";
  for (int i = 0; i < 3; ++i) CHECK(peer.call("POST", "/v1/jobs", body).status == 201);
  peer.send(Peer::request("GET", "/v1/jobs/1") + Peer::request("GET", "/v1/jobs/2") +
            Peer::request("GET", "/v1/jobs/3"));
  for (int i = 0; i < 3; ++i) {
    const Answer answer = peer.receive();
    CHECK(answer.status == 200);
    CHECK(has(answer.body, payload));
  }
}

TEST_CASE("a client without a required certificate is refused") {
  Certificates certificates;
  certificates.issue("server", {"localhost"});
  certificates.issue("worker", {});
  TlsServerOptions tls_options = certificates.server();
  tls_options.client_ca_file = certificates.path("ca.pem");
  const auto tls = *TlsServer::open(tls_options);
  HttpOptions options;
  options.tls = tls.get();
  TestServer server(options);
  const auto known = *make_client_context(certificates.client("worker"));
  const auto unknown = *make_client_context(certificates.client());
  CHECK(Peer(server.server->port(), known.get()).call("GET", "/healthz").status == 200);
  CHECK(Peer(server.server->port(), unknown.get()).call("GET", "/healthz").status == 0);
}

TEST_CASE("a Unix socket serves only its owner, and is removed when the server stops") {
  TestServer node;
  const std::string path = node.directory.path() + "/api.sock";
  {
    Bound bound(node, path);
    REQUIRE_MESSAGE(bound.started.has_value(), bound.started.error().message);
    CHECK(bound.server->url() == "unix:" + path);
    CHECK(bound.server->port() == 0);
    struct stat status {};
    REQUIRE(::lstat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == 0600);
    CHECK(has(UnixPeer(path).get("/healthz"), "200 OK"));
    bound.server->stop(std::chrono::seconds(5));
    CHECK(::lstat(path.c_str(), &status) != 0);
  }
  CHECK(!UnixPeer(path).connected());
}

TEST_CASE("the socket of a dead server is replaced, one in use is not") {
  TestServer node;
  const std::string path = node.directory.path() + "/api.sock";
  {
    // Bound but not listening: the state after a server was killed.
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    ::close(fd);
  }
  Bound first(node, path);
  REQUIRE_MESSAGE(first.started.has_value(), first.started.error().message);
  const Bound second(node, path);
  REQUIRE(!second.started);
  CHECK(second.started.error().code == ErrorCode::conflict);
  CHECK(has(UnixPeer(path).get("/healthz"), "200 OK"));
  // A file that another process has put there meanwhile is kept.
  REQUIRE(::unlink(path.c_str()) == 0);
  std::ofstream(path) << "mine";
  first.server->stop(std::chrono::seconds(5));
  CHECK(std::filesystem::exists(path));
  const Bound third(node, path);
  REQUIRE(!third.started);
  CHECK(third.started.error().code == ErrorCode::conflict);
}

TEST_CASE("invalid options for a Unix socket are refused") {
  HttpOptions options;
  options.unix_path = std::string(200, 'x');
  REQUIRE(options.validate().size() == 1);
  CHECK(options.validate()[0].field == "unix_path");
  options.unix_path = "/tmp/x.sock";
  options.tls = test_tls().server.get();
  REQUIRE(options.validate().size() == 1);
  CHECK(has(options.validate()[0].message, "has no TLS"));
}
