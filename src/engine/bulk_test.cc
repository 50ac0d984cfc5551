// Bulk operations of a node: in the background, by canary, across restarts; and operations on
// single jobs.
#include <doctest/doctest.h>

#include "engine/engine_rig.h"

using namespace mainspring;
using namespace mainspring::test;

namespace {

std::vector<JobId> put_many(Engine& engine, int count) {
  std::vector<NewJob> jobs;
  for (int i = 1; i <= count; ++i) jobs.push_back(job_of("photos", "resize", std::to_string(i)));
  std::vector<JobId> ids;
  const auto made = engine.enqueue_many(std::move(jobs));
  REQUIRE_MESSAGE(made, made.error().message);
  for (const Enqueued& job : *made) ids.push_back(job.id);
  return ids;
}

BulkOrder cancel_photos() {
  return {.action = BulkAction::cancel, .filter = {.queue = "photos"}, .reason = "not needed"};
}

// When it has ended.
BulkInfo ended_bulk(Engine& engine, JobId id) {
  REQUIRE(is_terminal(engine.wait(id, 60s)->state));
  const auto info = engine.bulk().get(id);
  REQUIRE_MESSAGE(info, info.error().message);
  return *info;
}

}  // namespace

TEST_CASE("a bulk operation cancels all matching jobs but no later ones") {
  const Folder folder;
  auto engine = folder.open();
  const auto ids = put_many(*engine, 250);
  const auto count = engine->bulk().count(cancel_photos());
  REQUIRE_MESSAGE(count, count.error().message);
  CHECK(count->matched == 250);
  CHECK(count->exact);
  CHECK(count->sample.size() == kMaxBulkSample);
  CHECK(count->sample[0] == ids.back());
  const auto started = engine->bulk().start(cancel_photos());
  REQUIRE_MESSAGE(started, started.error().message);
  const BulkInfo info = ended_bulk(*engine, started->id);
  CHECK(info.matched == 250);
  CHECK(info.changed == 250);
  CHECK(info.skipped == 0);
  CHECK(info.failed == 0);
  CHECK(info.order.filter.queue == "photos");
  for (const JobId id : ids) CHECK(engine->get(id)->state == JobState::cancelled);
  CHECK(engine->get(ids[0])->reason == "not needed");
  REQUIRE(engine->bulk().list()->size() == 1);
  CHECK(engine->bulk().list()->at(0).id == started->id);
}

TEST_CASE("bulk operations retry, reprioritise and delete jobs in the states they can change") {
  const Folder folder;
  auto engine = folder.open();
  const auto ids = put_many(*engine, 5);
  const auto run = [&](const BulkOrder& order) {
    const auto started = engine->bulk().start(order);
    REQUIRE_MESSAGE(started, started.error().message);
    const BulkInfo info = ended_bulk(*engine, started->id);
    CHECK(info.state == BulkState::done);
    CHECK(info.failed == 0);
    return info.changed;
  };
  CHECK(run({.action = BulkAction::reprioritise,
             .filter = {.ids = {ids[0], ids[1]}},
             .priority = 1}) == 2);
  CHECK(engine->get(ids[1])->priority == 1);
  CHECK(engine->get(ids[2])->priority == 5);
  CHECK(run({.action = BulkAction::cancel, .filter = {.queue = "photos"}}) == 5);
  CHECK(run({.action = BulkAction::retry, .filter = {.ids = {ids[0], ids[1]}}}) == 2);
  CHECK(engine->get(ids[0])->state == JobState::available);
  CHECK(run({.action = BulkAction::remove, .filter = {.q = "queue:photos"}}) == 3);
  CHECK(code_of(engine->get(ids[2])) == ErrorCode::expired);
  CHECK(engine->get(ids[0])->state == JobState::available);
}

TEST_CASE("after its canary a bulk operation waits, also across a restart, until it is continued") {
  const Folder folder;
  JobId id = 0;
  {
    EventLog heard;
    auto engine = folder.open();
    const auto events = engine->events({.types = {EventType::deferred}}, heard.listener());
    put_many(*engine, 30);
    BulkOrder order = cancel_photos();
    order.canary = 4;
    id = engine->bulk().start(order)->id;
    CHECK(heard.await(EventType::deferred, id));
    CHECK(engine->bulk().get(id)->state == BulkState::waiting);
  }
  auto engine = folder.open();
  CHECK(engine->bulk().get(id)->state == BulkState::waiting);
  CHECK(engine->bulk().get(id)->changed == 4);
  CHECK(engine->bulk().proceed(id).has_value());
  const BulkInfo info = ended_bulk(*engine, id);
  CHECK(info.state == BulkState::done);
  CHECK(info.changed == 30);
  CHECK(info.matched == 30);
  CHECK(code_of(engine->bulk().proceed(id)) == ErrorCode::conflict);
}

TEST_CASE("a bulk operation continues after a restart of its server") {
  const Folder folder;
  JobId id = 0;
  {
    EventLog heard;
    auto engine = folder.open();
    const auto events = engine->events({.types = {EventType::cancelled}}, heard.listener());
    const auto ids = put_many(*engine, 30);
    BulkOrder order = cancel_photos();
    order.rate = "20/s";
    id = engine->bulk().start(order)->id;
    CHECK(heard.await(EventType::cancelled, ids.back()));
  }
  auto engine = folder.open();
  const BulkInfo info = ended_bulk(*engine, id);
  CHECK(info.state == BulkState::done);
  CHECK(info.changed == 30);
  CHECK(info.skipped == 0);
}

TEST_CASE("a stopped bulk operation leaves the rest as it is") {
  const Folder folder;
  EventLog heard;
  auto engine = folder.open();
  const auto events = engine->events({.types = {EventType::cancelled}}, heard.listener());
  const auto ids = put_many(*engine, 100);
  BulkOrder order = cancel_photos();
  order.rate = "1/m";
  const JobId id = engine->bulk().start(order)->id;
  CHECK(heard.await(EventType::cancelled, ids.back()));
  REQUIRE(engine->bulk().stop(id).has_value());
  CHECK(ended_bulk(*engine, id).state == BulkState::stopped);
  CHECK(engine->get(ids[0])->state == JobState::available);
}

TEST_CASE("a program edits, clones, finds and removes jobs") {
  const Folder folder;
  auto engine = folder.open();
  const JobId id = put_many(*engine, 1)[0];
  CHECK(engine->edit(id, {.args = R"({"order":4711})", .priority = 1}).value() ==
        JobState::available);
  CHECK(code_of(engine->edit(id, {})) == ErrorCode::invalid_argument);
  const auto clone = engine->clone(id, {.args = R"({"order":4712})"});
  REQUIRE_MESSAGE(clone, clone.error().message);
  CHECK(engine->get(clone->id)->headers == R"({"cloned_from":")" + std::to_string(id) + R"("})");
  const auto found = engine->jobs({.q = "args.order=4712 kind:resize"});
  REQUIRE_MESSAGE(found, found.error().message);
  REQUIRE(found->jobs.size() == 1);
  CHECK(found->jobs[0].id == clone->id);
  CHECK(found->of == 2);
  CHECK(engine->jobs({.q = "colour:red"}).error().field == "q");
  CHECK(code_of(engine->remove(id)) == ErrorCode::conflict);
  REQUIRE(engine->cancel(id).has_value());
  CHECK(engine->remove(id).has_value());
  CHECK(code_of(engine->get(id)) == ErrorCode::expired);
}
