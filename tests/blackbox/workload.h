// The clients of a torture run: producers, workers and an operator, each a thread with its own
// connection and its own history.
//
//   producers  enqueue one or many, delayed, unique, expiring, with idempotency keys that they
//              repeat after an unknown outcome, sometimes after a known one, sometimes with
//              another body
//   workers    claim, renew with checkpoints, finish with every outcome; some vanish with their
//              jobs, some come back when their lease is over
//   operator   gives queues limits and a breaker; reads, cancels, retries, pauses and resumes
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "history.h"
#include "http_client.h"
#include "random.h"

namespace blackbox {

inline constexpr Micros kLease = 1'000'000;
inline constexpr std::int64_t kMaxBacklog = 1'500;  // producers pause above it
// Longer than any wait of a client, any stop of the server and any pause of a busy machine.
inline constexpr int kAnswerLimitMs = 30'000;
inline constexpr std::size_t kMaxKnownIds = 4'096;

// The shared state of the threads.
class Shared {
 public:
  explicit Shared(std::uint16_t port_number) : port(port_number) {}

  // Whether the server answers: clients wait instead of polling.
  void set_up(bool up);
  // Waits until the server is up or the run stops, at most `milliseconds`.
  void wait_up(int milliseconds);

  // Lets producers enqueue up to `jobs` more jobs: a long run must not become a large one.
  void allow(std::int64_t jobs);
  // Takes `jobs` from the allowance; waits briefly if there is none, then returns false.
  bool take(std::int64_t jobs);

  void remember(Id id);
  Id some_id(Chance& chance);

  const std::uint16_t port;
  std::atomic<bool> stop{false};
  std::atomic<bool> draining{false};  // no new work, no faults: finish the remaining jobs
  std::atomic<std::int64_t> backlog{0};
  std::atomic<std::int64_t> next_nonce{1};
  std::atomic<std::int64_t> next_request{1};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool up_ = false;
  std::int64_t allowed_ = 0;
  std::vector<Id> ids_;
  std::size_t next_id_ = 0;
};

class Client {
 public:
  Client(Shared& shared, std::uint64_t seed) : shared_(shared), chance_(seed), http_(shared.port) {}
  virtual ~Client() = default;
  void run();
  History& history() { return history_; }

 protected:
  virtual void turn() = 0;
  // Sends; if the server is down, waits for it. yes = 2xx, no = refused, unknown = all else.
  Answer send(std::string_view method, const std::string& target, const std::string& body,
              const std::vector<std::string>& headers = {});
  static Done done(const Answer& answer);

  Shared& shared_;
  Chance chance_;
  HttpClient http_;
  History history_;
};

std::unique_ptr<Client> make_producer(Shared& shared, std::uint64_t seed);
std::unique_ptr<Client> make_worker(Shared& shared, std::uint64_t seed);
std::unique_ptr<Client> make_operator(Shared& shared, std::uint64_t seed);

// The queues of the run; the last one is paused and resumed.
const std::vector<std::string>& queue_names();

}  // namespace blackbox
