// The clients of the world of what happens once: jobs with steps, completions that post jobs,
// callbacks and the one who gets them, and jobs that take their workers down.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "simulation/callback_law.h"
#include "simulation/claim_loop.h"
#include "simulation/line_actors.h"
#include "simulation/memo_law.h"
#include "simulation/next_law.h"
#include "simulation/read_law.h"
#include "simulation/world.h"

namespace mainspring::simulation {

// What the clients write down.
struct OnceLaws {
  explicit OnceLaws(std::optional<Duration> retention) : reads(retention) {}
  MemoLaw memos;
  NextLaw posts;
  CallbackLaw callbacks;
  ReadLaw reads;
};

// Sends orders, some with callbacks and with a step's key that is not theirs, and poison; cancels
// some, tries others again, and reads.
class OrderMaker {
 public:
  OrderMaker(World& world, OnceLaws& laws);
  void start();
  void stop();
  JobId some_poison() const;  // that was enqueued; 0 = none was

 private:
  NewJob draw_order();
  void send_orders();
  void send_poison();
  void send(Enqueue request, std::deque<JobId>& known);
  void change();
  void read();

  World& world_;
  OnceLaws& laws_;
  LineActor orders_, poison_, changes_, reads_;
  std::deque<JobId> known_orders_, known_poison_;
};

// Runs orders, step by step, and what they post. Its lease is renewed by the results of steps
// alone: it is late now and then, and dies.
class OrderWorker {
 public:
  OrderWorker(World& world, OnceLaws& laws, int number);
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
  OnceLaws& laws_;
  ClaimLoop loop_;
  std::map<std::int64_t, Duration> sent_;  // completions, when they were first
};

// Posts callbacks as the nodes' own workers do, to a receiver that takes, refuses or loses them.
class Poster {
 public:
  Poster(World& world, OnceLaws& laws, int number);
  void start() { loop_.start(); }

 private:
  void post(const ClaimedJob& job);
  void receive(const ClaimedJob& claimed, const Job& job);
  OutgoingResponse draw_answer();

  World& world_;
  OnceLaws& laws_;
  ClaimLoop loop_;
};

// Dies of every other job; now and then it asks for one by its id.
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
