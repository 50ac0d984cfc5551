// Nodes that run all operations on the same jobs at once never deadlock: all take their locks in
// one order, or do not wait for them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "base/mutex.h"
#include "blackbox/random.h"
#include "env/clock.h"
#include "postgres/places.h"

namespace mainspring::pg_testing {
namespace {

using namespace std::chrono_literals;

constexpr int kNodes = 3;
constexpr int kBatches = 1500;        // of each
constexpr int kLargeBatches = 500;    // of each, with large enqueues and claims
constexpr std::size_t kKnown = 24;    // the newest jobs, which all nodes use
constexpr std::int64_t kMostOps = 6;  // of a batch

// The known jobs.
class Known {
 public:
  void add(JobId id) {
    MutexLock lock(mutex_);
    ids_.push_back(id);
    if (ids_.size() > kKnown) ids_.erase(ids_.begin());
  }
  JobId some(blackbox::Chance& chance) {
    MutexLock lock(mutex_);
    return ids_.empty() ? 1 : ids_[chance.next() % ids_.size()];
  }

 private:
  Mutex mutex_;
  std::vector<JobId> ids_ MS_GUARDED_BY(mutex_);
};

struct Counts {
  std::atomic<int> claimed{0}, cancelled{0}, finished{0}, moved{0}, expired{0}, rescued{0},
      accepted{0}, messages{0};
};

enum class Jobs : unsigned char { plain, in_packs, of_sessions };
constexpr std::array<std::string_view, 4> kKeys = {"d", "a", "c", "b"};

class Node {
 public:
  Node(const PostgresOptions& place, int number, Jobs jobs, Known& known, Counts& counts)
      : jobs_(jobs),
        chance_(static_cast<std::uint64_t>(number) + 1),
        name_(fmt::format("w{}", number)),
        known_(known),
        counts_(counts),
        store_(must(open_postgres_store(place, clock_.now(), log_))) {}
  void run() {
    for (int left = many() ? kLargeBatches : kBatches; left > 0; --left) head();
  }
  std::vector<std::string> refused;

