// Follow-ups on progress on PostgreSQL: nodes too old to read them, and copies.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "api/workflow_shapes.h"
#include "postgres/copy_places.h"
#include "postgres/sql_place.h"
#include "store_postgres/migrations.h"

namespace mainspring::pg_testing {
namespace {

NewJob shown() {
  NewJob job{.queue = "q", .kind = "k"};
  job.follow_ups = {{.queue = "then", .kind = "show", .on = FollowUp::kProgress}};
  return job;
}

const std::string kNewest = std::to_string(pg::kKnowsProgress);

struct OldNode : Place {
  OldNode() {
    sql("INSERT INTO ms.nodes (id, incarnation, address, program, started_at, seen_at, schema) "
        "VALUES (99, 'old', '', '0.0.9', 0, ms.now_us(), 25)");
  }
  OperationResult result(const Operation& operation) {
    return must(store->apply({&operation, 1}, clock.now())).results.at(0);
  }
  void refuses(const Operation& operation) {
    const OperationResult refused = result(operation);
    const auto* error = std::get_if<Error>(&refused);
    REQUIRE(error != nullptr);
    CHECK(error->code == ErrorCode::unavailable);
    CHECK(error->message.find("knows no follow-ups on progress") != std::string::npos);
    CHECK(compatible() != kNewest);
  }
  std::string compatible() { return sql("SELECT compatible FROM ms.meta").at(0).at(0); }
};

PutSchedule scheduled() {
  PutSchedule put;
  put.schedule.name = "s";
  put.schedule.every = std::chrono::hours(1);
  put.schedule.job = shown();
  put.next = put.next_fire = WallTime::never();
  return put;
}

PutTrigger triggered() {
  PutTrigger put{
      .trigger = {.name = "t", .http = HookSource{}, .folder = {}, .ended = {}, .job = {}},
      .secret = "s"};
  put.trigger.job = shown();
  return put;
}

StartWorkflow started() {
  return {must(decode_workflow(
      R"({"name":"w","steps":[{"name":"s","workflow":{"name":"c","steps":[{"name":"a","job":)"
      R"({"queue":"q","kind":"k","then":[{"queue":"b","kind":"c","on":["progress"]}]}}]}}]})"))};
}

}  // namespace

TEST_CASE("nothing on progress is stored while a node lives that cannot read it") {
  const pg_testing::AsOlderPrograms as_older_programs;
  OldNode place;
  place.refuses(Enqueue{.jobs = {NewJob{.queue = "q", .kind = "k"}, shown()}});
  place.refuses(scheduled());
  place.refuses(triggered());
  place.refuses(started());
  place.enqueue(NewJob{.queue = "q", .kind = "k"});
  const ClaimedJob job = place.claim("q").at(0);
  Complete done;
  done.next = {shown()};
  place.refuses(Finish{.worker = "w", .results = {{job.id, job.token, done}}});
  CHECK(must(place.store->get(job.id)).state == JobState::running);
  place.sql("DELETE FROM ms.nodes WHERE id = 99");
  place.apply<FinishResult>(Finish{.worker = "w", .results = {{job.id, job.token, done}}});
  CHECK(place.compatible() == kNewest);
}

TEST_CASE("each way by which a follow-up on progress is stored first keeps old programs out") {
  const pg_testing::AsOlderPrograms as_older_programs;
  for (const Operation& operation : {Operation(Enqueue{.jobs = {shown()}}), Operation(scheduled()),
                                     Operation(triggered()), Operation(started())}) {
    OldNode place;
    place.sql("DELETE FROM ms.nodes WHERE id = 99");
    NewJob other{.queue = "q", .kind = "k"};
    other.follow_ups = {{.queue = "then", .kind = "k", .on = FollowUp::kEndsAndMessages}};
    place.enqueue(other);
    CHECK(place.compatible() == "1");
    const OperationResult result = place.result(operation);
    CHECK_FALSE(std::holds_alternative<Error>(result));
    CHECK(place.compatible() == kNewest);
  }
}

TEST_CASE("follow-ups on progress, and what it is compared with, go with a copy") {
  const pg_testing::AsOlderPrograms as_older_programs;
  const PlaceKind kinds[] = {PlaceKind::directory, PlaceKind::schema, PlaceKind::directory};
  ManualClock clock;
  std::vector<std::unique_ptr<CopyPlace>> places;
  for (const PlaceKind kind : kinds) places.push_back(std::make_unique<CopyPlace>(kind));
  ClaimedJob job;
  {
    const auto store = must(places[0]->open(clock.now()));
    apply<EnqueueResult>(*store, Enqueue{{shown()}}, clock);
    job = claim(*store, 1, clock).at(0);
  }
  Renew renew{.worker = "w", .leases = {Renewal{.id = job.id, .token = job.token}}};
  std::size_t made = 0;
  for (std::size_t i = 0; i < std::size(kinds); ++i) {
    if (i > 0) {
      must_copy(*places[i - 1], *places[i], clock);
      if (kinds[i] == PlaceKind::schema)
        CHECK(places[i]->ask("", "SELECT compatible FROM $schema.meta") == pg::kKnowsProgress);
    }
    const auto store = must(places[i]->open(clock.now()));
    const auto number = [&] { return must(store->list({.queue = "then"}, 100, 0)).jobs.size(); };
    apply<RenewResult>(*store, renew, clock);
    CHECK(number() == made);
    renew.leases[0].progress = Progress{static_cast<double>(i) / 4, "of it"};
    apply<RenewResult>(*store, renew, clock);
    CHECK(number() == ++made);
  }
}

TEST_CASE("a copy without follow-ups on progress lets old programs in") {
  const pg_testing::AsOlderPrograms as_older_programs;
  const CopyPlace from(PlaceKind::directory), to(PlaceKind::schema);
  ManualClock clock;
  {
    const auto store = must(from.open(clock.now()));
    NewJob job{.queue = "progress", .kind = "progress"};
    job.follow_ups = {{.queue = "progress",
                       .kind = "progress",
                       .on = FollowUp::kMessage,
                       .data = "\"progress\""}};
    apply<EnqueueResult>(*store, Enqueue{{job}}, clock);
  }
  must_copy(from, to, clock);
  CHECK(to.ask("", "SELECT compatible FROM $schema.meta") == 1);
}

}  // namespace mainspring::pg_testing
