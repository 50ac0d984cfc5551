// The client at each endpoint: trusted servers, errors for others, and the use of its token.
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <latch>
#include <thread>

#include "broker/broker.h"
#include "client/client.h"
#include "env/fd.h"
#include "mainspring/engine.h"
#include "server.h"

using namespace mainspring;
using mainspring::test::Endpoint;
using mainspring::test::Server;
using namespace std::chrono_literals;

namespace {

Result<void> ready(ClientOptions options) {
  SystemRandom random;
  options.retry_for = 0s;
  MS_TRY_ASSIGN(const auto client, Client::open(std::move(options), random));
  return client->ready();
}

std::string refusal(ClientOptions options) {
  const auto answer = ready(std::move(options));
  REQUIRE(!answer);
  return answer.error().message;
}

bool contains(const std::string& text, std::string_view part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

std::string with_host(const Server& server, std::string_view host) {
  return fmt::format("https://{}:{}", host, server.port);
}

// Accepts connections and never answers.
struct SilentServer {
  SilentServer() : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(fd.get(), 10) == 0);
    socklen_t size = sizeof address;
    REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port = ntohs(address.sin_port);
  }
  Fd fd;
  std::uint16_t port = 0;
};

}  // namespace

TEST_CASE("each endpoint lets the client in") {
  for (const Endpoint endpoint : {Endpoint::plain, Endpoint::tls, Endpoint::unix_socket}) {
    const Server server(endpoint);
    const auto answer = ready(server.client_options());
    CHECK_MESSAGE(answer.has_value(), answer.error().message);
  }
}

TEST_CASE("a server that is not the one of the URL is refused") {
  const Server server(Endpoint::tls);
  const mainspring::testing::Certificates others;
  ClientOptions options = server.client_options();
  options.url = with_host(server, "localhost");
  CHECK(ready(options).has_value());
  server.certificates->issue("server", {"other.example"});
  REQUIRE(server.tls->reload());
  CHECK(contains(refusal(options), "its certificate is refused: hostname mismatch"));
  options.url = with_host(server, "127.0.0.1");
  CHECK(contains(refusal(options), "its certificate is refused: IP address mismatch"));
  options = server.client_options();
  options.ca_file = others.path("ca.pem");
  CHECK(contains(refusal(options), "its certificate is refused"));
  options.ca_file = "";
  CHECK(contains(refusal(options), "its certificate is refused: unable to get local issuer"));
  options.ca_file = others.path("none.pem");
  CHECK(contains(refusal(options), "none.pem: No such file"));
}

TEST_CASE("http and https are distinguished, in both directions") {
  const Server secure(Endpoint::tls), plain(Endpoint::plain);
  ClientOptions options;
  options.url = fmt::format("http://127.0.0.1:{}", secure.port);
  CHECK(contains(refusal(options), "use https://"));
  options = secure.client_options();
  options.url = with_host(plain, "127.0.0.1");
  CHECK(contains(refusal(options), "it does not speak TLS; use http://"));
}

TEST_CASE("a certificate that the server asks for is shown") {
  const Server server(Endpoint::tls, true);
  ClientOptions options = server.client_options();
  CHECK(contains(refusal(options), "certificate required"));
  options.certificate_file = server.certificates->path("worker.pem");
  CHECK(contains(refusal(options), "both must be given"));
  options.key_file = server.certificates->path("worker.key");
  const auto answer = ready(options);
  CHECK_MESSAGE(answer.has_value(), answer.error().message);
}

TEST_CASE("a renewed certificate is presented at the next connection; its end is announced") {
  const Server server(Endpoint::tls, true);
  const mainspring::testing::Certificates others;
  others.issue("old", {}, 3 * mainspring::testing::kDay);
  const auto put = [&](const std::string& name, const mainspring::testing::Certificates& from) {
    for (const char* part : {".pem", ".key"}) {
      std::filesystem::copy_file(from.path(name + part), others.path("fresh"));
      std::filesystem::rename(others.path("fresh"), others.path(std::string("mine") + part));
    }
  };
  put("old", others);
  std::vector<std::string> warnings;
  ClientOptions options = server.client_options();
  options.certificate_file = others.path("mine.pem");
  options.key_file = others.path("mine.key");
  options.retry_for = 0s;
  options.warn = [&](const std::string& text) { warnings.push_back(text); };
  SystemRandom random;
  const auto client = *Client::open(options, random);
  CHECK_FALSE(client->ready());  // of another authority
  CHECK_FALSE(client->ready());
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].starts_with("the certificate in " + options.certificate_file + " ends at "));
  put("worker", *server.certificates);
  const auto answer = client->ready();
  CHECK_MESSAGE(answer.has_value(), answer.error().message);
}

TEST_CASE("a token never goes over plain HTTP to another machine") {
  ClientOptions options;
  options.token = Secret("mst_secret");
  SystemRandom random;
  for (const char* url : {"http://jobs.example:8080", "http://192.0.2.7:8080", "http://128.0.0.1",
                          "http://[2001:db8::1]:80", "http://localhost.example"}) {
    CAPTURE(url);
    options.url = url;
    const auto client = Client::open(options, random);
    REQUIRE(!client);
    CHECK(contains(client.error().message, "use https://"));
    CHECK(!contains(client.error().message, "mst_secret"));
  }
  for (const char* url : {"http://localhost:8080", "http://127.0.0.1:1", "http://127.1.2.3:1",
                          "http://[::1]:80", "unix:/run/x", "https://jobs.example"}) {
    CAPTURE(url);
    options.url = url;
    CHECK(Client::open(options, random).has_value());
  }
  options.token = Secret("two\r\nlines");
  CHECK(!Client::open(options, random));
  auto engine = Engine::open("http://jobs.example:8080", {.token = "mst_secret"});
  REQUIRE(!engine);
  CHECK(contains(engine.error().message, "use https://"));
}

TEST_CASE("the client gives up on a silent server after connect_timeout") {
  const SilentServer silent;
  ClientOptions options;
  options.url = fmt::format("https://127.0.0.1:{}", silent.port);
  options.connect_timeout = 100ms;
  CHECK(contains(refusal(options), "no answer in time"));
}

TEST_CASE("a claim that waits is stopped at once, through each endpoint") {
  for (const Endpoint endpoint : {Endpoint::plain, Endpoint::tls, Endpoint::unix_socket}) {
    const Server server(endpoint);
    SystemRandom random;
    const auto client = *Client::open(server.client_options(), random);
    std::stop_source stop;
    std::thread stopper([&] {
      while (server.node->broker().parked_claims() == 0) std::this_thread::yield();
      stop.request_stop();
    });
    const auto claimed =
        client->claim({.worker = "w", .queues = {"q"}, .max = 1}, 60s, stop.get_token());
    stopper.join();
    CHECK((!claimed || claimed->jobs.empty()));
    while (server.node->broker().parked_claims() != 0) std::this_thread::yield();
  }
}

TEST_CASE("a socket path without a server is reported as such") {
  ClientOptions options;
  options.url = "unix:/nowhere/at.all";
  CHECK(contains(refusal(options), "connecting to unix:/nowhere/at.all: No such file"));
}
