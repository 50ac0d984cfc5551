// A worker that some of its jobs kill: "good" ones complete, a "poison" one aborts the process.
//   crashing_worker URL
#include <fmt/format.h>

#include <cstdlib>
#include <future>

#include "mainspring/engine.h"

using namespace std::chrono_literals;

struct Good {
  static constexpr std::string_view kind = "good";
  static constexpr std::string_view queue = "photos";
  std::string name;
};
BOOST_DESCRIBE_STRUCT(Good, (), (name))

struct Poison {
  static constexpr std::string_view kind = "poison";
  static constexpr std::string_view queue = "photos";
  std::string name;
};
BOOST_DESCRIBE_STRUCT(Poison, (), (name))

int main(int argc, char** argv) {
  mainspring::EngineOptions options;
  options.worker.slots = 4;
  options.worker.lease = 8s;  // longer than a busy machine stops this process
  auto worker = mainspring::Engine::open(argc > 1 ? argv[1] : "", options);
  if (!worker) {
    fmt::print(stderr, "{}\n", worker.error().message);
    return 1;
  }
  worker->on<Good>([](const Good& job) { return job.name; });
  worker->on<Poison>([](const Poison&, mainspring::Context& context) -> std::string {
    (void)context.checkpoint("1");
    (void)context.flush();  // the server knows that the attempt has started
    std::abort();
  });
  if (auto started = worker->start(); !started) return 1;
  std::promise<void> never;
  never.get_future().wait();  // until it dies, or is killed
}
