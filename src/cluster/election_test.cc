// The election on a table in memory, with a clock and links that the test moves.
#include "cluster/election.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <memory>
#include <vector>

namespace mainspring {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Database {
  LeaderRow row;
  std::vector<bool> alive{};  // nodes with sessions, from 1
};

struct Table final : LeaderTable {
  Database* database = nullptr;
  bool reachable = true;
  int reads = 0;

  Result<LeaderRow> read() override {
    ++reads;
    if (!reachable) return Error{.code = ErrorCode::unavailable, .message = "no database"};
    return database->row;
  }
  Result<std::optional<Raised>> raise(const LeaderRow& next) override {
    if (!reachable) return Error{.code = ErrorCode::unavailable, .message = "no database"};
    LeaderRow& row = database->row;
    if (row.term + 1 != next.term) return std::optional<Raised>();
    const bool gone = row.node == 0 || !database->alive[static_cast<std::size_t>(row.node)];
    row = next;
    return std::optional(Raised{.row = row, .old_is_gone = gone});
  }
  Result<void> hand_over(std::int64_t term, std::int64_t successor) override {
    if (!reachable) return Error{.code = ErrorCode::unavailable, .message = "no database"};
    if (database->row.term != term) return {};
    if (successor == 0) database->row.node = 0;
    database->row.successor = successor;
    return {};
  }
};

struct Member {
  Member(std::int64_t node, Database& database, Random& random) {
    table.database = &database;
    election = std::make_unique<Election>(
        Election::Options{.node = node, .address = fmt::format("h{}:1", node)}, table, leadership,
        random, [this] { ++changes; });
  }
  NullLog log;
  Registry registry;
  Leadership leadership{log, registry};
  Table table;
  int changes = 0;
  std::unique_ptr<Election> election;
  bool leads() const { return leadership.view()->is_me; }
};

struct Cluster {
  explicit Cluster(std::size_t nodes, std::uint64_t seed = 1) : random(seed) {
    database.alive.assign(nodes + 1, true);
    for (std::size_t i = 1; i <= nodes; ++i)
      members.push_back(std::make_unique<Member>(static_cast<std::int64_t>(i), database, random));
  }
  Member& operator[](std::size_t node) { return *members[node - 1]; }
  Instant step(std::size_t node) { return (*this)[node].election->step({now, WallTime()}); }
  Database database;
  SeededRandom random;
  Instant now{};
  std::vector<std::unique_ptr<Member>> members;
};

// A cluster whose nodes die, start again, stand still and lose each other and the database.
struct Storm {
  static constexpr std::size_t kNodes = 3;
  explicit Storm(std::uint64_t seed) : cluster(kNodes, seed), chance(seed * 7919) {
    stands.assign(kNodes + 1, false);
    cut.assign(kNodes + 1, stands);
  }
  bool is_alive(std::size_t n) const { return cluster.database.alive[n]; }
  void start_again(std::size_t n) {
    cluster.members[n - 1] =
        std::make_unique<Member>(static_cast<std::int64_t>(n), cluster.database, cluster.random);
    cluster.database.alive[n] = true;
  }
  void strike() {
    const std::size_t n = 1 + chance.below(kNodes), other = 1 + chance.below(kNodes);
    switch (chance.below(12)) {
      case 0:
        if (is_alive(n)) {
          cluster.database.alive[n] = false;
        } else {
          start_again(n);
        }
        break;
      case 1:
        stands[n] = !stands[n];
        break;
      case 2:
        cut[n][other] = cut[other][n] = !cut[n][other];
        break;
      case 3:
        cluster[n].table.reachable = !cluster[n].table.reachable;
        break;
      default:
        break;
    }
  }
  void heal() {
    for (std::size_t n = 1; n <= kNodes; ++n) {
      if (!is_alive(n)) start_again(n);
      cluster[n].table.reachable = true;
      stands[n] = false;
      cut[n].assign(kNodes + 1, false);
    }
  }
  Election::Reach reach(std::size_t from, const LeaderView& view) {
    const auto leader = static_cast<std::size_t>(view.node);
    if (cut[from][leader] || (is_alive(leader) && stands[leader])) return Election::Reach::silent;
    const bool leads = is_alive(leader) && cluster[leader].election->own_term() == view.term;
    return leads ? Election::Reach::answers : Election::Reach::refused;
  }
  // Each node that runs hears of its leader, steps, and sometimes asks the database.
  void turn() {
    for (std::size_t n = 1; n <= kNodes; ++n) {
      if (!is_alive(n) || stands[n]) continue;
      Election& election = *cluster[n].election;
      const auto view = cluster[n].leadership.view();
      if (view->node != 0 && view->node != static_cast<std::int64_t>(n))
        election.note(view->term, reach(n, *view), cluster.now);
      cluster.step(n);
      if (chance.below(3) == 0) (void)election.confirm({cluster.now, WallTime()});
    }
  }
  std::size_t answering() {
    std::size_t count = 0;
    for (std::size_t n = 1; n <= kNodes; ++n)
      count += is_alive(n) && cluster[n].election->may_answer(cluster.now) ? 1 : 0;
    return count;
  }
  Cluster cluster;
  SeededRandom chance;
  std::vector<bool> stands;
  std::vector<std::vector<bool>> cut;
};

}  // namespace

