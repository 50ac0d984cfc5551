// Searches for jobs, changes of one job, and bulk operations on all jobs that match.
//
// Guide: docs/guides/search.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/job.h"

namespace mainspring {

// Which jobs. Empty fields do not restrict.
struct JobSearch {
  std::string queue{}, kind{}, tag{};
  std::vector<JobState> states{};        // any of these
  std::optional<WallTime> from{}, to{};  // from <= created_at < to
  std::vector<JobId> ids{};              // up to kMaxSearchIds
  std::string q{};                       // terms, as in docs/guides/search.md
  bool is_empty() const {
    return queue.empty() && kind.empty() && tag.empty() && states.empty() && !from && !to &&
           ids.empty() && q.find_first_not_of(" \t\r\n") == std::string::npos;
  }
};
inline constexpr std::size_t kMaxSearchIds = 1000;

struct FoundJobs {
  std::vector<Job> jobs;      // newest first; without errors, result, checkpoint
  std::optional<JobId> next;  // pass as `before` to continue; nullopt = no more
  std::int64_t examined = 0;  // records that this call read
  std::int64_t of = 0;        // jobs in the queue and the states of the search
};

// Changes to a job that is not running and has not ended. nullopt = unchanged.
struct JobEdit {
  std::optional<std::string> args{};  // JSON; drops the checkpoint and saved step results
  std::optional<int> priority{};
  std::optional<WallTime> run_at{};
  std::optional<std::vector<std::string>> tags{};
};
// Differences between a clone and its original. nullopt = unchanged.
struct JobClone {
  std::optional<std::string> args{};  // JSON
  std::optional<std::string> queue{};
  std::optional<int> priority{};
  std::optional<WallTime> run_at{};  // nullopt = now
};

enum class BulkAction : std::uint8_t { cancel, retry, remove, reprioritise };
std::string_view to_string(BulkAction action);  // remove is "delete"
std::optional<BulkAction> parse_bulk_action(std::string_view text);

struct BulkOrder {
  BulkAction action = BulkAction::cancel;
  JobSearch filter{};       // not empty
  int priority = 5;         // of reprioritise
  std::string reason{};     // of cancel
  std::string rate{};       // at most this fast: "20/s", "10/m", "5/h"; "" = no limit
  std::int64_t canary = 0;  // pause after this many changes until proceed(); 0 = do not pause
};
inline constexpr std::int64_t kMaxBulkCanary = 1'000'000;

// What a bulk operation would change.
struct BulkCount {
  std::int64_t matched = 0;
  bool exact = true;            // false: there are more; the count stopped at its work limit
  std::vector<JobId> sample{};  // the newest, up to kMaxBulkSample
};
inline constexpr std::size_t kMaxBulkSample = 20;

enum class BulkState : std::uint8_t {
  queued,   // not started yet
  running,  // counts or changes jobs
  waiting,  // paused after its canary
  done,
  stopped,
  failed,
};
std::string_view to_string(BulkState state);
std::optional<BulkState> parse_bulk_state(std::string_view text);

struct BulkInfo {
  JobId id = 0;  // of its job
  BulkState state = BulkState::queued;
  BulkOrder order{};
  std::optional<std::int64_t> matched{};  // nullopt = still counting
  std::int64_t changed = 0;
  std::int64_t skipped = 0;  // changed by other callers meanwhile, and do not match any more
  std::int64_t failed = 0;   // refused
  std::string error{};       // of the last refused one
  std::string by{};          // name of the caller that started it
  WallTime started_at;
  std::optional<WallTime> finished_at{};
};

}  // namespace mainspring
