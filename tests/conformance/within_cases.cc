// Jobs and schedules outside of the caller's queues do not exist for the caller.
#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

Within within(Verb verb, std::string_view scopes) {
  return {std::make_shared<const Scopes>(*Scopes::parse(scopes)), verb};
}
const Within kWork = within(Verb::work, "work=mine* read=theirs");
const Within kAdmin = within(Verb::admin, "admin=mine");
const Within kRead = within(Verb::read, "read=mine");
const Within kSchedule = within(Verb::schedule, "schedule=mine");

PutSchedule within_put(const Bench& bench, const std::string& name, const std::string& queue) {
  PutSchedule op;
  op.schedule.name = name;
  op.schedule.every = minutes(1);
  op.schedule.job = bench.job(queue);
  op.next = op.next_fire = bench.wall() + minutes(1);
  return op;
}

TEST_SUITE_BEGIN("within");

TEST_CASE("a lease outside cannot be finished, even with its token") {
  Bench bench;
  const JobId id = bench.enqueue(bench.job("theirs"));
  const ClaimedJob job = bench.claim(1, {"theirs"}).at(0);
  Finish finish{.worker = "w1", .results = {}, .within = kWork};
  finish.results.push_back({.id = id, .token = job.token, .outcome = Complete{}});
  finish.results.push_back({.id = id, .token = job.token + 7, .outcome = Complete{}});
  const auto result = bench.one<FinishResult>(finish);
  CHECK(result.results == std::vector{FinishStatus::not_found, FinishStatus::not_found});
  CHECK(bench.state(id) == JobState::running);
  CHECK(bench.finish(job, Complete{}) == FinishStatus::ok);
  CHECK(bench.one<FinishResult>(finish).results ==
        std::vector{FinishStatus::not_found, FinishStatus::not_found});  // also once it has ended
}

TEST_CASE("a lease inside the scope is finished although another one is outside") {
  Bench bench;
  const JobId mine = bench.enqueue(bench.job("mine/too"));
  const JobId theirs = bench.enqueue(bench.job("theirs"));
  Finish finish{.worker = "w1", .results = {}, .within = kWork};
  for (const ClaimedJob& job : bench.claim(2, {"mine/too", "theirs"}))
    finish.results.push_back({.id = job.id, .token = job.token, .outcome = Complete{}});
  bench.one<FinishResult>(finish);
  CHECK(bench.state(mine) == JobState::completed);
  CHECK(bench.state(theirs) == JobState::running);
}

TEST_CASE("a lease outside cannot be renewed") {
  Bench bench;
  bench.enqueue(bench.job("theirs"));
  const ClaimedJob job = bench.claim(1, {"theirs"}).at(0);
  Renew renew{.worker = "w1", .leases = {}, .within = kWork};
  renew.leases.push_back({job.id, job.token, Progress{0.5, "half"}, "[1]"});
  const auto result = bench.one<RenewResult>(renew);
  CHECK(result.lost == std::vector<JobId>{job.id});
  CHECK(result.renewed.empty());
  CHECK(bench.get(job.id).checkpoint.empty());
  CHECK(bench.renew(job).renewed.size() == 1);
}

TEST_CASE("jobs outside are neither cancelled nor retried, in any state") {
  Bench bench;
  const JobId waits = bench.enqueue(bench.job("theirs"));
  const JobId dead = bench.dead(bench.job("other"));
  const JobId runs = bench.enqueue(bench.job("running"));
  REQUIRE(bench.claim(1, {"running"}).size() == 1);
  for (const JobId id : {waits, dead, runs}) {
    CHECK(bench.refused(Cancel{.id = id, .reason = "", .within = kAdmin}) == ErrorCode::not_found);
    CHECK(bench.refused(RetryJob{.id = id, .within = kAdmin}) == ErrorCode::not_found);
  }
  CHECK(bench.state(waits) == JobState::available);
  CHECK(bench.state(dead) == JobState::dead);
  CHECK_FALSE(bench.get(runs).cancel_requested);
  const JobId mine = bench.enqueue(bench.job("mine"));
  CHECK(bench.one<CancelResult>(Cancel{.id = mine, .reason = "", .within = kAdmin}).state ==
        JobState::cancelled);
  bench.one<RetryResult>(RetryJob{.id = mine, .within = kAdmin});
  CHECK(bench.state(mine) == JobState::available);
}

TEST_CASE("a job outside is refused like one that does not exist") {
  Bench bench;
  const JobId id = bench.enqueue(bench.job("theirs"));
  const auto told = bench.apply({Cancel{.id = id, .reason = "", .within = kAdmin},
                                 Cancel{.id = id + 1, .reason = "", .within = kAdmin}});
  const Error& outside = std::get<Error>(told[0]);
  const Error& never = std::get<Error>(told[1]);
  CHECK(outside.code == never.code);
  CHECK(outside.message.find("theirs") == std::string::npos);
}

