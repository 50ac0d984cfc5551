// A whole program: the same calls on a remote server. The other participants may be
// another program, in another language, on another machine.
//
//   mainspring serve --data DIR --listen 127.0.0.1:8080 &
//   remote http://127.0.0.1:8080
#include <fmt/format.h>

#include <cctype>

#include "mainspring/engine.h"

using namespace std::chrono_literals;

struct Shout {
  static constexpr std::string_view kind = "shout";
  static constexpr std::string_view queue = "texts";
  std::string text;
};
BOOST_DESCRIBE_STRUCT(Shout, (), (text))

int fail(const mainspring::Error& error) {
  fmt::print(stderr, "{}: {}\n", error.name(), error.message);
  return mainspring::info(error.code).exit_code;
}

int main(int argc, char** argv) {
  const std::string url = argc > 1 ? argv[1] : "http://127.0.0.1:8080";

  // A worker: this could be a process of its own.
  auto worker = mainspring::Engine::open(url);
  if (!worker) return fail(worker.error());
  worker->on<Shout>([](const Shout& job) {
    std::string loud = job.text;
    for (char& c : loud) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return loud;
  });
  if (auto started = worker->start(); !started) return fail(started.error());

  // A caller: it knows the job, not the worker.
  auto caller = mainspring::Engine::open(url);
  if (!caller) return fail(caller.error());
  std::vector<mainspring::JobId> ids;
  for (const char* text : {"hello", "from", "elsewhere"}) {
    // The key makes it the same job however often this program is run within a day.
    const auto job = caller->enqueue(
        Shout{text}, {.priority = 3, .idempotency_key = std::string("shout-") + text});
    if (!job) return fail(job.error());
    ids.push_back(job->id);
  }
  for (const mainspring::JobId id : ids) {
    const auto job = caller->wait(id, 1min);
    if (!job) return fail(job.error());
    const auto loud = mainspring::Engine::result<std::string>(*job);
    if (!loud) return fail(loud.error());
    fmt::print("{}\n", *loud);
  }
  worker->stop();

  // Errors are the server's own words.
  const auto refused = caller->enqueue(Shout{"x"}, {.priority = 12});
  if (!refused) fmt::print("{}\n", refused.error().message);
}
