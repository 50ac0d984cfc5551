// A private authority makes certificates that openssl(1) accepts, and refuses invalid requests.
#include <sys/stat.h>

#include "tls/tls_testing.h"

using namespace mainspring;
using namespace mainspring::testing;

namespace {

unsigned mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

}  // namespace

TEST_CASE("openssl(1) verifies a server's and a client's certificate, each for its purpose only") {
  const Certificates made;
  made.issue("server", {"jobs.example", "127.0.0.1", "::1"});
  made.issue("worker7", {});
  const auto verify = [&](const std::string& rest) {
    return run(
        fmt::format("openssl verify -x509_strict -CAfile '{}' {}", made.path("ca.pem"), rest));
  };
  const std::string server = made.path("server.pem"), client = made.path("worker7.pem");
  const Ran good = verify("-purpose sslserver -verify_hostname jobs.example " + server);
  CHECK_MESSAGE(good.status == 0, good.output);
  CHECK(verify("-purpose sslserver -verify_ip 127.0.0.1 " + server).status == 0);
  CHECK(verify("-purpose sslserver -verify_ip ::1 " + server).status == 0);
  CHECK(verify("-purpose sslclient " + client).status == 0);
  CHECK(verify("-purpose sslserver -verify_hostname other.example " + server).status != 0);
  CHECK(verify("-purpose sslclient " + server).status != 0);
  CHECK(verify("-purpose sslserver " + client).status != 0);
}

TEST_CASE("keys use curve P-256, match their certificates, and are readable by their owner only") {
  const Certificates made;
  made.issue("server", {"localhost"});
  for (const std::string name : {"ca", "server"}) {
    CHECK(mode_of(made.path(name + ".key")) == 0600);
    const Ran from_key = run("openssl pkey -pubout -in " + made.path(name + ".key"));
    const Ran from_certificate = run("openssl x509 -noout -pubkey -in " + made.path(name + ".pem"));
    CHECK(from_key.status == 0);
    CHECK(from_key.output == from_certificate.output);
  }
  const Ran text = run("openssl x509 -noout -text -in " + made.path("server.pem"));
  CHECK(text.output.find("prime256v1") != std::string::npos);
  CHECK(text.output.find("ecdsa-with-SHA256") != std::string::npos);
}

TEST_CASE("a new directory of an authority is accessible to its owner only") {
  const Certificates outer;
  const std::string inner = outer.path("inner");
  REQUIRE(Authority::create(inner, "inner", kDay, SystemClock().now().wall));
  CHECK(mode_of(inner) == 0700);
}

TEST_CASE("an existing authority is not created again") {
  const Certificates made;
  const std::string before = read_text(made.path("ca.key"));
  const auto again = Authority::create(made.directory(), "other", kDay, SystemClock().now().wall);
  REQUIRE(!again);
  CHECK(again.error().code == ErrorCode::conflict);
  CHECK(read_text(made.path("ca.key")) == before);
}

TEST_CASE("a certificate shows its names, hosts and days") {
  const WallTime now = *parse_wall_time("2026-03-01T12:00:00Z");
  const Certificates made(now);
  made.issue("server", {"jobs.example", "*.jobs.example", "192.0.2.7", "2001:db8::7"}, 90 * kDay);
  const auto info = read_certificate(made.path("server.pem"));
  REQUIRE_MESSAGE(info.has_value(), info.error().message);
  CHECK(info->subject == "CN=server");
  CHECK(info->issuer == "CN=test authority");
  CHECK(info->hosts ==
        std::vector<std::string>{"jobs.example", "*.jobs.example", "192.0.2.7", "2001:db8::7"});
  CHECK(info->not_before == *parse_wall_time("2026-03-01T11:55:00Z"));
  CHECK(info->not_after == *parse_wall_time("2026-05-30T12:00:00Z"));
}

TEST_CASE("a certificate ends with its authority at the latest") {
  const Certificates made;
  made.issue("server", {"localhost"}, 5000 * kDay);
  const auto info = read_certificate(made.path("server.pem"));
  const auto authority = read_certificate(made.path("ca.pem"));
  REQUIRE(info);
  REQUIRE(authority);
  CHECK(info->not_after == authority->not_after);
}

TEST_CASE("a reissued certificate replaces the old one with another serial number") {
  const Certificates made;
  made.issue("server", {"localhost"});
  const std::string before = read_text(made.path("server.pem"));
  made.issue("server", {"localhost"});
  CHECK(read_text(made.path("server.pem")) != before);
  CHECK(make_server_context(made.server()).has_value());
}

TEST_CASE("invalid requests are refused, each with the rule") {
  const Certificates made;
  const WallTime now = SystemClock().now().wall;
  const auto refused = [&](const std::string& name, const std::vector<std::string>& hosts,
                           bool client, Duration valid = kDay) {
    const auto answer = Authority::issue(made.directory(), name, hosts, client, valid, now);
    REQUIRE(!answer);
    CHECK(answer.error().code == ErrorCode::invalid_argument);
    return answer.error().field;
  };
  CHECK(refused("../evil", {"localhost"}, false) == "name");
  CHECK(refused("", {}, true) == "name");
  CHECK(refused("ca", {"localhost"}, false) == "name");
  CHECK(refused("-x", {"localhost"}, false) == "name");
  CHECK(refused("a b", {}, true) == "name");
  CHECK(refused(std::string(65, 'a'), {}, true) == "name");
  CHECK(refused("server", {}, false) == "host");
  CHECK(refused("server", {"jobs.example:8080"}, false) == "host");
  CHECK(refused("server", {"a,DNS:bank.example"}, false) == "host");
  CHECK(refused("server", {""}, false) == "host");
  CHECK(refused("worker", {"localhost"}, true) == "host");
  CHECK(refused("server", {"localhost"}, false, Duration(0)) == "days");
  const auto nowhere = Authority::issue(made.path("no"), "server", {"a"}, false, kDay, now);
  REQUIRE(!nowhere);
  CHECK(nowhere.error().code == ErrorCode::not_found);
}
