// New certificates are loaded as a whole, invalid ones are not, and a warning precedes expiry.
#include "cli/tls_reload.h"

#include <sys/stat.h>

#include <vector>

#include "cli/health_parts.h"
#include "tls/tls_testing.h"

using namespace mainspring;
using namespace mainspring::cli;
using namespace mainspring::testing;

namespace {

struct Lines final : Log {
  void write(LogLevel level, std::string_view message, const Fields&) override {
    if (level == LogLevel::error) ++errors;
    if (level == LogLevel::warn) ++warnings;
    last = message;
  }
  int errors = 0, warnings = 0;
  std::string last;
};

struct Rig {
  explicit Rig(Duration valid = 60 * kDay) : certificates(clock.now().wall) {
    certificates.issue("server", {"localhost"}, valid);
    tls = *TlsServer::open(certificates.server());
    reload = std::make_unique<TlsReload>(*tls, clock, log, registry);
  }
  void step() {
    clock.advance(std::chrono::seconds(1));
    reload->step(clock.now());
  }
  HealthPart certificate() const {
    return health_parts({.tls = tls.get(), .clock = &clock}).front()();
  }
  ManualClock clock{SystemClock().now().wall};
  Certificates certificates;
  Lines log;
  Registry registry;
  std::unique_ptr<TlsServer> tls;
  std::unique_ptr<TlsReload> reload;
};

}  // namespace

TEST_CASE("changed files are loaded once they stop changing") {
  Rig rig;
  const auto first = rig.tls->context();
  rig.step();
  rig.step();
  CHECK(rig.tls->context() == first);
  rig.certificates.issue("server", {"localhost"});
  rig.step();
  CHECK(rig.tls->context() == first);
  rig.step();
  CHECK(rig.tls->context() != first);
  CHECK(rig.log.errors == 0);
}

TEST_CASE("an invalid certificate is reported once; the old one stays until a valid one arrives") {
  Rig rig;
  const auto first = rig.tls->context();
  write_text(rig.certificates.path("server.pem"), "nothing");
  for (int i = 0; i < 5; ++i) rig.step();
  CHECK(rig.tls->context() == first);
  CHECK(rig.log.errors == 1);
  CHECK(rig.certificate().state == PartState::warn);
  CHECK(rig.certificate().message.find("an older certificate is in use: ") != std::string::npos);
  CHECK(rig.registry.render().find("mainspring_tls_last_reload_successful 0") != std::string::npos);
  rig.certificates.issue("server", {"localhost"});
  rig.step();
  rig.step();
  CHECK(rig.tls->context() != first);
  CHECK(rig.certificate().state == PartState::ok);
  CHECK(rig.registry.render().find("mainspring_tls_last_reload_successful 1") != std::string::npos);
}

TEST_CASE("a key that other users could read is loaded once its mode is fixed") {
  Rig rig;
  const std::string key = rig.certificates.path("server.key");
  rig.certificates.issue("server", {"localhost"});
  REQUIRE(chmod(key.c_str(), 0644) == 0);
  const auto first = rig.tls->context();
  rig.step();
  rig.step();
  CHECK(rig.tls->context() == first);
  CHECK_FALSE(rig.tls->reload_problem().empty());
  REQUIRE(chmod(key.c_str(), 0600) == 0);
  rig.step();
  rig.step();
  CHECK(rig.tls->context() != first);
  CHECK(rig.tls->reload_problem().empty());
}

TEST_CASE("reload_soon() reads the files at once and reports the result") {
  Rig rig;
  std::vector<bool> results;
  rig.reload->on_reloaded([&](const Result<void>& done) { results.push_back(done.has_value()); });
  const auto first = rig.tls->context();
  rig.reload->reload_soon();
  rig.step();
  CHECK(rig.tls->context() != first);
  write_text(rig.certificates.path("server.pem"), "nothing");
  rig.reload->reload_soon();
  rig.step();
  CHECK(results == std::vector<bool>{true, false});
}

TEST_CASE("expiry within 14 days is logged once a day and shown as a metric") {
  Rig rig(15 * kDay);
  rig.step();
  CHECK(rig.log.warnings == 0);
  rig.clock.advance(2 * kDay);
  for (int i = 0; i < 10; ++i) rig.step();
  CHECK(rig.log.warnings == 1);
  rig.clock.advance(kDay);
  rig.step();
  CHECK(rig.log.warnings == 2);
  rig.clock.advance(20 * kDay);
  rig.step();
  CHECK(rig.log.last == "the server's certificate has expired");
  CHECK(rig.registry.render().find("mainspring_tls_certificate_expiry_seconds -") !=
        std::string::npos);
}
