// A test of a program's jobs against a test server, without a test framework.
#include <fmt/format.h>

#include <set>
#include <string>

#include "mainspring/testing.h"

using namespace std::chrono_literals;

struct Mail {
  std::string to;
};
BOOST_DESCRIBE_STRUCT(Mail, (), (to))

int main() try {
  mainspring::testing::TestServer server;
  const auto space = server.make_namespace();
  const std::string queue = space.queue("mail");
  mainspring::Engine engine = server.engine();
  std::set<std::string> sent;
  const auto send = [&](const Mail& mail) { sent.insert(mail.to); };
  engine.on<Mail>(send, {.queue = queue});

  (void)engine.enqueue(Mail{"anna"}, {.queue = queue, .delay = 24h});
  server.assert_enqueued<Mail>([](const Mail& mail) { return mail.to == "anna"; },
                               {.queue = queue});

  (void)engine.start();
  const auto fired = server.advance(25h);
  space.drain();
  fmt::print("{} fired, {} sent\n", fired.size(), sent.size());

  server.assert_idempotent(send, Mail{"carol"}, [&] { return sent.size(); });
  fmt::print("{} sent\n", sent.size());
  return 0;
} catch (const mainspring::testing::Failure& failure) {
  fmt::print(stderr, "{}\n", failure.what());
  return 1;
}
