// Messages of a worker about its queues: unused queues, and what --drain waits for.
#include <fmt/format.h>

#include <algorithm>

#include "cli/handlers.h"
#include "cli/work.h"
#include "client/calls.h"
#include "model/queue_pattern.h"

namespace mainspring::cli {
namespace {

constexpr int kLookedAt = 1000;            // waiting retries that are read
constexpr Duration kQuiet = 1s;            // shorter waits are not reported
constexpr Duration kBetweenNotices = 10s;  // unless the number of jobs changes

}  // namespace

Result<void> check_visible(Client& client, const std::vector<std::string>& queues) {
  for (const std::string& queue : queues) {
    const std::string name = is_pattern(queue) ? "" : "/" + percent_encode(queue);
    const auto seen = client.request("GET", "/v1/queues" + name, "");
    if (seen || seen.error().code == ErrorCode::not_found) continue;
    Error error = seen.error();
    error.message += "; --drain must read the counts of the queue";
    return error;
  }
  return {};
}

namespace {

// Removes the queues that a schedule, a timer or a trigger will put jobs into. Without the right
// to read those, or with too many to read, all of them.
void remove_fed(Client& client, std::vector<std::string>& queues) {
  constexpr int kMost = 1000;
  const auto schedules = static_cast<Jobs&>(client).schedules("", kMost);
  const auto triggers = client.triggers("", kMost);
  if (!schedules || !triggers || schedules->size() == kMost || triggers->size() == kMost) {
    return queues.clear();
  }
  std::erase_if(queues, [&](const std::string& queue) {
    const auto feeds = [&](const NewJob& job) { return job.queue == queue; };
    return std::any_of(schedules->begin(), schedules->end(),
                       [&](const auto& info) { return feeds(info.schedule.job); }) ||
           std::any_of(triggers->begin(), triggers->end(),
                       [&](const auto& info) { return feeds(info.trigger.job); });
  });
}

}  // namespace

std::vector<std::string> unused_queues(Client& client, const std::vector<std::string>& queues) {
  std::vector<std::string> out;
  for (const std::string& queue : queues) {
    if (is_pattern(queue)) continue;
    const auto seen = client.request("GET", "/v1/queues/" + percent_encode(queue), "");
    if (!seen && seen.error().code == ErrorCode::not_found) out.push_back(queue);
  }
  if (!out.empty()) remove_fed(client, out);
  return out;
}

Result<std::vector<std::string>> queues_of(Jobs& jobs, const std::vector<std::string>& asked) {
  if (std::none_of(asked.begin(), asked.end(), is_pattern)) return asked;
  std::vector<std::string> out;
  MS_TRY_ASSIGN(const std::vector<QueueStats> queues, jobs.queues());
  for (const QueueStats& queue : queues) {
    const auto is_asked = [&](const std::string& one) { return fits_pattern(one, queue.name); };
    if (std::any_of(asked.begin(), asked.end(), is_asked)) out.push_back(queue.name);
  }
  return out;
}

Result<bool> drained(Jobs& jobs, const std::vector<std::string>& ours,
                     const std::vector<std::string>& kinds) {
  constexpr JobState kLeft[] = {JobState::available, JobState::running, JobState::retryable};
  if (kinds.empty()) {
    MS_TRY_ASSIGN(const std::vector<QueueStats> queues, jobs.queues());
    for (const QueueStats& queue : queues) {
      if (std::find(ours.begin(), ours.end(), queue.name) == ours.end()) continue;
      for (const JobState state : kLeft) {
        if (queue.counts[static_cast<std::size_t>(state)] > 0) return false;
      }
    }
    return true;
  }
  for (const std::string& queue : ours) {
    for (const std::string& kind : kinds) {
      for (const JobState state : kLeft) {
        JobId before = 0;
        do {  // a page may be empty although there are more
          MS_TRY_ASSIGN(
              const JobPage page,
              jobs.list({.queue = queue, .kind = kind, .tag = "", .state = state}, 1, before));
          if (!page.jobs.empty()) return false;
          before = page.next.value_or(0);
        } while (before != 0);
      }
    }
  }
  return true;
}

// Retries that no worker can take yet. Empty if other jobs are available meanwhile.
Result<WaitingRetries> waiting_retries(Jobs& jobs, const std::vector<std::string>& queues,
                                       const std::vector<std::string>& kinds) {
  WaitingRetries out;
  for (const std::string& queue : queues) {
    MS_TRY_ASSIGN(const JobPage page, jobs.list({.queue = queue,
                                                 .kind = kinds.size() == 1 ? kinds.front() : "",
                                                 .tag = "",
                                                 .state = JobState::retryable},
                                                kLookedAt, 0));
    for (const Job& job : page.jobs) {
      const bool ours =
          kinds.empty() || std::find(kinds.begin(), kinds.end(), job.kind) != kinds.end();
      if (!ours) continue;
      ++out.jobs;
      out.next = std::min(out.next, job.run_at);
    }
    out.more = out.more || page.next.has_value();
  }
  return out;
}

std::string DrainNotice::text(const WaitingRetries& waiting, Now now) {
  if (waiting.jobs == 0) return "";
  if (waiting.jobs == last_.jobs && waiting.next == last_.next) return "";
  if (waiting.next - now.wall < kQuiet) return "";
  if (waiting.jobs == last_.jobs && now.instant < quiet_until_) return "";
  last_ = waiting;
  quiet_until_ = now.instant + kBetweenNotices;
  const Duration left = std::chrono::ceil<std::chrono::seconds>(waiting.next - now.wall);
  return fmt::format(
      "Waiting for the next attempt of {}{}: {} at {}, in {}. Ctrl-C stops without them.\n",
      waiting.more ? "more than " : "", counted(waiting.jobs, "failed job"),
      waiting.jobs == 1 ? "it runs" : "the first runs", format_wall_time(waiting.next),
      format_duration(left));
}

}  // namespace mainspring::cli
