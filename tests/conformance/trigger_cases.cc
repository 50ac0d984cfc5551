// What triggers promise: an event fires once, with its job and its row, or not at all.
#include <fmt/format.h>

#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

Trigger hook(std::string name = "t", std::string queue = "q") {
  Trigger trigger{.name = std::move(name), .http = HookSource{}, .folder = {}, .job = {}};
  trigger.job.queue = std::move(queue);
  trigger.job.kind = "k";
  return trigger;
}

class TriggerBench : public Bench {
 public:
  using Bench::Bench;
  PutTriggerResult put(Trigger trigger, std::string secret = "s1") {
    return one<PutTriggerResult>(
        PutTrigger{.trigger = std::move(trigger), .secret = std::move(secret)});
  }
  TriggerFired fire(std::string event = "", std::string args = "") {
    return one<TriggerFired>(
        FireTrigger{.name = "t", .event = std::move(event), .args = std::move(args)});
  }
  TriggerInfo info(const std::string& name = "t") const {
    auto found = store->trigger(name);
    if (!found) FAIL("trigger " << name << ": " << found.error().message);
    return *found;
  }
  std::vector<TriggerEvent> rows(int limit = 1000) const {
    auto page = store->trigger_events("t", limit, 0);
    if (!page) FAIL(page.error().message);
    return page->rows;
  }
};

Within trigger_only(const std::string& queue) {
  return {std::make_shared<const Scopes>(std::vector<Scope>{{Verb::schedule, queue}}),
          Verb::schedule};
}

