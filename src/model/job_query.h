// A search for jobs: the caller's text, parsed to terms. A job must match all terms.
//
//   queue:mail state:dead,retryable args.order=4711 wait>30s -tag:test "connection refused"
//
// Grammar: docs/guides/search.md.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/job.h"

namespace mainspring {

// A set of job states, one bit for each. 0 means any state.
using JobStates = std::uint16_t;
constexpr JobStates states_of(JobState state) {
  return static_cast<JobStates>(1U << static_cast<unsigned>(state));
}

struct JobTerm {
  enum class About : std::uint8_t {
    id,
    kind,
    queue,
    state,
    tag,
    session,
    limit_key,
    correlation,
    worker,
    workflow,  // resolved to ids before a store sees it
    schedule,  // as workflow
    error,     // a substring of a message, reason or description
    before,
    after,
    wait,  // longer than `length`
    run,   // as wait
    args,  // the value at `path`
    text,  // a substring of args, result or an error
  };
  About about = About::text;
  bool negated = false;
  std::vector<std::string> any{};   // texts; one of them matches
  std::vector<std::int64_t> ids{};  // for id, workflow and schedule; sorted
  JobStates states = 0;
  WallTime at{};
  Duration length{0};
  std::vector<std::string> path{};
  std::string word{};  // as written by the caller, for messages
};

struct JobQuery {
  std::string text;
  WallTime now;  // relative times are measured from here
  std::vector<JobTerm> terms{};
  // The first term on args, results or errors; nullptr = none.
  const JobTerm* payload_term() const;
};

inline constexpr std::size_t kMaxQueryBytes = 2048;
inline constexpr std::size_t kMaxQueryTerms = 16;
inline constexpr std::size_t kMaxQueryValues = 100;   // of one term
inline constexpr std::size_t kMaxQuerySegments = 16;  // of a path in args

// Errors: invalid_argument with the field "q". The error names an unknown token and the known ones.
Result<JobQuery> parse_job_query(std::string_view text, WallTime now);

// Whether the job matches all terms that need no payload. Terms on args, result, errors and text
// are skipped.
bool matches_record(const JobQuery& query, const Job& job);
// Whether `text` contains `part`, ignoring ASCII case. `part` is lower case.
bool contains_folded(std::string_view text, std::string_view part);

}  // namespace mainspring