TEST_CASE("a redrive skips jobs outside the scope, and its pages reach the jobs after them") {
  Bench bench;
  std::vector<JobId> mine, theirs;
  for (int i = 0; i < 3; ++i) {
    theirs.push_back(bench.dead(bench.job("theirs")));
    mine.push_back(bench.dead(bench.job("mine")));
  }
  Redrive redrive{.filter = {}, .limit = 2, .within = kAdmin};
  int redriven = 0;
  for (int page = 0; page < 10; ++page) {
    const auto result = bench.one<RedriveResult>(redrive);
    redriven += result.redriven;
    CHECK(result.redriven <= 2);
    if (!result.next) break;
    redrive.after = *result.next;
  }
  CHECK(redriven == 3);
  for (const JobId id : mine) CHECK(bench.state(id) == JobState::available);
  for (const JobId id : theirs) CHECK(bench.state(id) == JobState::dead);
  redrive.after = 0;
  redrive.within = {};
  redrive.filter.within = kAdmin;
  CHECK(bench.one<RedriveResult>(redrive).redriven == 0);
}

TEST_CASE("lists show only jobs inside the scope, in every state") {
  Bench bench;
  const JobId dead = bench.dead(bench.job("mine"));
  bench.dead(bench.job("theirs"));
  const JobId waits = bench.enqueue(bench.job("mine"));
  bench.enqueue(bench.job("theirs"));
  CHECK(bench.listed({.within = kRead}) == std::vector<JobId>{waits, dead});
  CHECK(bench.listed({.state = JobState::dead, .within = kRead}) == std::vector<JobId>{dead});
  CHECK(bench.listed({.queue = "theirs", .within = kRead}).empty());
  bench.claim(9, {"mine", "theirs"});
  CHECK(bench.listed({.state = JobState::running, .within = kRead}) == std::vector<JobId>{waits});
}

TEST_CASE("schedules of jobs for other queues are not found") {
  Bench bench;
  bench.one<PutScheduleResult>(within_put(bench, "s", "theirs"));
  CHECK(bench.refused(RemoveSchedule{"s", kSchedule}) == ErrorCode::not_found);
  CHECK(bench.refused(PauseSchedule{"s", true, "", kSchedule}) == ErrorCode::not_found);
  CHECK(bench.refused(SetTimer{"s", seconds(1), kSchedule}) == ErrorCode::not_found);
  FireSchedule fire{.name = "s", .source = TickSource::trigger, .within = kSchedule};
  fire.ticks = {Tick{}};
  CHECK(bench.refused(fire) == ErrorCode::not_found);
  const auto info = bench.store->schedule("s");
  REQUIRE(info.has_value());
  CHECK_FALSE(info->paused);
  CHECK(info->fired == 0);
}

TEST_CASE("a schedule cannot be replaced by one of the same name for another queue") {
  Bench bench;
  bench.one<PutScheduleResult>(within_put(bench, "s", "theirs"));
  PutSchedule mine = within_put(bench, "s", "mine");
  mine.within = kSchedule;
  CHECK(bench.refused(mine) == ErrorCode::forbidden);
  PutSchedule same = within_put(bench, "s", "theirs");
  same.within = kSchedule;
  same.paused = true;
  CHECK(bench.refused(same) == ErrorCode::forbidden);
  CHECK(bench.store->schedule("s")->schedule.job.queue == "theirs");
  CHECK_FALSE(bench.store->schedule("s")->paused);
  mine.schedule.name = "m";
  CHECK(bench.one<PutScheduleResult>(mine).outcome == PutOutcome::created);
  bench.one<Done>(PauseSchedule{"m", true, "", kSchedule});
  CHECK(bench.store->schedule("m")->paused);
  bench.one<Done>(RemoveSchedule{"m", kSchedule});
}

TEST_CASE("a change refused by its scope is not recorded, even on request") {
  Bench bench;
  const JobId id = bench.enqueue(bench.job("theirs"));
  const ClaimedJob job = bench.claim(1, {"theirs"}).at(0);
  Audit audit{
      .who = "ci", .from = "", .action = "finish_jobs", .object = "", .before = "", .after = ""};
  audit.object = "job/" + std::to_string(id);
  audit.always = true;
  Finish finish{.worker = "w1", .results = {}, .within = kWork};
  finish.results.push_back({.id = id, .token = job.token, .outcome = Complete{}});
  bench.apply({finish, audit});
  CHECK(bench.store->audit_state().records == 0);
  finish.within = {};
  bench.apply({finish, audit});
  CHECK(bench.store->audit_state().records == 1);
}

TEST_SUITE_END();

}  // namespace
}  // namespace mainspring::conformance
