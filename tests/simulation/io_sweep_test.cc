// The store under every single failure of its disk: a fixed script, and for each of its I/O calls a
// run in which this call crashes, kills, fails to sync, or finds the disk full.
//
// Source: SQLite's own fail-the-k-th-call loops, https://www.sqlite.org/testing.html
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "disk_sqlite/sqlite_store.h"
#include "env/clock.h"
#include "scale.h"
#include "simulation/mirror_store.h"

namespace mainspring::simulation {
namespace {

using std::chrono::seconds;

constexpr int kBatches = 24;
constexpr int kMaxOpens = 10;

// A sample of the calls of a sweep: every n-th, a prime, so that each kind of call is included.
int each_nth() {
  return by_scale(29, 7, 1);
}

class Run {
 public:
  explicit Run(std::uint64_t seed) : disk_(fmt::format("sweep{}", ++count_), seed) {}
  ~Run() {
    if (store_) store_->die();
  }

  // Opens, again if the power fails during recovery. `crash_in`: the call of the first opening that
  // crashes.
  bool open(std::int64_t crash_in = kNoFault) {
    disk_.crash_after(crash_in);
    for (int i = 0; i < kMaxOpens && why_.empty(); ++i) {
      SqliteOptions o{.directory = "/sim", .vfs = disk_.vfs()};
      o.guard_files = false;
      o.checkpoint_pages = 12;
      auto opened = open_sqlite_store(o, clock_.now(), log_);
      if (opened && !disk_.crashed()) {
        disk_.crash_after(kNoFault);
        store_ = std::make_unique<MirrorStore>(
            std::move(*opened), memory_, disk_, StoreOptions{}, clock_.now(),
            [this](std::string what) { why_ = std::move(what); }, [](const std::string&) {});
        return true;
      }
      if (!disk_.crashed()) {
        why_ = "the store does not open: " + opened.error().message;
        return false;
      }
      disk_.reboot();
    }
    return false;
  }

  // Batches from where it stopped; false when the store died.
  bool play(int until = kBatches) {
    for (; next_ < until && why_.empty(); ++next_) {
      clock_.advance(seconds(3));
      auto report = store_->apply(batch(), clock_.now());
      if (!report && report.error().code == ErrorCode::storage_full) continue;
      if (!report) {
        ++next_;
        return false;
      }
      for (const OperationResult& result : report->results) {
        if (const auto* c = std::get_if<ClaimResult>(&result)) {
          for (const ClaimedJob& j : c->jobs) held_.emplace_back(j.id, j.token);
        }
      }
    }
    return true;
  }

  void end(SimDisk::Loss loss) {
    disk_.crash();
    if (store_) store_->die();
    store_.reset();
    disk_.reboot(loss);
  }

  // Opens, runs the script to its end and compares all. "" or the difference.
  std::string finish(std::int64_t crash_in = kNoFault) {
    if (open(crash_in) && !play() && why_.empty()) why_ = "the store died without a fault";
    if (why_.empty()) store_->look();
    return why_;
  }

  SimDisk& disk() { return disk_; }
  const std::string& why() const { return why_; }

 private:
  std::vector<Operation> batch() {
    std::vector<Operation> ops;
    NewJob j;
    j.kind = "work";
    j.args = "\"" + std::string(static_cast<std::size_t>(next_ * 97 % 900), 'x') + "\"";
    if (next_ % 5 == 1) j.delay = seconds(7);
    if (next_ % 7 == 2) j.unique = Unique{.key = "k", .window = seconds(20)};
    ops.push_back(Enqueue{.jobs = {j, j, j},
                          .idempotency_key = fmt::format("i{}", next_ % 9),
                          .fingerprint = fmt::format("f{}", next_ % 9)});
    if (next_ % 2 == 0) {
      Claim c{.worker = "w", .queues = {"default", "ticks"}, .max = 3, .lease = seconds(8)};
      ops.push_back(std::move(c));
    }
    if (next_ % 2 == 1 && !held_.empty()) {
      Finish f{.worker = "w", .results = {}};
      const auto [id, token] = held_.back();
      held_.pop_back();
      f.results.push_back(
          {id, token, next_ % 3 == 0 ? Outcome(Retry{"e", seconds(5)}) : Outcome(Complete{"[1]"})});
      ops.push_back(std::move(f));
    }
    if (next_ % 4 == 3) ops.insert(ops.end(), {MoveDue{}, RescueExpired{}, PauseQueue{"p", true}});
    if (next_ % 6 == 5) ops.push_back(Cancel{next_, "r"});
    add_schedules(ops);
    add_access(ops);
    return ops;
  }

