// A program with a job engine inside: opens a directory, enqueues jobs, runs them and prints their
// results.
//
//   embed DIRECTORY|URL    the directory that keeps the jobs, or postgres://… or http://… of others
#include <chrono>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/engine.h"

// A job is a struct. Its fields are stored as JSON.
struct Greet {
  static constexpr std::string_view kind = "greet";
  std::string name;
};
BOOST_DESCRIBE_STRUCT(Greet, (), (name))

int fail(const mainspring::Error& error) {
  std::cerr << error.name() << ": " << error.message << '\n';
  return 1;
}

int main(int argc, char** argv) {
  auto engine = mainspring::Engine::open(argc > 1 ? argv[1] : "embed-jobs");
  if (!engine) return fail(engine.error());

  engine->on<Greet>([](const Greet& job) { return "hello, " + job.name; });
  if (auto started = engine->start(); !started) return fail(started.error());

  // Jobs are on disk when enqueue_many() returns.
  const std::vector<Greet> jobs{{.name = "Ada"}, {.name = "Grace"}, {.name = "Edsger"}};
  const auto enqueued = engine->enqueue_many(jobs);
  if (!enqueued) return fail(enqueued.error());

  for (const mainspring::Enqueued& one : *enqueued) {
    const auto job = engine->wait(one.id, std::chrono::minutes(1));
    if (!job) return fail(job.error());
    const auto greeting = mainspring::Engine::result<std::string>(*job);
    if (!greeting) return fail(greeting.error());
    std::cout << "job " << job->id << ": " << *greeting << '\n';
  }
}