TEST_SUITE("store: triggers") {
  TEST_CASE("an event makes a job of the template with its args, and a row that names it") {
    TriggerBench b;
    Trigger trigger = hook();
    trigger.job.priority = 2;
    b.put(trigger);
    const TriggerFired fired = b.fire("e1", R"({"n":1})");
    CHECK_FALSE(fired.duplicate);
    CHECK(b.became_available("q"));
    const Job job = b.get(fired.job);
    CHECK(job.kind == "k");
    CHECK(job.priority == 2);
    CHECK(job.args == R"({"n":1})");
    CHECK(job.state == JobState::available);
    REQUIRE(b.rows().size() == 1);
    CHECK(b.rows()[0].event == "e1");
    CHECK(b.rows()[0].job == fired.job);
    CHECK(b.rows()[0].fired_at == b.wall());
    const TriggerInfo info = b.info();
    CHECK(info.fired == 1);
    CHECK(info.last_job == fired.job);
    CHECK(info.last_event == "e1");
    CHECK(info.last_fired == b.wall());
  }

  TEST_CASE("a repeated event makes no second job, also after a restart") {
    TriggerBench b;
    b.put(hook());
    const JobId job = b.fire("e1").job;
    for (int i = 0; i < 2; ++i) {
      const TriggerFired again = b.fire("e1");
      CHECK(again.duplicate);
      CHECK(again.job == job);
      b.reopen();
    }
    const auto both =
        b.apply({FireTrigger{.name = "t", .event = "e2"}, FireTrigger{.name = "t", .event = "e2"}});
    CHECK_FALSE(std::get<TriggerFired>(both[0]).duplicate);
    CHECK(std::get<TriggerFired>(both[1]).duplicate);
    CHECK(b.stats().enqueued == 2);
    CHECK(b.rows().size() == 2);
    CHECK(b.info().fired == 2);
  }

  TEST_CASE("events without an id fire each time") {
    TriggerBench b;
    b.put(hook());
    CHECK(b.fire().job != b.fire().job);
    CHECK(b.stats().enqueued == 2);
    CHECK(b.rows().size() == 2);
  }

  TEST_CASE("event ids belong to one trigger") {
    TriggerBench b;
    b.put(hook());
    b.put(hook("u"));
    CHECK_FALSE(b.fire("e").duplicate);
    CHECK_FALSE(b.one<TriggerFired>(FireTrigger{.name = "u", .event = "e"}).duplicate);
  }

  TEST_CASE("a refused job leaves no row: the event may be repeated") {
    StoreOptions options;
    options.max_live_jobs = 1;
    TriggerBench b(options);
    b.put(hook());
    b.enqueue();
    CHECK(b.refused(FireTrigger{.name = "t", .event = "e1"}) == ErrorCode::overloaded);
    CHECK(b.rows().empty());
    CHECK(b.info().fired == 0);
    b.finish(b.claim_one(), Complete{});
    CHECK_FALSE(b.fire("e1").duplicate);
  }

  TEST_CASE("a paused trigger does not fire; earlier events are still known") {
    TriggerBench b;
    b.put(hook());
    b.fire("e1");
    b.one<Done>(PauseTrigger{.name = "t", .paused = true, .reason = "broken"});
    CHECK(b.info().paused);
    CHECK(b.info().paused_reason == "broken");
    CHECK(b.refused(FireTrigger{.name = "t", .event = "e2"}) == ErrorCode::conflict);
    CHECK(b.fire("e1").duplicate);
    CHECK(b.stats().enqueued == 1);
    b.reopen();
    CHECK(b.info().paused);
    b.one<Done>(PauseTrigger{.name = "t", .paused = false});
    CHECK(b.info().paused_reason.empty());
    CHECK_FALSE(b.fire("e2").duplicate);
  }

  TEST_CASE("the same definition changes nothing, a changed one is the next version") {
    TriggerBench b;
    CHECK(b.put(hook()).outcome == PutOutcome::created);
    b.fire("e1");
    const WallTime at = b.wall();
    b.advance(seconds(1));
    CHECK(b.put(hook()).outcome == PutOutcome::unchanged);
    CHECK(b.info().updated_at == at);
    Trigger other = hook();
    other.job.kind = "k2";
    const PutTriggerResult put = b.put(other, "");
    CHECK(put.outcome == PutOutcome::replaced);
    CHECK(put.version == 2);
    CHECK(b.info().secret == "s1");
    CHECK(b.info().fired == 1);
    CHECK(b.fire("e1").duplicate);
    CHECK(b.get(b.fire("e2").job).kind == "k2");
  }

  TEST_CASE("a fire for an outdated version is refused") {
    TriggerBench b;
    b.put(hook());
    CHECK(b.refused(FireTrigger{.name = "t", .event = "e", .version = 2}) == ErrorCode::conflict);
    CHECK_FALSE(
        b.one<TriggerFired>(FireTrigger{.name = "t", .event = "e", .version = 1}).duplicate);
  }

  TEST_CASE("a secret is kept until it is replaced, and is generated only for a new trigger") {
    TriggerBench b;
    CHECK(b.refused(PutTrigger{.trigger = hook()}) == ErrorCode::invalid_argument);
    CHECK(b.put(hook()).secret_taken);
    CHECK_FALSE(
        b.one<PutTriggerResult>(PutTrigger{.trigger = hook(), .secret = "made", .made = true})
            .secret_taken);
    CHECK(b.info().secret == "s1");
    CHECK(b.put(hook(), "s2").outcome == PutOutcome::replaced);
    CHECK(b.info().secret == "s2");
    b.reopen();
    CHECK(b.info().secret == "s2");
    Trigger folder{.name = "t", .http = {}, .folder = FolderSource{.path = "/in"}, .job = {}};
    folder.job = hook().job;
    b.put(folder, "");
    CHECK(b.info().secret.empty());
    CHECK(b.info().trigger == folder);
  }

  TEST_CASE("a trigger is removed with its ledger") {
    TriggerBench b;
    b.put(hook());
    b.fire("e1");
    b.one<Done>(RemoveTrigger{.name = "t"});
    CHECK(b.store->trigger("t").error().code == ErrorCode::not_found);
    CHECK(b.store->trigger_events("t", 10, 0).error().code == ErrorCode::not_found);
    CHECK(b.refused(RemoveTrigger{.name = "t"}) == ErrorCode::not_found);
    CHECK(b.refused(FireTrigger{.name = "t"}) == ErrorCode::not_found);
    CHECK(b.refused(PauseTrigger{.name = "t"}) == ErrorCode::not_found);
    b.put(hook());
    CHECK(b.rows().empty());
    CHECK_FALSE(b.fire("e1").duplicate);
  }

  TEST_CASE("triggers of queues outside the scope are not found") {
    TriggerBench b;
    b.put(hook());
    const Within other = trigger_only("other");
    CHECK(b.refused(RemoveTrigger{.name = "t", .within = other}) == ErrorCode::not_found);
    CHECK(b.refused(PauseTrigger{.name = "t", .within = other}) == ErrorCode::not_found);
    CHECK(b.refused(FireTrigger{.name = "t", .within = other}) == ErrorCode::not_found);
    CHECK(b.refused(PutTrigger{.trigger = hook("t", "other"), .secret = "s", .within = other}) ==
          ErrorCode::forbidden);
    b.one<Done>(PauseTrigger{.name = "t", .within = trigger_only("q")});
    CHECK(b.info().paused);
  }

  TEST_CASE("triggers and rows are listed page by page") {
    TriggerBench b;
    for (const char* name : {"c", "a", "t"}) b.put(hook(name));
    const auto first = b.store->triggers("", 2);
    REQUIRE(first.has_value());
    REQUIRE(first->size() == 2);
    CHECK((*first)[0].trigger.name == "a");
    CHECK((*first)[1].trigger.name == "c");
    CHECK(b.store->triggers("c", 2)->size() == 1);
    for (int i = 0; i < 3; ++i) b.fire(fmt::format("e{}", i));
    const auto page = b.store->trigger_events("t", 2, 0);
    REQUIRE(page.has_value());
    REQUIRE(page->rows.size() == 2);
    CHECK(page->rows[0].event == "e2");
    REQUIRE(page->next.has_value());
    const auto rest = b.store->trigger_events("t", 2, *page->next);
    REQUIRE(rest->rows.size() == 1);
    CHECK(rest->rows[0].event == "e0");
    CHECK_FALSE(rest->next.has_value());
  }

  TEST_CASE("the ledger is bounded, and events older than its oldest row do not fire") {
    TriggerBench b;
    b.put(hook());
    const WallTime begin = b.wall();
    std::vector<Operation> fires;
    for (int i = 0; i < kTriggerRows + 2; ++i) {
      fires.push_back(FireTrigger{
          .name = "t", .event = fmt::format("e{}", i), .args = {}, .made_at = begin + seconds(i)});
      if (fires.size() < 500 && i < kTriggerRows + 1) continue;
      b.apply(std::exchange(fires, {}));
    }
    CHECK(std::ssize(b.rows(20'000)) == kTriggerRows);
    const auto at = [&](const char* event, Duration after) {
      return b.one<TriggerFired>(
          FireTrigger{.name = "t", .event = event, .args = {}, .made_at = begin + after});
    };
    const TriggerFired old = at("e1", seconds(1));
    CHECK(old.duplicate);
    CHECK(old.job == 0);
    CHECK(at("e2", seconds(2)).job != 0);
    CHECK(at("e2", seconds(2)).duplicate);
    CHECK(at("never", seconds(1)).job == 0);
    b.reopen();
    CHECK(at("e0", seconds(0)).job == 0);
    CHECK_FALSE(at("new", seconds(3)).duplicate);
  }
}

}  // namespace
}  // namespace mainspring::conformance
