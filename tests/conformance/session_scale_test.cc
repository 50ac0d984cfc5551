// Sessions at scale over the SQLite store: with a hundred times the sessions, or a hundred times
// the jobs in one session, an operation costs the same, by SQLite's counters.
//
// MS_SESSION_SCALE sets how many sessions and jobs there are in the end (20,000).
#include <cstdlib>

#include "conformance/scale_rig.h"

namespace mainspring {
namespace {

using namespace scale_testing;

constexpr int kAtOnce = 100;

std::int64_t scale() {
  const char* value = std::getenv("MS_SESSION_SCALE");
  return value == nullptr ? 20'000 : std::strtoll(value, nullptr, 10);
}

TEST_CASE("ORD: a claim costs the same among many sessions of one job each as among few") {
  Meter meter;
  Place p("many_sessions");
  const auto key = [](std::int64_t i) { return fmt::format("session {}", i); };
  const auto costs = [&] {
    Costs all;
    std::vector<ClaimedJob> jobs;
    all.emplace_back("claim", meter.during([&] { jobs = p.claim(kAtOnce); }));
    REQUIRE(jobs.size() == kAtOnce);
    all.emplace_back("finish", meter.during([&] { p.complete(jobs); }));
    std::optional<SessionGrant> grant;
    all.emplace_back("accept the next", meter.during([&] {
      grant = p.one<ClaimResult>(Claim{.worker = "w", .queues = {accept_queue("q")}, .kinds = {}})
                  .session;
    }));
    REQUIRE(grant.has_value());
    all.emplace_back("release", meter.during([&] {
      p.one<Done>(ReleaseSession{.session = grant->session, .token = grant->token});
    }));
    const SessionKey last{"q", "session 77"};
    all.emplace_back("read", meter.during([&] { (void)p.store().session(last, p.now().instant); }));
    all.emplace_back(
        "list", meter.during([&] { (void)p.store().sessions("q", last, 100, p.now().instant); }));
    all.emplace_back("rescue", meter.during([&] { p.one<StepResult>(RescueExpired{}); }));
    all.emplace_back("prune", meter.during([&] { p.one<StepResult>(PruneJobs{}); }));
    return all;
  };
  const std::int64_t few = 1'000;
  p.enqueue(0, few, key);
  p.complete(p.claim(kAtOnce));  // prepares all statements
  const Costs small = costs();
  p.enqueue(few, scale(), key);
  check_bounded(small, costs());
}

TEST_CASE("ORD: a claim costs the same in a session of many jobs as in one of few") {
  Meter meter;
  Place p("long_session");
  const auto key = [](std::int64_t) { return std::string("the one"); };
  const auto costs = [&] {
    Costs all;
    std::vector<ClaimedJob> jobs;
    all.emplace_back("claim", meter.during([&] { jobs = p.claim(kAtOnce); }));
    REQUIRE(jobs.size() == 1);
    all.emplace_back("finish", meter.during([&] { p.complete(jobs); }));
    all.emplace_back("enqueue", meter.during([&] { p.enqueue(0, 1, key); }));
    SessionGrant grant;
    const SessionKey session{"q", "the one"};
    all.emplace_back("accept", meter.during([&] {
      grant = p.one<SessionGrant>(AcceptSession{.worker = "w", .session = session});
    }));
    all.emplace_back("claim of its line",
                     meter.during([&] { jobs = p.claim(1, session_queue(session), grant.token); }));
    REQUIRE(jobs.size() == 1);
    p.complete(jobs);
    const JobId waiting = jobs[0].id + 100;
    all.emplace_back("cancel", meter.during([&] { p.one<CancelResult>(Cancel{waiting}); }));
    all.emplace_back("release", meter.during([&] {
      p.one<Done>(ReleaseSession{.session = session, .token = grant.token});
    }));
    all.emplace_back("read",
                     meter.during([&] { (void)p.store().session(session, p.now().instant); }));
    return all;
  };
  const std::int64_t few = 1'000;
  p.enqueue(0, few, key);
  p.complete(p.claim(1));
  const Costs small = costs();
  p.enqueue(few, scale(), key);
  check_bounded(small, costs());
  const Counted opening = meter.during([&] { p.open(); });
  MESSAGE(fmt::format("opening: {} steps", opening.steps));
  CHECK(p.claim(kAtOnce).size() == 1);
}

}  // namespace
}  // namespace mainspring
