// What lists for searches promise: several states, times, ids and record terms, page by page, and
// no job twice or missing.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

JobFilter by_query(const Bench& b, std::string_view text) {
  auto query = parse_job_query(text, b.wall());
  REQUIRE_MESSAGE(query, query.error().message);
  JobFilter filter;
  filter.query = std::make_shared<const JobQuery>(std::move(*query));
  return filter;
}

JobStates some_states(std::initializer_list<JobState> list) {
  JobStates states = 0;
  for (const JobState state : list) states = static_cast<JobStates>(states | states_of(state));
  return states;
}

// All pages of at most two.
std::vector<JobId> found(const Bench& b, const JobFilter& filter) {
  std::vector<JobId> all;
  JobId before = 0;
  for (int pages = 0; pages < 1000; ++pages) {
    const auto page = b.store->list(filter, 2, before);
    REQUIRE_MESSAGE(page, page.error().message);
    CHECK(page->jobs.size() <= 2);
    for (const Job& job : page->jobs) all.push_back(job.id);
    if (!page->next) break;
    if (before != 0) CHECK(*page->next < before);
    before = *page->next;
  }
  CHECK(std::is_sorted(all.rbegin(), all.rend()));
  CHECK(std::set<JobId>(all.begin(), all.end()).size() == all.size());
  return all;
}

}  // namespace

