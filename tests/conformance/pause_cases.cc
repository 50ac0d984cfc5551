// Conformance: pauses of queues that end by themselves, and due jobs by hour.
#include <algorithm>

#include "api/audit_images.h"
#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

PauseQueue paused_for(Bench& b, Duration time, std::string queue = "q") {
  PauseQueue pause{.queue = std::move(queue), .reason = "disk is full", .by = "ops"};
  pause.until = b.wall() + time;
  return pause;
}
int resume_due(Bench& b) {
  return b.one<StepResult>(OpenQueues{}).changed;
}

}  // namespace

TEST_SUITE("store: pauses of queues") {
  TEST_CASE("a pause has a reason, author, start and end, also after a restart") {
    Bench b;
    b.enqueue();
    const WallTime at = b.wall();
    b.one<Done>(paused_for(b, hours(2)));
    const QueuePause pause{"disk is full", "ops", at, at + hours(2)};
    CHECK(b.stats().paused);
    CHECK(b.stats().pause == pause);
    CHECK(b.claim(9).empty());
    b.reopen();
    CHECK(b.stats().paused);
    CHECK(b.stats().pause == pause);
    CHECK(b.claim(9).empty());
    b.one<Done>(PauseQueue{"q", false});
    CHECK_FALSE(b.stats().pause);
    CHECK(b.store->agenda().next_opening == WallTime::never());
    CHECK(b.claim(9).size() == 1);
  }

  TEST_CASE("a queue resumes by itself at the end of its pause, and waiting claims get its jobs") {
    Bench b;
    b.enqueue();
    b.one<Done>(paused_for(b, hours(2)));
    CHECK(b.store->agenda().next_opening == b.wall() + hours(2));
    b.advance(hours(2) - seconds(1));
    CHECK(resume_due(b) == 0);
    CHECK(b.stats().paused);
    b.advance(seconds(1));
    CHECK(resume_due(b) == 1);
    CHECK(b.effects().resumed == std::vector<std::string>{"q"});
    CHECK(b.became_available("q"));
    CHECK_FALSE(b.stats().paused);
    CHECK_FALSE(b.stats().pause);
    CHECK(b.store->agenda().next_opening == WallTime::never());
    CHECK(b.claim(9).size() == 1);
    CHECK(resume_due(b) == 0);
  }

  TEST_CASE("a pause that ends while no server runs is over at the next start") {
    Bench b;
    b.enqueue();
    b.one<Done>(paused_for(b, minutes(5)));
    b.advance(hours(1));
    b.reopen();
    CHECK(b.stats().paused);
    CHECK(b.store->agenda().next_opening <= b.wall());
    CHECK(resume_due(b) == 1);
    CHECK(b.claim(9).size() == 1);
    b.reopen();
    CHECK_FALSE(b.stats().paused);
  }

  TEST_CASE("a new pause replaces reason, author and end; the same one changes nothing") {
    Bench b;
    b.one<Done>(paused_for(b, hours(2)));
    const WallTime first = b.wall();
    b.advance(minutes(1));
    PauseQueue same = paused_for(b, hours(2) - minutes(1));
    b.one<Done>(same);
    CHECK(b.stats().pause->at == first);
    same.reason = "maintenance";
    b.one<Done>(same);
    CHECK(b.stats().pause->reason == "maintenance");
    CHECK(b.stats().pause->at == b.wall());
    b.one<Done>(PauseQueue{.queue = "q", .reason = "for good", .by = "root"});
    CHECK(b.stats().pause == QueuePause{"for good", "root", b.wall(), {}});
    CHECK(b.store->agenda().next_opening == WallTime::never());
    b.advance(hours(9));
    CHECK(resume_due(b) == 0);
    CHECK(b.stats().paused);
  }

  TEST_CASE("pauses end in order of their ends, up to the given number at once") {
    Bench b;
    b.one<Done>(paused_for(b, minutes(3), "c"));
    b.one<Done>(paused_for(b, minutes(1), "b"));
    b.one<Done>(paused_for(b, minutes(1), "a"));
    b.advance(minutes(5));
    CHECK(b.one<StepResult>(OpenQueues{.limit = 2, .fence = {}}).more);
    CHECK(b.effects().resumed == std::vector<std::string>{"a", "b"});
    CHECK(resume_due(b) == 1);
    CHECK(b.effects().resumed == std::vector<std::string>{"c"});
  }

  TEST_CASE("the audit has the author, reason and end of a pause, and that it ended by itself") {
    Bench b;
    const PauseQueue pause = paused_for(b, hours(1));
    b.apply({pause, Audit{.who = "ops", .action = "pause_queue", .object = "queue/q"}});
    b.advance(hours(1));
    CHECK(resume_due(b) == 1);
    const auto page = b.store->audit({}, AuditOrder::oldest_first, 9, 0);
    REQUIRE(page);
    REQUIRE(page->records.size() == 2);
    CHECK(page->records[0].after.find(R"("reason":"disk is full","by":"ops")") !=
          std::string::npos);
    CHECK(page->records[1].who == "mainspring");
    CHECK(page->records[1].action == "resume_queue");
    CHECK(page->records[1].object == "queue/q");
    CHECK(page->records[1].before == page->records[0].after);
    CHECK(page->records[1].after.find(R"("paused":false)") != std::string::npos);
  }

  TEST_CASE("a removed queue forgets its pause") {
    Bench b;
    b.one<Done>(paused_for(b, hours(1)));
    b.one<Done>(RemoveQueue{"q"});
    CHECK(b.store->agenda().next_opening == WallTime::never());
    b.enqueue();
    CHECK_FALSE(b.stats().paused);
  }

  TEST_CASE("a write probe is a commit, and changes nothing") {
    Bench b;
    b.enqueue();
    const std::int64_t commits = b.store->commits();
    const QueueStats before = b.stats();
    b.one<Done>(WriteProbe{});
    CHECK(b.store->commits() == commits + 1);
    CHECK(b.stats().counts == before.counts);
  }
}

