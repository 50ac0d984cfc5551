// Definitions of pipelines: each filter takes jobs from its queue and enqueues into the next one's.
//
//   {"name": "photos", "filters": [
//     {"name": "shrink", "exec": "./shrink.sh", "slots": 2, "timeout": "1m"},
//     {"name": "index", "exec": "none"}]}
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring::cli {

struct Filter {
  std::string name;
  std::string queue;  // as given, or else PIPELINE.NAME
  // The kind that it takes, "" = every kind. Jobs for it get this kind, or else its name.
  std::string kind;
  std::vector<std::string> argv;  // empty ("none"): other workers run it and pass its results on
  std::string directory;          // its working directory: as given, or else the file's folder
  int slots = 0;                  // 0 = --slots
  std::optional<Duration> timeout;
  std::optional<Duration> retry_after;
  int max_attempts = 0;  // 0 = the job's own
  bool carries = true;   // "args": "merge" or "replace"

  bool runs_here() const { return !argv.empty(); }
  const std::string& posted_kind() const { return kind.empty() ? name : kind; }
  std::vector<std::string> kinds() const {
    return kind.empty() ? std::vector<std::string>{} : std::vector<std::string>{kind};
  }
};

struct Pipeline {
  std::string name;
  std::vector<Filter> filters;  // in the order of the pipeline, 1 to kMaxFilters
  std::vector<std::string> queues() const;
};
inline constexpr std::size_t kMaxFilters = 32;
inline constexpr std::size_t kMaxPipelineBytes = 1 << 20;
inline constexpr int kMaxFilterSlots = 1024;

// `folder` is that of the file, "" = this process's. Errors: invalid_argument with the field.
Result<Pipeline> decode_pipeline(std::string_view text, const std::string& folder);
// The same for a file; errors name the file; "-" = standard input.
Result<Pipeline> pipeline_of_file(const std::string& file);

}  // namespace mainspring::cli
