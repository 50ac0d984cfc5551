// A server of this process, for tests with real sockets: plain, and with MAINSPRING_TEST_DOOR=tls
// or unix in the environment over those.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <filesystem>

#include "broker/broker.h"
#include "client/client.h"
#include "engine/node.h"
#include "env/fd.h"
#include "http/server.h"
#include "mainspring/engine.h"
#include "tls/tls_testing.h"

namespace mainspring::test {

enum class Endpoint { plain, tls, unix_socket };
inline Endpoint endpoint_of_environment() {
  const char* const name = std::getenv("MAINSPRING_TEST_DOOR");
  if (name == nullptr) return Endpoint::plain;
  return std::string_view(name) == "tls" ? Endpoint::tls : Endpoint::unix_socket;
}

// A port that the kernel gives to no other process. A server can bind it, because this socket does
// not listen.
struct ReservedPort {
  ReservedPort() : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    const int on = 1;
    REQUIRE(::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    number = ntohs(address.sin_port);
  }
  Fd fd;
  std::uint16_t number = 0;
};

// A server in a directory of its own, which can be stopped and started again on the same port.
struct Server {
  SystemClock clock;
  NullLog log;
  std::filesystem::path directory;
  std::unique_ptr<Registry> registry;
  std::unique_ptr<Node> node;
  std::unique_ptr<HttpServer> http;
  ReservedPort reserved;
  std::uint16_t port = 0;
  const Endpoint endpoint;
  bool asks_certificate = false;
  std::unique_ptr<mainspring::testing::Certificates> certificates;
  std::unique_ptr<TlsServer> tls;

  explicit Server(Endpoint through = endpoint_of_environment(), bool certificate_needed = false)
      : endpoint(through), asks_certificate(certificate_needed) {
    std::string name = (std::filesystem::temp_directory_path() / "remote-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    directory = name;
    if (endpoint == Endpoint::tls) make_tls();
    start();
  }
  ~Server() {
    stop();
    std::filesystem::remove_all(directory);
  }
  void start() {
    registry = std::make_unique<Registry>();
    NodeOptions options;
    options.sqlite.directory = (directory / "data").string();
    auto opened = Node::open(std::move(options), clock, log, *registry);
    REQUIRE(opened.has_value());
    node = std::move(*opened);
    node->start();
    HttpOptions http_options;
    http_options.port = reserved.number;
    http_options.tls = tls.get();
    if (endpoint == Endpoint::unix_socket) http_options.unix_path = socket();
    http = std::make_unique<HttpServer>(http_options, node->broker(), node->store(), clock, log,
                                        *registry);
    REQUIRE(http->start().has_value());
    port = http->port();
  }
  void stop() {
    if (http) http->stop(std::chrono::seconds(5));
    if (node) node->stop();
    http.reset();
    node.reset();
  }
  void make_tls() {
    certificates = std::make_unique<mainspring::testing::Certificates>();
    certificates->issue("server", {"localhost", "127.0.0.1"});
    certificates->issue("worker", {});
    TlsServerOptions options = certificates->server();
    if (asks_certificate) options.client_ca_file = certificates->path("ca.pem");
    auto opened = TlsServer::open(std::move(options));
    REQUIRE_MESSAGE(opened.has_value(), opened.error().message);
    tls = std::move(*opened);
  }
  std::string socket() const { return (directory / "api.sock").string(); }
  std::string url() const {
    if (endpoint == Endpoint::unix_socket) return "unix:" + socket();
    return fmt::format("{}://127.0.0.1:{}", endpoint == Endpoint::tls ? "https" : "http", port);
  }
  ClientOptions client_options() const {
    ClientOptions options;
    options.url = url();
    if (endpoint == Endpoint::tls) options.ca_file = certificates->path("ca.pem");
    return options;
  }
  EngineOptions engine_options() const {
    EngineOptions options;
    options.ca_file = client_options().ca_file;
    return options;
  }
};

}  // namespace mainspring::test
