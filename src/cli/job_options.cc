// Flags into jobs.
#include "cli/job_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "cli/support.h"

namespace mainspring::cli {
namespace {

Result<std::string> headers_of(const Invocation& invocation) {
  const std::vector<std::string>& given = invocation.all_flags("header");
  if (given.empty()) return std::string();
  std::string out;
  JsonWriter json(out);
  json.begin_object();
  std::vector<std::string> names;
  for (const std::string& header : given) {
    const std::size_t equals = header.find('=');
    const std::string name = header.substr(0, equals);
    if (equals == std::string::npos || name.empty()) {
      return invalid("header", fmt::format("--header \"{}\": must be NAME=VALUE", header));
    }
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      return invalid("header", fmt::format("--header \"{}\": {} is given twice", header, name));
    }
    names.push_back(name);
    if (names.size() > 1) out += ',';
    append_json_string(out, name);
    out += ':';
    append_json_string(out, header.substr(equals + 1));
  }
  return out + "}";
}

}  // namespace

Result<std::string> read_args(const std::optional<std::string>& given, const std::string& name) {
  if (!given) return std::string("{}");
  std::string text = *given;
  if (text == "-" || text.starts_with('@')) {
    MS_TRY_ASSIGN(text, read_file(text == "-" ? text : text.substr(1), kMaxArgsBytes));
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  }
  const auto valid = check_json(name, text);
  if (!valid) {
    return invalid(name, fmt::format("{}; {} must be JSON, for example '{{\"path\":\"a.jpg\"}}', "
                                     "@FILE or -",
                                     valid.error().message, name));
  }
  return text;
}

Result<std::optional<WallTime>> instant_flag(const Invocation& invocation,
                                             const std::string& name) {
  const auto text = invocation.flag(name);
  if (!text) return std::optional<WallTime>{};
  const auto time = parse_wall_time(*text);
  if (time) return std::optional<WallTime>(*time);
  return invalid(name, fmt::format("--{} \"{}\": must be an instant such as 2026-01-31T09:00:00Z",
                                   name, *text));
}

Result<void> read_job_options(const Invocation& invocation, NewJob& job) {
  MS_TRY_ASSIGN(const auto priority, invocation.number("priority", 0, kLowestPriority));
  if (priority) job.priority = static_cast<int>(*priority);
  MS_TRY_ASSIGN(const auto attempts, invocation.number("max-attempts", 1, kMaxMaxAttempts));
  if (attempts) job.max_attempts = static_cast<int>(*attempts);
  if (invocation.flag("timeout") == "none") {
    job.timeout = kForever;
  } else {
    MS_TRY_ASSIGN(const auto timeout, invocation.duration("timeout"));
    if (timeout) job.timeout = *timeout;
  }
  MS_TRY_ASSIGN(job.expires_in, invocation.duration("expires-in"));
  job.tags = invocation.all_flags("tag");
  MS_TRY_ASSIGN(job.headers, headers_of(invocation));
  job.correlation_id = invocation.flag("correlation-id").value_or("");
  job.reply_to = invocation.flag("reply-to").value_or("");
  return {};
}

// "priority 12: must …" from the model becomes "--priority 12: must …".
Error with_flag_names(Error error) {
  std::string flag = error.field;
  std::replace(flag.begin(), flag.end(), '_', '-');
  if (flag == "tags") flag = "tag";
  if (flag.starts_with("unique.")) flag = "unique";
  const bool is_flag = !flag.empty() && flag != "queue" && flag != "kind" && flag != "args";
  if (is_flag && error.message.starts_with(error.field)) {
    error.message = "--" + flag + error.message.substr(error.field.size());
  }
  return error;
}

}  // namespace mainspring::cli
