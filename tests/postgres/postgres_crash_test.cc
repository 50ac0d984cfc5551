// Renewals do not wait for the disk, so a crash of the server can lose acknowledged ones. A worker
// must not lose its lease because of that.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "postgres/bed.h"

namespace mainspring::pg_testing {
namespace {

using std::chrono::seconds;

constexpr int kMaxCrashes = 20;  // until one takes a renewal with it

// One node whose worker renews, and another that rescues.
class Nodes {
 public:
  Nodes() : bed_(options()), begun_(bed_.clock.now()), other_(bed_.open_another()) {}

  template <class T>
  T at_renewer(Operation operation, Duration when) {
    return apply<T>(*bed_.store, std::move(operation), when);
  }
  template <class T>
  T at_other(Operation operation, Duration when) {
    return apply<T>(*other_, std::move(operation), when);
  }
  // The remaining time of the job's lease then, as the database has it.
  Duration left(JobId id, Duration when) {
    const Rows rows = must(bed_.cluster->sql(
        fmt::format("SELECT lease_until FROM {}.jobs WHERE id = {}", bed_.options.schema, id),
        bed_.database));
    return Duration(std::stoll(rows.at(0).at(0)) - at(when).wall.us());
  }
  void crash() {
    bed_.cluster->kill9();
    must(bed_.cluster->start());
  }
  void restart() {
    must(bed_.cluster->stop(PgCluster::Stop::fast));
    must(bed_.cluster->start());
  }
  void must_be_sound() { bed_.must_be_sound(); }

  JobId enqueue(const std::string& session, Duration when) {
    NewJob job{.queue = "q", .kind = "work"};
    job.session = session;
    job.max_attempts = 1;
    return at_renewer<EnqueueResult>(Enqueue{.jobs = {job}}, when).jobs.at(0).id;
  }
  ClaimedJob claim(Duration when) {
    const Claim claim{.worker = "w", .queues = {"q"}, .kinds = {}, .lease = seconds(10)};
    return at_renewer<ClaimResult>(claim, when).jobs.at(0);
  }
  void renew(const ClaimedJob& job, Duration when) {
    const Renew renew{.worker = "w", .leases = {{job.id, job.token, {}, {}}}, .lease = seconds(10)};
    REQUIRE(at_renewer<RenewResult>(renew, when).renewed.size() == 1);
  }
  FinishStatus complete(const ClaimedJob& job, Duration when) {
    const Finish finish{.worker = "w", .results = {{job.id, job.token, Complete{""}}}};
    return at_renewer<FinishResult>(finish, when).results.at(0);
  }
  int rescue(Duration when) { return at_other<StepResult>(RescueExpired{}, when).changed; }

 private:
  static BedOptions options() {
    BedOptions o;
    // What does not wait for the disk stays in the server's memory.
    o.cluster.settings = {"wal_writer_delay = 10s"};
    o.patience = seconds(20);
    return o;
  }
  Now at(Duration when) const { return {begun_.instant + when, begun_.wall + when}; }
  template <class T>
  T apply(SharedStore& store, Operation operation, Duration when) {
    const BatchReport report = must(store.apply({&operation, 1}, at(when)));
    return std::get<T>(report.results.at(0));
  }

  Bed bed_;
  const Now begun_;
  std::unique_ptr<SharedStore> other_;
};

TEST_CASE("a renewal that a crash loses does not end the lease before its acknowledged end") {
  Nodes nodes;
  bool lost = false;
  Duration when(0);
  for (int crashes = 0; crashes < kMaxCrashes && !lost; ++crashes, when += seconds(100)) {
    nodes.enqueue("s", when);
    nodes.enqueue("s", when);
    const ClaimedJob first = nodes.claim(when);
    nodes.renew(first, when + seconds(8));
    nodes.crash();
    lost = nodes.left(first.id, when + seconds(8)) < seconds(10);
    // A rescue would start the next job of its session in parallel.
    CHECK(nodes.rescue(when + seconds(12)) == 0);
    CHECK(nodes.complete(first, when + seconds(15)) == FinishStatus::ok);
    const ClaimedJob second = nodes.claim(when + seconds(16));
    CHECK(second.id > first.id);
    CHECK(nodes.complete(second, when + seconds(17)) == FinishStatus::ok);
  }
  CHECK(lost);
  nodes.must_be_sound();
}

TEST_CASE("after a crash every lease restarts once, and still ends") {
  Nodes nodes;
  nodes.enqueue("", seconds(0));
  nodes.claim(seconds(0));
  const SessionKey key{"q", "held"};
  const auto grant = nodes.at_renewer<SessionGrant>(
      AcceptSession{.worker = "w", .session = key, .lease = seconds(10)}, seconds(0));
  const auto lease = nodes.at_renewer<LeaseGrant>(
      AcquireLease{.name = "l", .holder = "h", .ttl = seconds(10)}, seconds(0));
  nodes.crash();
  // The first operation after the crash, later than the end of all leases.
  CHECK(nodes.rescue(seconds(12)) == 0);
  CHECK(
      nodes.at_other<SessionGrant>(RenewSession{key, grant.token, seconds(1)}, seconds(21)).token ==
      grant.token);
  CHECK(nodes
            .at_other<LeaseGrant>(RenewLease{.name = "l", .holder = "h", .token = lease.token},
                                  seconds(21))
            .token == lease.token);
  CHECK(nodes.rescue(seconds(21)) == 0);
  CHECK(nodes.rescue(seconds(23)) == 1);
  nodes.must_be_sound();
}

TEST_CASE("a server that was stopped cleanly has lost nothing: leases keep their ends") {
  Nodes nodes;
  nodes.enqueue("", seconds(0));
  const ClaimedJob job = nodes.claim(seconds(0));
  nodes.renew(job, seconds(8));
  nodes.restart();
  CHECK(nodes.rescue(seconds(17)) == 0);
  CHECK(nodes.rescue(seconds(19)) == 1);
  CHECK(nodes.complete(job, seconds(20)) == FinishStatus::stale);
  nodes.must_be_sound();
}

}  // namespace
}  // namespace mainspring::pg_testing
