// Bench's bodies.
#include "conformance/bench.h"

#include <algorithm>
#include <numeric>

namespace mainspring::conformance {

Bench::Bench(StoreOptions o) : options(o), open_(store_under_test()) {
  store = open_(OpenAs::fresh, options, clock.now());
  REQUIRE(store != nullptr);
}

Bench::~Bench() {
  if (store == nullptr) return;
  const auto report = store->verify();
  if (!report) {
    FAIL_CHECK("verify failed: " << report.error().message);
    return;
  }
  for (const std::string& problem : report->problems) FAIL_CHECK("verify: " << problem);
}

void Bench::reopen() {
  store.reset();
  store = open_(OpenAs::reopen, options, clock.now());
  REQUIRE(store != nullptr);
}

std::vector<OperationResult> Bench::apply(std::vector<Operation> batch) {
  Result<BatchReport> report = store->apply(batch, clock.now());
  if (!report) FAIL("apply failed: " << report.error().message);
  REQUIRE(report->results.size() == batch.size());
  effects_ = std::move(report->effects);
  check_counters();
  return std::move(report->results);
}

void Bench::check_counters() const {
  const auto all = store->queues();
  REQUIRE(all.has_value());
  for (const QueueStats& s : *all) {
    const std::int64_t kept = std::accumulate(s.counts.begin(), s.counts.end(), std::int64_t{0});
    CHECK_MESSAGE(s.enqueued == kept + s.pruned + s.expired, "conservation in queue " << s.name);
    for (const std::int64_t n : s.counts) CHECK(n >= 0);
  }
}

ErrorCode Bench::refused(Operation operation) {
  const std::vector<OperationResult> results = apply({std::move(operation)});
  REQUIRE(std::holds_alternative<Error>(results[0]));
  CHECK_FALSE(std::get<Error>(results[0]).message.empty());
  return std::get<Error>(results[0]).code;
}

NewJob Bench::job(std::string queue) const {
  NewJob j;
  j.queue = std::move(queue);
  j.kind = "work";
  return j;
}

JobId Bench::enqueue(NewJob j) {
  const auto result = one<EnqueueResult>(Enqueue{.jobs = {std::move(j)}});
  REQUIRE(result.jobs.size() == 1);
  return result.jobs[0].id;
}

std::vector<ClaimedJob> Bench::claim(int max, std::vector<std::string> queues) {
  auto jobs = claim_silently(max, std::move(queues));
  Renew renew{.worker = "w1", .leases = {}, .lease = kDefaultLease - Duration(1)};
  for (const ClaimedJob& job : jobs) renew.leases.push_back({.id = job.id, .token = job.token});
  Effects of_claim = effects_;
  if (!jobs.empty()) one<RenewResult>(renew);
  effects_ = std::move(of_claim);
  return jobs;
}

std::vector<ClaimedJob> Bench::claim_silently(int max, std::vector<std::string> queues) {
  return one<ClaimResult>(
             Claim{.worker = "w1", .queues = std::move(queues), .kinds = {}, .max = max})
      .jobs;
}

ClaimedJob Bench::claim_one() {
  std::vector<ClaimedJob> jobs = claim(1);
  REQUIRE(jobs.size() == 1);
  return jobs[0];
}

FinishStatus Bench::finish(JobId id, Token token, Outcome outcome) {
  Finish f{.worker = "w1", .results = {}};
  f.results.push_back({.id = id, .token = token, .outcome = std::move(outcome)});
  const auto result = one<FinishResult>(std::move(f));
  REQUIRE(result.results.size() == 1);
  return result.results[0];
}

FinishStatus Bench::finish(const ClaimedJob& j, Outcome outcome) {
  return finish(j.id, j.token, std::move(outcome));
}

RenewResult Bench::renew(const ClaimedJob& j, std::optional<Progress> progress,
                         std::optional<std::string> checkpoint) {
  Renew r{.worker = "w1", .leases = {}};
  r.leases.push_back({j.id, j.token, std::move(progress), std::move(checkpoint)});
  return one<RenewResult>(std::move(r));
}

CancelResult Bench::cancel(JobId id, std::string reason) {
  return one<CancelResult>(Cancel{.id = id, .reason = std::move(reason)});
}

RetryResult Bench::retry(JobId id) {
  return one<RetryResult>(RetryJob{id});
}

JobId Bench::completed(NewJob j) {
  const std::string queue = j.queue;
  const JobId id = enqueue(std::move(j));
  const std::vector<ClaimedJob> jobs = claim(1, {queue});
  REQUIRE(ids(jobs) == std::vector<JobId>{id});
  CHECK(finish(jobs[0], Complete{}) == FinishStatus::ok);
  return id;
}

JobId Bench::dead(NewJob j) {
  const std::string queue = j.queue;
  const JobId id = enqueue(std::move(j));
  const std::vector<ClaimedJob> jobs = claim(1, {queue});
  REQUIRE(ids(jobs) == std::vector<JobId>{id});
  CHECK(finish(jobs[0], Dead{"poison", "cannot be read"}) == FinishStatus::ok);
  return id;
}

Job Bench::get(JobId id) const {
  const Result<Job> found = store->get(id);
  if (!found) FAIL("get " << id << ": " << found.error().message);
  return *found;
}

ErrorCode Bench::get_refused(JobId id) const {
  const Result<Job> found = store->get(id);
  REQUIRE_FALSE(found.has_value());
  return found.error().code;
}

QueueStats Bench::stats(const std::string& queue) const {
  const auto all = store->queues();
  REQUIRE(all.has_value());
  const auto found =
      std::find_if(all->begin(), all->end(), [&](const QueueStats& s) { return s.name == queue; });
  REQUIRE_MESSAGE(found != all->end(), "no queue " << queue);
  return *found;
}

std::int64_t Bench::count(JobState s, const std::string& queue) const {
  return stats(queue).counts[static_cast<std::size_t>(s)];
}

std::vector<JobId> Bench::listed(const JobFilter& filter) const {
  constexpr int kMaxPages = 10'000;
  std::vector<JobId> found;
  JobId before = 0;
  for (int page = 0; page < kMaxPages; ++page) {
    const Result<JobPage> got = store->list(filter, 2, before);
    REQUIRE(got.has_value());
    CHECK(got->jobs.size() <= 2);
    for (const Job& j : got->jobs) found.push_back(j.id);
    if (!got->next) return found;
    REQUIRE((before == 0 || *got->next < before));
    before = *got->next;
  }
  FAIL("list does not end");
  return found;
}

bool Bench::became_available(const std::string& queue) const {
  const auto& all = effects_.available;
  return std::find(all.begin(), all.end(), queue) != all.end();
}

std::vector<JobId> ids(const std::vector<ClaimedJob>& jobs) {
  std::vector<JobId> all;
  for (const ClaimedJob& j : jobs) all.push_back(j.id);
  return all;
}

}  // namespace mainspring::conformance
