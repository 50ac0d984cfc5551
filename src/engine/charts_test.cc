// History, backlog, marks and saved views of an engine.
#include <doctest/doctest.h>

#include "engine/engine_rig.h"

using namespace mainspring;
using namespace mainspring::test;

TEST_CASE("an engine shows its history and backlog at once, and after a reopen") {
  const Folder folder;
  {
    auto engine = folder.open();
    REQUIRE_MESSAGE(engine.has_value(), engine.error().message);
    engine->on_kind(
        "send", [](const ClaimedJob&, Context&) -> HandlerResult { return Outcome(Complete{}); },
        {.queue = "mails"});
    REQUIRE(engine->start().has_value());
    const JobId id = engine->enqueue(job_of("mails", "send"))->id;
    CHECK(engine->wait(id, 60s)->state == JobState::completed);
    engine->stop();
    CHECK(engine->history({.queue = "mails"})->total.completed == 1);
  }
  auto engine = folder.open();
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message);
  const auto history = engine->history({.queue = "mails", .step = 1h});
  REQUIRE_MESSAGE(history.has_value(), history.error().message);
  CHECK(history->total.enqueued == 1);
  CHECK(history->total.completed == 1);
  CHECK(engine->history({.step = 90min}).error().field == "step");
  REQUIRE(engine->enqueue(job_of("mails", "send")).has_value());
  const auto mails = engine->queues().get("mails");
  REQUIRE_MESSAGE(mails.has_value(), mails.error().message);
  CHECK(mails->backlog.jobs == 1);
  CHECK(mails->backlog.completions_per_second > 0);
  CHECK(mails->backlog.drain > Duration(0));
}

TEST_CASE("an engine adds marks and saves views, and refuses bad ones by field") {
  const Folder folder;
  auto engine = folder.open();
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message);
  const auto mark = engine->mark("v1.4");
  REQUIRE_MESSAGE(mark.has_value(), mark.error().message);
  CHECK(mark->by == "local");
  CHECK(engine->marks()->marks == std::vector{*mark});
  CHECK(engine->marks({.to = mark->at})->marks.empty());
  CHECK(engine->mark("").error().field == "text");
  CHECK(engine->mark("x", WallTime::never()).error().field == "at");
  CHECK(engine->marks({.limit = 0}).error().field == "limit");
  REQUIRE(engine->remove_mark(mark->id).has_value());
  CHECK(engine->remove_mark(mark->id).error().code == ErrorCode::not_found);
  const auto view = engine->save_view({.name = "dead", .page = "jobs", .query = "state=dead"});
  REQUIRE_MESSAGE(view.has_value(), view.error().message);
  CHECK(*engine->views() == std::vector{*view});
  CHECK(engine->save_view({.name = "x", .page = ""}).error().field == "page");
  REQUIRE(engine->remove_view("dead").has_value());
  CHECK(engine->views()->empty());
}
