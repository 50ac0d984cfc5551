// The clients of the world of lines, where jobs wait for more than a worker: for a service that is
// down, for their turn, or for somebody who names them.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "simulation/claim_loop.h"
#include "simulation/world.h"

namespace mainspring::simulation {

// Somebody who does something now and then, until it is stopped.
class LineActor {
 public:
  LineActor(World& world, Duration shortest, Duration longest, std::function<void()> act)
      : world_(world), shortest_(shortest), longest_(longest), act_(std::move(act)) {}
  void start() { next(); }
  void stop() { stopped_ = true; }

 private:
  void next();

  World& world_;
  const Duration shortest_, longest_;
  const std::function<void()> act_;
  bool stopped_ = false;
};

// -- breakers
// ---------------------------------------------------------------------------------------

// What the jobs of kBreakerQueues call: it goes down and comes back; it is well after the faults.
class Service {
 public:
  explicit Service(World& world)
      : world_(world), life_(world, std::chrono::seconds(8), std::chrono::seconds(60), [this] {
          down_ = !down_;
        }) {}
  void start() { life_.start(); }
  bool is_down() const { return down_ && !world_.healed(); }

 private:
  World& world_;
  bool down_ = false;
  LineActor life_;
};

// Makes the breaker, changes it, opens and closes it; takes a queue from it and gives it back.
class BreakerOperator {
 public:
  explicit BreakerOperator(World& world);
  void start();
  void stop();

 private:
  void call_jobs();
  void change();

  World& world_;
  LineActor calls_, changes_;
};

class CallWorker {
 public:
  CallWorker(World& world, const Service& service, int number);
  void start() { loop_.start(); }

 private:
  void finish(const ClaimedJob& job);

  World& world_;
  const Service& service_;
  ClaimLoop loop_;
};

// -- order
// ------------------------------------------------------------------------------------------

// Sends more jobs at once than the workers of kAgedQueue and kFairQueue can take, and changes how
// they are ordered.
class Crowd {
 public:
  explicit Crowd(World& world);
  void start();
  void stop();

 private:
  void send_aged();
  void send_fair();
  void change();

  World& world_;
  LineActor aged_, fair_, changes_;
};

class LineWorker {
 public:
  LineWorker(World& world, const std::string& queue);
  void start() { loop_.start(); }

 private:
  void finish(const ClaimedJob& job);

  World& world_;
  ClaimLoop loop_;
};

// -- deferred jobs
// ----------------------------------------------------------------------------------

// Sends the jobs of kAsideQueue, pauses and limits it, retries and cancels some.
class AsideOperator {
 public:
  explicit AsideOperator(World& world);
  void start();
  void stop();

 private:
  void send_jobs();
  void change();
  void retry_or_cancel();

  World& world_;
  LineActor jobs_, changes_;
  std::vector<JobId> known_;
};

// Puts jobs aside, and comes back for them by their ids; asks for others too.
class AsideWorker {
 public:
  AsideWorker(World& world, int number);
  void start();

 private:
  void finish(const ClaimedJob& job);
  void come_back();

  World& world_;
  ClaimLoop loop_;
  LineActor comes_back_;
  std::deque<JobId> aside_;
};

// Whoever looks after the faults: what is still put aside is retried, the queue goes on.
void tend_deferred(World& world);

}  // namespace mainspring::simulation
