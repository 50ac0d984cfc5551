// Contexts refuse invalid setups, name the file at fault, and are replaced as a whole.
#include <sys/stat.h>

#include "tls/tls_testing.h"

using namespace mainspring;
using namespace mainspring::testing;

namespace {

std::string refusal(const TlsServerOptions& options) {
  const auto made = make_server_context(options);
  REQUIRE(!made);
  CHECK(made.error().code == ErrorCode::invalid_argument);
  return made.error().message;
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

// One end of a handshake in memory.
struct End {
  End(SSL_CTX* context, bool server) : ssl(SSL_new(context)) {
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    server ? SSL_set_accept_state(ssl) : SSL_set_connect_state(ssl);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;
  ~End() { SSL_free(ssl); }
  void give_to(End& other) {
    char part[4096];
    int size = 0;
    while ((size = BIO_read(SSL_get_wbio(ssl), part, sizeof part)) > 0) {
      BIO_write(SSL_get_rbio(other.ssl), part, size);
    }
  }
  SSL* ssl;
};

struct Shaken {
  bool client = false, server = false;
  std::string problem;  // of the client
  bool both() const {
    return client && server;
  }  // a server may refuse after the client has finished
};
// `change` may break the client before it starts.
Shaken shake(
    SSL_CTX* server_context, SSL_CTX* client_context, const std::string& host,
    void (*change)(SSL*) = [](SSL*) {}) {
  End server(server_context, true), client(client_context, false);
  CHECK(expect_host(client.ssl, host));
  change(client.ssl);
  Shaken out;
  for (int turn = 0; turn < 8; ++turn) {
    out.client = SSL_do_handshake(client.ssl) == 1;
    client.give_to(server);
    out.server = SSL_do_handshake(server.ssl) == 1;
    server.give_to(client);
  }
  const long verdict = SSL_get_verify_result(client.ssl);
  if (verdict != X509_V_OK) out.problem = X509_verify_cert_error_string(verdict);
  (void)tls_problem();
  return out;
}

}  // namespace

TEST_CASE("a key that other users can read is refused") {
  const Certificates made;
  made.issue("server", {"localhost"});
  for (const unsigned mode : {0640u, 0604u, 0620u}) {
    REQUIRE(::chmod(made.path("server.key").c_str(), mode) == 0);
    const std::string why = refusal(made.server());
    CHECK(contains(why, made.path("server.key")));
    CHECK(contains(why, "0600"));
  }
  REQUIRE(::chmod(made.path("server.key").c_str(), 0400) == 0);
  CHECK(make_server_context(made.server()).has_value());
}

TEST_CASE("files that do not match are refused by name") {
  const Certificates made;
  made.issue("server", {"localhost"});
  made.issue("other", {"localhost"});
  TlsServerOptions options = made.server();
  options.key_file = made.path("other.key");
  CHECK(contains(refusal(options), "other.key: it is not the key of the certificate"));
  options.key_file = made.path("none.key");
  CHECK(contains(refusal(options), "none.key: No such file"));
  options = made.server();
  options.certificate_file = made.path("server.key");
  CHECK(contains(refusal(options), "server.key: there is no certificate in it"));
  options = made.server();
  write_text(made.path("cut.pem"), read_text(made.path("server.pem")).substr(0, 300));
  options.certificate_file = made.path("cut.pem");
  CHECK(contains(refusal(options), "cut.pem"));
  options = made.server();
  options.client_ca_file = made.directory();
  CHECK(contains(refusal(options), "not a regular file"));
}

TEST_CASE("a key with a passphrase is refused without a prompt") {
  const Certificates made;
  made.issue("server", {"localhost"});
  const std::string locked = made.path("locked.key");
  REQUIRE(run(fmt::format("openssl pkcs8 -topk8 -passout pass:x -in {} -out {} && chmod 600 {}",
                          made.path("server.key"), locked, locked))
              .status == 0);
  TlsServerOptions options = made.server();
  options.key_file = locked;
  CHECK(contains(refusal(options), "passphrase"));
}

TEST_CASE("a certificate that has expired is refused at the start") {
  const Certificates made(*parse_wall_time("2020-01-01T00:00:00Z"));
  made.issue("server", {"localhost"}, kDay);
  CHECK(contains(refusal(made.server()), "it expired at 2020-01-02T00:00:00Z"));
}

TEST_CASE("a client accepts only the host of the certificate, names and addresses") {
  const Certificates made;
  made.issue("server", {"jobs.example", "127.0.0.1", "::1"});
  const auto server = make_server_context(made.server());
  const auto client = make_client_context(made.client());
  REQUIRE(server);
  REQUIRE(client);
  for (const char* host : {"jobs.example", "127.0.0.1", "::1"}) {
    CAPTURE(host);
    CHECK(shake(server->get(), client->get(), host).both());
  }
  CHECK(shake(server->get(), client->get(), "other.example").problem == "hostname mismatch");
  CHECK(shake(server->get(), client->get(), "127.0.0.2").problem == "IP address mismatch");
}

TEST_CASE("a client refuses an unknown authority, also one of the system") {
  const Certificates made, others;
  made.issue("server", {"localhost"});
  const auto server = make_server_context(made.server());
  REQUIRE(server);
  for (const TlsClientOptions& options : {others.client(), TlsClientOptions{}}) {
    const auto client = make_client_context(options);
    REQUIRE(client);
    const Shaken shaken = shake(server->get(), client->get(), "localhost");
    CHECK(!shaken.client);
    CHECK(contains(shaken.problem, "unable to get local issuer certificate"));
  }
}

TEST_CASE("a server that requires certificates accepts only those of its authority") {
  const Certificates made, others;
  made.issue("server", {"localhost"});
  made.issue("worker", {});
  others.issue("worker", {});
  TlsServerOptions options = made.server();
  options.client_ca_file = made.path("ca.pem");
  TlsClientOptions foreign = others.client("worker");
  foreign.ca_file = made.path("ca.pem");
  TlsClientOptions servers = made.client("server");  // of the authority, but not for clients
  struct Row {
    TlsClientOptions client;
    bool required, optional;
  };
  for (const Row& row : {Row{made.client("worker"), true, true}, Row{made.client(), false, true},
                         Row{foreign, false, false}, Row{servers, false, false}}) {
    CAPTURE(row.client.certificate_file);
    const auto client = make_client_context(row.client);
    REQUIRE_MESSAGE(client.has_value(), client.error().message);
    for (const bool optional : {false, true}) {
      CAPTURE(optional);
      options.client_optional = optional;
      const auto server = make_server_context(options);
      REQUIRE(server);
      const bool good = optional ? row.optional : row.required;
      CHECK(shake(server->get(), client->get(), "localhost").both() == good);
    }
  }
}

TEST_CASE("TLS 1.1, and ciphers without forward secrecy, are refused") {
  const Certificates made;
  made.issue("server", {"localhost"});
  const auto server = make_server_context(made.server());
  const auto client = make_client_context(made.client());
  REQUIRE(server);
  REQUIRE(client);
  const auto with = [&](void (*change)(SSL*)) {
    return shake(server->get(), client->get(), "localhost", change).server;
  };
  CHECK(with([](SSL*) {}));
  CHECK(with([](SSL* ssl) { SSL_set_max_proto_version(ssl, TLS1_2_VERSION); }));
  CHECK(!with([](SSL* ssl) {
    SSL_set_security_level(ssl, 0);
    SSL_set_min_proto_version(ssl, TLS1_VERSION);
    SSL_set_max_proto_version(ssl, TLS1_1_VERSION);
    SSL_set_cipher_list(ssl, "ALL:@SECLEVEL=0");
  }));
  CHECK(!with([](SSL* ssl) {
    SSL_set_max_proto_version(ssl, TLS1_2_VERSION);
    SSL_set_cipher_list(ssl, "ECDHE+AES+SHA1:kRSA");
  }));
}

TEST_CASE("a reload replaces the context, and a failed one keeps the old one") {
  const Certificates made;
  made.issue("server", {"localhost"}, 10 * kDay);
  const auto opened = TlsServer::open(made.server());
  REQUIRE_MESSAGE(opened.has_value(), opened.error().message);
  TlsServer& server = **opened;
  const auto first = server.context();
  const WallTime first_end = server.expires_at();
  CHECK(first_end == read_certificate(made.path("server.pem"))->not_after);

  write_text(made.path("server.pem"), "nothing");
  CHECK(!server.reload());
  CHECK(server.context() == first);
  CHECK(server.expires_at() == first_end);

  made.issue("server", {"localhost"}, 20 * kDay);
  CHECK(server.reload());
  CHECK(server.context() != first);
  CHECK(server.expires_at() > first_end);
  CHECK(first.use_count() == 1);  // only old connections keep it
}

TEST_CASE("a client uses certificate files that were replaced, once they fit together") {
  Certificates made;
  made.issue("worker", {}, 3 * kDay);
  const auto client = *TlsClient::open(made.client("worker"));
  const auto first = client->context();
  CHECK(client->context() == first);
  const WallTime end = client->expires_at();
  made.issue("new", {}, 20 * kDay);
  std::filesystem::rename(made.path("new.pem"), made.path("worker.pem"));
  CHECK(client->context() == first);  // the key is still the old one
  CHECK(contains(client->problem(), "worker.key"));
  std::filesystem::rename(made.path("new.key"), made.path("worker.key"));
  CHECK(client->context() != first);
  CHECK(client->expires_at() > end + 10 * kDay);
  CHECK(client->problem() == "");
  CHECK((*TlsClient::open(made.client()))->expires_at() == WallTime::never());
  CHECK_FALSE(TlsClient::open(made.client("none")));
}

TEST_CASE("a server knows which certificate of a client it has refused") {
  const Certificates made, others;
  made.issue("server", {"localhost"});
  others.issue("worker", {}, 30 * kDay);
  TlsServerOptions options = made.server();
  options.client_ca_file = made.path("ca.pem");
  TlsClientOptions foreign = others.client("worker");
  foreign.ca_file = made.path("ca.pem");
  const auto server_context = *make_server_context(options);
  const auto client_context = *make_client_context(foreign);
  End server(server_context.get(), true), client(client_context.get(), false);
  std::string refusal;
  note_refusal_in(server.ssl, &refusal);
  for (int turn = 0; turn < 8; ++turn) {
    (void)SSL_do_handshake(client.ssl);
    client.give_to(server);
    (void)SSL_do_handshake(server.ssl);
    server.give_to(client);
  }
  (void)tls_problem();
  CHECK(contains(refusal, "CN=worker, valid until "));
  CHECK(contains(refusal, "unable to get local issuer certificate"));
}
