// A bulk operation changes each matching job once and counts the outcomes.
#include "redrive/bulk_runner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "worker/fake_jobs.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

// A server of jobs that a test changes without the runner's knowledge.
class BulkServer : public FakeJobs {
 public:
  std::map<JobId, Job> jobs;
  std::function<void(JobId)> before_change;
  std::map<JobId, Error> refuses;
  std::vector<std::size_t> batches;

  void put(JobId id, JobState state, std::string queue = "q") {
    Job job{.id = id, .queue = std::move(queue), .kind = "k", .state = state};
    jobs[id] = std::move(job);
  }
  Result<JobPage> list(const JobFilter& filter, int limit, JobId before) override {
    JobPage page;
    for (auto it = jobs.rbegin(); it != jobs.rend(); ++it) {
      const Job& job = it->second;
      const bool listed = !filter.ids || std::find(filter.ids->begin(), filter.ids->end(),
                                                   job.id) != filter.ids->end();
      if ((before != 0 && job.id >= before) || !listed || !filter.wants(job.state)) continue;
      if (std::ssize(page.jobs) == limit) {
        page.next = page.jobs.back().id;
        break;
      }
      page.jobs.push_back(job);
    }
    return page;
  }
  std::vector<Result<void>> change(std::vector<JobChange> changes) override {
    batches.push_back(changes.size());
    return Jobs::change(std::move(changes));
  }
  Result<CancelResult> cancel(Cancel request) override {
    if (before_change) before_change(request.id);
    if (refuses.contains(request.id)) return refuses.at(request.id);
    const auto found = jobs.find(request.id);
    if (found == jobs.end()) return Error{ErrorCode::expired, "gone"};
    if (request.version != 0 && request.version != found->second.version)
      return Error{ErrorCode::conflict, "it has changed"};
    found->second.state = JobState::cancelled;
    ++found->second.version;
    return CancelResult{};
  }
};

struct BulkRig {
  BulkServer server;
  ManualClock clock;
  BulkArgs args{.order = {.action = BulkAction::cancel, .filter = {.queue = "q"}}};
  std::stop_source stop;
  Duration paused{0};
  BulkProgress kept;

  BulkRig() {
    for (JobId id = 1; id <= 10; ++id) server.put(id, JobState::available);
  }
  BulkRunner::End run(BulkProgress from = {}, JobId self = 11) {
    BulkOptions options{
        .stop = stop.get_token(),
        .pause = [this](Duration length) { paused += length, clock.advance(length); },
        .keep = [this](const BulkProgress& progress, BulkOptions::Must) { kept = progress; }};
    BulkRunner runner(server, clock, args, self, std::move(options), std::move(from));
    const auto end = runner.run();
    REQUIRE_MESSAGE(end, end.error().message);
    kept = runner.progress();
    return *end;
  }
  std::int64_t cancelled() const {
    return std::count_if(server.jobs.begin(), server.jobs.end(), [](const auto& entry) {
      return entry.second.state == JobState::cancelled;
    });
  }
};

}  // namespace

TEST_CASE("all matching jobs are counted and changed, and newer ones are not") {
  BulkRig rig;
  rig.server.put(12, JobState::available);  // enqueued after the operation
  rig.server.put(3, JobState::completed);
  CHECK(rig.run() == BulkRunner::End::done);
  CHECK(rig.kept.matched == 9);
  CHECK(rig.kept.changed == 9);
  CHECK(rig.server.jobs.at(12).state == JobState::available);
  CHECK(rig.server.jobs.at(3).state == JobState::completed);
  CHECK(rig.server.batches == std::vector<std::size_t>{9});
}

TEST_CASE("a job that changed since the count and no longer matches is skipped") {
  BulkRig rig;
  rig.server.before_change = [&](JobId id) {
    if (id != 5 || rig.server.jobs.at(5).version != 1) return;
    rig.server.jobs.at(5).state = JobState::completed;
    ++rig.server.jobs.at(5).version;
  };
  CHECK(rig.run() == BulkRunner::End::done);
  CHECK(rig.kept.changed == 9);
  CHECK(rig.kept.skipped == 1);
  CHECK(rig.server.jobs.at(5).state == JobState::completed);
}