  // A change and its record, twice in a batch; tokens that come and go.
  void add_access(std::vector<Operation>& ops) {
    Audit audit{.who = "ops",
                .from = "",
                .action = "pause",
                .object = "queue/p",
                .before = "",
                .after = ""};
    if (next_ % 3 == 1) {
      ops.insert(ops.end(), {PauseQueue{"p", false}, audit, PauseQueue{"p", true}, audit});
    }
    if (next_ % 8 == 2) {
      CreateToken create;
      create.token.name = fmt::format("t{}", next_ % 16);
      create.token.digest = sha256(std::to_string(next_));
      audit.object = "token/" + create.token.name;
      ops.insert(ops.end(), {create, audit});
    }
    if (next_ % 8 == 6) ops.push_back(RevokeToken{fmt::format("t{}", (next_ - 4) % 16)});
  }

  // One definition, another later, ticks in between, and a lease with a value.
  void add_schedules(std::vector<Operation>& ops) {
    const WallTime now = clock_.now().wall;
    if (next_ % 11 == 0) {
      PutSchedule put{.schedule = {.name = "s", .every = seconds(2 + next_)}};
      put.schedule.job.queue = "ticks";
      put.schedule.job.kind = "tick";
      put.schedule.overlap = Overlap::buffer_all;
      put.next = put.next_fire = now;
      ops.push_back(std::move(put));
    } else if (const auto info = store_->schedule("s"); info && next_ % 3 != 2) {
      FireSchedule fire{.name = "s", .version = info->version, .expected_next = info->next};
      fire.ticks = {{.nominal = info->next, .fire = false, .reason = "missed"},
                    {.nominal = info->next + seconds(1)}};
      fire.next = fire.next_fire = now + seconds(1);
      ops.push_back(std::move(fire));
    }
    if (next_ % 5 == 0) ops.push_back(AcquireLease{.name = "l", .holder = std::to_string(next_)});
    if (next_ % 7 == 6) ops.push_back(PauseSchedule{"s", next_ % 2 == 0, "r"});
    if (next_ == 20) ops.push_back(RemoveSchedule{"s"});
  }

  static inline int count_ = 0;
  SimDisk disk_;
  NullLog log_;
  ManualClock clock_;
  MirrorMemory memory_;
  std::unique_ptr<MirrorStore> store_;
  int next_ = 0;
  std::vector<std::pair<JobId, Token>> held_;
  std::string why_;
};

// How many calls the script makes without faults.
std::int64_t calls_of_script() {
  Run run(1);
  REQUIRE(run.finish() == "");
  return run.disk().calls();
}

TEST_CASE("the power goes at each I/O call: every acknowledged batch is there, no half one") {
  const std::int64_t calls = calls_of_script();
  REQUIRE(calls > 100);
  std::int64_t lost = 0;
  for (std::int64_t k = 1; k <= calls; k += each_nth()) {
    Run run(static_cast<std::uint64_t>(k));
    if (run.open(k)) {
      run.disk().crash_after(k);
      run.play();
    }
    run.end(SimDisk::Loss::unsynced);
    const std::string why = run.finish();
    CHECK_MESSAGE(why == "", "call " << k << ": " << why);
    lost += run.disk().stats().lost_writes;
  }
  CHECK(lost > 100 / each_nth());
}

TEST_CASE("the process is killed at each I/O call") {
  const std::int64_t calls = calls_of_script();
  for (std::int64_t k = 1; k <= calls; k += each_nth()) {
    Run run(static_cast<std::uint64_t>(k));
    REQUIRE(run.open());
    run.disk().crash_after(k);
    run.play();
    run.end(SimDisk::Loss::nothing);
    const std::string why = run.finish();
    CHECK_MESSAGE(why == "", "call " << k << ": " << why);
  }
}

TEST_CASE("a sync fails, the process stops, and the power goes while it recovers") {
  constexpr std::int64_t kSyncs = 30;
  constexpr std::int64_t kRecoveryCalls = 45;
  for (std::int64_t sync = 1; sync <= kSyncs; sync += 3) {
    for (std::int64_t crash = 1; crash <= kRecoveryCalls; crash += by_scale(10, 6, 2)) {
      Run run(static_cast<std::uint64_t>(sync * 1000 + crash));
      REQUIRE(run.open());
      run.disk().fail_sync_after(sync);
      run.play();
      run.end(SimDisk::Loss::nothing);
      run.open(crash);
      if (run.why().empty()) run.play();
      run.end(SimDisk::Loss::unsynced);
      const std::string why = run.finish();
      CHECK_MESSAGE(why == "", "sync " << sync << ", call " << crash << ": " << why);
    }
  }
}

TEST_CASE("the disk is full from each batch on, and there is space again later") {
  std::int64_t refused = 0;
  const int step = by_scale(4, 2, 1);
  for (int full = 1; full < kBatches - 6; full += step) {
    for (const std::int64_t room : {0, 3000, 9000}) {
      Run run(static_cast<std::uint64_t>(full));
      REQUIRE(run.open());
      REQUIRE(run.play(full));
      run.disk().set_capacity(run.disk().used() + room);
      CHECK(run.play(full + 5));
      run.disk().set_capacity(kNoFault);
      CHECK(run.play());
      run.end(SimDisk::Loss::unsynced);
      const std::string why = run.finish();
      CHECK_MESSAGE(why == "", "full from batch " << full << ": " << why);
      refused += run.disk().stats().refused_full;
    }
  }
  CHECK(refused > 50 / step);
}

// One schedule whose tick is due, on a disk of its own.
class DueTick {
 public:
  explicit DueTick(std::uint64_t seed) : disk_(fmt::format("tick{}", seed), seed) {
    open();
    PutSchedule put{.schedule = {.name = "s", .every = seconds(60)}};
    put.schedule.job.kind = "tick";
    put.next = put.next_fire = clock_.now().wall;
    const Operation operation = std::move(put);
    REQUIRE(store_->apply({&operation, 1}, clock_.now()));
  }

