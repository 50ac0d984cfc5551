// The broker's calls for bulk operations.
#include <fmt/format.h>

#include <algorithm>

#include "api/bulk_shapes.h"
#include "broker/bulk.h"
#include "broker/search.h"
#include "broker/sync_call.h"
#include "model/callback.h"

namespace mainspring {
namespace {

constexpr int kBulkPage = 1000;
constexpr int kMaxBulkWindows = 100;  // reads for one list of bulk operations

}  // namespace

bool is_for_bulk(const JobFilter& filter, const Job& job) {
  return !job.queue.starts_with(kReservedQueues) || filter.queue == job.queue;
}

Result<BulkCount> count_bulk(const Store& store, const BulkOrder& order, WallTime now) {
  MS_TRY(validate(order));
  MS_TRY_ASSIGN(const JobFilter filter, bulk_filter_of(order, now));
  BulkCount count;
  std::int64_t examined = 0;
  JobId before = 0;
  for (int pages = 0;; ++pages) {
    MS_TRY_ASSIGN(const JobPage page, search_jobs(store, filter, kBulkPage, before));
    for (const Job& job : page.jobs) {
      if (!is_for_bulk(filter, job)) continue;
      ++count.matched;
      if (count.sample.size() < kMaxBulkSample) count.sample.push_back(job.id);
    }
    if (!page.next) return count;
    before = *page.next;
    examined += page.examined;
    if (count.matched < kMaxBulkCounted && examined < kMaxBulkExamined && pages < kMaxBulkPages)
      continue;
    count.exact = false;
    return count;
  }
}

Result<std::vector<BulkInfo>> list_bulks(const Store& store) {
  JobFilter filter{.queue = std::string(kRedriveQueue)};
  MS_TRY_ASSIGN(const std::int64_t kept, store.count_jobs(filter));
  std::vector<JobId> ids;
  JobId before = 0;
  std::int64_t seen = 0;
  for (int windows = 0; seen < kept && windows < kMaxBulkWindows; ++windows) {
    MS_TRY_ASSIGN(const JobPage page, store.list(filter, kMaxBulks, before));
    seen += std::ssize(page.jobs);
    for (const Job& job : page.jobs) {
      if (job.kind == kBulkKind && std::ssize(ids) < kMaxBulks) ids.push_back(job.id);
    }
    if (!page.next || std::ssize(ids) == kMaxBulks) break;
    before = *page.next;
  }
  MS_TRY_ASSIGN(std::vector<Job> jobs, store.whole(ids));
  std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.id > b.id; });
  std::vector<BulkInfo> bulks;
  for (const Job& job : jobs) {
    if (auto info = bulk_info_of(job)) bulks.push_back(std::move(*info));
  }
  return bulks;
}

Result<BulkInfo> get_bulk(const Store& store, JobId id) {
  const auto job = store.get(id);
  if (job) return bulk_info_of(*job);
  Error error = job.error();
  if (error.code == ErrorCode::not_found)
    error.message = fmt::format("bulk operation {}: does not exist", id);
  return error;
}

Result<BulkCount> Broker::count_bulk(const BulkOrder& order) {
  return mainspring::count_bulk(store_, order, clock_.now().wall);
}

Result<BulkInfo> Broker::start_bulk(const BulkOrder& order) {
  return start_bulk(order, "", std::nullopt);
}

// Not through enqueue(), which refuses the engine's own queues.
Result<BulkInfo> Broker::start_bulk(const BulkOrder& order, std::string by,
                                    std::optional<Audit> audit) {
  MS_TRY(validate(order));
  NewJob job = bulk_job({.order = order, .by = std::move(by), .at = clock_.now().wall});
  SyncCall sync;
  submit({Enqueue{.jobs = {std::move(job)}}, sync.answer(), std::move(audit)}, Wake::none);
  wait_for(sync);
  MS_TRY_ASSIGN(const EnqueueResult made, sync.take<EnqueueResult>());
  return get_bulk(made.jobs.at(0).id);
}

Result<std::vector<BulkInfo>> Broker::bulks() {
  return list_bulks(store_);
}

Result<BulkInfo> Broker::get_bulk(JobId id) {
  return mainspring::get_bulk(store_, id);
}

Result<BulkInfo> Broker::stop_bulk(JobId id) {
  return stop_bulk(id, std::nullopt);
}

Result<BulkInfo> Broker::stop_bulk(JobId id, std::optional<Audit> audit) {
  MS_TRY_ASSIGN(const BulkInfo info, get_bulk(id));
  if (info.finished_at) {
    return Error{
        .code = ErrorCode::conflict,
        .message = fmt::format("bulk operation {} has ended: it is {}", id, to_string(info.state))};
  }
  SyncCall sync;
  submit({Cancel{.id = id, .reason = "stopped"}, sync.answer(), std::move(audit)}, Wake::none);
  wait_for(sync);
  MS_TRY(sync.take<CancelResult>());
  return get_bulk(id);
}

Result<BulkInfo> Broker::continue_bulk(JobId id) {
  return continue_bulk(id, std::nullopt);
}

Result<BulkInfo> Broker::continue_bulk(JobId id, std::optional<Audit> audit) {
  MS_TRY_ASSIGN(const BulkInfo info, get_bulk(id));
  if (info.state != BulkState::waiting) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format("bulk operation {} is {}: only one that waits after its "
                                        "canary can be continued",
                                        id, to_string(info.state))};
  }
  SyncCall sync;
  submit({RetryJob{.id = id}, sync.answer(), std::move(audit)}, Wake::none);
  wait_for(sync);
  MS_TRY(sync.take<RetryResult>());
  return get_bulk(id);
}

}  // namespace mainspring
