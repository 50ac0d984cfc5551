// Workers of an engine: list them, quiet them before a deploy, stop them.
//
//   auto workers = engine.workers();
//   for (const WorkerInfo& worker : workers.list().value()) workers.quiet(worker.id);
//
// Commands are best effort: a server keeps them in memory. Guide: docs/guides/operating.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring {

class Jobs;

// What an operator asked a worker to do.
enum class WorkerCommand : std::uint8_t {
  none,
  quiet,  // claim no more jobs; running jobs finish
  stop,   // the same, and end the process when they have finished
};
// "" for none.
std::string_view to_string(WorkerCommand command);
std::optional<WorkerCommand> parse_worker_command(std::string_view text);

// What a worker reports about its process. "" and 0 = not reported.
struct WorkerFacts {
  std::string host;      // machine or container; up to kMaxHostBytes
  std::int64_t pid = 0;  // up to kMaxPid
  std::string version;   // version of the worker's program
  std::string language;  // with the runtime: "C++", "Python 3.11.2"
  int slots = 0;         // maximum parallel jobs; up to kMaxWorkerSlots
  std::string trouble;   // why it claims nothing for now: its program cannot be started
  int stuck = 0;         // handlers that run on after their time limit or the loss of their lease
  friend bool operator==(const WorkerFacts&, const WorkerFacts&) = default;
};
inline constexpr std::size_t kMaxHostBytes = 255;
inline constexpr std::size_t kMaxFactBytes = 100;  // version, language
inline constexpr std::size_t kMaxTroubleBytes = 200;
inline constexpr std::int64_t kMaxPid = UINT32_MAX;
inline constexpr int kMaxWorkerSlots = 1'000'000;

// A worker as the server knows it.
struct WorkerInfo {
  std::string id;                   // one for each start of a worker
  std::vector<std::string> queues;  // of its last claim
  int running = 0;                  // jobs it holds
  Duration last_seen{0};            // ago
  bool parked = false;              // one of its claims is waiting for jobs
  WorkerFacts facts{};
  WorkerCommand command = WorkerCommand::none;
};

// Borrows the engine, which outlives it. All calls are safe from every thread. Errors of all:
// unavailable; of all but list(): not_found, forbidden (a server), overloaded.
class EngineWorkers {
 public:
  explicit EngineWorkers(Jobs& jobs) : jobs_(&jobs) {}

  Result<std::vector<WorkerInfo>> list();
  // The worker claims no more jobs. Its running jobs finish. One that stops is left as it is.
  Result<WorkerInfo> quiet(const std::string& id);
  // The worker claims no more jobs, and its process ends when the running ones have finished or its
  // stop timeout is over.
  Result<WorkerInfo> stop(const std::string& id);
  // Undoes quiet(). Errors: conflict (the worker stops).
  Result<WorkerInfo> resume(const std::string& id);

 private:
  Jobs* jobs_;
};

}  // namespace mainspring
