// Converts a filter's output to jobs.
#include "worker/pipe.h"

#include <fmt/format.h>

#include <map>

#include "api/json.h"

namespace mainspring {
namespace {

constexpr std::size_t kShownBytes = 80;  // of a refused output

// Members of an object as JSON text, by name.
using Members = std::map<std::string, std::string, std::less<>>;

std::optional<Members> members_of(std::string_view text) {
  JsonReader in(text, JsonReader::Unknown::skip);
  if (in.peek() != JsonType::object) return std::nullopt;
  Members out;
  const bool good = in.members([&](std::string_view name) {
    return in.raw(out[std::string(name)], JsonReader::Null::take);
  });
  if (!good || !in.end()) return std::nullopt;
  return out;
}

// The members of `output`, plus those of `args` that `output` does not have.
std::string carried(const std::string& args, std::string output) {
  auto all = members_of(args);
  const auto over = members_of(output);
  if (!all || !over) return output;
  for (const auto& [name, value] : *over) (*all)[name] = value;
  std::string out = "{";
  for (const auto& [name, value] : *all) {
    if (out.size() > 1) out += ',';
    append_json_string(out, name);
    out += ':';
    out += value;
  }
  return out + "}";
}

Error not_an_item(std::string_view output) {
  return invalid("output",
                 fmt::format("the output {}: must be an object, a list of objects, or nothing",
                             cut_text(output, kShownBytes)));
}

}  // namespace

Result<std::vector<NewJob>> pass_on(const ClaimedJob& job, std::string_view output,
                                    const PipeTo& to) {
  std::vector<std::string> items;
  if (!output.empty()) {
    JsonReader in(output, JsonReader::Unknown::skip);
    const JsonType type = in.peek();
    bool good = true;
    if (type == JsonType::object) {
      good = in.raw(items.emplace_back()) && in.end();
    } else if (type == JsonType::array) {
      good = in.array(kMaxNextJobs, [&](std::size_t) {
        return in.peek() == JsonType::object && in.raw(items.emplace_back());
      }) && in.end();
      if (in.failed() && in.error().code == ErrorCode::too_large) {
        return Error{ErrorCode::too_large,
                     fmt::format("the output is a list of more than {} items", kMaxNextJobs)};
      }
    } else {
      good = type == JsonType::null;
    }
    if (!good) return not_an_item(output);
  }
  std::vector<NewJob> next;
  next.reserve(items.size());
  for (std::string& item : items) {
    NewJob& made = next.emplace_back();
    made.queue = to.queue;
    made.kind = to.kind;
    made.args = to.carries ? carried(job.args, std::move(item)) : std::move(item);
    made.priority = job.priority;
    if (to.timeout) made.timeout = *to.timeout;
    made.tags = job.tags;
    made.headers = job.headers;
    made.correlation_id = job.correlation_id.empty() ? fmt::to_string(job.id) : job.correlation_id;
    made.session = job.session;
  }
  return next;
}

Handler piped(Handler filter, PipeTo to) {
  return [filter = std::move(filter), to = std::move(to)](const ClaimedJob& job,
                                                          Context& context) -> HandlerResult {
    MS_TRY_ASSIGN(Outcome outcome, filter(job, context));
    const auto* complete = std::get_if<Complete>(&outcome);
    if (complete == nullptr) return outcome;
    auto next = pass_on(job, complete->result, to);
    if (!next) return Outcome(Dead{"bad_output", next.error().message});
    std::string result = fmt::format("{{\"passed_on\":{}}}", next->size());
    return Outcome(Complete{std::move(result), std::move(*next)});
  };
}

}  // namespace mainspring
