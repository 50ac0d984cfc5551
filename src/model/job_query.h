// A search for jobs: the text that a caller writes, as terms. All terms must hold.
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
    error,     // a part of a message, reason or description
    before,
    after,
    wait,  // longer than `length`
    run,   // as wait
    args,  // the value at `path`
    text,  // a part of args, result or an error
  };
  About about = About::text;
  bool negated = false;
  std::vector<std::string> any{};   // texts; one of them matches
  std::vector<std::int64_t> ids{};  // of id, workflow and schedule; sorted
  JobStates states = 0;
  WallTime at{};
  Duration length{0};
  std::vector<std::string> path{};
  std::string word{};  // as the caller wrote it, for messages
};

struct JobQuery {
  std::string text;
  WallTime now;  // relative times are measured from here
  std::vector<JobTerm> terms{};
  // The first term that looks into args, results or errors; nullptr = none does.
  const JobTerm* payload_term() const;
};

inline constexpr std::size_t kMaxQueryBytes = 2048;
inline constexpr std::size_t kMaxQueryTerms = 16;
inline constexpr std::size_t kMaxQueryValues = 100;   // of one term
inline constexpr std::size_t kMaxQuerySegments = 16;  // of a path in args

// Errors: invalid_argument with the field "q". An unknown token is named, with those that exist.
Result<JobQuery> parse_job_query(std::string_view text, WallTime now);

// Whether the terms hold that need no payload: args, result, errors and texts are not looked at.
bool matches_record(const JobQuery& query, const Job& job);
// Whether `part` is in `text`. ASCII letters match in upper and lower case. `part` is lower case.
bool contains_folded(std::string_view text, std::string_view part);

}  // namespace mainspring
