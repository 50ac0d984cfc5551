// Which servers may start, by listen address, TLS and tokens.
#include "cli/exposure.h"

#include <doctest/doctest.h>

using namespace mainspring;
using namespace mainspring::cli;

namespace {

Options listening(const std::string& where, bool tls) {
  Options options;
  options.listen = where;
  options.data = "/srv/jobs";
  if (tls) {
    options.tls_cert = "server.pem";
    options.tls_key = "server.key";
  }
  return options;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a server starts if it is local only, or with TLS and a token") {
  struct Row {
    const char* listen;
    bool local, unix_socket;
  };
  constexpr Row kRows[] = {{"127.0.0.1:8080", true, false},
                           {"127.8.8.8:0", true, false},
                           {"localhost:80", true, false},
                           {"[::1]:8080", true, false},
                           {"::1:8080", true, false},
                           {"unix:/run/m.sock", true, true},
                           {"unix:m.sock", true, true},
                           {"0.0.0.0:8080", false, false},
                           {"[::]:8080", false, false},
                           {"192.0.2.7:443", false, false},
                           {"[2001:db8::1]:443", false, false},
                           {"10.0.0.1:80", false, false},
                           {"127.example.org:80", false, false},
                           {"localhost.example:80", false, false},
                           {":8080", false, false},
                           {"[::ffff:192.0.2.7]:80", false, false},
                           {"128.0.0.1:80", false, false},
                           {"[::127.0.0.1]:80", false, false}};
  for (const Row& row : kRows) {
    for (const bool tls : {false, true}) {
      for (const bool token : {false, true}) {
        CAPTURE(row.listen);
        CAPTURE(tls);
        CAPTURE(token);
        const auto answer = check_exposure(listening(row.listen, tls), token);
        const bool good = row.unix_socket ? !tls : row.local || (tls && token);
        CHECK(answer.has_value() == good);
        if (answer || row.unix_socket) continue;
        CHECK(answer.error().code == ErrorCode::invalid_argument);
        CHECK(answer.error().field == "listen");
        const std::string& text = answer.error().message;
        CHECK(contains(text, "mainspring tls init --dir tls --host ") == !tls);
        CHECK(!contains(text, "--host \n"));
        CHECK(contains(text, "mainspring token create admin --scope all --data /srv/jobs") ==
              !token);
      }
    }
  }
}

TEST_CASE("TLS settings must be consistent") {
  Options options = listening("127.0.0.1:1", true);
  options.tls_key = "none";
  CHECK(check_exposure(options, true).error().field == "tls_cert");
  options = listening("127.0.0.1:1", false);
  options.tls_client_ca = "ca.pem";
  CHECK(check_exposure(options, true).error().field == "tls_client_ca");
  options.tls_cert = options.tls_key = "x";
  CHECK(check_exposure(options, true).has_value());
}

TEST_CASE("listen addresses are parsed") {
  CHECK(parse_listen("[::1]:8080")->host == "::1");
  CHECK(parse_listen("[::1]:8080")->port == 8080);
  CHECK(parse_listen("unix:/a/b")->unix_path == "/a/b");
  for (const char* bad :
       {"", "8080", "unix:", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:", "unix:/a,b"}) {
    CAPTURE(bad);
    CHECK(parse_listen(bad).error().field == "listen");
  }
}
