// What saved step results promise: a result is stored with its renewal, by the holder alone, once,
// and every later attempt finds it.
#include <fmt/format.h>

#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

RenewResult keep(Bench& b, JobId id, Token token, std::vector<Memo> memos) {
  Renewal renewal{.id = id, .token = token};
  renewal.memos = std::move(memos);
  return b.one<RenewResult>(Renew{.worker = "w1", .leases = {renewal}});
}
RenewResult keep(Bench& b, const ClaimedJob& job, std::vector<Memo> memos) {
  return keep(b, job.id, job.token, std::move(memos));
}

// All pages.
std::vector<Memo> memos_of(const Bench& b, JobId id, int limit = 100) {
  std::vector<Memo> all;
  std::string from;
  for (;;) {
    const auto page = b.store->memos(id, from, limit);
    REQUIRE_MESSAGE(page, page.error().message);
    REQUIRE(std::ssize(page->memos) <= limit);
    all.insert(all.end(), page->memos.begin(), page->memos.end());
    if (!page->next) return all;
    REQUIRE(!page->memos.empty());
    REQUIRE(*page->next > page->memos.back().name);
    from = *page->next;
  }
}

std::vector<Memo> numbered(int from, int n) {
  std::vector<Memo> all;
  for (int i = from; i < from + n; ++i)
    all.push_back({fmt::format("m{:04}", i), fmt::format("{}", i)});
  return all;
}

const std::vector<Memo> kTwo = {{"load", "[1]"}, {"pay", R"({"id":"c1"})"}};

