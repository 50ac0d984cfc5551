// Rules of jobs: names, limits, back-off.
#include <doctest/doctest.h>

#include "mainspring/job.h"

using namespace mainspring;
using namespace std::chrono_literals;

TEST_CASE("states have the names used in SQL, JSON and logs") {
  for (int i = 0; i < kJobStateCount; ++i) {
    const auto state = static_cast<JobState>(i);
    CHECK(parse_job_state(to_string(state)) == state);
  }
  CHECK_FALSE(parse_job_state("done"));
}

TEST_CASE("back-off is min(n^4 + 2 s, 6 h) within 20 percent, for any attempt") {
  for (int attempt : {1, 2, 5, 12}) {
    const Duration base = std::chrono::seconds(attempt * attempt * attempt * attempt + 2);
    for (JobId id = 1; id < 200; ++id) {
      CHECK(default_back_off(id, attempt) >= base * 8 / 10);
      CHECK(default_back_off(id, attempt) <= base * 12 / 10);
    }
  }
  CHECK(default_back_off(7, 1'000'000'000) <= 6h * 12 / 10);
  CHECK(default_back_off(7, -5) <= 4s);
  CHECK(default_back_off(1, 3) != default_back_off(2, 3));
}

TEST_CASE("a bad job is refused with the field, the value and the rule") {
  NewJob good{.kind = "thumbnail"};
  CHECK(validate(good));
  NewJob bad = good;
  bad.priority = 12;
  auto refused = validate(bad, "jobs[3].");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().field == "jobs[3].priority");
  CHECK(refused.error().message == "priority 12: must be 0 to 9");

  bad = good;
  bad.queue = "../etc";
  CHECK(validate(bad).error().code == ErrorCode::invalid_argument);
  bad = good;
  bad.args = std::string(kMaxArgsBytes + 1, ' ');
  CHECK(validate(bad).error().code == ErrorCode::too_large);
  bad = good;
  bad.delay = 1s;
  bad.run_at = WallTime::from_ms(5);
  CHECK(validate(bad).error().field == "delay");
  bad = good;
  bad.delay = 3s;
  bad.expires_in = 1s;
  CHECK(validate(bad).error().field == "expires_in");
  CHECK(validate(bad).error().message ==
        "expires_in 1s: must be more than delay 3s, or the job never starts");
  NewJob job = NewJob{.queue = "q", .kind = "k"};
  const WallTime now = *parse_wall_time("2026-01-31T09:00:00Z");
  job.expires_in = 1h;
  job.run_at = now + 59min;
  CHECK(check_starts(job, now));
  job.run_at = now + 1h;
  CHECK(check_starts(job, now, "jobs[2].").error().field == "jobs[2].expires_in");
  CHECK(check_starts(job, now).error().message ==
        "expires_in 1h: must end after run_at 2026-01-31T10:00:00Z, or the job never starts");
  bad.expires_in = 4s;
  CHECK(validate(bad));
  bad = good;
  bad.max_attempts = 0;
  CHECK_FALSE(validate(bad));
  bad = good;
  bad.unique = Unique{.key = ""};
  CHECK(validate(bad).error().field == "unique.key");
  for (const auto& [window, value] : {std::pair<Duration, const char*>(-1s, "-1s"),
                                      {24h * 365 + 1s, "31536001s"},
                                      {Duration::max() - 1us, "9223372036854775806us"}}) {
    bad.unique = Unique{.key = "k", .window = window};
    CHECK(validate(bad, "jobs[3].").error().field == "jobs[3].unique.for");
    CHECK(validate(bad).error().message ==
          std::string("unique.for ") + value + ": must be 0s to 365d");
  }
  for (const Duration window : {Duration(0), Duration(1s), Duration(24h * 365)}) {
    good.unique = Unique{.key = "k", .window = window};
    CHECK(validate(good));
  }
}
