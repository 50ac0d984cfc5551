// A transport over a pair of sockets: correct whatever the peer does, and however the bytes are
// split.
#include "http/transport.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>

#include "env/fd.h"
#include "tls/tls_testing.h"

using namespace mainspring;
using namespace mainspring::testing;
using http::Socket;
using http::Transport;
using Next = Transport::Next;

namespace {

constexpr int kMaxTurns = 100'000;

const Certificates& certificates() {
  static const Certificates made;
  static const bool issued = [] {
    made.issue("server", {"localhost"});
    made.issue("worker", {});
    return true;
  }();
  (void)issued;
  return made;
}

// A server's transport and the raw peer socket.
struct Pair {
  explicit Pair(std::shared_ptr<SSL_CTX> tls, int buffer_bytes = 0) {
    int fds[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    for (const int fd : fds) {
      if (buffer_bytes == 0) break;
      REQUIRE(::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes) == 0);
    }
    other = Fd(fds[1]);
    Socket socket(io, boost::asio::generic::stream_protocol(AF_UNIX, 0), fds[0]);
    transport = std::make_unique<Transport>(std::move(socket), std::move(tls));
  }
  void send(std::string_view bytes) {
    REQUIRE(::send(other.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  std::string received() {
    char part[4096];
    const ssize_t size = ::recv(other.get(), part, sizeof part, 0);
    return size > 0 ? std::string(part, static_cast<std::size_t>(size)) : "";
  }
  boost::asio::io_context io;
  Fd other;
  std::unique_ptr<Transport> transport;
};

std::shared_ptr<SSL_CTX> server_context(bool asks_certificate = false) {
  TlsServerOptions options = certificates().server();
  if (asks_certificate) options.client_ca_file = certificates().path("ca.pem");
  return *make_server_context(options);
}

// A pair whose other end is a TLS client.
struct TlsPair : Pair {
  explicit TlsPair(bool shaken = true, int buffer_bytes = 0, bool with_certificate = false,
                   int version = 0)
      : Pair(server_context(with_certificate), buffer_bytes) {
    context = *make_client_context(certificates().client(with_certificate ? "worker" : ""));
    ssl = SSL_new(context.get());
    REQUIRE(attach_socket(ssl, other.get()));
    REQUIRE(expect_host(ssl, "localhost"));
    if (version != 0) SSL_set_max_proto_version(ssl, version);
    SSL_set_connect_state(ssl);
    if (!shaken) return;
    bool client = false, server = false;
    for (int turn = 0; turn < kMaxTurns && !(client && server); ++turn) {
      if (!client) client = SSL_do_handshake(ssl) == 1;
      if (!server) server = transport->handshake().next == Next::done;
    }
    REQUIRE(client);
    REQUIRE(server);
  }
  ~TlsPair() { SSL_free(ssl); }
  std::string receive_some() {
    char part[70'000];
    const int size = SSL_read(ssl, part, sizeof part);
    return size > 0 ? std::string(part, static_cast<std::size_t>(size)) : "";
  }
  std::shared_ptr<SSL_CTX> context;
  SSL* ssl = nullptr;
};

std::string transport_text_of(std::size_t bytes) {
  std::string text(bytes, 'x');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>('a' + (i * i / 7) % 26);
  return text;
}

// Writes head and body in one call while the other end reads. Returns the bytes that arrive.
template <class ReceiveSome>
std::string pump(Transport& transport, std::string_view head, std::string_view body,
                 ReceiveSome receive_some, int& waits) {
  const std::string whole = std::string(head) + std::string(body);
  std::string got;
  std::size_t sent = 0;
  bool first = true;
  for (int turn = 0; turn < kMaxTurns && got.size() < whole.size(); ++turn) {
    if (sent < whole.size()) {
      // As a connection does: two parts, then one with the remainder, at another address.
      const std::string rest = whole.substr(sent);
      const Transport::Step step = first ? transport.write(head, body) : transport.write(rest);
      first = false;
      if (step.next == Next::done) {
        sent += step.bytes;
        continue;
      }
      REQUIRE(step.next == Next::wait_write);
      ++waits;
    }
    got += receive_some();
  }
  return got;
}

}  // namespace

TEST_CASE("bytes arrive whole through a small socket, plain and under TLS") {
  const std::string head = transport_text_of(300);
  for (const std::size_t bytes : {0u, 1u, 16'000u, 16'384u, 100'000u, 1'000'000u}) {
    CAPTURE(bytes);
    const std::string body = transport_text_of(bytes);
    int waits = 0;
    Pair plain(nullptr, 4096);
    REQUIRE(plain.transport->handshake().next == Next::done);
    CHECK(pump(
              *plain.transport, head, body, [&] { return plain.received(); }, waits) ==
          head + body);
    TlsPair tls(true, 4096);
    CHECK(pump(
              *tls.transport, head, body, [&] { return tls.receive_some(); }, waits) ==
          head + body);
    CHECK((waits > 0) == (bytes >= 16'000));
  }
}

TEST_CASE("input of a client is read as it arrives, however small the pieces") {
  TlsPair pair;
  char into[100'000];
  CHECK(pair.transport->read(into).next == Next::wait_read);
  const std::string text = transport_text_of(50'000);
  std::string got;
  std::size_t sent = 0;
  for (int turn = 0; turn < kMaxTurns && got.size() < text.size(); ++turn) {
    if (sent < text.size()) {
      const std::size_t most = std::min<std::size_t>(text.size() - sent, 1 + sent / 3);
      const int size = SSL_write(pair.ssl, text.data() + sent, static_cast<int>(most));
      if (size > 0) sent += static_cast<std::size_t>(size);
    }
    const Transport::Step step = pair.transport->read(into);
    if (step.next == Next::done) got.append(into, step.bytes);
  }
  CHECK(got == text);
}

TEST_CASE("half a handshake waits, and fails when its peer disconnects") {
  TlsPair whole(false);
  SSL_do_handshake(whole.ssl);
  // The client's first bytes, of which only some arrive.
  char hello[4096];
  Pair relay(server_context());
  const ssize_t size = ::recv(whole.transport->socket().native_handle(), hello, sizeof hello, 0);
  REQUIRE(size > 100);
  CHECK(relay.transport->handshake().next == Next::wait_read);  // nothing yet
  relay.send({hello, 60});
  CHECK(relay.transport->handshake().next == Next::wait_read);
  CHECK(relay.transport->handshake().next == Next::wait_read);
  relay.other.reset();
  CHECK(relay.transport->handshake().next == Next::broken);
  relay.transport->finish();  // harmless
}

TEST_CASE("a peer that disconnects before its first byte counts as closed") {
  Pair pair(server_context());
  pair.other.reset();
  CHECK(pair.transport->handshake().next == Next::closed);
}

TEST_CASE("garbage instead of TLS is an error") {
  using namespace std::string_literals;
  for (const std::string& junk :
       {"\x16\x03\x01\x00\x05hello"s, "\x00\x00\x00\x00\x00\x00\x00\x00"s, "\x16\x03\x01\xff\xff"s,
        "\x80\x2e\x01\x00\x02"s + std::string(60, 'z'), std::string(3000, '\x17')}) {
    Pair pair(server_context());
    pair.send(junk);
    CHECK(pair.transport->handshake().next == Next::broken);
  }
}

TEST_CASE("plain HTTP on a TLS port is detected and can be answered in plain text") {
  for (const char* method : {"GET", "POST", "DELETE", "PATCH", "OPTIONS", "get"}) {
    Pair pair(server_context());
    pair.send(std::string(method) + " / HTTP/1.1\r\n\r\n");
    CHECK(pair.transport->handshake().next == Next::plain);
    CHECK(!pair.transport->tls());
    CHECK(pair.transport->write("no ", "here").bytes == 7);
    CHECK(pair.received() == "no here");
  }
}

TEST_CASE("a clean TLS shutdown and a broken connection are distinguished") {
  char into[100];
  TlsPair good;
  SSL_shutdown(good.ssl);
  CHECK(good.transport->peek().next == Next::closed);
  CHECK(good.transport->read(into).next == Next::closed);

  TlsPair cut;
  cut.other.reset();
  CHECK(cut.transport->read(into).next == Next::broken);
  CHECK(cut.transport->write("x").next == Next::broken);
  cut.transport->finish();

  Pair plain(nullptr);
  plain.other.reset();
  CHECK(plain.transport->peek().next == Next::closed);
  CHECK(plain.transport->read(into).next == Next::closed);
  CHECK(plain.transport->write("x").next == Next::broken);  // and no SIGPIPE
}

TEST_CASE("finish() signals the end of the stream to the client") {
  TlsPair pair;
  REQUIRE(pair.transport->write("last words").bytes == 10);
  pair.transport->finish();
  CHECK(pair.receive_some() == "last words");
  char byte = 0;
  const int end = SSL_read(pair.ssl, &byte, 1);
  CHECK(SSL_get_error(pair.ssl, end) == SSL_ERROR_ZERO_RETURN);
}

TEST_CASE("a peek at a silent peer returns nothing, and peeked bytes are read later") {
  char into[200];
  for (const bool tls : {false, true}) {
    CAPTURE(tls);
    Pair plain(nullptr);
    TlsPair under;
    Transport& transport = tls ? *under.transport : *plain.transport;
    CHECK(transport.peek().next == Next::wait_read);
    tls ? (void)SSL_write(under.ssl, "0123456789", 10) : plain.send("0123456789");
    CHECK(!transport.pending());
    CHECK(transport.peek().next == Next::done);
    CHECK(transport.pending() == tls);  // the socket is empty: a wait would not return
    CHECK(transport.read(std::span(into, 4)).bytes == 4);
    CHECK(transport.pending() == tls);
    CHECK(transport.read(into).bytes == 6);
    CHECK(std::string_view(into, 6) == "456789");
    CHECK(!transport.pending());
    CHECK(transport.read(into).next == Next::wait_read);
  }
}

TEST_CASE("renegotiation is refused") {
  TlsPair pair(true, 0, false, TLS1_2_VERSION);
  SSL_clear_options(pair.ssl, SSL_OP_NO_RENEGOTIATION);  // our own clients do not even request it
  REQUIRE(SSL_renegotiate(pair.ssl) == 1);
  char into[100];
  bool again = false;
  for (int turn = 0; turn < 20; ++turn) {
    again = again || (SSL_do_handshake(pair.ssl) == 1 && SSL_renegotiate_pending(pair.ssl) == 0);
    const Next next = pair.transport->read(into).next;
    CHECK(next != Next::done);
  }
  CHECK(!again);
  (void)tls_problem();
}

TEST_CASE("a client's key update is accepted during a connection") {
  TlsPair pair;
  char into[100];
  REQUIRE(SSL_key_update(pair.ssl, SSL_KEY_UPDATE_REQUESTED) == 1);
  REQUIRE(SSL_write(pair.ssl, "after", 5) == 5);
  Transport::Step step = pair.transport->read(into);
  if (step.next != Next::done) step = pair.transport->read(into);
  CHECK(step.bytes == 5);
  CHECK(pair.transport->write("answer").bytes == 6);
  CHECK(pair.receive_some() == "answer");
}

TEST_CASE("input that is no longer needed is discarded") {
  TlsPair pair;
  char scratch[4096];
  REQUIRE(SSL_write(pair.ssl, "more", 4) == 4);
  pair.transport->finish();
  CHECK(pair.transport->discard(scratch).next == Next::done);
  CHECK(pair.transport->discard(scratch).next == Next::wait_read);
  pair.other.reset();
  const Next end = pair.transport->discard(scratch).next;  // it had not read our last bytes
  CHECK((end == Next::closed || end == Next::broken));
}

TEST_CASE("a transport identifies its peer: user of a Unix socket, name of a certificate") {
  Pair plain(nullptr);
  CHECK(plain.transport->peer() == fmt::format("unix uid={}", ::getuid()));
  CHECK(plain.transport->local());
  CHECK(plain.transport->local_address() == "");
  CHECK(plain.transport->local_port() == 0);
  CHECK(plain.transport->certificate_name() == "");
  const TlsPair without;
  CHECK(without.transport->certificate_name() == "");
  const TlsPair with(true, 0, true);
  CHECK(with.transport->certificate_name() == "worker");
}