  // Fires with a fault at the k-th call; then the next process opens. True if it was acknowledged.
  bool fire_and_die(std::int64_t k) {
    const Operation fire = FireSchedule{.name = "s",
                                        .version = 1,
                                        .expected_next = clock_.now().wall,
                                        .ticks = {{.nominal = clock_.now().wall}},
                                        .next = clock_.now().wall + seconds(60),
                                        .next_fire = clock_.now().wall + seconds(60)};
    disk_.crash_after(k);
    const bool acknowledged = store_->apply({&fire, 1}, clock_.now()).has_value();
    died_ = disk_.crashed();
    if (!died_) disk_.crash();
    store_.reset();
    disk_.reboot();
    open();
    return acknowledged;
  }
  bool died() const { return died_; }
  const Store& store() const { return *store_; }

 private:
  void open() {
    auto opened = open_sqlite_store({.directory = "/sim", .vfs = disk_.vfs(), .guard_files = false},
                                    clock_.now(), log_);
    REQUIRE(opened);
    store_ = std::move(*opened);
  }

  SimDisk disk_;
  NullLog log_;
  ManualClock clock_;
  std::unique_ptr<Store> store_;
  bool died_ = false;
};

TEST_CASE("T4: if any call of a fire fails, its row, its job and the next time still agree") {
  bool died = true;
  int lost = 0, kept = 0;
  constexpr std::int64_t kMaxCalls = 200;
  for (std::int64_t k = 1; died && k < kMaxCalls; ++k) {
    CAPTURE(k);
    DueTick tick(static_cast<std::uint64_t>(k));
    const bool acknowledged = tick.fire_and_die(k);
    died = tick.died();
    const Store& store = tick.store();
    const std::size_t rows = store.ledger("s", 9, 0)->rows.size();
    CHECK(store.list({}, 9, 0)->jobs.size() == rows);
    CHECK(store.schedule("s")->fired == static_cast<std::int64_t>(rows));
    CHECK(store.schedule("s")->live.size() == rows);
    CHECK((store.schedule("s")->next == store.agenda().next_schedule));
    CHECK((rows == 1 || !acknowledged));
    CHECK((rows == 1) == (store.due_schedules(ManualClock().now().wall, 9)->empty()));
    CHECK(store.verify()->problems.empty());
    ++(rows == 0 ? lost : kept);
  }
  CHECK(lost > 3);
  CHECK(kept >= 1);
}

TEST_CASE("the end of a step that a full disk refuses has no effect") {
  SimDisk disk("full_step", 1);
  ManualClock clock;
  NullLog log;
  auto opened = open_sqlite_store({.directory = "/sim", .vfs = disk.vfs(), .guard_files = false},
                                  clock.now(), log);
  REQUIRE(opened);
  Store& store = **opened;
  const auto apply = [&](Operation op) { return store.apply({&op, 1}, clock.now()); };
  const auto claim = [&] {
    auto report = apply(Claim{.worker = "w", .queues = {"default"}});
    REQUIRE(report);
    auto jobs = std::get<ClaimResult>(report->results.front()).jobs;
    REQUIRE(jobs.size() == 1);
    return jobs.front();
  };
  const auto complete = [&](const ClaimedJob& job, std::string result) {
    return apply(Finish{.worker = "w", .results = {{job.id, job.token, Complete{result}}}});
  };
  StepSpec first{.name = "a"}, then{.name = "b", .after = {"a"}};
  first.job = then.job = NewJob{.kind = "work"};
  REQUIRE(apply(StartWorkflow{WorkflowSpec{.name = "w", .steps = {first, then}}}));

  const ClaimedJob a = claim();
  const std::string large = '"' + std::string(100'000, 'x') + '"';
  disk.set_capacity(disk.used());
  const auto refused = complete(a, large);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::storage_full);
  disk.set_capacity(kNoFault);
  CHECK(store.workflow(1)->completed == 0);

  REQUIRE(complete(a, large));
  CHECK(store.workflow(1)->completed == 1);
  REQUIRE(complete(claim(), "1"));
  CHECK(store.workflow(1)->state == WorkflowState::completed);
  CHECK(store.verify()->problems.empty());
}

}  // namespace
}  // namespace mainspring::simulation
