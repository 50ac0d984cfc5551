// ScheduleBench: a Bench with a schedule of one tick a minute, planned as the scheduler would.
#pragma once

#include <string>
#include <vector>

#include "conformance/bench.h"

namespace mainspring::conformance {

class ScheduleBench : public Bench {
 public:
  using Bench::Bench;

  Schedule definition(std::string name, Overlap overlap = Overlap::skip) const {
    Schedule s{.name = std::move(name), .every = minutes(1)};
    s.job.queue = "q";
    s.job.kind = "tick";
    s.overlap = overlap;
    return s;
  }
  PutSchedule planned(Schedule schedule) const {
    const WallTime next = wall() + minutes(1);
    return {.schedule = std::move(schedule), .next = next, .next_fire = next, .paused = {}};
  }
  PutScheduleResult put(Schedule schedule) {
    return one<PutScheduleResult>(planned(std::move(schedule)));
  }
  PutScheduleResult put(std::string name) { return put(definition(std::move(name))); }

  ScheduleInfo info(const std::string& name) const {
    auto found = store->schedule(name);
    if (!found) FAIL("schedule " << name << ": " << found.error().message);
    return *found;
  }
  // The next tick, due or not.
  FireSchedule plan(const std::string& name) const {
    const ScheduleInfo now = info(name);
    return {.name = name,
            .version = now.version,
            .expected_next = now.next,
            .ticks = {{.nominal = now.next}},
            .next = now.next + minutes(1),
            .next_fire = now.next_fire + minutes(1)};
  }
  JobId fire(const std::string& name) { return one<FireResult>(plan(name)).jobs.at(0); }
  JobId trigger(const std::string& name, std::optional<Overlap> overlap = {}) {
    FireSchedule now{.name = name, .source = TickSource::trigger, .ticks = {Tick{}}};
    now.overlap = overlap;
    return one<FireResult>(std::move(now)).jobs.at(0);
  }
  // Claims until it gets this job, and completes it.
  void end(JobId id, Outcome outcome = Complete{}) { finish(start(id), std::move(outcome)); }
  ClaimedJob start(JobId id) {
    const ClaimedJob job = claim_one();
    REQUIRE(job.id == id);
    return job;
  }

  // Newest first.
  std::vector<LedgerRow> ledger(const std::string& name) const {
    std::vector<LedgerRow> all;
    constexpr int kMaxPages = 100;
    std::int64_t before = 0;
    for (int page = 0; page < kMaxPages; ++page) {
      const auto got = store->ledger(name, 1000, before);
      REQUIRE(got.has_value());
      all.insert(all.end(), got->rows.begin(), got->rows.end());
      if (!got->next) break;
      before = *got->next;
    }
    return all;
  }
  LedgerRow last_row(const std::string& name) const { return ledger(name).at(0); }
};

}  // namespace mainspring::conformance
