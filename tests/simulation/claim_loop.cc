// The loop's bodies.
#include "simulation/claim_loop.h"

namespace mainspring::simulation {

using std::chrono::milliseconds;
using std::chrono::seconds;

void ClaimLoop::start() {
  world_.after(world_.between(milliseconds(1), seconds(1)), [this] { claim(); });
}

void ClaimLoop::claim() {
  const Duration wait = world_.between(milliseconds(1), habits_.wait);
  world_.call(Claim{.worker = habits_.worker,
                    .queues = habits_.queues,
                    .kinds = habits_.kinds,
                    .max = 1 + static_cast<int>(world_.below(habits_.max)),
                    .lease = habits_.lease},
              World::Delivery::prompt, wait, [this](const std::optional<OperationResult>& result) {
                const auto* got = result ? std::get_if<ClaimResult>(&*result) : nullptr;
                for (const ClaimedJob& job : got ? got->jobs : std::vector<ClaimedJob>{}) run(job);
                world_.after(world_.between(milliseconds(1), habits_.rest), [this] { claim(); });
              });
}

void ClaimLoop::run(const ClaimedJob& job) {
  if (habits_.renews_first) {
    world_.call(Renew{.worker = habits_.worker,
                      .leases = {{.id = job.id, .token = job.token}},
                      .lease = habits_.lease},
                World::Delivery::prompt, Duration(0),
                [](const std::optional<OperationResult>&) {});
  }
  if (!world_.healed() && world_.chance(habits_.dies_with_one_in)) return;
  const bool late =
      habits_.late_one_in != 0 && !world_.healed() && world_.chance(habits_.late_one_in);
  world_.after(world_.between(milliseconds(1), late ? habits_.lease * 3 : habits_.work),
               [this, job] { finish_(job); });
}

}  // namespace mainspring::simulation
