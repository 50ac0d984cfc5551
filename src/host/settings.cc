// Parses settings.job, host.json and the host's variables: tables of keys, each with its rule.
#include "host/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "api/json.h"
#include "env/time_zone.h"
#include "host/json_text.h"
#include "mainspring/job.h"
#include "model/cron.h"

namespace mainspring {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kShownBytes = 80;  // of a value in a warning
constexpr std::size_t kMaxNames = 256;   // in a list or map of names
constexpr std::size_t kMaxSettingNameBytes = 256;
constexpr std::size_t kMaxPools = 64;
constexpr std::size_t kMaxWarnings = 100;
constexpr int kMaxChildren = 1024;
constexpr int kMaxConcurrency = 10'000;
constexpr std::int64_t kMaxWaitSeconds = 7 * 24 * 3600;
constexpr Duration kMaxTimeout = 365 * 24h;

// Collects warnings: `prefix` is the path of the object being read, as in "limits.".
struct Warnings {
  std::vector<std::string>& out;
  std::string& error;  // the first that is more than a remark
  std::string prefix = {};

  Warnings below(std::string_view name) const {
    return {out, error, fmt::format("{}{}.", prefix, name)};
  }
  void remark(std::string text) const {
    if (out.size() < kMaxWarnings) out.push_back(std::move(text));
  }
  void fail(std::string text) const {
    if (error.empty()) error = text;
    remark(std::move(text));
  }
  void value(std::string_view key, std::string_view shown, std::string_view rule) const {
    const std::string_view cut = cut_text(shown, kShownBytes);
    fail(
        fmt::format("{}{} {}{}: {}", prefix, key, cut, cut.size() < shown.size() ? "…" : "", rule));
  }
  // For values that may be secrets.
  void hidden(std::string_view key, std::string_view rule) const {
    fail(fmt::format("{}{}: {}", prefix, key, rule));
  }
};

// A key and its setter: false = the value is invalid, and nothing was changed.
template <class T>
struct Key {
  std::string_view name;
  bool (*obey)(std::string_view json, T& into, const Warnings& warnings);
  std::string_view rule;
  bool secret = false;
};
// How to treat keys that the table does not have. A misspelt limit would limit nothing.
enum class Others { pass_over, remark, refuse };

// An object's values by key, as slices of the text. Of a repeated key the last value counts, as in
// every JSON reader that builds a map.
using Members = std::map<std::string, std::string>;

std::string folded(std::string_view name) {
  std::string out(name);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

// Keys of tables are case-insensitive, as in Kudu; user-defined names are case-sensitive.
enum class Case { keep, fold };

Result<Members> members_of(std::string_view json, Case keys) {
  Members members;
  JsonReader in(json, JsonReader::Unknown::skip);
  const bool read = in.members([&](std::string_view key) {
    return in.raw(members[keys == Case::fold ? folded(key) : std::string(key)],
                  JsonReader::Null::take);
  });
  if (!read || !in.end()) return in.error();
  return members;
}

// WebJobs allows keys of others in its file, so only one that looks like a misspelt key is named.
template <class T, std::size_t N>
void remark_misspelt(const std::string& name, const Key<T> (&keys)[N], const Warnings& warnings) {
  constexpr std::size_t kShortest = 5;  // two letters of a shorter name are too many
  std::vector<std::string_view> known;
  for (const Key<T>& key : keys) {
    if (key.name.size() >= kShortest) known.push_back(key.name);
  }
  const std::string_view* meant =
      name.size() < kShortest ? nullptr : nearest_name(cut_text(name, kShownBytes), known);
  if (meant == nullptr) return;
  warnings.remark(fmt::format("{}{}: unknown and ignored; did you mean {}?", warnings.prefix,
                              cut_text(name, kShownBytes), *meant));
}

template <class T, std::size_t N>
void obey(const Members& members, const Key<T> (&keys)[N], T& into, Others others,
          const Warnings& warnings) {
  for (const auto& member : members) {
    const std::string& name = member.first;
    const std::string& value = member.second;
    const auto* const key =
        std::find_if(keys, keys + N, [&](const Key<T>& k) { return k.name == name; });
    if (key == keys + N) {
      if (others == Others::pass_over) {
        remark_misspelt(name, keys, warnings);
        continue;
      }
      std::string known;
      for (const Key<T>& k : keys) known += fmt::format("{}{}", known.empty() ? "" : ", ", k.name);
      std::string text = fmt::format("{}{}: no such key here; known are {}", warnings.prefix,
                                     cut_text(name, kShownBytes), known);
      others == Others::refuse ? warnings.fail(std::move(text)) : warnings.remark(std::move(text));
      continue;
    }
    if (key->obey(value, into, warnings)) continue;
    if (key->secret) {
      warnings.hidden(key->name, key->rule);
    } else {
      warnings.value(key->name, value, key->rule);
    }
  }
}

// -- values

bool as_bool(std::string_view json, bool& out) {
  JsonReader in(json, JsonReader::Unknown::skip);
  return in.boolean(out);
}

bool as_integer(std::string_view json, std::int64_t min, std::int64_t max, std::int64_t& out) {
  JsonReader in(json, JsonReader::Unknown::skip);
  std::int64_t value = 0;
  if (!in.integer(value, min, max) || !in.end()) return false;
  out = value;
  return true;
}

bool as_int(std::string_view json, int min, int max, int& out) {
  std::int64_t value = 0;
  if (!as_integer(json, min, max, value)) return false;
  out = static_cast<int>(value);
  return true;
}

bool as_string(std::string_view json, std::string& out) {
  JsonReader in(json, JsonReader::Unknown::skip);
  std::string value;
  if (!in.string(value)) return false;
  out = std::move(value);
  return true;
}

bool as_duration(std::string_view json, Duration min, Duration max, std::optional<Duration>& out) {
  JsonReader in(json, JsonReader::Unknown::skip);
  Duration value{};
  if (!in.duration(value) || value < min || value > max) return false;
  out = value;
  return true;
}

// "512MiB" or a number of bytes.
bool as_bytes(std::string_view json, std::int64_t min, std::optional<std::int64_t>& out) {
  constexpr std::int64_t kMax = std::int64_t{1} << 50;
  constexpr std::pair<std::string_view, int> kUnits[] = {
      {"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"B", 0}};
  std::int64_t value = 0;
  std::string text;
  if (as_string(json, text)) {
    std::string_view digits = text;
    int shift = 0;
    for (const auto& [unit, bits] : kUnits) {
      if (!digits.ends_with(unit)) continue;
      digits.remove_suffix(unit.size());
      shift = bits;
      break;
    }
    const char* const end = digits.data() + digits.size();
    const auto [stopped, problem] = std::from_chars(digits.data(), end, value);
    if (digits.empty() || problem != std::errc{} || stopped != end) return false;
    if (value < 0 || value > (kMax >> shift)) return false;
    value <<= shift;
  } else if (!as_integer(json, 0, kMax, value)) {
    return false;
  }
  if (value < min) return false;
  out = value;
  return true;
}

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// 1 to 80 letters, digits and `more`, beginning with a letter, a digit or '_'.
bool is_plain(std::string_view text, std::string_view more) {
  constexpr std::size_t kMaxPlainBytes = 80;
  return !text.empty() && text.size() <= kMaxPlainBytes &&
         (is_letter_or_digit(text[0]) || text[0] == '_') &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return is_letter_or_digit(c) || more.find(c) != std::string_view::npos;
         });
}

bool is_variable(std::string_view name) {
  return !name.empty() && name.size() <= kMaxSettingNameBytes &&
         !(name[0] >= '0' && name[0] <= '9') && std::all_of(name.begin(), name.end(), [](char c) {
           return is_letter_or_digit(c) || c == '_';
         });
}

bool is_zone(std::string_view name) {
  const auto zone = TimeZone::find(name);
  // Without a time zone database the name cannot be checked; the schedule will report it.
  return zone || zone.error().code != ErrorCode::invalid_argument;
}

bool as_names(std::string_view json, bool (*good)(std::string_view),
              std::vector<std::string>& out) {
  JsonReader in(json, JsonReader::Unknown::skip);
  std::vector<std::string> names;
  const bool read = in.array(kMaxNames, [&](std::size_t) {
    names.emplace_back();
    return in.string(names.back()) && good(names.back());
  });
  if (!read) return false;
  out = std::move(names);
  return true;
}

bool is_allowed_variable(std::string_view name) {
  if (name.ends_with('*')) name.remove_suffix(1);
  return is_variable(name);
}

bool is_folder_pattern(std::string_view name) {
  if (name.ends_with('*')) name.remove_suffix(1);
  return name.empty() || is_plain(name, "._-");
}

bool is_kind(std::string_view name) {
  return !name.empty() && name.size() <= kMaxSettingNameBytes;
}

bool as_variables(std::string_view json, std::map<std::string, std::string>& out,
                  const Warnings& warnings) {
  const auto members = members_of(json, Case::keep);
  if (!members || members->size() > kMaxNames) return false;
  const Warnings below = warnings.below("environment");
  for (const auto& [name, json_of] : *members) {
    std::string value;
    if (!is_variable(name)) {
      below.hidden(cut_text(name, kShownBytes),
                   "a name must be letters, digits and '_', not beginning with a digit");
    } else if (!as_string(json_of, value)) {
      below.hidden(name, "must be a string without U+0000");
    } else {
      out[name] = std::move(value);
    }
  }
  return true;
}

// -- limits

template <std::optional<std::int64_t> ChildLimits::*Field, std::int64_t Min>
bool bytes_limit(std::string_view json, ChildLimits& into, const Warnings&) {
  return as_bytes(json, Min, into.*Field);
}

template <auto Field, std::int64_t Min, std::int64_t Max>
bool number_limit(std::string_view json, ChildLimits& into, const Warnings&) {
  using Value = typename std::remove_reference_t<decltype(into.*Field)>::value_type;
  std::int64_t value = 0;
  if (!as_integer(json, Min, Max, value)) return false;
  into.*Field = static_cast<Value>(value);
  return true;
}

bool user_limit(std::string_view json, ChildLimits& into, const Warnings&) {
  std::string name;
  if (!as_string(json, name) || !is_plain(name, "._-")) return false;
  into.user = std::move(name);
  return true;
}

constexpr Key<ChildLimits> kLimitKeys[] = {
    {"memory", &bytes_limit<&ChildLimits::memory_bytes, 1 << 20>,
     "must be a size of 1MiB or more, such as \"512MiB\""},
    {"pids", &number_limit<&ChildLimits::pids, 1, 4'194'304>,
     "must be a whole number, 1 to 4194304"},
    {"cpu_percent", &number_limit<&ChildLimits::cpu_percent, 1, 100'000>,
     "must be a whole number, 1 to 100000: percent of one core"},
    {"nice", &number_limit<&ChildLimits::nice, -20, 19>, "must be a whole number, -20 to 19"},
    {"open_files", &number_limit<&ChildLimits::open_files, 16, 1'048'576>,
     "must be a whole number, 16 to 1048576"},
    {"file_size", &bytes_limit<&ChildLimits::file_bytes, 0>, "must be a size such as \"1GiB\""},
    {"user", &user_limit, "must be the name of a user"},
};

bool as_limits(std::string_view json, ChildLimits& out, const Warnings& warnings) {
  const auto members = members_of(json, Case::fold);
  if (!members) return false;
  obey(*members, kLimitKeys, out, Others::refuse, warnings.below("limits"));
  return true;
}

// -- settings.job

template <bool JobSettings::*Field>
bool flag(std::string_view json, JobSettings& into, const Warnings&) {
  return as_bool(json, into.*Field);
}

template <int JobSettings::*Field, int Min, int Max>
bool number(std::string_view json, JobSettings& into, const Warnings&) {
  return as_int(json, Min, Max, into.*Field);
}

bool stopping_wait_time(std::string_view json, JobSettings& into, const Warnings&) {
  std::int64_t seconds = 0;
  if (!as_integer(json, 0, kMaxWaitSeconds, seconds)) return false;
  into.stopping_wait_time = std::chrono::seconds(seconds);
  return true;
}

bool is_in_place(std::string_view json, JobSettings& into, const Warnings&) {
  bool value = false;
  if (!as_bool(json, value)) return false;
  into.is_in_place = value;
  return true;
}

std::size_t count_fields(std::string_view text) {
  std::size_t fields = 0;
  bool inside = false;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\t';
    if (!blank && !inside) ++fields;
    inside = !blank;
  }
  return fields;
}

constexpr std::string_view kScheduleRule =
    "must be a string of six fields: second minute hour day-of-month month day-of-week";

// Reports errors itself: the cron parser knows which part is wrong. As in Kudu the job has no
// schedule then, and still runs on demand.
bool schedule(std::string_view json, JobSettings& into, const Warnings& warnings) {
  std::string text;
  std::string rule;
  const bool read = as_string(json, text);
  into.schedule.clear();
  into.schedule_error.clear();
  if (read && count_fields(text) == 0) return true;
  if (!read || count_fields(text) != 6) {
    rule = kScheduleRule;
  } else if (const auto cron = Cron::parse(text); !cron) {
    rule = cron.error().message;
  }
  if (rule.empty()) {
    into.schedule = std::move(text);
  } else {
    Warnings{warnings.out, into.schedule_error}.value("schedule", json, rule);
  }
  return true;
}

template <std::optional<Duration> JobSettings::*Field, int MinMs>
bool length(std::string_view json, JobSettings& into, const Warnings&) {
  return as_duration(json, std::chrono::milliseconds(MinMs), kMaxTimeout, into.*Field);
}

bool time_zone(std::string_view json, JobSettings& into, const Warnings&) {
  std::string name;
  if (!as_string(json, name) || (!name.empty() && !is_zone(name))) return false;
  into.time_zone = std::move(name);
  return true;
}

bool pool(std::string_view json, JobSettings& into, const Warnings&) {
  std::string name;
  if (!as_string(json, name) || (!name.empty() && !is_plain(name, "._-"))) return false;
  into.pool = std::move(name);
  return true;
}

constexpr std::string_view kBoolRule = "must be true or false";
constexpr std::string_view kAllowRule =
    "must be a list of at most 256 names of variables; \"AWS_*\" stands for all that begin so";

constexpr Key<JobSettings> kJobKeys[] = {
    {"is_singleton", &flag<&JobSettings::is_singleton>, kBoolRule},
    {"stopping_wait_time", &stopping_wait_time, "must be a whole number of seconds, 0 to 604800"},
    {"schedule", &schedule, kScheduleRule},
    {"is_in_place", &is_in_place, kBoolRule},
    {"max_attempts", &number<&JobSettings::max_attempts, 1, kMaxMaxAttempts>,
     "must be a whole number, 1 to 1000"},
    {"timeout", &length<&JobSettings::timeout, 1>,
     "must be a time from 1ms to 365d, a string such as \"90s\" or \"2h\""},
    {"restart_time", &length<&JobSettings::restart_time, 0>,
     "must be a time from 0s to 365d, a string such as \"5s\" or \"1m\""},
    {"restart_back_off", &flag<&JobSettings::restart_back_off>, kBoolRule},
    {"freeze", &flag<&JobSettings::freeze>, kBoolRule},
    {"time_zone", &time_zone, "must be a time zone such as \"Europe/Berlin\""},
    {"pool", &pool, "must be the name of a pool: 1 to 80 letters, digits, '.', '_' or '-'"},
    {"environment_allow",
     [](std::string_view json, JobSettings& into, const Warnings&) {
       return as_names(json, &is_allowed_variable, into.environment_allow);
     },
     kAllowRule},
    {"environment",
     [](std::string_view json, JobSettings& into, const Warnings& warnings) {
       return as_variables(json, into.environment, warnings);
     },
     "must be an object of at most 256 strings", true},
    {"limits",
     [](std::string_view json, JobSettings& into, const Warnings& warnings) {
       return as_limits(json, into.limits, warnings);
     },
     "must be an object"},
    {"persistent", &flag<&JobSettings::persistent>, kBoolRule},
    {"min", &number<&JobSettings::min_children, 0, kMaxChildren>,
     "must be a whole number, 0 to 1024"},
    {"max", &number<&JobSettings::max_children, 0, kMaxChildren>,
     "must be a whole number, 0 to 1024"},
    {"target", &length<&JobSettings::target, 1>,
     "must be a time from 1ms to 365d, a string such as \"30s\""},
    {"kinds",
     [](std::string_view json, JobSettings& into, const Warnings&) {
       return as_names(json, &is_kind, into.kinds);
     },
     "must be a list of at most 256 strings of 1 to 256 bytes"},
};
static_assert(kMaxMaxAttempts == 1000);  // as the rule says

// The members of a whole file; empty, with the reason, if it cannot be read.
Members members_of_file(std::string_view name, std::string_view text, const Warnings& warnings) {
  if (text.size() > kMaxSettingsBytes) {
    warnings.fail(fmt::format("{}: must be at most {} bytes", name, kMaxSettingsBytes));
    return {};
  }
  const auto json = strict_json(text);
  if (!json) {
    warnings.fail(fmt::format("{}: {}", name, json.error().message));
    return {};
  }
  if (json->find_first_not_of(" \t\r\n") == std::string::npos) {
    warnings.fail(fmt::format("{}: is empty; must be a JSON object, such as {{}}", name));
    return {};
  }
  auto members = members_of(*json, Case::fold);
  if (members) return std::move(*members);
  warnings.fail(fmt::format("{}: {}", name, members.error().message));
  return {};
}

// -- host.json

constexpr Key<PoolSettings> kPoolKeys[] = {
    {"concurrency",
     [](std::string_view json, PoolSettings& into, const Warnings&) {
       return as_int(json, 1, kMaxConcurrency, into.concurrency);
     },
     "must be a whole number, 1 to 10000"},
    {"folders",
     [](std::string_view json, PoolSettings& into, const Warnings&) {
       return as_names(json, &is_folder_pattern, into.folders);
     },
     "must be a list of at most 256 names of job folders; \"report*\" is a prefix"},
    {"slots",
     [](std::string_view json, PoolSettings& into, const Warnings&) {
       return as_int(json, 0, kMaxConcurrency, into.slots);
     },
     "must be a whole number, 0 to 10000"},
    {"limits",
     [](std::string_view json, PoolSettings& into, const Warnings& warnings) {
       return as_limits(json, into.limits, warnings);
     },
     "must be an object"},
};

bool pools(std::string_view json, HostFile& into, const Warnings& warnings) {
  const auto members = members_of(json, Case::keep);
  if (!members || members->size() > kMaxPools) return false;
  for (const auto& [name, json_of] : *members) {
    const Warnings below = warnings.below(fmt::format("pools.{}", cut_text(name, kShownBytes)));
    const auto settings = members_of(json_of, Case::fold);
    if (!is_plain(name, "._-")) {
      warnings.value("pools", name,
                     "a pool's name must be 1 to 80 letters, digits, '.', '_' or '-'");
    } else if (!settings) {
      warnings.value("pools." + name, json_of, "must be an object");
    } else {
      obey(*settings, kPoolKeys, into.pools[name], Others::refuse, below);
    }
  }
  return true;
}

constexpr Key<HostFile> kHostKeys[] = {
    {"pools", &pools, "must be an object of at most 64 pools"},
    {"environment_allow",
     [](std::string_view json, HostFile& into, const Warnings&) {
       return as_names(json, &is_allowed_variable, into.environment_allow);
     },
     kAllowRule},
};

// -- variables

bool seconds_of(std::string_view text, std::int64_t min, Duration& out) {
  std::int64_t seconds = 0;
  if (!as_integer(text, min, kMaxWaitSeconds, seconds)) return false;
  out = std::chrono::seconds(seconds);
  return true;
}

bool switch_of(std::string_view text, bool& out) {
  std::string word(text);
  for (char& c : word) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (word != "1" && word != "true" && word != "0" && word != "false") return false;
  out = word == "1" || word == "true";
  return true;
}

constexpr std::string_view kSwitchRule = "must be 1, true, 0 or false";

constexpr Key<HostVariables> kVariables[] = {
    {"WEBJOBS_RESTART_TIME",
     [](std::string_view text, HostVariables& into, const Warnings&) {
       return seconds_of(text, 0, into.restart_time);
     },
     "must be a whole number of seconds, 0 to 604800"},
    {"WEBJOBS_IDLE_TIMEOUT",
     [](std::string_view text, HostVariables& into, const Warnings&) {
       return seconds_of(text, 1, into.idle_timeout);
     },
     "must be a whole number of seconds, 1 to 604800"},
    {"WEBJOBS_HISTORY_SIZE",
     [](std::string_view text, HostVariables& into, const Warnings&) {
       return as_int(text, 1, 100'000, into.history_size);
     },
     "must be a whole number, 1 to 100000"},
    {"WEBJOBS_STOPPED",
     [](std::string_view text, HostVariables& into, const Warnings&) {
       return switch_of(text, into.stopped);
     },
     kSwitchRule},
    {"WEBJOBS_DISABLE_SCHEDULE",
     [](std::string_view text, HostVariables& into, const Warnings&) {
       return switch_of(text, into.disable_schedule);
     },
     kSwitchRule},
    {"WEBJOBS_LOG_TRIGGERED_JOBS_TO_APP_LOGS",
     [](std::string_view text, HostVariables& into, const Warnings&) {
       return switch_of(text, into.log_triggered_jobs);
     },
     kSwitchRule},
    {"WEBJOBS_ROOT_PATH",
     [](std::string_view text, HostVariables& into, const Warnings&) {
       into.root_path = text;
       return true;
     },
     ""},
    {"WEBSITE_TIME_ZONE",
     [](std::string_view text, HostVariables& into, const Warnings&) {
       if (!is_zone(text)) return false;
       into.time_zone = text;
       return true;
     },
     "must be a time zone of the IANA database, such as Europe/Berlin"},
    {"WEBSITE_INSTANCE_ID",
     [](std::string_view text, HostVariables& into, const Warnings&) {
       if (!is_plain(text, "._-")) return false;
       into.instance_id = text;
       return true;
     },
     "must be 1 to 80 letters, digits, '.', '_' or '-'"},
};

}  // namespace

Understood<JobSettings> parse_job_settings(std::string_view json) {
  Understood<JobSettings> out;
  const Warnings warnings{out.warnings, out.error};
  obey(members_of_file("settings.job", json, warnings), kJobKeys, out.value, Others::pass_over,
       warnings);
  JobSettings& settings = out.value;
  if (settings.max_children != 0 && settings.min_children > settings.max_children) {
    warnings.value("min", fmt::to_string(settings.min_children),
                   fmt::format("must be at most max ({})", settings.max_children));
    settings.min_children = 0;
  }
  return out;
}

std::optional<std::string> settings_object(std::string_view text) {
  if (text.size() > kMaxSettingsBytes) return std::nullopt;
  auto json = strict_json(text);
  if (!json || !members_of(*json, Case::keep)) return std::nullopt;
  return std::move(*json);
}

Understood<HostFile> parse_host_file(std::string_view json) {
  Understood<HostFile> out;
  const Warnings warnings{out.warnings, out.error};
  obey(members_of_file("host.json", json, warnings), kHostKeys, out.value, Others::remark,
       warnings);
  return out;
}

Understood<HostVariables> read_host_variables(
    const std::function<const char*(const char* name)>& get) {
  Understood<HostVariables> out;
  const Warnings warnings{out.warnings, out.error};
  for (const Key<HostVariables>& variable : kVariables) {
    const char* const text = get(std::string(variable.name).c_str());
    if (text == nullptr || *text == '\0') continue;
    if (!variable.obey(text, out.value, warnings)) {
      warnings.value(variable.name, fmt::format("\"{}\"", cut_text(text, kShownBytes)),
                     variable.rule);
    }
  }
  return out;
}

}  // namespace mainspring
