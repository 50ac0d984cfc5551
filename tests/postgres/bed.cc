// The bodies of Bed.
#include "postgres/bed.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "blackbox/process.h"

namespace mainspring::pg_testing {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

Enqueue one_job(int number) {
  NewJob job;
  job.queue = "q";
  job.kind = "work";
  job.args = fmt::format("[{}]", number);
  return Enqueue{.jobs = {job}};
}

}  // namespace

Bed::Bed(BedOptions o)
    : cluster(must(PgCluster::make(o.cluster))), database(must(cluster->new_database())) {
  std::string url = cluster->url(database);
  if (o.proxy) {
    proxy = must(TcpProxy::make(cluster->socket_path()));
    url = PgCluster::tcp_url(proxy->port(), database);
  }
  options.url = Secret(url);
  options.statement_timeout = o.statement_timeout;
  options.read_timeout = o.statement_timeout;
  options.connect_timeout = o.connect_timeout;
  options.patience = o.patience;
  store = open_another();
}

std::unique_ptr<SharedStore> Bed::open_another() {
  return must(open_postgres_store(options, clock.now(), log_));
}

Duration Bed::longest_call() const {
  return options.statement_timeout * 2 + options.patience + options.connect_timeout + seconds(30);
}

Result<OperationResult> Bed::apply(Operation operation) {
  auto report = store->apply({&operation, 1}, clock.now());
  if (!report) return report.error();
  return std::move(report->results.at(0));
}

std::future<Result<OperationResult>> Bed::begin(Operation operation) {
  return std::async(std::launch::async,
                    [this, op = std::move(operation)]() mutable { return apply(std::move(op)); });
}

Result<OperationResult> Bed::end(std::future<Result<OperationResult>>& call) {
  if (call.wait_for(seconds(60)) != std::future_status::ready) fail_test("apply() hangs");
  return call.get();
}

Result<JobId> Bed::enqueue(int number) {
  MS_TRY_ASSIGN(const OperationResult result, apply(one_job(number)));
  if (const auto* error = std::get_if<Error>(&result)) return *error;
  return std::get<EnqueueResult>(result).jobs.at(0).id;
}

std::future<Result<OperationResult>> Bed::begin_enqueue(int number) {
  return begin(one_job(number));
}

ClaimedJob Bed::claim() {
  Claim c{.worker = "w", .queues = {"q"}, .kinds = {}};
  const auto result = must(apply(c));
  REQUIRE(std::holds_alternative<ClaimResult>(result));
  const auto& jobs = std::get<ClaimResult>(result).jobs;
  REQUIRE(jobs.size() == 1);
  return jobs[0];
}

FinishStatus Bed::complete(const ClaimedJob& job) {
  Finish f{.worker = "w", .results = {}};
  f.results.push_back({job.id, job.token, Complete{"[1]"}});
  const auto result = must(apply(f));
  REQUIRE(std::holds_alternative<FinishResult>(result));
  return std::get<FinishResult>(result).results.at(0);
}

void Bed::must_be_unavailable(Operation operation) {
  const Instant before = clock.now().instant;
  const auto result = apply(std::move(operation));
  CHECK(clock.now().instant - before < longest_call());
  REQUIRE_FALSE(result.has_value());
  CAPTURE(result.error().message);
  CHECK(result.error().code == ErrorCode::unavailable);
  CHECK(result.error().retry_after_ms > 0);
  CHECK((store->away() || store->blocked()));
}

void Bed::must_come_back() {
  constexpr int kTries = 300;
  for (int i = 0; i < kTries; ++i) {
    const auto result = apply(PauseQueue{.queue = "back", .paused = true});
    if (result) {
      CHECK_FALSE(store->away());
      return;
    }
    CHECK(result.error().code == ErrorCode::unavailable);
    blackbox::pause_for(50'000);
  }
  FAIL("the store does not find its server again");
}

std::vector<int> Bed::numbers() const {
  std::vector<int> found;
  const auto rows = must(cluster->sql(
      fmt::format("SELECT substr(args, 2)::text FROM {}.jobs", options.schema), database));
  for (const auto& row : rows) found.push_back(std::atoi(row[0].c_str()));
  std::sort(found.begin(), found.end());
  return found;
}

void Bed::must_match(const Seen& told) const {
  const std::vector<int> there = numbers();
  for (const int number : told.done) {
    CAPTURE(number);
    CHECK(std::count(there.begin(), there.end(), number) == 1);
  }
  for (const int number : there) {
    CAPTURE(number);
    const auto in = [&](const std::vector<int>& list) {
      return std::find(list.begin(), list.end(), number) != list.end();
    };
    const bool asked_for = in(told.done) || in(told.unknown);
    CHECK(asked_for);
    CHECK(std::count(there.begin(), there.end(), number) == 1);
  }
}

void Bed::must_be_sound() const {
  const VerifyReport report = must(store->verify());
  for (const std::string& problem : report.problems) FAIL_CHECK(problem);
}

int Bed::await_commit(const std::string& stage) const {
  const Instant end = clock.now().instant + seconds(60);
  while (clock.now().instant < end) {
    for (const auto& backend : cluster->backends()) {
      for (const std::string statement : {"COMMIT", "SELECT"})
        if (backend.doing.starts_with(statement + stage)) return backend.pid;
    }
  }
  return 0;
}

}  // namespace mainspring::pg_testing
