// The C++ client: lag COUNT prints the p50 in ms from the call of enqueue to the handler's first
// line, one job at a time on an idle worker. MAINSPRING_SERVER is the server.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <semaphore>
#include <thread>

#include "mainspring/engine.h"

using namespace mainspring;
using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

namespace {

constexpr int kWarmUp = 20;

int fail(const Error& error) {
  fmt::print(stderr, "lag: {}\n", error.message);
  return 1;
}

}  // namespace

int main(int, char** argv) {
  const int count = std::atoi(argv[1]);
  EngineOptions options;
  options.worker.slots = 4;
  auto engine = Engine::open(std::getenv("MAINSPRING_SERVER"), options);
  if (!engine) return fail(engine.error());
  std::binary_semaphore handled(0);
  Steady::time_point at;
  const std::string queue = fmt::format("bench-cpp-{}", Steady::now().time_since_epoch().count());
  engine->on_kind("noop",
                  [&](const ClaimedJob&, Context&) -> HandlerResult {
                    at = Steady::now();
                    handled.release();
                    return Outcome(Complete{});
                  },
                  {.queue = queue});
  if (auto started = engine->start(); !started) return fail(started.error());
  std::vector<double> times;
  for (int i = 0; i < count + kWarmUp; ++i) {
    NewJob job;
    job.queue = queue;
    job.kind = "noop";
    const Steady::time_point began = Steady::now();
    if (auto made = engine->enqueue(std::move(job)); !made) return fail(made.error());
    handled.acquire();
    if (i >= kWarmUp)
      times.push_back(std::chrono::duration<double, std::milli>(at - began).count());
    std::this_thread::sleep_for(5ms);
  }
  engine->stop();
  std::sort(times.begin(), times.end());
  fmt::print("[{},{}]\n", times[times.size() / 2], times[times.size() * 99 / 100]);
  return 0;
}
