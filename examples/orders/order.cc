// The workflow of an order.
#include "order.h"

using mainspring::NewJob;
using mainspring::StepSpec;

namespace {

// {"$ref": "input"}: the order, as it was when the workflow was started.
NewJob job(std::string queue, std::string kind, int max_attempts) {
  return {.queue = std::move(queue),
          .kind = std::move(kind),
          .args = R"({"$ref":"input"})",
          .max_attempts = max_attempts};
}

}  // namespace

mainspring::WorkflowSpec workflow_of(const Order& order) {
  constexpr int kTries = 2;       // of a step: few, so that many orders are undone in this example
  constexpr int kUndoTries = 20;  // of an undo; then the workflow is parked
  mainspring::WorkflowSpec spec;
  spec.name = "order";
  // A caller that does not know whether the order was started starts it again: the key makes it
  // one.
  spec.key = std::to_string(order.number);
  spec.input = mainspring::to_json(order);

  StepSpec reserve{.name = "reserve"};
  reserve.job = job("warehouse", "reserve", kTries);
  reserve.undo = job("warehouse", "release", kUndoTries);

  // Bank, carrier and post are external: "it failed" may mean that only the answer was lost.
  // undo_if_failed: undo them even then. Without it, a failed step counts as not done.
  StepSpec charge{.name = "charge", .after = {"reserve"}, .undo_if_failed = true};
  charge.job = job("bank", "charge", kTries);
  charge.undo = job("bank", "refund", kUndoTries);

  StepSpec ship{.name = "ship", .after = {"charge"}, .undo_if_failed = true};
  ship.job = job("carrier", "ship", kTries);
  ship.undo = job("carrier", "cancel-shipment", kUndoTries);

  // A mail cannot be recalled. The undo sends a second mail if there was a first one.
  StepSpec mail{.name = "mail", .after = {"ship"}, .undo_if_failed = true};
  mail.job = job("post", "mail", kTries);
  mail.undo = job("post", "apologise", kUndoTries);

  spec.steps = {std::move(reserve), std::move(charge), std::move(ship), std::move(mail)};
  return spec;
}

std::int64_t roll(std::uint64_t seed, std::string_view what, std::int64_t number,
                  std::int64_t sides) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15 + static_cast<std::uint64_t>(number);
  for (const char c : what) x = (x ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;  // splitmix64
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return static_cast<std::int64_t>((x ^ (x >> 31)) % static_cast<std::uint64_t>(sides));
}
