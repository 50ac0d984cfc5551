// The worker: eight handlers and their failures.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include "commands.h"

using namespace std::chrono_literals;
using mainspring::ClaimedJob;
using mainspring::Context;
using mainspring::Dead;
using mainspring::Error;
using mainspring::ErrorCode;
using mainspring::HandlerResult;
using mainspring::Outcome;

namespace {

// Failures besides refusals by the books, per 1000. They depend on order and attempt, so another
// attempt may succeed. Refusals depend on the order only and repeat in every attempt.
struct Troubles {
  std::uint64_t seed = 0;

  bool in_1000(int chance, std::string_view what, const ClaimedJob& job,
               std::int64_t number) const {
    const std::string words = fmt::format("{} {}", what, job.kind);
    return roll(seed, words, number, 1000) < chance;
  }
  bool now_and_then(int chance, std::string_view what, const ClaimedJob& job,
                    const Order& order) const {
    return in_1000(chance, what, job, order.number * 100 + job.attempt);
  }
};

using Act = std::string (Books::*)(const Order&);

// A handler: makes the change and reports the outcome. Exceptions (unreadable books, for example)
// and errors are failed attempts, which are retried.
HandlerResult handle(Books& books, Act act, const Troubles& troubles, bool knows_what_it_did,
                     const ClaimedJob& job) {
  MS_TRY_ASSIGN(const Order order, mainspring::from_json<Order>(job.args));
  if (troubles.now_and_then(30, "away", job, order) ||
      troubles.in_1000(5, "away for long", job, order.number)) {
    return Error{ErrorCode::unavailable, job.queue + " does not answer"};
  }

  const std::string refusal = (books.*act)(order);

  // The effect is done, but the process dies before it can report it …
  if (troubles.now_and_then(3, "death", job, order) ||
      troubles.in_1000(1, "poison", job, order.number)) {
    kill(getpid(), SIGKILL);
  }
  // … or the answer is lost, and it counts as a failure.
  if (!knows_what_it_did && (troubles.now_and_then(10, "deaf", job, order) ||
                             troubles.in_1000(5, "deaf for long", job, order.number))) {
    return Error{ErrorCode::timeout, job.queue + " did not answer in time"};
  }

  // Dead: no further attempt. The step has failed, and the steps before it are undone.
  if (!refusal.empty()) return Outcome(Dead{refusal, ""});
  return Outcome(mainspring::Complete{});
}

// An undo cannot refuse. If it dies, its workflow is parked until an operator retries it.
HandlerResult handle_undo(Books& books, Act act, const Troubles& troubles, const ClaimedJob& job) {
  MS_TRY_ASSIGN(const Order order, mainspring::from_json<Order>(job.args));
  if (troubles.in_1000(10, "closed", job, job.id)) {
    return Outcome(Dead{"closed", job.queue + " is closed today"});
  }
  if (troubles.now_and_then(30, "away", job, order)) {
    return Error{ErrorCode::unavailable, job.queue + " does not answer"};
  }
  (books.*act)(order);
  if (troubles.now_and_then(10, "death", job, order)) kill(getpid(), SIGKILL);
  if (troubles.now_and_then(20, "deaf", job, order)) {
    return Error{ErrorCode::timeout, job.queue + " did not answer in time"};
  }
  return Outcome(mainspring::Complete{});
}

}  // namespace

int work(Books& books, const std::string& server) {
  // Blocked before any thread that handles jobs starts.
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigprocmask(SIG_BLOCK, &stop, nullptr);

  const Troubles troubles{static_cast<std::uint64_t>(books.number("SELECT seed FROM shop"))};
  mainspring::EngineOptions options;
  options.worker.slots = 4;
  options.worker.lease = 2s;  // short, as workers die often here
  auto engine = mainspring::Engine::open(server, std::move(options));
  if (!engine) {
    fmt::print(stderr, "{}\n", engine.error().message);
    return 1;
  }
  mainspring::HandlerOptions soon;
  soon.retry.first_delay = 100ms;
  const auto on = [&](std::string queue, std::string kind, mainspring::Handler handler) {
    soon.queue = std::move(queue);
    engine->on_kind(std::move(kind), std::move(handler), soon);
  };
  const auto step = [&](std::string queue, std::string kind, Act act, bool knows_what_it_did) {
    on(std::move(queue), std::move(kind),
       [&books, &troubles, act, knows_what_it_did](const ClaimedJob& job, Context&) {
         return handle(books, act, troubles, knows_what_it_did, job);
       });
  };
  const auto undo = [&](std::string queue, std::string kind, Act act) {
    on(std::move(queue), std::move(kind),
       [&books, &troubles, act](const ClaimedJob& job, Context&) {
         return handle_undo(books, act, troubles, job);
       });
  };
  // The stock is the shop's own: a change of it is certain.
  step("warehouse", "reserve", &Books::reserve, true);
  step("bank", "charge", &Books::charge, false);
  step("carrier", "ship", &Books::ship, false);
  step("post", "mail", &Books::mail, false);
  undo("warehouse", "release", &Books::release);
  undo("bank", "refund", &Books::refund);
  undo("carrier", "cancel-shipment", &Books::cancel_shipment);
  undo("post", "apologise", &Books::apologise);
  if (const auto started = engine->start(); !started) {
    fmt::print(stderr, "{}\n", started.error().message);
    return 1;
  }
  int number = 0;
  sigwait(&stop, &number);
  engine->stop();
  return 0;
}
