// The clients of a simulated world: workers that run jobs, producers that make and manage them.
//
// Small state machines over World::call(). All that they observe goes into the world's history.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "simulation/world.h"

namespace mainspring::simulation {

inline const std::vector<std::string> kQueues = {"alpha", "beta", "gamma"};
inline const std::vector<std::string> kKinds = {"resize", "mail", "report"};

inline constexpr int kSessions = 4;  // of each queue

class SimWorker {
 public:
  SimWorker(World& world, int number);
  virtual ~SimWorker() = default;
  virtual void start();

 protected:
  struct Held {
    Token token = 0;
    std::int64_t nonce = 0;
    SessionKey session;         // key "" = none
    std::size_t write = kNone;  // of the session's state, with its finish
    std::string state;          // that it writes
    bool finishing = false;
    bool tried = false;  // a finish has been sent: it may have taken effect
    int beats = 0;
    std::int64_t said = 0;               // messages
    std::optional<Progress> progress{};  // that it reported last
  };
  // Runs `action` later, or after a pause; not if this incarnation has died by then.
  void later(Duration delay, std::function<void()> action);
  template <class... Args>
  auto alive(std::function<void(Args...)> action);
  void plan_faults();
  virtual void claim();
  void send_claim(Claim claim, Duration wait);
  // The answer of a claim, if the worker is still alive.
  virtual void answered(const OperationResult& result, Duration sent, const Claim& claim) {
    (void)result, (void)sent, (void)claim;
  }
  void granted(const ClaimResult& result, blackbox::Span at, Duration lease, Token hold);
  virtual void beat();
  void renewed(const std::vector<Renewal>& sent, blackbox::Span at,
               const std::optional<OperationResult>& result);
  void finish(JobId id, Outcome outcome);
  void send_finish(JobId id, Token token, Outcome outcome);
  Outcome draw_outcome();

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  World& world_;
  const int number_;
  int life_ = 0;
  std::string id_;
  int slots_ = 4;
  Duration paused_until_{0};
  std::map<JobId, Held> held_;
  std::vector<std::string> queues_, kinds_;
};

class Producer {
 public:
  Producer(World& world, int number) : world_(world), number_(number) {}
  void start() { next(); }
  void stop() { stopped_ = true; }

 private:
  void next();
  void enqueue();
  NewJob draw_job(const std::string& queue);
  void send(Enqueue request, blackbox::EnqueueEvent event, int tries);
  void cancel();
  void retry();
  void pause();
  void read();
  void resume();
  void into_session(NewJob& job);
  JobId some_job();

  World& world_;
  const int number_;
  bool stopped_ = false;
  int keys_ = 0;
  std::int64_t nonces_ = 0;
  std::vector<JobId> known_;
  std::vector<Enqueue> sent_;  // with keys, for repetitions much later
};

// {"n":7} of a job's args.
std::int64_t nonce_of(const std::string& args);

}  // namespace mainspring::simulation
