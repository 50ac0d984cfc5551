// What named locks promise: one holder at a time, tokens that only grow, and fencing.
#include <set>

#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

const std::string kLeader{kLeadershipLease};

LeaseGrant acquire(Bench& b, const std::string& name, const std::string& holder,
                   Duration ttl = seconds(10)) {
  return b.one<LeaseGrant>(AcquireLease{.name = name, .holder = holder, .ttl = ttl});
}
LeaseGrant renew(Bench& b, const std::string& name, const std::string& holder, Token token,
                 std::optional<std::string> value = {}, Duration ttl = {}) {
  return b.one<LeaseGrant>(RenewLease{
      .name = name, .holder = holder, .token = token, .ttl = ttl, .value = std::move(value)});
}
void release(Bench& b, const std::string& name, const std::string& holder, Token token,
             std::optional<std::string> value = {}) {
  b.one<Done>(
      ReleaseLease{.name = name, .holder = holder, .token = token, .value = std::move(value)});
}
ErrorCode renew_refused(Bench& b, const std::string& name, const std::string& holder, Token token) {
  return b.refused(RenewLease{.name = name, .holder = holder, .token = token});
}
LeaseInfo read(const Bench& b, const std::string& name) {
  auto found = b.store->lease(name, b.clock.now().instant);
  if (!found) FAIL("lease " << name << ": " << found.error().message);
  return *found;
}
bool gone(const Bench& b, const std::string& name) {
  auto found = b.store->lease(name, b.clock.now().instant);
  return !found && found.error().code == ErrorCode::not_found;
}
std::vector<std::string> names(const Bench& b) {
  std::vector<std::string> all;
  const auto found = b.store->leases("", 1000, b.clock.now().instant);
  for (const LeaseInfo& l : *found) all.push_back(l.name);
  return all;
}

