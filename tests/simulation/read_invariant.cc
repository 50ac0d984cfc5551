// Compares reads with earlier answers.
#include "simulation/read_invariant.h"

#include <fmt/format.h>

namespace mainspring::simulation {
namespace {

// The clocks of nodes differ.
constexpr Duration kTolerance = std::chrono::seconds(5);

}  // namespace

void ReadInvariant::completed(JobId id, std::string result, Duration sent) {
  Known& known = known_[id];
  known.completed = sent;
  known.result = std::move(result);
}

std::string ReadInvariant::read(JobId id, const Result<Job>& job, Duration now) {
  Known& known = known_[id];
  if (!job) {
    if (job.error().code != ErrorCode::expired)
      return fmt::format("RES-4: job {} was enqueued, and reads as {}", id,
                         info(job.error().code).name);
    ++expired_;
    known.expired = true;
    if (known.completed && retention_ && now - *known.completed < *retention_ - kTolerance)
      return fmt::format("RES-4: job {} reads as expired {} s after its completion", id,
                         (now - *known.completed) / std::chrono::seconds(1));
    return "";
  }
  if (known.expired) return fmt::format("RES-4: job {} read as expired, and is there again", id);
  if (!known.completed) return "";
  ++reads_;
  if (job->state == JobState::completed && job->result == known.result) return "";
  return fmt::format("RES-3: job {} was completed with {}, and reads as {} with {}", id,
                     known.result, to_string(job->state), job->result);
}

}  // namespace mainspring::simulation
