// Compares the keys of jobs with the effects in their args.
#include "simulation/key_invariant.h"

#include <fmt/format.h>

#include "api/step_key.h"
#include "simulation/follow_invariant.h"

namespace mainspring::simulation {

std::string KeyInvariant::begins(const ClaimedJob& job) {
  const std::string what =
      fmt::format("step {} undo {} of flow {}", number_after(job.args, "\"step\":", -1),
                  number_after(job.args, "\"undo\":", -1), number_after(job.args, "\"flow\":", 0));
  const std::string key = step_key_of(job.headers);
  if (key.empty()) return fmt::format("EO-4: job {}, {}, has no key", job.id, what);
  Sink& sink = by_key_.try_emplace(key, Sink{.what = what, .jobs = {}}).first->second;
  sink.jobs.insert(job.id);
  if (sink.what != what) return fmt::format("EO-4: {} and {} have key {}", sink.what, what, key);
  const std::string& first = keys_.try_emplace(what, key).first->second;
  if (first == key) return "";
  return fmt::format("EO-4: {} had key {}, and in job {} it has {}", what, first, job.id, key);
}

std::string KeyInvariant::begins_without(const ClaimedJob& job) {
  const std::string key = step_key_of(job.headers);
  if (key.empty()) return "";
  return fmt::format("EO-4: job {} is of no workflow, and has the key {}", job.id, key);
}

std::int64_t KeyInvariant::remade() const {
  std::int64_t n = 0;
  for (const auto& [key, sink] : by_key_) n += std::ssize(sink.jobs) - 1;
  return n;
}

}  // namespace mainspring::simulation