TEST_SUITE("store: search") {
  TEST_CASE("a list filters by several states, running apart from available") {
    Bench b;
    const JobId done = b.completed(b.job()), dead = b.dead(b.job());
    const JobId running = b.enqueue();
    b.claim_one();
    const JobId available = b.enqueue();
    NewJob n = b.job();
    n.delay = hours(1);
    const JobId scheduled = b.enqueue(n);
    const auto of = [&](std::initializer_list<JobState> list) {
      JobFilter filter;
      filter.states = some_states(list);
      return found(b, filter);
    };
    CHECK(of({JobState::completed, JobState::dead}) == std::vector<JobId>{dead, done});
    CHECK(of({JobState::running}) == std::vector<JobId>{running});
    CHECK(of({JobState::available}) == std::vector<JobId>{available});
    CHECK(of({JobState::running, JobState::scheduled}) == std::vector<JobId>{scheduled, running});
    CHECK(of({JobState::retryable, JobState::waiting}).empty());
    JobFilter none{.state = JobState::dead};
    none.states = some_states({JobState::completed});
    CHECK(found(b, none).empty());
  }

  TEST_CASE("a list filters by a half-open time window of created_at") {
    Bench b;
    std::vector<JobId> ids;
    const WallTime start = b.wall();
    for (int i = 0; i < 8; ++i) {
      ids.push_back(b.enqueue());
      b.advance(hours(1));
    }
    JobFilter filter;
    filter.from = start + hours(2);
    filter.to = start + hours(5);
    CHECK(found(b, filter) == std::vector<JobId>{ids[4], ids[3], ids[2]});
    filter.to.reset();
    CHECK(found(b, filter).size() == 6);
    filter.from.reset();
    filter.to = start + hours(1);
    CHECK(found(b, filter) == std::vector<JobId>{ids[0]});
    filter.to = start;
    CHECK(found(b, filter).empty());
    filter.from = start + hours(100);
    filter.to.reset();
    CHECK(found(b, filter).empty());
  }

  TEST_CASE("a time window finds jobs although the clock was set back a little") {
    Bench b;
    b.advance(hours(3));
    const JobId late = b.enqueue();
    b.clock.step_wall(-minutes(30));
    const JobId early = b.enqueue();
    JobFilter filter;
    filter.from = b.wall() + minutes(10);
    CHECK(found(b, filter) == std::vector<JobId>{late});
    filter.from.reset();
    filter.to = b.wall() + minutes(10);
    CHECK(found(b, filter) == std::vector<JobId>{early});
  }

  TEST_CASE("a list by ids returns the existing jobs that match, newest first") {
    Bench b;
    const JobId a = b.enqueue(), c = b.enqueue(), d = b.enqueue(b.job("other"));
    JobFilter filter;
    filter.ids = std::vector<JobId>{d, c, a};
    CHECK(found(b, filter) == std::vector<JobId>{d, c, a});
    filter.queue = "other";
    CHECK(found(b, filter) == std::vector<JobId>{d});
    filter.queue.clear();
    filter.ids = std::vector<JobId>{4711, c};
    CHECK(found(b, filter) == std::vector<JobId>{c});
    filter.ids = std::vector<JobId>();
    CHECK(found(b, filter).empty());
    filter.ids = std::vector<JobId>{d, c, a};
    b.claim_one();
    filter.state = JobState::running;
    CHECK(found(b, filter) == std::vector<JobId>{a});
  }

  TEST_CASE("record terms are matched against each record, and pages continue") {
    Bench b;
    std::vector<JobId> sessions, tagged;
    for (int i = 0; i < 12; ++i) {
      NewJob n = b.job(i % 2 == 0 ? "q" : "r");
      n.correlation_id = fmt::format("c{}", i % 3);
      if (i % 4 == 0) n.tags = {"vip"};
      const JobId id = b.enqueue(n);
      if (i % 3 == 1) sessions.insert(sessions.begin(), id);
      if (i % 4 == 0) tagged.insert(tagged.begin(), id);
    }
    CHECK(found(b, by_query(b, "correlation:c1")) == sessions);
    CHECK(found(b, by_query(b, "tag:vip")) == tagged);
    CHECK(found(b, by_query(b, "-queue:r -tag:vip correlation:c0,c1")).empty());
    CHECK(found(b, by_query(b, "queue:q,r")).size() == 12);
    CHECK(found(b, by_query(b, "queue:q -tag:vip")).size() == 3);
    JobFilter both = by_query(b, "correlation:c1");
    both.queue = "r";
    CHECK(found(b, both).size() == 2);
  }

  TEST_CASE("running jobs are found by worker, waiting time and running time") {
    Bench b;
    const JobId id = b.enqueue();
    b.advance(seconds(40));
    b.claim_one();
    b.advance(seconds(10));
    CHECK(found(b, by_query(b, "worker:w1 wait>30s run>5s state:running")) ==
          std::vector<JobId>{id});
    CHECK(found(b, by_query(b, "worker:w2")).empty());
    CHECK(found(b, by_query(b, "wait>40s")).empty());
    CHECK(found(b, by_query(b, "run>10s")).empty());
  }

  TEST_CASE("a page returns the number of records it read, the counters the total") {
    Bench b;
    for (int i = 0; i < 5; ++i) b.enqueue();
    b.enqueue(b.job("other"));
    b.dead(b.job("third"));
    const auto page = b.store->list(by_query(b, "correlation:none"), 10, 0);
    REQUIRE(page);
    CHECK(page->jobs.empty());
    CHECK(page->examined == 7);
    CHECK(*b.store->count_jobs({}) == 7);
    CHECK(*b.store->count_jobs({.queue = "q"}) == 5);
    CHECK(*b.store->count_jobs({.state = JobState::dead}) == 1);
    JobFilter two;
    two.states = some_states({JobState::dead, JobState::available});
    CHECK(*b.store->count_jobs(two) == 7);
  }

  TEST_CASE("whole records include their results and errors; missing jobs are left out") {
    Bench b;
    const JobId id = b.enqueue();
    b.finish(b.claim_one(), Retry{"refused", seconds(0)});
    b.finish(b.claim_one(), Complete{"[1]"});
    const auto jobs = b.store->whole({4711, id});
    REQUIRE(jobs);
    REQUIRE(jobs->size() == 1);
    CHECK(jobs->front().result == "[1]");
    REQUIRE(jobs->front().errors.size() == 1);
    CHECK(jobs->front().errors[0].message == "refused");
    CHECK(b.store->whole({})->empty());
  }
}

}  // namespace mainspring::conformance
