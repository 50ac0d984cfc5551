// A node for a measurement, and in-process load on it.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "cli/bench.h"
#include "engine/node.h"

namespace mainspring::cli::bench {

// A started node in a new directory; its destructor removes both.
class LocalNode {
 public:
  static Result<std::unique_ptr<LocalNode>> open(const Plan& plan, const std::string& name);
  ~LocalNode();
  Broker& broker() { return node_->broker(); }
  Node& node() { return *node_; }
  Registry& registry() { return registry_; }
  const std::string& directory() const { return directory_; }
  // Stops it and keeps the files.
  void close();
  void keep_files() { keep_files_ = true; }

 private:
  LocalNode() = default;
  SystemClock clock_;
  StderrLog log_{LogLevel::error};
  Registry registry_;
  std::string directory_;
  std::unique_ptr<Node> node_;
  bool keep_files_ = false;
  std::optional<PostgresOptions> dropped_;
};

struct LoadOptions {
  int clients = 1;
  int batch = 1;
  int payload = 200;
  bool lifecycle = false;                       // else only enqueue
  std::vector<std::string> queues = {"bench"};  // jobs alternate between them; claims name them all
  int sessions = 0;                             // jobs alternate between this many; 0 = none
  // Only with lifecycle: workflows with this many sequential steps instead of jobs. A batch of
  // workflows is started, then a batch is claimed and finished for each step. 0 = jobs.
  int steps = 0;
};

// Logical clients, each with one request in flight; one thread sends their requests.
class LocalLoad {
 public:
  LocalLoad(Broker& broker, const LoadOptions& options);
  ~LocalLoad();  // waits for requests in flight
  void start();
  // Jobs acknowledged (enqueue) or completed (lifecycle) so far; for workflows, jobs of steps.
  std::int64_t done() const { return done_.load(std::memory_order_relaxed); }
  // Returns the first error. Call after stop().
  Result<void> stop();

 private:
  struct Client {
    std::string worker;
    enum class Next { enqueue, claim, finish } next = Next::enqueue;
    std::vector<ClaimedJob> claimed;
    std::size_t queue = 0;
    std::size_t session = 0;
    int starting = 0;  // workflows whose start is not answered yet
    int rounds = 0;    // claims and finishes since then
  };
  void run();
  void submit(std::size_t index);
  void answered(std::size_t index, OperationResult result);
  Enqueue make_enqueue(Client& client);
  void start_workflows(std::size_t index);

  Broker& broker_;
  const LoadOptions options_;
  const std::string payload_;
  std::vector<Client> clients_;
  std::atomic<std::int64_t> done_{0};
  Mutex mutex_;
  CondVar wake_;
  std::deque<std::size_t> ready_ MS_GUARDED_BY(mutex_);
  int under_way_ MS_GUARDED_BY(mutex_) = 0;
  bool stopping_ MS_GUARDED_BY(mutex_) = false;
  std::optional<Error> failed_ MS_GUARDED_BY(mutex_);
  std::thread thread_;
};

// Sleeps for `time`.
void pass(Duration time);

// A workflow of `steps` sequential steps, each a job of this queue with these args.
WorkflowSpec chain_of(int steps, const std::string& queue, const std::string& args);

// The throughput of a measured period.
struct Rate {
  double jobs_per_second = 0;  // median of plan.repeats runs, after a warm-up
  double seconds = 0;          // of all runs together, and their commits and bytes on disk:
  std::int64_t commits = 0;
  std::int64_t bytes = 0;
};
Rate rate_of(const Plan& plan, const Store& store, const std::function<std::int64_t()>& done);
// The figure of a rate, with its ratio to the disk.
Result<Figure> rate_figure(Disk& disk, std::string name, std::string setup, const Rate& rate);
void set_target(Figure& figure, double at_least);
bool too_heavy(int clients, int batch, int payload);

// Enqueues `count` jobs through the broker, spread over the queues and sessions.
Result<void> preload(Broker& broker, const LoadOptions& options, std::int64_t count,
                     Report& report);

}  // namespace mainspring::cli::bench
