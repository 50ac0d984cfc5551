// A whole program: work that must run once at a time in the whole system.
// Reports per country (one at a time for each), a table that is made once, and a lease by hand.
//
//   alone DIRECTORY    the job store goes there
#include <fmt/format.h>

#include <atomic>
#include <filesystem>

#include "mainspring/engine.h"

using namespace std::chrono_literals;

struct Report {
  static constexpr std::string_view kind = "report";
  std::string country;
  int number = 0;
};
BOOST_DESCRIBE_STRUCT(Report, (), (country, number))

int fail(const mainspring::Error& error) {
  fmt::print(stderr, "{}\n", error.message);
  return 1;
}

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : "alone-data";
  std::filesystem::create_directories(folder);
  auto engine = mainspring::Engine::open((folder / "jobs").string());
  if (!engine) return fail(engine.error());

  // The action runs once, even if many processes start at the same time.
  for (int start = 1; start <= 2; ++start) {
    const auto once = engine->do_once("make-tables", [](const mainspring::AutoRenewLease&) {
      fmt::print("tables made\n");
      return mainspring::Result<void>();
    });
    if (!once) return fail(once.error());
    if (*once == mainspring::Once::done_before) fmt::print("tables were there\n");
  }

  // Two reports of one country never run at the same time, in any process.
  std::atomic<int> running = 0, most = 0;
  mainspring::HandlerOptions options;
  options.singleton = "report/{country}";
  engine->on<Report>(
      [&](const Report&, mainspring::Context&) {
        const int now = ++running;
        if (now > most) most = now;
        --running;
      },
      options);
  if (auto started = engine->start(); !started) return fail(started.error());
  auto enqueued = engine->enqueue_many<Report>({{"de", 1}, {"de", 2}});
  if (!enqueued) return fail(enqueued.error());
  for (const auto& one : *enqueued) {
    if (auto ended = engine->wait(one.id, 1min); !ended) return fail(ended.error());
  }
  fmt::print("reports of one country at once: {}\n", most.load());

  // By hand: hold it while something is done, hand the token on, stop when it is lost.
  {
    mainspring::LeaseOptions hold;
    hold.ttl = 30s;
    hold.wait = 10s;
    auto lease = engine->lock("stock", hold);
    if (!lease) return fail(lease.error());
    const auto second = engine->lock("stock");
    fmt::print("a second holder: {}\n", second.error().name());
    fmt::print("lost: {}\n", lease->lost());
  }  // released
  fmt::print("afterwards: {}\n", engine->lock("stock") ? "free" : "held");
  engine->stop();
  return 0;
}
