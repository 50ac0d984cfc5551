// Sessions that several nodes share: one job of each at a time, in the order of enqueue over all
// nodes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <thread>

#include "base/mutex.h"
#include "blackbox/random.h"
#include "env/clock.h"
#include "postgres/places.h"

namespace mainspring::pg_testing {
namespace {

using namespace std::chrono_literals;

constexpr int kNodes = 3;
constexpr int kHeads = 300;  // of each
constexpr Duration kMostDraining = std::chrono::seconds(60);

// The claims of each session, by all nodes.
class History {
 public:
  void claimed(const ClaimedJob& job) {
    MutexLock lock(mutex_);
    Line& line = lines_[job.session];
    if (line.running != 0)
      wrong_.push_back(fmt::format("{} runs beside {} in {}", job.id, line.running, job.session));
    if (job.id <= line.last)
      wrong_.push_back(fmt::format("{} after {} in {}", job.id, line.last, job.session));
    line.running = line.last = job.id;
    ++claims_;
  }
  // Called before the finish: another node may get the next job before this node has the answer.
  void finishing(const ClaimedJob& job) {
    MutexLock lock(mutex_);
    lines_[job.session].running = 0;
  }
  void enqueued(std::size_t jobs) {
    MutexLock lock(mutex_);
    jobs_ += jobs;
  }
  std::size_t left() const {
    MutexLock lock(mutex_);
    return jobs_ - claims_;
  }
  std::string first_wrong() const {
    MutexLock lock(mutex_);
    return wrong_.empty() ? "" : wrong_.front();
  }

 private:
  struct Line {
    JobId running = 0, last = 0;
  };
  mutable Mutex mutex_;
  std::map<std::string, Line> lines_ MS_GUARDED_BY(mutex_);
  std::size_t jobs_ MS_GUARDED_BY(mutex_) = 0, claims_ MS_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> wrong_ MS_GUARDED_BY(mutex_);
};

class Node {
 public:
  Node(const PostgresOptions& place, int number, History& history)
      : chance_(static_cast<std::uint64_t>(number) + 1),
        name_(fmt::format("w{}", number)),
        history_(history),
        store_(must(open_postgres_store(place, clock_.now(), log_))) {}

  void run() {
    for (int i = 0; i < kHeads && refused.empty(); ++i) {
      std::vector<Operation> batch;
      // In this order it takes the fast path, unless a session is held or accepted in it.
      if (chance_.percent(60)) add_finish(batch);
      if (chance_.percent(70)) batch.push_back(some_enqueue());
      add_finish(batch);
      add_claim(batch);
      apply(batch);
    }
    while (!held_.empty() || grant_) end_head();
  }
  // A claim may find nothing although there are jobs: it does not read all ready queues each time.
  // A batch that waited may make a job the head whose run_at is later than the batch's own time.
  // That job is scheduled until the leader moves it, as here.
  void drain() {
    std::vector<Operation> batch;
    add_finish(batch);
    batch.push_back(MoveDue{});
    batch.push_back(Claim{.worker = name_, .queues = {"q"}, .max = 5, .lease = 60s});
    apply(batch);
  }
  std::string refused;

 private:
  void end_head() {
    std::vector<Operation> batch;
    add_finish(batch);
    if (grant_) batch.push_back(ReleaseSession{.session = grant_->session, .token = grant_->token});
    grant_.reset();
    apply(batch);
  }
  Operation some_enqueue() {
    Enqueue enqueue;
    for (std::int64_t i = chance_.between(1, 4); i > 0; --i) {
      enqueue.jobs.push_back(
          {.queue = "q", .kind = "k", .session = fmt::format("s{}", chance_.between(0, 3))});
    }
    history_.enqueued(enqueue.jobs.size());
    return enqueue;
  }
  void add_finish(std::vector<Operation>& batch) {
    Finish finish{.worker = name_};
    for (const ClaimedJob& job : held_) {
      history_.finishing(job);
      finish.results.push_back({job.id, job.token, Complete{}});
    }
    held_.clear();
    if (!finish.results.empty()) batch.push_back(finish);
  }
  void add_claim(std::vector<Operation>& batch) {
    if (grant_ && chance_.percent(20)) {
      batch.push_back(ReleaseSession{.session = grant_->session, .token = grant_->token});
      grant_.reset();
    } else if (grant_) {
      batch.push_back(Claim{.worker = name_,
                            .queues = {session_queue(grant_->session)},
                            .max = 1,
                            .lease = 60s,
                            .session_token = grant_->token});
    } else if (chance_.percent(25)) {
      batch.push_back(
          Claim{.worker = name_, .queues = {accept_queue("q")}, .max = 1, .lease = 60s});
    } else {
      batch.push_back(Claim{.worker = name_, .queues = {"q"}, .max = 2, .lease = 60s});
    }
  }
  void apply(const std::vector<Operation>& batch) {
    if (batch.empty()) return;
    auto report = store_->apply(batch, clock_.now());
    if (!report) {
      refused = report.error().message;
      return;
    }
    for (const OperationResult& result : report->results) {
      if (const auto* error = std::get_if<Error>(&result)) refused = error->message;
      const auto* claimed = std::get_if<ClaimResult>(&result);
      if (claimed == nullptr) continue;
      for (const ClaimedJob& job : claimed->jobs) {
        history_.claimed(job);
        held_.push_back(job);
      }
      if (claimed->session) grant_ = claimed->session;
    }
  }

  blackbox::Chance chance_;
  const std::string name_;
  SystemClock clock_;
  NullLog log_;
  History& history_;
  std::vector<ClaimedJob> held_;
  std::optional<SessionGrant> grant_;
  std::unique_ptr<SharedStore> store_;
};

std::string value(const std::string& sql) {
  return must(the_cluster().sql(sql, the_database()))[0][0];
}

}  // namespace

TEST_CASE("ORD: nodes that share sessions run one job of each at a time, in the order of enqueue") {
  must(the_cluster().set("deadlock_timeout", "20ms"));
  const PostgresOptions place = new_place();
  History history;
  {
    std::vector<std::unique_ptr<Node>> nodes;
    for (int i = 0; i < kNodes; ++i) nodes.push_back(std::make_unique<Node>(place, i, history));
    std::vector<std::thread> threads;
    for (const auto& node : nodes) threads.emplace_back([&node] { node->run(); });
    for (std::thread& thread : threads) thread.join();
    // A loaded machine reads the ready queues less often.
    const SystemClock clock;
    const Instant until = clock.now().instant + kMostDraining;
    while (clock.now().instant < until && history.left() > 0) nodes[0]->drain();
    nodes[0]->drain();  // ends its last claimed jobs
    for (const auto& node : nodes) CHECK(node->refused == "");
  }
  CHECK(history.first_wrong() == "");
  CHECK(history.left() == 0);
  CHECK(value("SELECT sum(deadlocks) FROM pg_stat_database WHERE datname = "
              "current_database()") == "0");
  CHECK(value(fmt::format("SELECT count(*) FROM {}.sessions", place.schema)) == "0");
  CHECK(value(fmt::format("SELECT count(*) FROM {}.session_jobs", place.schema)) == "0");
  SystemClock clock;
  NullLog log;
  const auto report = must(must(open_postgres_store(place, clock.now(), log))->verify());
  CHECK_MESSAGE(report.problems.empty(), report.problems.at(0));
}

}  // namespace mainspring::pg_testing
