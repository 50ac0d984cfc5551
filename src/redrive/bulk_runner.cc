// How a bulk operation counts, changes and settles.
#include "redrive/bulk_runner.h"

#include <algorithm>

#include "api/redrive_shapes.h"
#include "base/mutant.h"
#include "broker/bulk.h"
#include "redrive/redriver.h"

namespace mainspring {
namespace {

constexpr int kCountPage = 1000;
constexpr int kMaxChunk = 100;                                   // changes in one commit
constexpr Duration kChunkTime = std::chrono::milliseconds(100);  // of changes at a rate
constexpr int kMaxLooks = 3;  // at a job that changes all the time
constexpr std::size_t kMaxErrorBytes = 1024;

bool can_be_tried_later(ErrorCode code) {
  return code == ErrorCode::overloaded || code == ErrorCode::unavailable ||
         code == ErrorCode::storage_full || code == ErrorCode::timeout ||
         code == ErrorCode::io_error;
}

}  // namespace

Result<BulkRunner::End> BulkRunner::run() {
  MS_TRY_ASSIGN(filter_, bulk_filter_of(args_.order, args_.at));
  MS_TRY_ASSIGN(between_, parse_rate(args_.order.rate));
  if (!progress_.matched) MS_TRY(count());
  if (stopped()) return End::interrupted;
  return work();
}

Result<void> BulkRunner::count() {
  while (!stopped()) {
    const JobId before = progress_.before == 0 ? self_ : progress_.before;
    MS_TRY_ASSIGN(const JobPage page, jobs_.list(filter_, kCountPage, before));
    progress_.counted += std::count_if(page.jobs.begin(), page.jobs.end(),
                                       [&](const Job& job) { return is_for_bulk(filter_, job); });
    progress_.before = page.next.value_or(0);
    if (!page.next) {
      progress_.matched = progress_.counted;
      options_.keep(progress_, BulkOptions::Must::yes);
      return {};
    }
    options_.keep(progress_, BulkOptions::Must::no);
  }
  return {};
}

// How many changes at once respect the rate and the canary.
int BulkRunner::chunk() const {
  std::int64_t most = kMaxChunk;
  if (between_ > Duration(0)) most = std::clamp<std::int64_t>(kChunkTime / between_, 1, kMaxChunk);
  const std::int64_t canary = args_.order.canary;
  if (canary > 0 && !progress_.canary_over)
    most = std::clamp<std::int64_t>(canary - progress_.changed, 1, most);
  return static_cast<int>(most);
}

Result<BulkRunner::End> BulkRunner::work() {
  while (!stopped()) {
    const JobId before = progress_.before == 0 ? self_ : progress_.before;
    MS_TRY_ASSIGN(JobPage page, jobs_.list(filter_, chunk(), before));
    std::erase_if(page.jobs, [&](const Job& job) { return !is_for_bulk(filter_, job); });
    await_turn(page.jobs.size());
    if (stopped()) break;
    MS_TRY(change_some(page.jobs));
    if (!page.next) return End::done;
    progress_.before = *page.next;
    const bool canary = args_.order.canary > 0 && !progress_.canary_over &&
                        progress_.changed >= args_.order.canary && !MS_MUTANT(bulk_canary_ignored);
    if (canary) progress_.canary_over = true;
    const bool many = std::ssize(page.jobs) >= kMaxChunk / 2;
    options_.keep(progress_, canary || many ? BulkOptions::Must::yes : BulkOptions::Must::no);
    if (canary) return End::canary;
  }
  return End::interrupted;
}

void BulkRunner::await_turn(std::size_t changes) {
  const Instant now = clock_.now().instant;
  const Duration wait = next_ - now;
  if (wait >= kLongPause) options_.keep(progress_, BulkOptions::Must::yes);
  if (wait > Duration(0)) options_.pause(wait);
  next_ = std::max(next_, now) + between_ * static_cast<std::int64_t>(changes);
}

JobChange BulkRunner::change_of(const Job& job) const {
  const std::int64_t version = MS_MUTANT(bulk_changes_any_version) ? 0 : job.version;
  switch (args_.order.action) {
    case BulkAction::cancel:
      return Cancel{.id = job.id, .reason = args_.order.reason, .version = version};
    case BulkAction::retry:
      return RetryJob{.id = job.id, .version = version};
    case BulkAction::remove:
      return DeleteJob{.id = job.id, .version = version};
    case BulkAction::reprioritise:
      break;
  }
  return EditJob{.id = job.id, .priority = args_.order.priority, .version = version};
}

Result<void> BulkRunner::change_some(const std::vector<Job>& jobs) {
  std::vector<JobChange> changes;
  changes.reserve(jobs.size());
  for (const Job& job : jobs) changes.push_back(change_of(job));
  std::vector<Result<void>> answers = jobs_.change(std::move(changes));
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    MS_TRY(settle(jobs[i], std::move(answers.at(i))));
    progress_.before = jobs[i].id;
  }
  return {};
}

// Counts the outcome of a change. A job that has changed since it was listed is read again.
Result<void> BulkRunner::settle(const Job& job, Result<void> answer) {
  JobFilter one = filter_;
  one.ids = std::vector<JobId>{job.id};
  for (int looks = 0;; ++looks) {
    if (answer) {
      ++progress_.changed;
      return {};
    }
    const Error& error = answer.error();
    if (can_be_tried_later(error.code)) return error;
    const bool gone = error.code == ErrorCode::not_found || error.code == ErrorCode::expired;
    MS_TRY_ASSIGN(const JobPage now, gone ? Result<JobPage>(JobPage{}) : jobs_.list(one, 1, 0));
    if (now.jobs.empty()) {
      ++progress_.skipped;
      return {};
    }
    const bool changed = now.jobs[0].version != job.version || looks > 0;
    if (!changed || looks == kMaxLooks) {
      ++progress_.failed;
      progress_.error = error.message.substr(0, kMaxErrorBytes);
      return {};
    }
    std::vector<JobChange> again;
    again.push_back(change_of(now.jobs[0]));
    answer = std::move(jobs_.change(std::move(again)).at(0));
  }
}

}  // namespace mainspring