 private:
  bool many() const { return jobs_ == Jobs::in_packs; }
  void head() {
    std::vector<Operation> batch;
    for (std::int64_t left = chance_.between(1, kMostOps); left > 0; --left)
      batch.push_back(some_operation());
    const auto report = store_->apply(batch, clock_.now());
    if (!report) return refused.push_back(report.error().message);
    for (std::size_t i = 0; i < batch.size(); ++i) note(batch[i], report->results[i]);
    // As if other nodes had sent a notice.
    store_->heard({.queues = {"q"}, .everything = chance_.percent(5)});
  }
  Operation some_operation() {
    if (jobs_ == Jobs::of_sessions && chance_.percent(25)) return some_session_operation();
    const auto dice = chance_.between(0, 99);
    if (dice < 15) return some_enqueue();
    if (dice < 40)
      return Claim{.worker = name_,
                   .queues = {"q"},
                   .max = static_cast<int>(chance_.between(1, many() ? 30 : 5)),
                   .lease = 1s};
    if (dice < 60) return Cancel{.id = known_.some(chance_), .reason = "enough"};
    if (dice < 68) return RetryJob{.id = known_.some(chance_)};
    if (dice < 83) return some_finish();
    if (dice < 89) return some_renew();
    if (dice < 93) return MoveDue{.limit = 10};
    if (dice < 97) return ExpireJobs{.limit = 10};
    return RescueExpired{.limit = 10};
  }
  std::string some_key() { return std::string(kKeys[chance_.next() % kKeys.size()]); }
  SessionKey some_session() { return {.queue = "q", .key = some_key()}; }
  Operation some_session_operation() {
    const auto dice = chance_.between(0, 99);
    const bool holds = !grants_.empty();
    if (dice < 25) return AcceptSession{.worker = name_, .session = some_session(), .lease = 1s};
    if (dice < 35) return ResumeSession{.session = some_session()};
    if (dice < 45 || !holds)
      return Claim{.worker = name_, .queues = {accept_queue("q")}, .max = 1, .lease = 1s};
    const SessionGrant grant = grants_.back();
    if (dice < 70) {
      return Claim{.worker = name_,
                   .queues = {session_queue(grant.session)},
                   .max = 1,
                   .lease = 1s,
                   .session_token = grant.token};
    }
    if (dice < 80) return RenewSession{.session = grant.session, .token = grant.token, .lease = 1s};
    if (dice < 88)
      return PutSessionState{.session = grant.session, .token = grant.token, .state = "[1]"};
    grants_.pop_back();
    return ReleaseSession{.session = grant.session, .token = grant.token};
  }
  void into_sessions(NewJob& job) {
    if (chance_.percent(60)) job.session = some_key();
    job.on_dead = static_cast<OnDead>(chance_.between(0, 2));
    if (!chance_.percent(20)) return;
    job.reply_to = "q";
    job.reply_session = some_key();
    if (chance_.percent(50)) return;
    job.follow_ups = {
        {.queue = "q", .kind = "progress", .on = FollowUp::kProgress, .session = some_key()}};
  }
  Operation some_enqueue() {
    Enqueue enqueue;
    if (many()) {
      const auto jobs = static_cast<std::size_t>(chance_.between(4, 20));
      enqueue.jobs.assign(jobs, {.queue = "q", .kind = "k"});
      return enqueue;
    }
    for (std::int64_t i = chance_.between(1, 4); i > 0; --i) {
      NewJob job{.queue = "q", .kind = "k"};
      if (chance_.percent(30)) job.delay = std::chrono::milliseconds(chance_.between(1, 30));
      if (chance_.percent(30)) job.expires_in = std::chrono::milliseconds(chance_.between(1, 60));
      if (jobs_ == Jobs::of_sessions) into_sessions(job);
      enqueue.jobs.push_back(job);
    }
    return enqueue;
  }
  // Of its own jobs, and of jobs that others have by now.
  Operation some_finish() {
    Finish finish{.worker = name_};
    for (std::int64_t i = chance_.between(1, many() ? 40 : 5); i > 0 && !held_.empty(); --i) {
      const std::size_t at = chance_.next() % held_.size();
      const auto dice = chance_.between(0, 99);
      const bool dies = jobs_ == Jobs::of_sessions && dice < 5;
      const Outcome outcome = dies        ? Outcome(Dead{.reason = "poison", .description = ""})
                              : dice < 50 ? Outcome(Complete{})
                              : dice < 75 ? Outcome(Snooze{})
                                          : Outcome(Retry{.error = "no", .after = 5ms});
      finish.results.push_back({held_[at].id, held_[at].token, outcome});
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (!finish.results.empty()) return finish;
    return Cancel{.id = known_.some(chance_), .reason = "enough"};
  }
  Operation some_renew() {
    Renew renew{.worker = name_, .lease = 1s};
    for (const ClaimedJob& job : held_) {
      Renewal& renewal = renew.leases.emplace_back(Renewal{.id = job.id, .token = job.token});
      if (jobs_ == Jobs::plain) continue;
      if (chance_.percent(50)) renewal.messages = {"1", "2"};
      if (chance_.percent(50))
        renewal.progress = Progress{static_cast<double>(chance_.between(0, 2)) / 2, ""};
    }
    std::reverse(renew.leases.begin(), renew.leases.end());
    if (!renew.leases.empty()) return renew;
    return MoveDue{.limit = 10};
  }
  void note(const Operation& operation, const OperationResult& result) {
    if (const auto* enqueued = std::get_if<EnqueueResult>(&result)) {
      for (const EnqueuedJob& job : enqueued->jobs) known_.add(job.id);
    } else if (const auto* claimed = std::get_if<ClaimResult>(&result)) {
      held_.insert(held_.end(), claimed->jobs.begin(), claimed->jobs.end());
      if (claimed->session) keep(*claimed->session);
      counts_.claimed += static_cast<int>(claimed->jobs.size());
    } else if (const auto* grant = std::get_if<SessionGrant>(&result)) {
      keep(*grant);
    } else if (std::holds_alternative<CancelResult>(result)) {
      ++counts_.cancelled;
    } else if (const auto* finished = std::get_if<FinishResult>(&result)) {
      counts_.finished += static_cast<int>(finished->results.size());
    } else if (const auto* step = std::get_if<StepResult>(&result)) {
      auto& count = std::holds_alternative<MoveDue>(operation)      ? counts_.moved
                    : std::holds_alternative<ExpireJobs>(operation) ? counts_.expired
                                                                    : counts_.rescued;
      count += step->changed;
    }
  }

  void keep(const SessionGrant& grant) {
    ++counts_.accepted;
    grants_.push_back(grant);
    if (grants_.size() > kKeys.size()) grants_.erase(grants_.begin());
  }

  const Jobs jobs_;
  blackbox::Chance chance_;
  const std::string name_;
  SystemClock clock_;
  NullLog log_;
  Known& known_;
  Counts& counts_;
  std::vector<ClaimedJob> held_;
  std::vector<SessionGrant> grants_;
  std::unique_ptr<SharedStore> store_;
};

void run_all(Jobs jobs, Counts& counts) {
  // A deadlock would be detected soon.
  must(the_cluster().set("deadlock_timeout", "20ms"));
  const PostgresOptions place = new_place();
  Known known;
  {
    // A queue is created once.
    const SystemClock clock;
    NullLog log;
    const auto first = must(open_postgres_store(place, clock.now(), log));
    const std::vector<Operation> batch = {PauseQueue{.queue = "q", .paused = false}};
    must(first->apply(batch, clock.now()));
  }
  {
    std::vector<std::unique_ptr<Node>> nodes;
    for (int i = 0; i < kNodes; ++i)
      nodes.push_back(std::make_unique<Node>(place, i, jobs, known, counts));
    std::vector<std::thread> threads;
    for (const auto& node : nodes) threads.emplace_back([&node] { node->run(); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& node : nodes) CHECK_MESSAGE(node->refused.empty(), node->refused.at(0));
  }
  MESSAGE(fmt::format(
      "claimed {}, cancelled {}, finished {}, moved {}, expired {}, rescued {}, "
      "accepted {}",
      counts.claimed.load(), counts.cancelled.load(), counts.finished.load(), counts.moved.load(),
      counts.expired.load(), counts.rescued.load(), counts.accepted.load()));
  CHECK(counts.claimed > 100);
  CHECK(counts.cancelled > 100);
  // A deadlock that is not counted yet is already in the log.
  const Rows rows = must(the_cluster().sql(
      "SELECT sum(deadlocks) FROM pg_stat_database WHERE datname = current_database()",
      the_database()));
  CHECK(rows[0][0] == "0");
  const std::string log = the_cluster().log();
  const std::size_t at = log.find("deadlock detected");
  CHECK_MESSAGE(at == std::string::npos, log.substr(std::min(at, log.size()), 1500));
  SystemClock clock;
  NullLog silent;
  const auto report = must(must(open_postgres_store(place, clock.now(), silent))->verify());
  CHECK_MESSAGE(report.problems.empty(), report.problems.at(0));
  const std::string into_sessions = fmt::format(
      "SELECT count(*) FROM {0}.jobs j JOIN {0}.kinds k ON k.id = j.kind WHERE k.name = 'message' "
      "AND j.session <> ''",
      place.schema);
  counts.messages = std::stoi(must(the_cluster().sql(into_sessions, the_database()))[0][0]);
}

}  // namespace

TEST_CASE("nodes that claim, cancel, finish, renew, move and rescue the same jobs never deadlock") {
  Counts counts;
  run_all(Jobs::plain, counts);
  CHECK(counts.moved > 0);
  CHECK(counts.expired > 0);
}

TEST_CASE(
    "nodes that take whole packs, and cancel and bring back what is in them, never deadlock") {
  Counts counts;
  run_all(Jobs::in_packs, counts);
  CHECK(counts.claimed > 1000);
}

TEST_CASE("nodes that fill, hold, end, message and resume the same sessions never deadlock") {
  Counts counts;
  run_all(Jobs::of_sessions, counts);
  CHECK(counts.accepted > 100);
  CHECK(counts.expired > 0);
  CHECK(counts.messages > 10);
}

}  // namespace mainspring::pg_testing
