// Reads definitions of pipelines.
#include "cli/pipeline_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "api/fields.h"
#include "api/json.h"
#include "cli/support.h"
#include "mainspring/job.h"
#include "worker/exec.h"

namespace mainspring::cli {
namespace {

constexpr std::string_view kElsewhere = "none";

bool read_exec(JsonReader& in, Filter& filter) {
  std::string command;
  if (!in.string(command)) return false;
  if (command == kElsewhere) return true;
  auto words = split_command(command);
  if (!words) return in.fail_here(fmt::format("\"{}\": {}", command, words.error().message));
  filter.argv = std::move(*words);
  return true;
}

bool read_args_rule(JsonReader& in, Filter& filter) {
  std::string word;
  if (!in.string(word)) return false;
  if (word != "merge" && word != "replace")
    return in.fail_here(fmt::format("\"{}\": must be merge or replace", cut_text(word, 64)));
  filter.carries = word == "merge";
  return true;
}

bool read_time(JsonReader& in, std::optional<Duration>& out) {
  if (in.null()) return true;
  if (!in.duration(out.emplace())) return false;
  return out->count() > 0 || in.fail_here("must be more than 0");
}

bool read_name(JsonReader& in, std::string& out) {
  if (!in.string(out)) return false;
  if (const auto good = check_name("name", out); !good) {
    return in.fail_here(
        fmt::format("\"{}\": must be 1 to {} of A-Z a-z 0-9 . _ : / -, beginning with a letter or "
                    "a digit",
                    cut_text(out, 64), kMaxNameBytes));
  }
  return true;
}

// Whether "exec" was given is not in a Filter.
struct ReadFilter {
  Filter filter;
  bool says_exec = false;
};

constexpr JsonField<ReadFilter> kFilter[] = {
    {"name", [](JsonReader& in, ReadFilter& f) { return read_name(in, f.filter.name); }},
    {"queue", [](JsonReader& in, ReadFilter& f) { return read_name(in, f.filter.queue); }},
    {"kind", [](JsonReader& in, ReadFilter& f) { return read_name(in, f.filter.kind); }},
    {"exec",
     [](JsonReader& in, ReadFilter& f) {
       f.says_exec = true;
       return read_exec(in, f.filter);
     }},
    {"directory", [](JsonReader& in, ReadFilter& f) { return in.string(f.filter.directory); }},
    {"slots",
     [](JsonReader& in, ReadFilter& f) { return in.integer(f.filter.slots, 1, kMaxFilterSlots); }},
    {"timeout", [](JsonReader& in, ReadFilter& f) { return read_time(in, f.filter.timeout); }},
    {"retry_after",
     [](JsonReader& in, ReadFilter& f) { return read_time(in, f.filter.retry_after); }},
    {"max_attempts",
     [](JsonReader& in, ReadFilter& f) {
       return in.integer(f.filter.max_attempts, 1, kMaxMaxAttempts);
     }},
    {"args", [](JsonReader& in, ReadFilter& f) { return read_args_rule(in, f.filter); }},
};

bool read_filter(JsonReader& in, Pipeline& pipeline) {
  ReadFilter read;
  if (!in.object(kFilter, read)) return false;
  if (read.filter.name.empty()) return in.missing("name");
  if (!read.says_exec) {
    return in.fail(ErrorCode::invalid_argument,
                   "exec: must be given: the program to run for each job, or \"none\" if workers "
                   "elsewhere take them",
                   in.path("exec"));
  }
  pipeline.filters.push_back(std::move(read.filter));
  return true;
}

constexpr JsonField<Pipeline> kPipeline[] = {
    {"name", [](JsonReader& in, Pipeline& p) { return read_name(in, p.name); }},
    {"filters",
     [](JsonReader& in, Pipeline& p) {
       return in.array(kMaxFilters, [&](std::size_t) { return read_filter(in, p); });
     }},
};

// Sets defaults, and checks that no two filters share a queue: that would be a cycle.
Result<void> complete(Pipeline& pipeline, const std::string& folder) {
  for (std::size_t i = 0; i < pipeline.filters.size(); ++i) {
    Filter& filter = pipeline.filters[i];
    const bool named = !filter.queue.empty();
    if (!named) filter.queue = fmt::format("{}.{}", pipeline.name, filter.name);
    const std::string at = fmt::format("filters[{}].", i);
    MS_TRY(check_name(at + "queue", filter.queue));
    if (filter.directory.empty()) {
      filter.directory = folder;
    } else if (!folder.empty() && !filter.directory.starts_with('/')) {
      filter.directory = folder + "/" + filter.directory;
    }
    for (std::size_t j = 0; j < i; ++j) {
      const Filter& before = pipeline.filters[j];
      if (before.name == filter.name) {
        return invalid(at + "name",
                       fmt::format("{}name \"{}\": is also the name of filters[{}]: must be unique",
                                   at, filter.name, j));
      }
      if (before.queue == filter.queue) {
        return invalid(
            at + "queue",
            fmt::format("{}queue \"{}\": is also the queue of filters[{}]: must be unique", at,
                        filter.queue, j));
      }
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> Pipeline::queues() const {
  std::vector<std::string> out;
  for (const Filter& filter : filters) out.push_back(filter.queue);
  return out;
}

Result<Pipeline> decode_pipeline(std::string_view text, const std::string& folder) {
  JsonReader in(text, JsonReader::Unknown::refuse);
  Pipeline pipeline;
  if (!in.object(kPipeline, pipeline) || !in.end()) return in.error();
  if (pipeline.name.empty()) return invalid("name", "name: must be given");
  if (pipeline.filters.empty()) return invalid("filters", "filters: must have at least one");
  MS_TRY(complete(pipeline, folder));
  return pipeline;
}

Result<Pipeline> pipeline_of_file(const std::string& file) {
  MS_TRY_ASSIGN(const std::string text, read_file(file, kMaxPipelineBytes));
  const std::string folder = file == "-" ? "" : std::filesystem::path(file).parent_path().string();
  auto pipeline = decode_pipeline(text, folder);
  if (pipeline) return pipeline;
  return in_file(file, pipeline.error());
}

}  // namespace mainspring::cli
