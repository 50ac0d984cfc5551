// Leases over a standstill or a restart of the server.
#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

Done extend(Bench& b, Duration gap) {
  return b.one<Done>(ExtendLeases{.gap = gap});
}

Duration left_of(const Bench& b, const std::string& name) {
  const auto lease = b.store->lease(name, b.clock.now().instant);
  return lease ? lease->expires_in : Duration(0);
}

TEST_SUITE("store: standstill") {
  TEST_CASE("a lease that was live when the server stopped survives the standstill") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob job = b.claim_one();
    b.advance(seconds(20));
    b.advance(seconds(45));  // no server ran
    extend(b, seconds(45));
    CHECK(b.rescue() == 0);
    b.advance(seconds(9));
    CHECK(b.rescue() == 0);
    CHECK(b.renew(job).renewed.size() == 1);
    CHECK(b.finish(job, Complete{}) == FinishStatus::ok);
    CHECK(b.get(id).errors.empty());
  }

  TEST_CASE("a worker that died before or during the standstill is found one lease later") {
    Bench b;
    const JobId id = b.enqueue();
    (void)b.claim_one();
    b.advance(seconds(20 + 45));
    extend(b, seconds(45));
    b.advance(seconds(11));
    CHECK(b.rescue() == 1);
    CHECK(b.state(id) == JobState::retryable);
    CHECK(b.get(id).attempt == 1);
  }

  TEST_CASE("a lease that had ended before the standstill stays ended") {
    Bench b;
    b.enqueue();
    const ClaimedJob job = b.claim_one();
    b.advance(seconds(31 + 45));
    extend(b, seconds(45));
    CHECK(b.renew(job).lost.size() == 1);
    CHECK(b.rescue() == 1);
  }

  TEST_CASE("with any reported gap a lease gets at most its length from now") {
    Bench b;
    b.enqueue();
    (void)b.claim_one();
    b.advance(seconds(10));
    extend(b, hours(24 * 365));
    CHECK(b.store->lease_free_at("none") <= b.clock.now().instant);
    b.advance(seconds(29));
    CHECK(b.rescue() == 0);
    b.advance(seconds(2));
    CHECK(b.rescue() == 1);
  }

  TEST_CASE("leases of many jobs and claims are extended, ended ones are not restored") {
    Bench b;
    for (int i = 0; i < 50; ++i) b.enqueue();
    const auto early = b.claim(25);
    b.advance(seconds(20));
    const auto late = b.claim(25);
    CHECK(b.finish(early[3], Complete{}) == FinishStatus::ok);
    b.advance(seconds(60));
    extend(b, seconds(55));  // it stood still from 25 s on
    CHECK(b.rescue() == 0);
    b.advance(seconds(6));  // 30 s of the early ones are over, less the standstill
    CHECK(b.rescue() == 24);
    b.advance(seconds(20));
    CHECK(b.rescue() == 25);
  }

  TEST_CASE("sessions and leases by name are extended like those of jobs") {
    Bench b;
    const auto lease =
        b.one<LeaseGrant>(AcquireLease{.name = "report", .holder = "h", .ttl = seconds(30)});
    const auto session = b.one<SessionGrant>(
        AcceptSession{.worker = "w", .session = {"q", "s"}, .lease = seconds(30)});
    b.advance(seconds(5 + 60));
    extend(b, seconds(60));
    CHECK(b.rescue() == 0);
    CHECK(left_of(b, "report") == seconds(25));
    CHECK(b.one<LeaseGrant>(RenewLease{.name = "report", .holder = "h", .token = lease.token})
              .token == lease.token);
    CHECK(b.one<SessionGrant>(RenewSession{.session = {"q", "s"}, .token = session.token}).token ==
          session.token);
  }

  TEST_CASE("the term of the leader survives a standstill, but is not part of an allowance") {
    Bench b;
    const std::string name(kLeadershipLease);
    const auto term =
        b.one<LeaseGrant>(AcquireLease{.name = name, .holder = "n", .ttl = seconds(10)});
    b.advance(seconds(1 + 45));
    extend(b, seconds(45));
    (void)b.one<LeaseGrant>(RenewLease{.name = name, .holder = "n", .token = term.token});
    (void)b.one<Done>(AllowRestart{.allowance = minutes(2)});
    CHECK(b.one<LeaseGrant>(RenewLease{.name = name, .holder = "n", .token = term.token}).ttl ==
          seconds(10));
    b.advance(seconds(11));
    (void)b.one<LeaseGrant>(AcquireLease{.name = name, .holder = "other", .ttl = seconds(10)});
  }
}