TEST_CASE("a job that changed and still matches is changed") {
  BulkRig rig;
  rig.server.before_change = [&](JobId id) {
    if (id == 5 && rig.server.jobs.at(5).version == 1) ++rig.server.jobs.at(5).version;
  };
  CHECK(rig.run() == BulkRunner::End::done);
  CHECK(rig.kept.changed == 10);
  CHECK(rig.kept.skipped == 0);
}

TEST_CASE("a refused change is counted as failed with its reason, and the others continue") {
  BulkRig rig;
  rig.server.refuses = {{4, Error{ErrorCode::conflict, "it is a step"}}};
  CHECK(rig.run() == BulkRunner::End::done);
  CHECK(rig.kept.changed == 9);
  CHECK(rig.kept.failed == 1);
  CHECK(rig.kept.error == "it is a step");
}

TEST_CASE("a missing job is skipped") {
  BulkRig rig;
  rig.server.before_change = [&](JobId id) {
    if (id == 6) rig.server.jobs.erase(6);
  };
  CHECK(rig.run() == BulkRunner::End::done);
  CHECK(rig.kept.changed == 9);
  CHECK(rig.kept.skipped == 1);
}

TEST_CASE("it waits after the canary, then continues with the rest") {
  BulkRig rig;
  rig.args.order.canary = 3;
  CHECK(rig.run() == BulkRunner::End::canary);
  CHECK(rig.cancelled() == 3);
  CHECK(rig.kept.changed == 3);
  CHECK(rig.kept.matched == 10);
  CHECK(rig.run(rig.kept) == BulkRunner::End::done);
  CHECK(rig.kept.changed == 10);
  CHECK(rig.kept.matched == 10);
}

TEST_CASE("a rate is kept") {
  BulkRig rig;
  rig.args.order.rate = "2/s";
  CHECK(rig.run() == BulkRunner::End::done);
  CHECK(rig.paused == 4500ms);
  CHECK(rig.kept.changed == 10);
  CHECK(*std::max_element(rig.server.batches.begin(), rig.server.batches.end()) == 1);
}

TEST_CASE("the progress that readers see during a long pause counts every change so far") {
  BulkRig rig;
  rig.args.order.rate = "1/m";
  BulkProgress on_disk;
  std::vector<std::int64_t> seen;
  BulkOptions options{.stop = rig.stop.get_token(),
                      .pause =
                          [&](Duration length) {
                            CHECK(on_disk.changed == rig.cancelled());
                            seen.push_back(on_disk.changed);
                            rig.clock.advance(length);
                          },
                      .keep =
                          [&](const BulkProgress& progress, BulkOptions::Must must) {
                            if (must == BulkOptions::Must::yes) on_disk = progress;
                          }};
  BulkRunner runner(rig.server, rig.clock, rig.args, 11, std::move(options), {});
  CHECK(runner.run() == BulkRunner::End::done);
  CHECK(seen == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("another runner continues where a stopped one was") {
  BulkRig rig;
  rig.args.order.rate = "2/s";
  rig.server.before_change = [&](JobId id) {
    if (id == 7) rig.stop.request_stop();
  };
  CHECK(rig.run() == BulkRunner::End::interrupted);
  CHECK(rig.kept.changed == 4);
  rig.server.before_change = {};
  rig.stop = {};
  CHECK(rig.run(rig.kept) == BulkRunner::End::done);
  CHECK(rig.kept.changed == 10);
  CHECK(rig.cancelled() == 10);
}

TEST_CASE("jobs of the engine's own queues are not changed") {
  BulkRig rig;
  rig.args.order.filter = {.states = {JobState::available}};
  rig.server.put(8, JobState::available, "mainspring.redrives");
  CHECK(rig.run() == BulkRunner::End::done);
  CHECK(rig.kept.matched == 9);
  CHECK(rig.server.jobs.at(8).state == JobState::available);
}

TEST_CASE("a full store ends the attempt, and nothing is counted as failed") {
  BulkRig rig;
  rig.server.refuses = {{9, Error{ErrorCode::unavailable, "later"}}};
  BulkRunner runner(rig.server, rig.clock, rig.args, 11,
                    {.stop = {}, .pause = [](Duration) {}, .keep = [](const auto&, auto) {}}, {});
  const auto end = runner.run();
  REQUIRE_FALSE(end);
  CHECK(end.error().code == ErrorCode::unavailable);
  CHECK(runner.progress().changed == 1);
  CHECK(runner.progress().failed == 0);
  CHECK(runner.progress().before == 10);
}
