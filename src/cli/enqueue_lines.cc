// Parses the lines of `enqueue --many`.
#include "cli/enqueue_lines.h"

#include <fmt/format.h>

#include "api/json.h"
#include "api/shapes.h"

namespace mainspring::cli {
namespace {

struct Given {
  bool queue = false;
  bool kind = false;
};
constexpr JsonField<Given> kGiven[] = {
    {"queue", [](JsonReader& in, Given& given) { return (given.queue = true) && in.skip(); }},
    {"kind", [](JsonReader& in, Given& given) { return (given.kind = true) && in.skip(); }},
};

// Adds missing defaults after the first brace of the line; the rest stays byte for byte.
std::string completed(std::string_view line, const LineDefaults& defaults) {
  JsonReader in(line, JsonReader::Unknown::skip);
  Given given;
  if (!in.object(kGiven, given)) return std::string(line);  // the decoder reports the error
  const std::size_t brace = line.find('{');
  const std::size_t next = line.find_first_not_of(" \t\r\n", brace + 1);
  std::string added;
  const auto add = [&](bool there, std::string_view name, const std::string& value) {
    if (there || value.empty()) return;
    if (!added.empty()) added += ',';
    added += fmt::format("\"{}\":", name);
    append_json_string(added, value);
  };
  add(given.queue, "queue", defaults.queue);
  add(given.kind, "kind", defaults.kind);
  if (!added.empty() && next != std::string_view::npos && line[next] != '}') added += ',';
  return fmt::format("{}{}{}", line.substr(0, brace + 1), added, line.substr(brace + 1));
}

}  // namespace

Result<std::vector<Enqueue>> requests_of_lines(std::string_view file, std::string_view text,
                                               const LineDefaults& defaults) {
  std::vector<Enqueue> requests;
  std::size_t bytes = 0;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto decoded = decode_enqueue_request(completed(line, defaults));
    if (decoded && !decoded->single) {
      return invalid("", fmt::format("{}:{}: must be one job, not a list", file, number));
    }
    if (!decoded) {
      Error error = decoded.error();
      error.message = fmt::format("{}:{}: {}", file, number, error.message);
      return error;
    }
    const bool full = !requests.empty() && (requests.back().jobs.size() == kMaxEnqueueJobs ||
                                            bytes + line.size() > kRequestBytes);
    if (requests.empty() || full) {
      requests.emplace_back();
      bytes = 0;
    }
    bytes += line.size();
    requests.back().jobs.push_back(std::move(decoded->operation.jobs.at(0)));
  }
  return requests;
}

}  // namespace mainspring::cli
