// The clients of the once world: jobs with steps, completions that post jobs, callbacks and their
// receiver, and jobs that kill their workers.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "simulation/callback_invariant.h"
#include "simulation/claim_loop.h"
#include "simulation/line_actors.h"
#include "simulation/memo_invariant.h"
#include "simulation/next_invariant.h"
#include "simulation/read_invariant.h"
#include "simulation/world.h"

namespace mainspring::simulation {

// The records of the clients.
struct OnceInvariants {
  explicit OnceInvariants(std::optional<Duration> retention) : reads(retention) {}
  MemoInvariant memos;
  NextInvariant posts;
  CallbackInvariant callbacks;
  ReadInvariant reads;
};

// Sends orders, some with callbacks and a forged step key, and poison jobs; cancels some, retries
// others, and reads.
class OrderMaker {
 public:
  OrderMaker(World& world, OnceInvariants& invariants);
  void start();
  void stop();
  JobId some_poison() const;  // an enqueued one; 0 = none

 private:
  NewJob draw_order();
  void send_orders();
  void send_poison();
  void send(Enqueue request, std::deque<JobId>& known);
  void change();
  void read();

  World& world_;
  OnceInvariants& invariants_;
  LineActor orders_, poison_, changes_, reads_;
  std::deque<JobId> known_orders_, known_poison_;
};

// Runs orders, step by step, and the jobs that they post. Only the results of steps renew its
// lease: sometimes it is late, and it dies.
class OrderWorker {
 public:
  OrderWorker(World& world, OnceInvariants& invariants, int number);
  void start() { loop_.start(); }

 private:
  struct Run;  // of one attempt
  void begin(const ClaimedJob& job);
  void recall(const std::shared_ptr<Run>& run);
  void next_step(const std::shared_ptr<Run>& run);
  void keep(const std::shared_ptr<Run>& run, const Memo& memo, int tries);
  void kept(const std::shared_ptr<Run>& run, const Memo& memo, int tries,
            const std::optional<OperationResult>& result, bool late, bool sure);
  void end(const std::shared_ptr<Run>& run);
  void complete(const std::shared_ptr<Run>& run);
  void send_finish(const ClaimedJob& job, const Outcome& outcome, std::int64_t completion,
                   int tries);
  void ended(const ClaimedJob& job, const FinishResult& answer, std::int64_t completion);
  bool dies() const;

  World& world_;
  OnceInvariants& invariants_;
  ClaimLoop loop_;
  std::map<std::int64_t, Duration> sent_;  // completions, when they were first sent
};

// Posts callbacks as the nodes' own workers do, to a receiver that accepts, refuses or loses them.
class Poster {
 public:
  Poster(World& world, OnceInvariants& invariants, int number);
  void start() { loop_.start(); }

 private:
  void post(const ClaimedJob& job);
  void receive(const ClaimedJob& claimed, const Job& job);
  OutgoingResponse draw_answer();

  World& world_;
  OnceInvariants& invariants_;
  ClaimLoop loop_;
};

// Every other job kills it; sometimes it claims a job by its id.
class PoisonWorker {
 public:
  PoisonWorker(World& world, const OrderMaker& jobs, int number);
  void start();

 private:
  void finish(const ClaimedJob& job);
  void ask_by_id();

  World& world_;
  const OrderMaker& jobs_;
  ClaimLoop loop_;
  LineActor asks_;
};

}  // namespace mainspring::simulation