TEST_SUITE("store: memos") {
  TEST_CASE("saved step results are committed with their renewal and found by later attempts") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob c = b.claim_one();
    CHECK_FALSE(c.has_memos);
    CHECK(memos_of(b, id).empty());
    const auto before = b.store->commits();
    const RenewResult r = keep(b, c, kTwo);
    CHECK(r.renewed.size() == 1);
    CHECK(r.memos_full.empty());
    CHECK(b.store->commits() == before + 1);
    CHECK(memos_of(b, id) == kTwo);
    SUBCASE("after a crash") {
      b.advance(kDefaultLease);
      b.rescue();
      b.advance(hours(1));
      b.move_due();
    }
    SUBCASE("after a snooze") {
      b.finish(c, Snooze{});
    }
    SUBCASE("after a failure and a reopen") {
      b.finish(c, Retry{"e", seconds(1)});
      b.reopen();
      b.advance(seconds(1));
      b.move_due();
    }
    SUBCASE("after a restart of the store in the middle, and a crash") {
      b.reopen();
      b.advance(kDefaultLease);
      b.rescue();
      b.advance(hours(1));
      b.move_due();
    }
    SUBCASE("after its death, when an operator retries it") {
      b.finish(c, Dead{"poison", ""});
      CHECK(memos_of(b, id) == kTwo);
      b.retry(id);
    }
    SUBCASE("after its death and a redrive") {
      b.finish(c, Dead{"poison", ""});
      b.one<RedriveResult>(Redrive{});
    }
    SUBCASE("after it was cancelled and retried") {
      b.cancel(id);
      b.finish(c, CancelJob{});
      b.retry(id);
    }
    const ClaimedJob again = b.claim_one();
    CHECK(again.id == id);
    CHECK(again.has_memos);
    CHECK(memos_of(b, id) == kTwo);
    keep(b, again, {{"ship", "null"}});
    CHECK(memos_of(b, id).size() == 3);
    CHECK(b.finish(again, Complete{}) == FinishStatus::ok);
  }

  TEST_CASE("the first saved result of a name is kept") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob c = b.claim_one();
    keep(b, c, {{"pay", "1"}, {"pay", "2"}});
    CHECK(memos_of(b, id) == std::vector<Memo>{{"pay", "1"}});
    const Job before = b.get(id);
    const auto commits = b.store->commits();
    CHECK(keep(b, c, {{"pay", "3"}}).renewed.size() == 1);
    CHECK(memos_of(b, id) == std::vector<Memo>{{"pay", "1"}});
    CHECK(b.get(id).version == before.version);
    CHECK(b.store->commits() == commits);
    b.finish(c, Snooze{});
    keep(b, b.claim_one(), {{"pay", "4"}, {"ship", "5"}});
    CHECK(memos_of(b, id) == std::vector<Memo>{{"pay", "1"}, {"ship", "5"}});
  }

  TEST_CASE("a worker that does not hold the job cannot save step results") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob old = b.claim_one();
    b.finish(old, Snooze{});
    CHECK(keep(b, old, kTwo).lost == std::vector<JobId>{id});
    const ClaimedJob now = b.claim_one();
    CHECK_FALSE(now.has_memos);
    CHECK(keep(b, old, kTwo).lost == std::vector<JobId>{id});
    CHECK(memos_of(b, id).empty());
    keep(b, now, {{"pay", "1"}});
    CHECK(keep(b, id, now.token + 1, kTwo).lost == std::vector<JobId>{id});
    b.advance(kDefaultLease);
    CHECK(keep(b, now, kTwo).lost == std::vector<JobId>{id});
    CHECK(memos_of(b, id) == std::vector<Memo>{{"pay", "1"}});
  }

  TEST_CASE("saved step results are removed on success, with changed args, and with the job") {
    Bench b;
    NewJob n = b.job();
    n.unique = Unique{.key = "u"};
    n.unique->on_conflict = OnConflict::replace;
    const JobId id = b.enqueue(n);
    const ClaimedJob c = b.claim_one();
    keep(b, c, kTwo);
    SUBCASE("completed") {
      b.finish(c, Complete{"[1]"});
      CHECK(memos_of(b, id).empty());
      b.advance(b.options.retention_completed);
      CHECK(b.prune() == 1);
      CHECK(b.store->memos(id, "", 10).error().code == ErrorCode::expired);
    }
    SUBCASE("replaced") {
      b.finish(c, Retry{"e", hours(1)});
      n.args = "[2]";
      CHECK(b.enqueue(n) == id);
      CHECK(memos_of(b, id).empty());
      const ClaimedJob again = b.claim_one();
      CHECK(again.args == "[2]");
      CHECK_FALSE(again.has_memos);
      keep(b, again, {{"pay", "3"}});
      CHECK(memos_of(b, id) == std::vector<Memo>{{"pay", "3"}});
    }
    SUBCASE("dead, and pruned") {
      b.finish(c, Dead{"poison", ""});
      b.advance(b.options.retention_dead);
      CHECK(b.prune() == 1);
      CHECK(b.store->memos(id, "", 10).error().code == ErrorCode::expired);
    }
    CHECK(b.store->memos(12345, "", 10).error().code == ErrorCode::not_found);
  }

  TEST_CASE("a job has at most kMaxMemos saved step results; further ones are refused") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob c = b.claim_one();
    const int most = static_cast<int>(kMaxMemos);
    for (int i = 0; i < most - 4; i += 12) CHECK(keep(b, c, numbered(i, 12)).memos_full.empty());
    CHECK(keep(b, c, numbered(most - 4, 3)).memos_full.empty());
    CHECK(keep(b, c, numbered(most - 1, 2)).memos_full == std::vector<JobId>{id});
    CHECK(keep(b, c, {{"m0000", "9"}, {"x", "1"}}).memos_full == std::vector<JobId>{id});
    CHECK(keep(b, c, {{"m0000", "9"}}).memos_full.empty());
    CHECK(memos_of(b, id) == numbered(0, most));
  }

  TEST_CASE("a page ends at its limit, and the next page continues") {
    Bench b;
    const JobId id = b.enqueue();
    const ClaimedJob c = b.claim_one();
    keep(b, c, {{"A", "1"}, {"b", "2"}, {"_", "3"}, {"-", "4"}, {"a", "5"}, {"0", "6"}});
    std::string order;
    for (const Memo& m : memos_of(b, id, 1)) order += m.name;
    CHECK(order == "-0A_ab");
    CHECK(b.store->memos(id, "A", 1)->memos == std::vector<Memo>{{"A", "1"}});
    CHECK(b.store->memos(id, "B", 1)->memos == std::vector<Memo>{{"_", "3"}});
    const std::string large = "\"" + std::string(kMaxMemoBytes - 2, 'x') + "\"";
    for (int i = 0; i < 2; ++i) {
      std::vector<Memo> many;
      for (Memo& m : numbered(i * 16, 16)) many.push_back({m.name, large});
      keep(b, c, many);
    }
    const auto page = b.store->memos(id, "m", 1000);
    CHECK(page->memos.size() == kMemoPageBytes / kMaxMemoBytes);
    CHECK(page->next == "m0016");
    CHECK(memos_of(b, id).size() == 38);
  }
}

}  // namespace
}  // namespace mainspring::conformance
