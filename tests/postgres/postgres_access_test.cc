// Tokens and the audit of nodes that share one store: their changes are serialized into one chain.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <latch>
#include <set>
#include <thread>

#include "postgres/places.h"

namespace mainspring {
namespace {

using pg_testing::must;
using std::chrono::hours;
using std::chrono::seconds;

NullLog no_log;

std::unique_ptr<SharedStore> open(const PostgresOptions& place, Now now) {
  return must(open_postgres_store(place, now, no_log));
}

std::vector<OperationResult> apply(Store& store, const std::vector<Operation>& batch, Now now) {
  return must(store.apply(batch, now)).results;
}

CreateToken create(const std::string& name, const std::string& text) {
  CreateToken op;
  op.token.name = name;
  op.token.digest = sha256(text);
  op.token.scopes = *Scopes::parse("read");
  op.token.created_by = "ops";
  return op;
}

Audit audit(const std::string& who, const std::string& object) {
  return Audit{.who = who, .from = "", .action = "a", .object = object, .before = "", .after = ""};
}

std::vector<AuditRecord> records(const Store& store) {
  return must(store.audit({}, AuditOrder::oldest_first, kMaxAuditPage, 0)).records;
}

// Runs `work(store, number)` on separate nodes, all starting at the same time.
template <class Work>
void on_nodes(int nodes, const PostgresOptions& place, Now now, Work work) {
  std::latch ready(nodes);
  std::vector<std::jthread> threads;
  for (int n = 0; n < nodes; ++n) {
    threads.emplace_back([&, n] {
      const auto store = open(place, now);
      ready.arrive_and_wait();
      work(*store, n);
    });
  }
}

// As servers do that start at once with the same first token.
TEST_CASE("a node that lost the race for a token knows the other's token after a refresh") {
  const ManualClock clock;
  const PostgresOptions place = pg_testing::new_place();
  const auto late = open(place, clock.now());
  const auto early = open(place, clock.now());
  apply(*early, {create("admin", "first")}, clock.now());
  const auto refused = apply(*late, {create("admin", "first")}, clock.now());
  REQUIRE(std::holds_alternative<Error>(refused[0]));
  CHECK(std::get<Error>(refused[0]).code == ErrorCode::conflict);
  late->heard({.everything = true});
  must(late->refresh(clock.now()));
  CHECK(late->tokens()->size() == 1);
}

TEST_CASE("of nodes that create a token of one name at the same time, one succeeds") {
  const PostgresOptions place = pg_testing::new_place();
  const ManualClock clock;
  constexpr int kNames = 40, kNodes = 3;
  std::array<std::atomic<int>, kNames> made{}, refused{};
  on_nodes(kNodes, place, clock.now(), [&](Store& store, int node) {
    for (std::size_t i = 0; i < kNames; ++i) {
      const auto result =
          apply(store, {create(fmt::format("t{}", i), fmt::format("{}/{}", i, node))}, clock.now());
      const auto* error = std::get_if<Error>(&result[0]);
      if (error == nullptr) ++made[i];
      if (error != nullptr && error->code == ErrorCode::conflict) ++refused[i];
    }
  });
  for (std::size_t i = 0; i < kNames; ++i) {
    CHECK(made[i] == 1);
    CHECK(refused[i] == kNodes - 1);
  }
  CHECK(open(place, clock.now())->tokens()->size() == kNames);
}

TEST_CASE("other nodes learn of a token change by a notice or a refresh") {
  const PostgresOptions place = pg_testing::new_place();
  ManualClock clock;
  const auto one = open(place, clock.now());
  const auto other = open(place, clock.now());
  must(other->refresh(clock.now()));
  apply(*one, {create("ci", "secret")}, clock.now());
  CHECK(one->take_news().catalog);
  const std::int64_t version = other->tokens_version();
  other->heard({.catalog = true});
  apply(*other, {PauseQueue{"q", true}}, clock.now());
  REQUIRE(other->tokens()->contains("ci"));
  CHECK(other->tokens_version() != version);
  apply(*one, {RevokeToken{"ci"}}, clock.now());
  CHECK(other->tokens()->at("ci").usable(clock.now().wall));
  clock.advance(seconds(30));
  CHECK(must(other->refresh(clock.now())).catalog);
  CHECK_FALSE(other->tokens()->at("ci").usable(clock.now().wall));
  clock.advance(seconds(30));
  CHECK_FALSE(must(other->refresh(clock.now())).catalog);  // it knows
}

TEST_CASE("a node decides about tokens on the stored state, even without a notice") {
  const PostgresOptions place = pg_testing::new_place();
  const ManualClock clock;
  const auto one = open(place, clock.now());
  const auto other = open(place, clock.now());
  apply(*one, {create("ci", "secret")}, clock.now());
  CHECK(std::holds_alternative<Error>(apply(*other, {create("ci", "b")}, clock.now())[0]));
  CHECK(std::holds_alternative<Error>(apply(*other, {create("c", "secret")}, clock.now())[0]));
  CHECK(std::holds_alternative<Done>(apply(*other, {RevokeToken{"ci"}}, clock.now())[0]));
  CHECK(std::holds_alternative<Done>(apply(*one, {create("ci", "c")}, clock.now())[0]));
}

TEST_CASE("the last pause or retention of a queue applies, even if a node's copy is outdated") {
  const PostgresOptions place = pg_testing::new_place();
  const ManualClock clock;
  const auto one = open(place, clock.now());
  const auto other = open(place, clock.now());
  apply(*one, {PauseQueue{"q", true}}, clock.now());
  apply(*other, {PauseQueue{"q", true}}, clock.now());
  apply(*one, {PauseQueue{"q", false}}, clock.now());
  apply(*other, {PauseQueue{"q", true}}, clock.now());  // its copy has this state already
  CHECK(must(one->queues()).at(0).paused);
  apply(*one, {SetRetention{"q", seconds(5), {}}}, clock.now());  // its copy has the old state
  apply(*other, {PauseQueue{"q", false}}, clock.now());
  const auto queues = must(one->queues());
  CHECK_FALSE(queues.at(0).paused);
  CHECK(queues.at(0).retention_completed == seconds(5));
}

TEST_CASE("the audit records of all nodes form one chain of states") {
  const PostgresOptions place = pg_testing::new_place();
  const ManualClock clock;
  constexpr int kNodes = 3, kBatches = 40;
  on_nodes(kNodes, place, clock.now(), [&](Store& store, int node) {
    for (int i = 0; i < kBatches; ++i) {
      Audit own = audit(fmt::format("n{}", node), "folder/x");
      own.alone = true;
      Audit shared = audit(fmt::format("n{}", node), "queue/q");
      shared.always = true;
      // In every other batch only the chain can serialize the nodes.
      apply(store, {own}, clock.now());
      apply(store, {SetRetention{"q", seconds(100 * node + i), {}}, shared}, clock.now());
    }
  });
  const auto store = open(place, clock.now());
  const auto all = records(*store);
  CHECK(all.size() == kNodes * kBatches * 2);
  AuditMark at;
  const auto wrong = follow_chain(at, all);
  CHECK_MESSAGE(!wrong, wrong.value_or(""));
  CHECK(store->audit_state().head == at);
  std::string left;
  for (const AuditRecord& record : all) {
    if (record.object != "queue/q") continue;
    CHECK(record.before == left);
    left = record.after;
  }
  CHECK(must(store->verify()).problems.empty());
}

TEST_CASE("a node sees the records of the others, and prunes them too") {
  PostgresOptions place = pg_testing::new_place();
  place.store.audit_retention = hours(1);
  ManualClock clock;
  const auto one = open(place, clock.now());
  const auto other = open(place, clock.now());
  Audit op = audit("ops", "folder/x");
  op.alone = true;
  apply(*one, {op}, clock.now());
  apply(*other, {op}, clock.now());
  CHECK(one->audit_state().head.seq == 2);
  CHECK(other->audit_state().head == one->audit_state().head);
  clock.advance(hours(2));
  apply(*other, {op}, clock.now());
  apply(*one, {PruneJobs{}}, clock.now());
  CHECK(other->audit_state().records == 1);
  CHECK(other->audit_state().base.seq == 2);
  apply(*other, {op}, clock.now());
  AuditMark at = other->audit_state().base;
  CHECK_FALSE(follow_chain(at, records(*one)));
  CHECK(must(one->verify()).problems.empty());
  CHECK(must(other->verify()).problems.empty());
}

}  // namespace
}  // namespace mainspring
