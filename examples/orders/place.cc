// The shop: starts the workflow of each order, cancels some, and records the ends.
#include <fmt/format.h>

#include "commands.h"

using namespace std::chrono_literals;
using mainspring::Engine;
using mainspring::Result;
using mainspring::WorkflowState;

namespace {

// Customers cancel one order in 50, while it runs or too late. If it is too late, the answer is a
// conflict, and the order stays.
constexpr std::int64_t kOneIn = 50;
constexpr std::int64_t kThoughtOver = 2;  // orders later

Result<void> change_mind(Engine& engine, Books& books, std::int64_t order) {
  const auto seed = static_cast<std::uint64_t>(books.number("SELECT seed FROM shop"));
  if (roll(seed, "changes the mind", order, kOneIn) != 0) return {};
  const auto id = books.number("SELECT workflow FROM orders WHERE id = ?1", {order});
  if (id == 0) return {};
  const auto cancelled = engine.workflows().cancel(id, "the customer changed their mind");
  if (!cancelled && cancelled.error().code != mainspring::ErrorCode::conflict) {
    return cancelled.error();
  }
  return {};
}

Result<void> place_all(Engine& engine, Books& books) {
  const auto rows = books.numbers(
      "SELECT id, customer, product, quantity, price FROM orders WHERE workflow IS NULL");
  for (const auto& row : rows) {
    const Order order{row[0], row[1], row[2], row[3], row[4]};
    // After a kill between these two lines the shop starts it again and gets the same one by its
    // key.
    MS_TRY_ASSIGN(const auto started, engine.workflows().start(workflow_of(order)));
    books.run("UPDATE orders SET workflow = ?2 WHERE id = ?1", {order.number, started.id});
    MS_TRY(change_mind(engine, books, order.number - kThoughtOver));
  }
  return {};
}

// How many are parked.
Result<int> hear_of_ends(Engine& engine, Books& books) {
  int parked = 0;
  for (const auto& row : books.numbers("SELECT id, workflow FROM orders WHERE outcome IS NULL")) {
    MS_TRY_ASSIGN(const auto workflow, engine.workflows().wait(row[1]));
    if (workflow.state == WorkflowState::parked) {
      ++parked;
      continue;
    }
    books.run("UPDATE orders SET outcome = ?2, reason = ?3 WHERE id = ?1",
              {row[0], std::string(to_string(workflow.state)), workflow.reason});
    MS_TRY(change_mind(engine, books, row[0] + kThoughtOver));
  }
  return parked;
}

}  // namespace

int place(Books& books, const std::string& server) {
  constexpr int kTryAgain = 75;
  auto engine = Engine::open(server);
  if (!engine) {
    fmt::print(stderr, "{}\n", engine.error().message);
    return 1;
  }
  const auto parked = [&]() -> Result<int> {
    MS_TRY(place_all(*engine, books));
    return hear_of_ends(*engine, books);
  }();
  if (!parked) {
    fmt::print(stderr, "{}\n", parked.error().message);
    return kTryAgain;
  }
  return *parked == 0 ? 0 : kTryAgain;
}
