// complete: names that a shell offers. Fast, and silent if there is no server.
#include <fmt/format.h>

#include "cli/handlers.h"
#include "cli/support.h"
#include "model/callback.h"

namespace mainspring::cli {
namespace {

constexpr Duration kCompleteWithin = 1s;
constexpr int kMostOffered = 1000;

std::string offered(Client& client, const std::string& what) {
  std::string out;
  Jobs& jobs = client;
  if (what == "queues") {
    const auto queues = jobs.queues();
    if (!queues) return out;
    for (const QueueStats& queue : *queues) {
      if (!queue.name.starts_with(kReservedQueues)) out += queue.name + '\n';
    }
    return out;
  }
  const auto schedules = jobs.schedules("", kMostOffered);
  if (!schedules) return out;
  for (const ScheduleInfo& info : *schedules) out += info.schedule.name + '\n';
  return out;
}

}  // namespace

Result<int> run_complete(const Invocation& invocation, Io& io) {
  const std::string what = *invocation.argument("WHAT");
  if (what != "queues" && what != "schedules")
    return invalid("WHAT", fmt::format("WHAT \"{}\": must be queues or schedules", what));
  auto options = client_options(invocation);
  if (!options) return kExitOk;
  options->connect_timeout = options->read_timeout = kCompleteWithin;
  options->retry_for = Duration(0);
  SystemRandom random;
  const auto client = Client::open(std::move(*options), random);
  if (client) io.out(offered(**client, what));
  return kExitOk;
}

}  // namespace mainspring::cli
