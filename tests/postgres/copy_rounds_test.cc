// Copies of stores that change between the rounds of a copy: random histories, in which sessions
// start, end and change their heads, are applied before every round and every fence.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "conformance/describe.h"
#include "conformance/histories.h"
#include "postgres/copy_places.h"
#include "postgres/places.h"
#include "scale.h"

namespace mainspring {
namespace {

using pg_testing::CopyPlace;
using pg_testing::must;
using pg_testing::PlaceKind;

constexpr int kFirst = 120;        // steps before the copy
constexpr int kBetween = 12;       // steps before each round
constexpr int kRefusedFences = 3;  // each of them needs one more round
constexpr int kTooManyFences = 4;  // the copy gives up

// A source that changes before every round, and whose first fences are refused.
class BusySource final : public TransferSource {
 public:
  BusySource(std::unique_ptr<TransferSource> source, int refused_fences,
             std::function<void()> meanwhile)
      : source_(std::move(source)),
        refused_fences_(refused_fences),
        meanwhile_(std::move(meanwhile)) {}

  Result<void> look() override {
    meanwhile_();
    return source_->look();
  }
  Result<void> fence(Duration patience) override {
    meanwhile_();
    if (--refused_fences_ < 0) return source_->fence(patience);
    return Error{.code = ErrorCode::unavailable, .message = "a transaction is writing"};
  }
  TransferPlace place() const override { return source_->place(); }
  Result<std::optional<TransferPlace>> moved() override { return source_->moved(); }
  void lift() noexcept override { source_->lift(); }
  Result<void> mark_moved(const TransferPlace& to, WallTime now) override {
    return source_->mark_moved(to, now);
  }
  Result<TransferBlocks> blocks(TransferSection section,
                                std::optional<std::int64_t> only) override {
    return source_->blocks(section, only);
  }
  Result<std::vector<JobStamp>> stamps(std::int64_t block) override {
    return source_->stamps(block);
  }
  Result<std::size_t> jobs(std::span<const JobId> ids, std::vector<TransferJob>& out) override {
    return source_->jobs(ids, out);
  }
  Result<std::vector<TransferFinished>> finished(std::int64_t block) override {
    return source_->finished(block);
  }
  Result<std::vector<TransferKey>> keys(std::int64_t block) override {
    return source_->keys(block);
  }
  Result<std::vector<TransferWindow>> windows(std::int64_t block) override {
    return source_->windows(block);
  }
  Result<std::vector<TransferHistory>> history(std::int64_t block) override {
    return source_->history(block);
  }
  Result<std::vector<TransferWorkflow>> workflows(std::int64_t block) override {
    return source_->workflows(block);
  }
  Result<std::vector<TransferWorkflowRow>> workflow_rows(
      std::int64_t block, const TransferWorkflowRow* after) override {
    return source_->workflow_rows(block, after);
  }
  Result<TransferCatalog> catalog() override { return source_->catalog(); }
  Result<std::vector<TransferTick>> ledger(std::int64_t schedule, std::int64_t after) override {
    return source_->ledger(schedule, after);
  }
  Result<std::vector<AuditRecord>> audit(std::int64_t after) override {
    return source_->audit(after);
  }

 private:
  std::unique_ptr<TransferSource> source_;
  int refused_fences_;
  std::function<void()> meanwhile_;
};

// A store with a random history of operations.
class Life {
 public:
  Life(const CopyPlace& place, std::uint64_t seed)
      : generator_(seed), store_(must(place.open(clock_.now(), options()))) {}

  void go_on(int steps) {
    for (int i = 0; i < steps; ++i) {
      const Step step = generator_.next(clock_.now(), *store_);
      clock_.advance(step.advance);
      clock_.step_wall(step.step_wall);
      const BatchReport report = must(store_->apply(step.batch, clock_.now()));
      generator_.learn(step.batch, report.results);
    }
  }
  Now now() const { return clock_.now(); }
  const Store& store() const { return *store_; }
  static StoreOptions options() {
    StoreOptions o;
    o.max_live_jobs = 150;
    return o;
  }

 private:
  ManualClock clock_;
  Generator generator_;
  std::unique_ptr<Store> store_;
};

// Counters, jobs and sessions, without the ends of leases, which restart.
std::vector<std::string> lines_of(const Store& store) {
  constexpr int kAll = 100'000;
  std::vector<std::string> lines;
  for (const QueueStats& queue : must(store.queues())) lines.push_back(describe(queue));
  for (const Job& listed : must(store.list({}, kAll, 0)).jobs)
    lines.push_back(describe(must(store.get(listed.id))));
  for (const SessionInfo& listed : must(store.sessions("", {}, kAll, Instant())).sessions) {
    SessionInfo info = must(store.session(listed.session, Instant()));
    info.expires_in = Duration(0);
    lines.push_back(describe(info));
  }
  return lines;
}

// What is wrong with the target of a copy of a store with this history; "" = nothing.
std::string moved_while_it_lives(PlaceKind kind, PlaceKind into, std::uint64_t seed) {
  const CopyPlace from(kind), to(into);
  Life life(from, seed);
  life.go_on(kFirst);
  // Every second copy is abandoned and continued by another one without the state of the first.
  for (const int refused : {kTooManyFences, kRefusedFences}) {
    if (refused == kTooManyFences && seed % 2 != 0) continue;
    BusySource source(must(from.source()), refused, [&] { life.go_on(kBetween); });
    const auto target = must(to.target());
    const pg_testing::StandingClock clock(life.now());
    const auto report = copy_store(source, *target, {}, clock);
    CHECK(report.has_value() == (refused == kRefusedFences));
    if (report && !report->problems.empty()) return report->problems[0];
    if (report) CHECK(report->fences == kRefusedFences + 1);
  }
  const auto copy = must(to.open(life.now(), Life::options()));
  const std::vector<std::string> is = lines_of(*copy), was = lines_of(life.store());
  for (std::size_t i = 0; i < std::max(is.size(), was.size()); ++i) {
    const std::string a = i < was.size() ? was[i] : "nothing",
                      b = i < is.size() ? is[i] : "nothing";
    if (a != b) return fmt::format("source: {}\n  target: {}", a, b);
  }
  const VerifyReport verified = must(copy->verify());
  return verified.problems.empty() ? "" : verified.problems[0];
}

TEST_CASE("a copy is sound and equal despite changes to jobs and sessions between its rounds") {
  const char* asked = std::getenv("MS_COPY_SEEDS");
  const auto seeds =
      static_cast<std::uint64_t>(asked == nullptr ? by_scale(1, 3, 8) : std::atoi(asked));
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    for (const PlaceKind kind : {PlaceKind::directory, PlaceKind::schema}) {
      for (const PlaceKind into : {PlaceKind::directory, PlaceKind::schema}) {
        CAPTURE(seed);
        CAPTURE(static_cast<int>(kind));
        CAPTURE(static_cast<int>(into));
        const std::string why = moved_while_it_lives(kind, into, seed);
        if (!why.empty()) FAIL_CHECK(why);
      }
    }
  }
}

}  // namespace
}  // namespace mainspring
