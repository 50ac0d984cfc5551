// Parses definitions of schedules.
#include "cli/schedule_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "cli/job_options.h"
#include "model/schedule.h"

namespace mainspring::cli {
namespace {

// Parses a definition; uses `name` if it has no name.
Result<PutScheduleRequest> read_one(std::string_view text, const std::string& name) {
  struct Named {
    std::string name;
  };
  constexpr JsonField<Named> kNamed[] = {
      {"name", [](JsonReader& in, Named& named) { return in.null() || in.string(named.name); }}};
  JsonReader in(text, JsonReader::Unknown::skip);
  Named named{name};
  if (!in.object(kNamed, named)) named.name = name;  // the decoder reports the error
  if (named.name.empty()) return invalid("name", "name: must be given");
  if (!name.empty() && named.name != name) {
    return invalid("name", fmt::format("name \"{}\": must be the NAME of the command, {}, or left "
                                       "out",
                                       named.name, name));
  }
  MS_TRY_ASSIGN(PutScheduleRequest request,
                decode_put_schedule_request(std::move(named.name), text));
  MS_TRY(validate(request.schedule));
  return request;
}

Error at_entry(Error error, const std::string& where) {
  error.message = fmt::format("{}: {}", where, error.message);
  return error;
}

}  // namespace

Result<std::vector<PutScheduleRequest>> schedules_of_file(std::string_view file,
                                                          std::string_view text,
                                                          const std::string& name) {
  std::vector<PutScheduleRequest> out;
  const auto whole = check_json("", text);
  // Several documents: the first line is a complete one.
  const std::string_view first = text.substr(0, text.find('\n'));
  if (whole || !check_json("", first)) {
    auto one = read_one(text, name);
    if (!one) return at_entry(one.error(), std::string(file));
    out.push_back(std::move(*one));
    return out;
  }
  if (!name.empty()) {
    return invalid("name",
                   fmt::format("{} has several schedules: name each in the file and leave out {}",
                               file, name));
  }
  std::vector<std::string_view> names;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}:{}", file, number);
    auto one = read_one(line, "");
    if (!one) return at_entry(one.error(), where);
    const std::string& its = one->schedule.name;
    const auto twice = std::find_if(out.begin(), out.end(), [&](const PutScheduleRequest& other) {
      return other.schedule.name == its;
    });
    if (twice != out.end()) {
      return invalid("name", fmt::format("{}: name \"{}\": is in the file twice", where, its));
    }
    out.push_back(std::move(*one));
  }
  return out;
}

Result<void> read_schedule_flags(const Invocation& invocation, Schedule& schedule) {
  schedule.cron = invocation.flag("cron").value_or("");
  MS_TRY_ASSIGN(const auto every, invocation.duration("every"));
  if (every && *every == Duration(0)) return invalid("every", "--every 0s: must be more than 0");
  schedule.every = every.value_or(Duration(0));
  MS_TRY_ASSIGN(schedule.at, instant_flag(invocation, "at"));
  schedule.time_zone = invocation.flag("time-zone").value_or("UTC");
  if (const auto rule = invocation.flag("repeated-hour")) {
    schedule.repeated_hour = *parse_repeated_hour(*rule);
  }
  if (const auto misfire = invocation.flag("misfire")) schedule.misfire = *parse_misfire(*misfire);
  MS_TRY_ASSIGN(const auto window, invocation.duration("misfire-window"));
  if (window) schedule.misfire_window = *window;
  MS_TRY_ASSIGN(const auto cap, invocation.number("misfire-cap", 1, kMaxMisfires));
  if (cap) schedule.misfire_cap = static_cast<int>(*cap);
  if (const auto overlap = invocation.flag("overlap")) schedule.overlap = *parse_overlap(*overlap);
  MS_TRY_ASSIGN(const auto jitter, invocation.duration("jitter"));
  if (jitter) schedule.jitter = *jitter;
  MS_TRY_ASSIGN(schedule.start_at, instant_flag(invocation, "start-at"));
  MS_TRY_ASSIGN(schedule.end_at, instant_flag(invocation, "end-at"));
  MS_TRY_ASSIGN(const auto runs, invocation.number("max-runs", 0, INT64_MAX));
  if (runs) schedule.max_runs = *runs;
  schedule.pause_on_failure = invocation.has("pause-on-failure");
  return {};
}

Result<void> read_template_flags(const Invocation& invocation, NewJob& job) {
  if (const auto queue = invocation.flag("queue")) job.queue = *queue;
  if (const auto kind = invocation.flag("kind")) job.kind = *kind;
  if (job.kind.empty()) return invalid("kind", "--kind: must be given");
  MS_TRY_ASSIGN(job.args, read_args(invocation.flag("args"), "--args"));
  return read_job_options(invocation, job);
}

Error with_schedule_flags(Error error) {
  if (error.message.starts_with("cron, every, at:")) {
    error.message = "give exactly one of --cron, --every, --at";
    return error;
  }
  if (error.field.starts_with("job.")) {
    const std::string field = error.field.substr(4);
    if (error.message.starts_with(error.field)) error.message = error.message.substr(4);
    error.field = field;
    error = with_flag_names(std::move(error));
    for (const char* word : {"queue", "kind", "args"}) {
      if (error.field == word && error.message.starts_with(word))
        error.message = "--" + error.message;
    }
    return error;
  }
  if (error.field.starts_with("continuous.")) {
    const std::string prefix = "continuous.";
    if (error.message.starts_with(error.field)) error.message = error.message.substr(prefix.size());
    error.field = error.field.substr(prefix.size());
  }
  if (error.field.empty() || error.field == "name") return error;
  return with_flag_names(std::move(error));
}

}  // namespace mainspring::cli
