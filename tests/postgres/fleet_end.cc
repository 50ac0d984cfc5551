// What a fleet has left in its store, for the checks.
#include <fmt/format.h>

#include <algorithm>

#include "postgres/fleet.h"

namespace mainspring::pg_testing {

std::int64_t nonce_of(const std::string& args) {
  const std::size_t at = args.find("\"n\":");
  return at == std::string::npos ? -1 : std::strtoll(args.c_str() + at + 4, nullptr, 10);
}

namespace {

std::vector<JobId> all_jobs(const Store& store, const JobFilter& filter,
                            blackbox::History& history) {
  std::vector<JobId> found;
  JobId before = 0;
  constexpr int kMaxPages = 100'000;
  for (int page = 0; page < kMaxPages; ++page) {
    const auto got = store.list(filter, 500, before);
    if (!got) {
      history.unreadable.push_back("list: " + got.error().message);
      break;
    }
    for (const Job& j : got->jobs) found.push_back(j.id);
    if (!got->next) break;
    before = *got->next;
  }
  return found;
}

}  // namespace

void read_back(const Store& store, blackbox::History& history) {
  for (const JobId id : all_jobs(store, {}, history)) {
    const auto job = store.get(id);
    if (!job) {
      history.unreadable.push_back(fmt::format("job {}: {}", id, job.error().message));
      continue;
    }
    if (job->queue == simulation::kFlowQueue) continue;
    blackbox::FinalJob f;
    f.id = id;
    f.nonce = nonce_of(job->args);
    f.queue = job->queue;
    f.state = to_string(job->state);
    f.attempt = job->attempt;
    f.max_attempts = job->max_attempts;
    f.result = job->result;
    f.reason = job->reason;
    for (const AttemptError& e : job->errors) f.errors.emplace_back(e.attempt, e.message);
    history.jobs[id] = std::move(f);
  }
  history.dead_listing = all_jobs(store, {.state = JobState::dead}, history);
  std::erase_if(history.dead_listing, [&](JobId id) { return !history.jobs.contains(id); });
  const auto queues = store.queues();
  if (!queues) history.unreadable.push_back("queues: " + queues.error().message);
  for (const QueueStats& q : queues ? *queues : std::vector<QueueStats>{}) {
    if (q.name == simulation::kFlowQueue) continue;
    blackbox::FinalQueue& f = history.queues[q.name];
    for (int s = 0; s < kJobStateCount; ++s) {
      f.counts[std::string(to_string(static_cast<JobState>(s)))] =
          q.counts[static_cast<std::size_t>(s)];
    }
    f.enqueued = q.enqueued;
    f.pruned = q.pruned;
    f.expired = q.expired;
  }
  history.complete = true;
}

}  // namespace mainspring::pg_testing