TEST_SUITE("store: leases by name") {
  TEST_CASE("LEASE: while a holder has it, others are refused with the remaining time") {
    Bench b;
    acquire(b, "a", "h1");
    b.advance(milliseconds(9'500));
    const auto answers = b.apply({AcquireLease{.name = "a", .holder = "h2", .ttl = seconds(10)}});
    const Error error = std::get<Error>(answers[0]);
    CHECK(error.code == ErrorCode::lease_held);
    CHECK(error.retry_after_ms >= 500);
    CHECK(error.retry_after_ms <= 501);
    CHECK(error.message.find("h1") != std::string::npos);
    CHECK(read(b, "a").holder == "h1");
    CHECK(b.store->lease_free_at("a") == b.clock.now().instant + milliseconds(500));
    b.advance(milliseconds(500));
    CHECK(acquire(b, "a", "h2").held == false);
    CHECK(read(b, "a").holder == "h2");
  }

  TEST_CASE("LEASE: a repeated acquire of the holder renews its lease and keeps the token") {
    Bench b;
    const LeaseGrant first = acquire(b, "a", "h1");
    b.advance(seconds(8));
    const LeaseGrant again = acquire(b, "a", "h1");
    CHECK(again.held);
    CHECK(again.token == first.token);
    CHECK(again.ttl == seconds(10));
    b.advance(seconds(9));
    CHECK(b.refused(AcquireLease{.name = "a", .holder = "h2"}) == ErrorCode::lease_held);
  }

  TEST_CASE("LEASE: a renewal extends it by the old or a requested length and returns the end") {
    Bench b;
    const Token token = acquire(b, "a", "h1").token;
    b.advance(seconds(9));
    CHECK(renew(b, "a", "h1", token).ttl == seconds(10));
    b.advance(seconds(9));
    CHECK(renew(b, "a", "h1", token, {}, seconds(40)).ttl == seconds(40));
    b.advance(seconds(39));
    CHECK(read(b, "a").expires_in == seconds(1));
    CHECK(renew(b, "a", "h1", token).ttl == seconds(40));
  }

  TEST_CASE("LEASE: a renewal writes only with a value or a longer length") {
    Bench b;
    const Token token = acquire(b, "a", "h1").token;
    const auto commits = b.store->commits();
    renew(b, "a", "h1", token);
    renew(b, "a", "h1", token, {}, seconds(5));
    CHECK(b.store->commits() == commits);
    renew(b, "a", "h1", token, {}, seconds(50));
    CHECK(b.store->commits() == commits + 1);
    b.reopen();
    b.advance(seconds(49));
    CHECK(read(b, "a").holder == "h1");
  }

  TEST_CASE("LEASE: a lost lease cannot be renewed or released") {
    Bench b;
    const Token token = acquire(b, "a", "h1").token;
    CHECK(renew_refused(b, "a", "h2", token) == ErrorCode::lease_lost);
    CHECK(renew_refused(b, "a", "h1", token + 1) == ErrorCode::lease_lost);
    CHECK(renew_refused(b, "b", "h1", token) == ErrorCode::lease_lost);
    b.advance(seconds(10));
    CHECK(renew_refused(b, "a", "h1", token) == ErrorCode::lease_lost);
    const ReleaseLease late{.name = "a", .holder = "h1", .token = token, .value = {}};
    CHECK(b.refused(late) == ErrorCode::lease_lost);
    CHECK(gone(b, "a"));
    const Token next = acquire(b, "a", "h2").token;
    CHECK(renew_refused(b, "a", "h1", token) == ErrorCode::lease_lost);
    CHECK(b.refused(late) == ErrorCode::lease_lost);
    CHECK(renew(b, "a", "h2", next).token == next);
  }

  TEST_CASE("LEASE: a release frees it at once, and can be repeated") {
    Bench b;
    const Token token = acquire(b, "a", "h1").token;
    release(b, "a", "h1", token);
    CHECK(b.effects().released == std::vector<std::string>{"a"});
    CHECK(b.store->lease_free_at("a") <= b.clock.now().instant);
    CHECK(gone(b, "a"));
    CHECK(names(b).empty());
    release(b, "a", "h1", token);
    CHECK(b.effects().released.empty());
    b.reopen();
    release(b, "a", "h1", token);
    acquire(b, "a", "h2");
    CHECK(b.refused(ReleaseLease{.name = "a", .holder = "h1", .token = token, .value = {}}) ==
          ErrorCode::lease_lost);
    CHECK(read(b, "a").holder == "h2");
  }

  TEST_CASE("LEASE: released and acquired in one batch, it is not reported as free") {
    Bench b;
    const Token token = acquire(b, "a", "h1").token;
    const auto answers =
        b.apply({ReleaseLease{.name = "a", .holder = "h1", .token = token, .value = {}},
                 AcquireLease{.name = "a", .holder = "h2"}});
    CHECK(std::get<LeaseGrant>(answers[1]).token > token);
    CHECK(b.effects().released.empty());
  }

  TEST_CASE("LEASE: its value goes from holder to holder, and stays when it is free") {
    Bench b;
    const LeaseGrant first = acquire(b, "a", "h1");
    CHECK(first.value.empty());
    CHECK(renew(b, "a", "h1", first.token, R"({"at":7})").value == R"({"at":7})");
    b.advance(seconds(10));
    CHECK(read(b, "a").holder.empty());
    CHECK(read(b, "a").expires_in == Duration(0));
    CHECK_FALSE(read(b, "a").since.has_value());
    CHECK(read(b, "a").value == R"({"at":7})");
    b.reopen();
    CHECK(read(b, "a").value == R"({"at":7})");
    b.advance(seconds(10));
    const LeaseGrant second = acquire(b, "a", "h2");
    CHECK(second.value == R"({"at":7})");
    release(b, "a", "h2", second.token, R"({"at":8})");
    b.reopen();
    CHECK(names(b) == std::vector<std::string>{"a"});
    CHECK(read(b, "a").holder.empty());
    CHECK(read(b, "a").token == second.token);
    const LeaseGrant third = acquire(b, "a", "h3");
    CHECK(third.value == R"({"at":8})");
    CHECK(renew(b, "a", "h3", third.token, "").value.empty());
    release(b, "a", "h3", third.token);
    CHECK(gone(b, "a"));
  }

  TEST_CASE("LEASE: a value over the bound is refused and changes nothing") {
    Bench b;
    const Token token = acquire(b, "a", "h1").token;
    const std::string most(kMaxLeaseValueBytes, 'v');
    CHECK(renew(b, "a", "h1", token, most).value == most);
    CHECK(b.refused(RenewLease{.name = "a", .holder = "h1", .token = token, .value = most + "v"}) ==
          ErrorCode::too_large);
    CHECK(
        b.refused(ReleaseLease{.name = "a", .holder = "h1", .token = token, .value = most + "v"}) ==
        ErrorCode::too_large);
    CHECK(read(b, "a").holder == "h1");
    CHECK(read(b, "a").value == most);
  }

  TEST_CASE("LEASE: a reopen restarts every lease with its full length") {
    Bench b;
    const Token token = acquire(b, "a", "h1", seconds(20)).token;
    b.advance(seconds(19));
    b.reopen();
    CHECK(read(b, "a").expires_in == seconds(20));
    CHECK(b.refused(AcquireLease{.name = "a", .holder = "h2"}) == ErrorCode::lease_held);
    b.advance(seconds(19));
    CHECK(renew(b, "a", "h1", token).token == token);
  }

  TEST_CASE(
      "LEASE: the leadership is free after a reopen: the file lock proves that no node lives") {
    Bench b;
    const Token token = acquire(b, kLeader, "n1").token;
    acquire(b, "mainspring/other", "n1");
    b.reopen();
    CHECK(gone(b, kLeader));
    CHECK(renew_refused(b, kLeader, "n1", token) == ErrorCode::lease_lost);
    CHECK(acquire(b, kLeader, "n2").token > token);
    CHECK(read(b, "mainspring/other").holder == "n1");
  }

  TEST_CASE("LEASE: setting the wall clock does not change a lease") {
    Bench b;
    const Token token = acquire(b, "a", "h1").token;
    b.clock.step_wall(hours(5));
    CHECK(b.refused(AcquireLease{.name = "a", .holder = "h2"}) == ErrorCode::lease_held);
    b.clock.step_wall(-hours(9));
    CHECK(renew(b, "a", "h1", token).token == token);
    b.advance(seconds(10));
    CHECK(acquire(b, "a", "h2").token > token);
  }

  TEST_CASE("leases are listed by name, page by page, without removed ones") {
    Bench b;
    for (const char* name : {"c", "a", "b", "e"}) acquire(b, name, "h", seconds(30));
    acquire(b, "d", "h", seconds(1));
    b.advance(seconds(2));
    CHECK(names(b) == std::vector<std::string>{"a", "b", "c", "e"});
    const auto page = b.store->leases("a", 2, b.clock.now().instant);
    REQUIRE(page->size() == 2);
    CHECK((*page)[0].name == "b");
    CHECK((*page)[1].name == "c");
    CHECK((*page)[0].since == b.wall() - seconds(2));
    CHECK((*page)[0].expires_in == seconds(28));
  }

  TEST_CASE("leases are bounded: acquires beyond are refused, and expired leases make room") {
    Bench b;
    std::vector<Operation> batch;
    for (int i = 0; i < kMaxLeases; ++i) {
      batch.emplace_back(AcquireLease{
          .name = "n" + std::to_string(i), .holder = "h", .ttl = seconds(i < 2 ? 5 : 60)});
    }
    b.apply(std::move(batch));
    CHECK(b.refused(AcquireLease{.name = "x", .holder = "h"}) == ErrorCode::overloaded);
    CHECK(acquire(b, "n7", "h").held);
    b.advance(seconds(5));
    acquire(b, "x", "h");
    acquire(b, "y", "h");
    CHECK(b.refused(AcquireLease{.name = "z", .holder = "h"}) == ErrorCode::overloaded);
    release(b, "x", "h", read(b, "x").token);
    acquire(b, "z", "h");
  }
}

TEST_SUITE("store: fencing") {
  TEST_CASE("FENCE-1: each holder's token is larger than every earlier token of the lease") {
    Bench b;
    Token last = 0;
    for (int round = 0; round < 12; ++round) {
      const std::string holder = "h" + std::to_string(round);
      const Token token = acquire(b, "a", holder).token;
      CHECK(token > last);
      last = token;
      if (round % 3 == 0) release(b, "a", holder, token);
      if (round % 3 == 1) release(b, "a", holder, token, "1");
      if (round % 4 == 3) b.reopen();
      b.advance(seconds(10));
    }
  }

  TEST_CASE("FENCE-2: no token is given twice, to leases or to claims") {
    Bench b;
    std::set<Token> seen;
    for (int round = 0; round < 10; ++round) {
      const LeaseGrant grant = acquire(b, round % 2 == 0 ? "a" : "b", std::to_string(round));
      CHECK(seen.insert(grant.token).second);
      b.enqueue();
      CHECK(seen.insert(b.claim_one().token).second);
      if (round % 3 == 2) b.reopen();
      b.advance(seconds(30));
    }
  }

  TEST_CASE("FENCE-3: with a lost token every fenced operation is refused and changes nothing") {
    Bench b;
    const Token old = acquire(b, kLeader, "n1").token;
    NewJob later = b.job();
    later.delay = seconds(1);
    later.expires_in = seconds(1);
    const JobId due = b.enqueue(later);
    b.enqueue();
    b.one<ClaimResult>(Claim{.worker = "w", .queues = {"q"}, .lease = seconds(1)});
    b.advance(seconds(10));
    const auto refused_all = [&](const Fence& fence) {
      CHECK(b.refused(MoveDue{10, fence}) == ErrorCode::lease_lost);
      CHECK(b.refused(RescueExpired{10, fence}) == ErrorCode::lease_lost);
      CHECK(b.refused(ExpireJobs{10, fence}) == ErrorCode::lease_lost);
      CHECK(b.refused(PruneJobs{10, fence}) == ErrorCode::lease_lost);
      CHECK(b.refused(Enqueue{.jobs = {b.job()}, .fence = fence}) == ErrorCode::lease_lost);
      CHECK(b.refused(FireSchedule{.name = "s", .fence = fence}) == ErrorCode::lease_lost);
      CHECK(b.state(due) == JobState::scheduled);
      CHECK(b.count(JobState::running) == 1);
      CHECK(b.stats().enqueued == 2);
    };
    refused_all({kLeader, old});  // it has expired, and there is no new leader yet
    const Token now = acquire(b, kLeader, "n2").token;
    refused_all({kLeader, old});
    refused_all({kLeader, now + 1});
    refused_all({"never", now});
    CHECK(b.one<StepResult>(MoveDue{10, {kLeader, now}}).changed == 1);
    CHECK(b.one<StepResult>(RescueExpired{10, {kLeader, now}}).changed == 1);
    CHECK(b.one<EnqueueResult>(Enqueue{.jobs = {b.job()}, .fence = {kLeader, now}}).jobs.size() ==
          1);
    release(b, kLeader, "n2", now);
    CHECK(b.refused(MoveDue{10, {kLeader, now}}) == ErrorCode::lease_lost);
  }

  TEST_CASE("FENCE-3: a fence is judged in its place in the batch") {
    Bench b;
    const Token token = acquire(b, "a", "h1").token;
    const auto answers =
        b.apply({Enqueue{.jobs = {b.job()}, .fence = {"a", token}},
                 ReleaseLease{.name = "a", .holder = "h1", .token = token, .value = {}},
                 Enqueue{.jobs = {b.job()}, .fence = {"a", token}}});
    CHECK(std::holds_alternative<EnqueueResult>(answers[0]));
    CHECK(std::get<Error>(answers[2]).code == ErrorCode::lease_lost);
    CHECK(b.stats().enqueued == 1);
  }

  TEST_CASE("FENCE-4: tokens never repeat after a reopen, also after removals in between") {
    Bench b;
    Token last = acquire(b, "a", "h1").token;
    release(b, "a", "h1", last);
    for (int round = 0; round < 4; ++round) {
      b.advance(minutes(1));
      b.reopen();
      const Token token = acquire(b, "other" + std::to_string(round), "h").token;
      CHECK(token > last);
      last = token;
    }
  }
}

}  // namespace
}  // namespace mainspring::conformance
