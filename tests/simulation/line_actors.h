// The clients of the world of lines, where jobs also wait for other reasons than a free worker: a
// service that is down, their place in the order, or a claim by id.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "simulation/claim_loop.h"
#include "simulation/world.h"

namespace mainspring::simulation {

// A client that acts at random intervals until it is stopped.
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

// -- breakers -------------------------------------------------------------------------------------

// The service that jobs of kBreakerQueues call: it fails and recovers; after the faults it works.
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

// -- order ----------------------------------------------------------------------------------------

// Sends more jobs at once than the workers of kAgedQueue and kFairQueue can run, and changes their
// order.
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

// -- deferred jobs --------------------------------------------------------------------------------

// Sends the jobs of kDeferQueue, pauses and limits it, retries and cancels some.
class DeferOperator {
 public:
  explicit DeferOperator(World& world);
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

// Defers jobs and claims them by their ids later; claims others by id, too.
class DeferWorker {
 public:
  DeferWorker(World& world, int number);
  void start();

 private:
  void finish(const ClaimedJob& job);
  void come_back();

  World& world_;
  ClaimLoop loop_;
  LineActor comes_back_;
  std::deque<JobId> deferred_;
};

// After the faults: retries deferred jobs and resumes the queue.
void tend_deferred(World& world);

}  // namespace mainspring::simulation
