// Bench: one store of the kind under test, on its own clock, with short names for operations.
//
// A program that links the cases defines store_under_test(). Every batch checks that the counters
// add up; the end of every case runs verify().
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "env/clock.h"
#include "store/store.h"

namespace mainspring {

enum class OpenAs {
  fresh,   // an empty place
  reopen,  // the place of this factory's last store, which has been destroyed
};
// `now` is the time of opening. Never returns nullptr.
using StoreFactory =
    std::function<std::unique_ptr<Store>(OpenAs how, const StoreOptions& options, Now now)>;
// Defined by each program that runs the suite: a factory with its own place.
StoreFactory store_under_test();

namespace conformance {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class Bench {
 public:
  explicit Bench(StoreOptions options = {});
  ~Bench();  // verify() must be clean

  // -- time, opening ------------------------------------------------------------------------------
  ManualClock clock;
  StoreOptions options;

 private:
  StoreFactory open_;  // it owns the place, so it outlives the store

 public:
  std::unique_ptr<Store> store;
  void advance(Duration d) { clock.advance(d); }
  WallTime wall() const { return clock.now().wall; }
  void reopen();

  // -- operations; each is a separate batch that must be accepted unless noted -------------------
  std::vector<OperationResult> apply(std::vector<Operation> batch);
  // The answer of one operation, of type T, or a failed test.
  template <class T>
  T one(Operation operation) {
    std::vector<OperationResult> results = apply({std::move(operation)});
    if (const Error* error = std::get_if<Error>(&results[0])) {
      FAIL("refused: " << std::string(error->name()) << ": " << error->message);
    }
    REQUIRE(std::holds_alternative<T>(results[0]));
    return std::get<T>(std::move(results[0]));
  }
  // The code of an operation that must be refused.
  ErrorCode refused(Operation operation);

  NewJob job(std::string queue = "q") const;
  JobId enqueue(NewJob job);
  JobId enqueue() { return enqueue(job()); }
  // The worker renews at once, so that the loss of the lease counts.
  std::vector<ClaimedJob> claim(int max = 1, std::vector<std::string> queues = {"q"});
  std::vector<ClaimedJob> claim_silently(int max = 1, std::vector<std::string> queues = {"q"});
  ClaimedJob claim_one();  // requires one
  FinishStatus finish(const ClaimedJob& job, Outcome outcome);
  FinishStatus finish(JobId id, Token token, Outcome outcome);
  RenewResult renew(const ClaimedJob& job, std::optional<Progress> progress = {},
                    std::optional<std::string> checkpoint = {});
  CancelResult cancel(JobId id, std::string reason = "not needed");
  RetryResult retry(JobId id);
  int move_due() { return one<StepResult>(MoveDue{}).changed; }
  int rescue() { return one<StepResult>(RescueExpired{}).changed; }
  int expire() { return one<StepResult>(ExpireJobs{}).changed; }
  int prune() { return one<StepResult>(PruneJobs{}).changed; }
  // Enqueue, claim and finish a job.
  JobId completed(NewJob job);
  JobId dead(NewJob job);

  // -- reads --------------------------------------------------------------------------------------
  Job get(JobId id) const;
  ErrorCode get_refused(JobId id) const;
  JobState state(JobId id) const { return get(id).state; }
  QueueStats stats(const std::string& queue = "q") const;
  std::int64_t count(JobState state, const std::string& queue = "q") const;
  std::vector<JobId> listed(const JobFilter& filter) const;  // all pages
  const Effects& effects() const { return effects_; }        // of the last batch
  bool became_available(const std::string& queue) const;     // in the last batch

 private:
  void check_counters() const;
  Effects effects_;
};

std::vector<JobId> ids(const std::vector<ClaimedJob>& jobs);

}  // namespace conformance
}  // namespace mainspring