TEST_CASE("the first node leads at once, the second follows, and neither asks again") {
  Cluster cluster(2);
  CHECK(cluster.step(1) == Instant::never());
  CHECK(cluster[1].leads());
  CHECK(cluster[1].election->may_answer(cluster.now));
  CHECK(cluster.step(2) == Instant::never());
  CHECK(cluster[2].leadership.view()->node == 1);
  CHECK(cluster[2].leadership.view()->address == "h1:1");
  const int reads = cluster[1].table.reads + cluster[2].table.reads;
  cluster.now = cluster.now + seconds(3600);
  CHECK(cluster.step(1) == Instant::never());
  CHECK(cluster.step(2) == Instant::never());
  CHECK(cluster[1].table.reads + cluster[2].table.reads == reads);
}

TEST_CASE("a leader answers reads only for a time after its term was confirmed") {
  Cluster cluster(1);
  cluster.step(1);
  Election& election = *cluster[1].election;
  cluster.now = cluster.now + seconds(3);
  CHECK_FALSE(election.may_answer(cluster.now));
  election.confirmed(1, cluster.now);  // a commit
  CHECK(election.may_answer(cluster.now + milliseconds(2999)));
  cluster.now = cluster.now + seconds(5);
  CHECK(election.confirm({cluster.now, WallTime()}));
  CHECK(election.may_answer(cluster.now));
  cluster[1].table.reachable = false;
  cluster.now = cluster.now + seconds(5);
  CHECK_FALSE(election.confirm({cluster.now, WallTime()}));
  CHECK(cluster[1].leads());  // but answers nothing
  CHECK_FALSE(election.may_answer(cluster.now));
}

TEST_CASE("a node follows a dead leader within the random pause") {
  Cluster cluster(2);
  cluster.step(1), cluster.step(2);
  cluster.database.alive[1] = false;
  cluster[2].election->note(1, Election::Reach::refused, cluster.now);
  CHECK(cluster[2].changes == 1);
  const Instant due = cluster.step(2);
  CHECK(due <= cluster.now + milliseconds(100));
  cluster.now = due;
  CHECK(cluster.step(2) == Instant::never());
  CHECK(cluster[2].leads());
  CHECK(cluster[2].leadership.view()->term == 2);
  CHECK(cluster[2].leadership.view()->why == "node 1 ended");
  CHECK(cluster[2].election->may_answer(cluster.now));
}

