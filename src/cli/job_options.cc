// Converts flags to jobs.
#include "cli/job_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/callback_shapes.h"
#include "api/follow_ups.h"
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

// Parses QUEUE/KIND[@END,…]; the last slash separates the two.
Result<FollowUp> follow_up_of(const std::string& text) {
  const auto wrong = [&](std::string_view rule) {
    return invalid("then", fmt::format("--then \"{}\": {}", text, rule));
  };
  const std::size_t at = text.find('@');
  const std::string to = text.substr(0, at);
  const std::size_t slash = to.rfind('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == to.size())
    return wrong("must be QUEUE/KIND, or QUEUE/KIND@completed,cancelled,dead,message,progress");
  FollowUp out{.queue = to.substr(0, slash), .kind = to.substr(slash + 1), .data = ""};
  if (at == std::string::npos) return out;
  out.on = 0;
  for (std::size_t from = at; from != std::string::npos;) {
    const std::size_t comma = text.find(',', from + 1);
    const std::string end =
        text.substr(from + 1, comma == std::string::npos ? comma : comma - from - 1);
    const auto bit = parse_occasion(end);
    if (!bit) return wrong("after @ must be completed, cancelled, dead, message or progress");
    out.on |= *bit;
    from = comma;
  }
  return out;
}

Result<std::vector<FollowUp>> follow_ups_of(const Invocation& invocation) {
  std::vector<FollowUp> all;
  for (const std::string& text : invocation.all_flags("then")) {
    MS_TRY_ASSIGN(all.emplace_back(), follow_up_of(text));
  }
  return all;
}

Result<void> read_callback_options(const Invocation& invocation, NewJob& job) {
  const auto url = invocation.flag("callback");
  const auto ends = invocation.flag("callback-on");
  if (ends && !url) return invalid("callback-on", "--callback-on: needs --callback URL");
  if (!url) return {};
  std::uint8_t on = ends ? 0 : FollowUp::kEveryEnd;
  for (const std::string& end : split_names(ends.value_or(""))) {
    const auto bit = parse_occasion(end);
    if (!bit) {
      return invalid("callback-on",
                     fmt::format("--callback-on \"{}\": must be completed, cancelled, dead, "
                                 "message or progress, or several of them with commas",
                                 end));
    }
    on |= *bit;
  }
  job.follow_ups.push_back(make_callback(*url, on));
  return {};
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
  if (const auto policy = invocation.flag("on-expiry"))
    job.on_expiry = parse_on_expiry(*policy).value_or(OnExpiry::cancel);
  job.tags = invocation.all_flags("tag");
  MS_TRY_ASSIGN(job.headers, headers_of(invocation));
  job.correlation_id = invocation.flag("correlation-id").value_or("");
  job.reply_to = invocation.flag("reply-to").value_or("");
  job.reply_session = invocation.flag("reply-session").value_or("");
  job.limit_key = invocation.flag("limit-key").value_or("");
  MS_TRY_ASSIGN(job.follow_ups, follow_ups_of(invocation));
  MS_TRY(read_callback_options(invocation, job));
  MS_TRY_ASSIGN(const auto reply_expires_in, invocation.duration("reply-expires-in"));
  if (reply_expires_in && job.reply_to.empty())
    return invalid("reply-expires-in", "--reply-expires-in: needs --reply-to QUEUE");
  if (reply_expires_in) add_reply_expiry(job, *reply_expires_in);
  if (!invocation.has("reply-progress")) return {};
  if (job.reply_to.empty())
    return invalid("reply-progress", "--reply-progress: needs --reply-to QUEUE");
  job.follow_ups.push_back({.queue = job.reply_to,
                            .kind = "progress",
                            .on = FollowUp::kProgress,
                            .session = job.reply_session,
                            .data = "",
                            .expires_in = reply_expires_in});
  return {};
}

// "priority 12: must …" from the model becomes "--priority 12: must …".
Error with_flag_names(Error error) {
  std::string flag = error.field;
  std::replace(flag.begin(), flag.end(), '_', '-');
  if (flag == "tags") flag = "tag";
  if (flag == "unique.key") flag = "unique";
  if (flag == "unique.for") flag = "unique-for";
  if (flag == "unique.on-conflict") flag = "on-conflict";
  const bool is_flag = !flag.empty() && flag != "queue" && flag != "kind" && flag != "args";
  if (is_flag && error.message.starts_with(error.field)) {
    error.message = "--" + flag + error.message.substr(error.field.size());
  }
  return error;
}

}  // namespace mainspring::cli
