// The store under every single failure of its disk: a fixed script, and for each I/O call of it a
// run in which just that call crashes, kills, fails to sync, or finds the disk full.
//
// Source: SQLite's own fail-the-k-th-call loops, https://www.sqlite.org/testing.html
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "env/clock.h"
#include "simulation/mirror_store.h"
#include "store_sqlite/sqlite_store.h"

namespace mainspring::simulation {
namespace {

using std::chrono::seconds;

constexpr int kBatches = 24;
constexpr int kMaxOpens = 10;

class Run {
 public:
  explicit Run(std::uint64_t seed) : disk_(fmt::format("sweep{}", ++count_), seed) {}
  ~Run() {
    if (store_) store_->die();
  }

  // Opens, again if the power goes while it recovers. `crash_in`: at which call of the first
  // opening.
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

  // Opens, plays to the end, and everything agrees. "" or what is wrong.
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
      Claim c{.worker = "w", .queues = {"default"}, .kinds = {}, .max = 3, .lease = seconds(8)};
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
    return ops;
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
  for (std::int64_t k = 1; k <= calls; ++k) {
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
  CHECK(lost > 100);
}

TEST_CASE("the process is killed at each I/O call") {
  const std::int64_t calls = calls_of_script();
  for (std::int64_t k = 1; k <= calls; ++k) {
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
    for (std::int64_t crash = 1; crash <= kRecoveryCalls; crash += 2) {
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
  for (int full = 1; full < kBatches - 6; ++full) {
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
  CHECK(refused > 50);
}

}  // namespace
}  // namespace mainspring::simulation
