// Faults of a test server, drawn from a seed.
//
// A draw depends on the seed, the fault, the job (queue, kind, args, and which one of equal jobs it
// is) and the attempt, and on nothing else. So one seed gives the same faults to the same jobs,
// whatever the order in which workers take them.
//
//   duplicate_delivery  the lease ends when the job is handed out: another worker gets it at once,
//                       and both run it
//   lost_lease          the lease ends at the first report of the worker: its finish is stale
//   lost_finish         the finish is applied and its answer lost; or the finish and the lease are
//                       lost, so that the job runs again after its handler did all of its work
//   delay               an answer is late
//
// No fault takes the last attempt of a job: the job's outcome is up to its handler.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "mainspring/job.h"
#include "mainspring/result.h"

namespace mainspring {

// What a lost finish loses.
enum class LostFinish : std::uint8_t { either, request, answer };

struct FaultSettings {
  std::uint64_t seed = 0;
  // Probabilities, 0 to 1.
  double duplicate_delivery = 0;
  double lost_lease = 0;
  double lost_finish = 0;
  LostFinish lost_finish_of = LostFinish::either;
  double delay_p = 0;
  Duration delay_max{0};
  bool store_full = false;
  friend bool operator==(const FaultSettings&, const FaultSettings&) = default;
};
inline constexpr Duration kMaxFaultDelay = std::chrono::seconds(10);

// The body of POST /v1/test/faults.
struct FaultRequest {
  std::string space;  // the namespace whose jobs are affected; "" = all jobs
  std::optional<std::uint64_t> seed;
  FaultSettings settings;  // without the seed
  bool crash = false;      // once, after the answer
};
// Errors: invalid_argument.
Result<FaultRequest> decode_fault_request(std::string_view body);
void append_faults(std::string& out, const FaultSettings& settings);

// The faults of one attempt.
struct JobFaults {
  bool duplicate = false;
  bool lost_lease = false;
  enum class Finish : std::uint8_t { arrives, answer_lost, lost } finish = Finish::arrives;
  bool any() const { return duplicate || lost_lease || finish != Finish::arrives; }
};

// Not thread-safe.
class Faults {
 public:
  explicit Faults(FaultSettings settings = {}) : settings_(settings) {}
  const FaultSettings& settings() const { return settings_; }

  // `queue` without the prefix of its namespace.
  JobFaults of(const ClaimedJob& job, std::string_view queue);
  // The delay of the next answer of this route; 0 = none.
  Duration delay_of(std::string_view route);

 private:
  double draw(std::string_view fault, std::uint64_t of) const;
  std::uint64_t ordinal(std::uint64_t key, JobId id);

  FaultSettings settings_;
  // Numbers of equal jobs in the order of first claims, by the hash of the compared fields. Beyond
  // kMaxKnown the id decides.
  static constexpr std::size_t kMaxKnown = 100'000;
  std::unordered_map<std::uint64_t, std::uint64_t> equal_;
  std::unordered_map<JobId, std::uint64_t> ordinals_;
  std::map<std::string, std::uint64_t, std::less<>> answers_;
};

}  // namespace mainspring