TEST_SUITE("store: due jobs") {
  TEST_CASE("scheduled and retryable jobs count in the hour of their run_at, overdue ones now") {
    Bench b;
    const WallTime hour =
        WallTime::from_us(b.wall().us() / 3'600'000'000 * 3'600'000'000) + hours(1);
    b.advance(hour - b.wall());
    const auto at = [&](Duration later, const std::string& queue = "q") {
      NewJob job = b.job(queue);
      job.run_at = b.wall() + later;
      return b.enqueue(job);
    };
    at(minutes(5));
    at(minutes(50));
    at(minutes(70));
    at(hours(30));
    at(minutes(10), "other");
    const JobId cancelled = at(minutes(20));
    b.cancel(cancelled);
    b.enqueue();
    const auto due = [&](Duration within, const Within& visible = {}) {
      return b.store->due_by_hour(b.wall(), b.wall() + within, visible)->hours;
    };
    using Hours = std::vector<DueJobs>;
    CHECK(due(hours(24)) == Hours{{hour, 3}, {hour + hours(1), 1}});
    CHECK(due(minutes(30)) == Hours{{hour, 2}});
    CHECK(due(hours(48)).size() == 3);
    const auto scopes = std::make_shared<const Scopes>(*Scopes::parse("read=other"));
    CHECK(due(hours(24), {scopes, Verb::read}) == Hours{{hour, 1}});
    b.advance(hours(2));
    CHECK(due(hours(24)) == Hours{{hour + hours(2), 4}});
    b.move_due();
    CHECK(due(hours(24)).empty());
    CHECK(due(hours(48)) == Hours{{hour + hours(30), 1}});
    CHECK_FALSE(b.store->due_by_hour(b.wall(), b.wall() + hours(1), {})->truncated);
  }

  TEST_CASE("jobs counted up to the limit leave out the hour that is not complete") {
    DueCounter counter;
    counter.add(10, kMaxDueCounted - 5, true);
    counter.add(11, 5, true);
    CHECK(counter.hours().truncated);
    CHECK(counter.hours().hours.size() == 1);
    DueCounter few;
    few.add(10, 5, true);
    few.add(11, 7, false);
    CHECK_FALSE(few.hours().truncated);
    CHECK(few.hours().hours == std::vector<DueJobs>{{WallTime::from_us(36'000'000'000), 5}});
  }
}

}  // namespace mainspring::conformance
