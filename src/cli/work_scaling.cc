// work --slots 2..16: the slots that the demand of the queues needs and this machine allows.
#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "cli/scale.h"
#include "cli/work.h"
#include "client/calls.h"
#include "env/pressure.h"

namespace mainspring::cli {
namespace {

constexpr Duration kSlotsEvery = 2s;
constexpr Duration kWithoutSignal = 30s;  // after a refusal

// This worker's share of what the queues need.
int share_of(const ScaleAnswer& answer) {
  const int workers = std::max(1, answer.workers_seen);
  return (answer.value + workers - 1) / workers;
}

}  // namespace

void note_peak(std::atomic<std::int64_t>& most, const ProcessEnd& end) {
  const std::int64_t peak = end.peak_memory.value_or(0);
  for (std::int64_t before = most; before < peak && !most.compare_exchange_weak(before, peak);) {
  }
}

std::jthread scale_slots(const WorkPlan& plan, Client& client, WorkerRuntime& runtime,
                         const std::atomic<std::int64_t>& peak_memory, Log& log) {
  if (!plan.fewest_slots) return {};
  const int least = *plan.fewest_slots, most = plan.options.slots;
  std::string query =
      fmt::format("/v1/scale?slots=1&hold=1m&lead=1s&max={}&target={}&queues=", kMaxScaleAsked,
                  format_duration(plan.target));
  for (const std::string& queue : plan.options.queues) {
    query += (query.ends_with('=') ? "" : ",") + percent_encode(queue);
  }
  runtime.set_slots(least);
  return std::jthread([=, &client, &runtime, &peak_memory, &log](std::stop_token stop) {
    int slots = least;
    bool refused = false;
    while (!stop.stop_requested()) {
      const auto answer = ask_scale(client, query, Duration(0), 0);
      if (answer) {
        const int wanted = std::clamp(share_of(*answer), least, most);
        const int now = grown(slots, wanted, read_pressure(), peak_memory);
        if (now != slots) {
          log.info("slots", {{"from", fmt::to_string(slots)},
                             {"to", fmt::to_string(now)},
                             {"needed", fmt::to_string(wanted)},
                             {"why", answer->reason}});
        }
        runtime.set_slots(slots = now);
        refused = false;
      } else if (answer.error().code != ErrorCode::unavailable && !std::exchange(refused, true)) {
        log.warn("the demand of the queues cannot be read: all slots are used",
                 {{"why", answer.error().message}});
        runtime.set_slots(slots = most);
      }
      pause(refused ? kWithoutSignal : kSlotsEvery, stop);
    }
  });
}

}  // namespace mainspring::cli