TEST_CASE("a leader that answers again within the silence stays") {
  Cluster cluster(2);
  cluster.step(1), cluster.step(2);
  cluster[2].election->note(1, Election::Reach::silent, cluster.now);
  cluster.now = cluster.now + milliseconds(1999);
  CHECK(cluster.step(2) > cluster.now);
  cluster[2].election->note(1, Election::Reach::answers, cluster.now);
  cluster.now = cluster.now + seconds(10);
  CHECK(cluster.step(2) == Instant::never());
  CHECK(cluster.database.row.term == 1);
}

TEST_CASE("who replaces a silent leader waits until that one can no longer answer") {
  Cluster cluster(2);
  cluster.step(1), cluster.step(2);
  cluster[2].election->note(1, Election::Reach::silent, cluster.now);
  cluster.now = cluster.now + seconds(2);
  cluster[1].election->confirmed(1, cluster.now);  // it lives, and committed just now
  const Instant due = cluster.step(2);
  CHECK(due == cluster.now + seconds(3));
  CHECK_FALSE(cluster[2].leads());
  CHECK(cluster.database.row.term == 2);
  cluster.now = due;
  cluster.step(2);
  CHECK(cluster[2].leads());
  CHECK_FALSE(cluster[1].election->may_answer(cluster.now));
  CHECK_FALSE(cluster[1].election->confirm({cluster.now, WallTime()}));
  CHECK_FALSE(cluster[1].leads());
  CHECK(cluster[1].changes == 1);
  cluster.step(1);
  CHECK(cluster[1].leadership.view()->node == 2);
}

TEST_CASE("a stopping leader names its successor, which leads at once") {
  Cluster cluster(3);
  for (std::size_t node : {1, 2, 3}) cluster.step(node);
  cluster[1].election->hand_over(3);
  CHECK_FALSE(cluster[1].leads());
  CHECK(cluster.step(1) == Instant::never());
  for (std::size_t node : {2, 3})
    cluster[node].election->note(1, Election::Reach::refused, cluster.now);
  cluster.now = cluster.now + milliseconds(100);
  cluster.step(3);
  CHECK(cluster[3].leads());
  CHECK(cluster[3].leadership.view()->why == "node 1 stopped");
  CHECK(cluster[3].election->may_answer(cluster.now));
  cluster.step(2);
  CHECK(cluster[2].leadership.view()->node == 3);
}

TEST_CASE("a node without a database tries again, and does not lead") {
  Cluster cluster(1);
  cluster[1].table.reachable = false;
  const Instant due = cluster.step(1);
  CHECK(due > cluster.now);
  CHECK(due <= cluster.now + seconds(1));
  CHECK_FALSE(cluster[1].leads());
  cluster[1].table.reachable = true;
  cluster.now = due;
  cluster.step(1);
  CHECK(cluster[1].leads());
}

TEST_CASE("a raise of the own term is shown, and of an earlier term ignored") {
  Cluster cluster(1);
  cluster.step(1);
  cluster.database.row.term = 2;
  cluster[1].election->raised(1, 2);
  CHECK(cluster[1].leadership.view()->term == 2);
  cluster[1].election->lost(1);
  CHECK(cluster[1].leads());
  CHECK(cluster[1].election->confirm({cluster.now, WallTime()}));
}

TEST_CASE("at most one node answers, whatever happens, and one leads once all is well") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    Storm storm(seed);
    for (int i = 0; i < 300; ++i) {
      storm.cluster.now = storm.cluster.now + milliseconds(1 + storm.chance.below(400));
      storm.strike();
      storm.turn();
      REQUIRE(storm.answering() <= 1);
    }
    storm.heal();
    for (int i = 0; i < 100; ++i) {
      storm.cluster.now = storm.cluster.now + milliseconds(100);
      storm.turn();
      REQUIRE(storm.answering() <= 1);
    }
    std::size_t leaders = 0;
    for (std::size_t n = 1; n <= Storm::kNodes; ++n) leaders += storm.cluster[n].leads() ? 1 : 0;
    CHECK(leaders == 1);
  }
}

}  // namespace mainspring