TEST_SUITE("store: restart allowance") {
  TEST_CASE("leases last for the allowance, and the last renewals return that end") {
    Bench b;
    b.enqueue(), b.enqueue();
    const ClaimedJob told = b.claim_one(), not_told = b.claim_one();
    b.advance(seconds(10));
    (void)b.one<Done>(AllowRestart{.allowance = minutes(2)});
    const RenewResult renewed = b.renew(told);
    REQUIRE(renewed.renewed.size() == 1);
    CHECK(renewed.renewed[0].lease == minutes(2));
    b.advance(seconds(119));
    CHECK(b.rescue() == 0);
    CHECK(b.finish(not_told, Complete{}) == FinishStatus::ok);
    b.advance(seconds(2));
    CHECK(b.rescue() == 1);
  }

  TEST_CASE("the next open honours the allowance, and renewals are for a lease again") {
    Bench b;
    b.enqueue(), b.enqueue();
    const ClaimedJob comes_back = b.claim_one(), told = b.claim_one();
    (void)b.one<Done>(AllowRestart{.allowance = minutes(2)});
    b.renew(comes_back), b.renew(told);
    b.advance(seconds(50));
    b.reopen();
    b.advance(seconds(69));  // just before the allowance of the stop ends
    CHECK(b.rescue() == 0);
    CHECK(b.renew(comes_back).renewed.at(0).lease == seconds(30));
    b.advance(seconds(52));
    CHECK(b.rescue() == 2);
  }

  TEST_CASE("a restart gives the lease of a dead worker its own length, not the allowance") {
    Bench b;
    b.enqueue();
    (void)b.claim_one();
    b.advance(seconds(20));
    (void)b.one<Done>(AllowRestart{.allowance = minutes(2)});
    b.advance(seconds(3));
    b.reopen();
    b.advance(seconds(29));
    CHECK(b.rescue() == 0);
    b.advance(seconds(1));
    CHECK(b.rescue() == 1);
  }

  TEST_CASE("a renewal without a length does not keep the allowance, also after the restart") {
    Bench b;
    b.enqueue();
    const ClaimedJob job = b.claim_one();
    const Renew renew{
        .worker = "w1", .leases = {{.id = job.id, .token = job.token}}, .lease = Duration(0)};
    (void)b.one<Done>(AllowRestart{.allowance = minutes(2)});
    CHECK(b.one<RenewResult>(renew).renewed.at(0).lease == minutes(2));
    b.advance(seconds(100));
    CHECK(b.one<RenewResult>(renew).renewed.at(0).lease == kDefaultLease);
    b.reopen();
    CHECK(b.one<RenewResult>(renew).renewed.at(0).lease == kDefaultLease);
  }

  TEST_CASE("once the allowance has passed, a later open ignores it") {
    Bench b;
    b.enqueue();
    (void)b.claim_one();
    (void)b.one<Done>(AllowRestart{.allowance = minutes(2)});
    b.reopen();
    b.advance(seconds(121));
    CHECK(b.rescue() == 1);
    b.enqueue();
    (void)b.claim_one();
    b.reopen();
    b.advance(seconds(31));
    CHECK(b.rescue() == 1);
  }

  TEST_CASE("a second open within the allowance honours it again") {
    Bench b;
    b.enqueue();
    const ClaimedJob told = b.claim_one();
    (void)b.one<Done>(AllowRestart{.allowance = minutes(2)});
    b.renew(told);
    b.reopen();
    b.advance(seconds(10));
    b.reopen();
    b.advance(seconds(100));
    CHECK(b.rescue() == 0);
  }

  TEST_CASE("the time limit of a job bounds its allowance") {
    Bench b;
    NewJob job = b.job();
    job.timeout = seconds(20);
    b.enqueue(job);
    const ClaimedJob claimed = b.claim_one();
    (void)b.one<Done>(AllowRestart{.allowance = minutes(2)});
    CHECK(b.renew(claimed).renewed.at(0).lease == seconds(50));  // with the grace
    b.advance(seconds(51));
    CHECK(b.rescue() == 1);
  }

  TEST_CASE("sessions and leases by name have the allowance too") {
    Bench b;
    const auto lease =
        b.one<LeaseGrant>(AcquireLease{.name = "report", .holder = "h", .ttl = seconds(30)});
    const auto session = b.one<SessionGrant>(
        AcceptSession{.worker = "w", .session = {"q", "s"}, .lease = seconds(30)});
    (void)b.one<Done>(AllowRestart{.allowance = minutes(2)});
    CHECK(left_of(b, "report") == minutes(2));
    const RenewLease renew_lease{.name = "report", .holder = "h", .token = lease.token};
    const RenewSession renew_session{.session = {"q", "s"}, .token = session.token};
    CHECK(b.one<LeaseGrant>(renew_lease).ttl == minutes(2));
    CHECK(b.one<SessionGrant>(renew_session).lease == minutes(2));
    b.reopen();
    b.advance(seconds(119));
    CHECK(b.rescue() == 0);
    CHECK(b.one<LeaseGrant>(renew_lease).ttl == seconds(30));
    CHECK(b.one<SessionGrant>(renew_session).lease == seconds(30));
  }
}

}  // namespace
}  // namespace mainspring::conformance
