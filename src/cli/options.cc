// Parses, validates, layers and explains settings.
#include "cli/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/secret.h"
#include "cli/shared_store.h"

namespace mainspring::cli {
namespace {

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string format_number(const Setting& setting, std::int64_t value) {
  return setting.unit == Unit::bytes ? format_bytes(value) : fmt::to_string(value);
}

std::string joined_choices(std::string_view choices) {
  const auto words = split(choices, '|');
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    out += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
    out += words[i];
  }
  return out;
}

Error broken(const Setting& setting, std::string_view where, std::string_view text) {
  return invalid(std::string(setting.name),
                 fmt::format("{} \"{}\": {}", where, text.substr(0, 200), rule_of(setting)));
}

struct Unit1024 {
  std::string_view name;
  std::int64_t bytes;
};
constexpr Unit1024 kUnits[] = {
    {"GiB", std::int64_t{1} << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}};

}  // namespace

Result<std::int64_t> parse_count(std::string_view text) {
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '_' && i > 0 && i + 1 < text.size()) continue;
    digits += text[i];
  }
  std::int64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stopped, problem] = std::from_chars(digits.data(), end, value);
  if (digits.empty() || problem != std::errc{} || stopped != end || value < 0) {
    return invalid("", fmt::format("\"{}\": must be a whole number from 0 on", text));
  }
  return value;
}

// Maximum size; larger values would not round-trip through their shortest text.
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;

Result<std::int64_t> parse_bytes(std::string_view text) {
  for (const Unit1024& unit : kUnits) {
    if (!text.ends_with(unit.name)) continue;
    MS_TRY_ASSIGN(const std::int64_t count,
                  parse_count(text.substr(0, text.size() - unit.name.size())));
    if (count > kMaxBytes / unit.bytes) break;
    return count * unit.bytes;
  }
  auto plain = parse_count(text);
  if (!plain || *plain > kMaxBytes) {
    return invalid("", fmt::format("\"{}\": must be a size such as 4096, 64KiB, 16MiB or 2GiB, up "
                                   "to 1048576GiB",
                                   text));
  }
  return plain;
}

std::string format_bytes(std::int64_t bytes) {
  for (const Unit1024& unit : kUnits) {
    if (bytes >= unit.bytes && bytes % unit.bytes == 0) {
      if (unit.bytes == 1) break;
      return fmt::format("{}{}", bytes / unit.bytes, unit.name);
    }
  }
  return fmt::to_string(bytes);
}

const Setting* find_setting(std::string_view name) {
  for (const Setting& setting : settings()) {
    if (setting.name == name) return &setting;
  }
  return nullptr;
}

std::string flag_of(const Setting& setting) {
  std::string out = "--" + std::string(setting.name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

std::string environment_of(const Setting& setting) {
  return "MAINSPRING_" + upper(setting.name);
}

std::string rule_of(const Setting& setting) {
  if (is_switch(setting)) return "must be true or false";
  if (std::holds_alternative<std::string Options::*>(setting.member)) {
    if (setting.max > 0) {
      return fmt::format("must be a number from {} to {}, or a range such as 2..16",
                         format_number(setting, setting.min), format_number(setting, setting.max));
    }
    if (setting.choices.empty()) return "must not be empty";
    return "must be " + joined_choices(setting.choices);
  }
  if (std::holds_alternative<Duration Options::*>(setting.member)) {
    return fmt::format("must be a time from {} to {}, such as 500ms, 30s, 15m, 24h or 7d",
                       format_duration(Duration(setting.min)),
                       format_duration(Duration(setting.max)));
  }
  return fmt::format("must be a {} from {} to {}",
                     setting.unit == Unit::bytes ? "size (4096, 64KiB, 16MiB, 2GiB)" : "number",
                     format_number(setting, setting.min), format_number(setting, setting.max));
}

bool is_switch(const Setting& setting) {
  return std::holds_alternative<bool Options::*>(setting.member);
}

bool names_file(const Setting& setting) {
  return setting.value == "FILE";
}

std::string format_setting(const Setting& setting, const Options& options) {
  if (const auto* on = std::get_if<bool Options::*>(&setting.member)) {
    return options.**on ? "true" : "false";
  }
  if (const auto* text = std::get_if<std::string Options::*>(&setting.member)) {
    const bool url =
        *text == &Options::server || *text == &Options::store || *text == &Options::listen_url;
    return url ? shown_url(options.**text) : options.**text;
  }
  if (const auto* duration = std::get_if<Duration Options::*>(&setting.member)) {
    return format_duration(options.**duration);
  }
  return format_number(setting, options.*std::get<std::int64_t Options::*>(setting.member));
}

std::optional<NumberRange> parse_range(std::string_view text, std::int64_t min, std::int64_t max) {
  const std::size_t dots = text.find("..");
  const auto first = parse_count(text.substr(0, dots));
  const auto last = dots == std::string_view::npos ? first : parse_count(text.substr(dots + 2));
  if (!first || !last || *first < min || *last > max || *first > *last) return std::nullopt;
  if (dots != std::string_view::npos && *first < 1) return std::nullopt;
  return NumberRange{*first, *last};
}

NumberRange worker_slots(const Options& options) {
  const auto range = parse_range(options.slots, 0, INT32_MAX).value_or(NumberRange());
  if (range.last > 0) return range;
  const std::int64_t processors = std::max(1L, sysconf(_SC_NPROCESSORS_ONLN));
  return {processors, processors};
}

Result<void> set_setting(const Setting& setting, std::string_view text, std::string_view where,
                         Options& options) {
  if (const auto* member = std::get_if<bool Options::*>(&setting.member)) {
    if (text != "true" && text != "false") return broken(setting, where, text);
    options.** member = text == "true";
    return {};
  }
  if (const auto* member = std::get_if<std::string Options::*>(&setting.member)) {
    if (text.empty()) return broken(setting, where, text);
    if (setting.max > 0 && !parse_range(text, setting.min, setting.max)) {
      return broken(setting, where, text);
    }
    if (!setting.choices.empty()) {
      const auto words = split(setting.choices, '|');
      if (std::find(words.begin(), words.end(), text) == words.end()) {
        return broken(setting, where, text);
      }
    }
    options.** member = std::string(text);
    return {};
  }
  if (const auto* member = std::get_if<Duration Options::*>(&setting.member)) {
    const auto value = parse_duration(text);
    if (!value || value->count() < setting.min || value->count() > setting.max) {
      return broken(setting, where, text);
    }
    options.** member = *value;
    return {};
  }
  const auto value = setting.unit == Unit::bytes ? parse_bytes(text) : parse_count(text);
  if (!value || *value < setting.min || *value > setting.max) return broken(setting, where, text);
  options.*std::get<std::int64_t Options::*>(setting.member) = *value;
  return {};
}

namespace {

// The valid lines of a file with an invalid one: a setting is one line.
std::map<std::string, std::string> valid_lines(const std::string& file, std::string_view text) {
  std::map<std::string, std::string> out;
  for (const std::string_view line : split(text, '\n')) {
    if (auto parsed = parse_config(file, line)) out.merge(parsed->values);
  }
  return out;
}

}  // namespace

Layered layer_valid(const Layers& layers, std::vector<std::string>& mistakes) {
  Layered out;
  const auto note = [&](const Error& error) { mistakes.push_back(error.message); };
  ConfigFile file;
  if (!layers.file_text.empty()) {
    auto parsed = parse_config(layers.file, layers.file_text);
    if (parsed) {
      file = std::move(*parsed);
      for (const Error& mistake : file.mistakes) note(mistake);
    } else {
      note(parsed.error());
      file.values = valid_lines(layers.file, layers.file_text);
    }
  }
  for (const Setting& setting : settings()) {
    out.origins[setting.name] = "default";
    const auto apply = [&](const std::map<std::string, std::string>& values, std::string where,
                           std::string origin) {
      const auto found = values.find(std::string(setting.name));
      if (found == values.end()) return;
      const auto set = set_setting(setting, found->second, where, out.options);
      if (!set) return note(set.error());
      out.origins[setting.name] = std::move(origin);
    };
    apply(file.values, fmt::format("{}: {}", layers.file, setting.name), "file " + layers.file);
    const std::string credential = fmt::format("credential {}", setting.name);
    apply(layers.credentials, credential, credential);
    const std::string variable = environment_of(setting);
    apply(layers.environment, variable, "environment " + variable);
    const std::string flag = flag_of(setting);
    apply(layers.flags, flag, "flag " + flag);
  }
  return out;
}

Result<Layered> layer(const Layers& layers) {
  std::vector<std::string> mistakes;
  Layered out = layer_valid(layers, mistakes);
  if (mistakes.size() > kMostMistakes) {
    const std::size_t more = mistakes.size() - kMostMistakes;
    mistakes.resize(kMostMistakes);
    mistakes.push_back(fmt::format("… and {} more", more));
  }
  if (!mistakes.empty()) return invalid("", fmt::format("{}", fmt::join(mistakes, "\n")));
  return out;
}

namespace {

// What a setting accepts, for a table: "1s to 1h", "auto, always or never".
std::string values_of(const Setting& setting) {
  if (is_switch(setting)) return "true, false";
  if (std::holds_alternative<std::string Options::*>(setting.member)) {
    return setting.choices.empty() ? "text" : joined_choices(setting.choices);
  }
  if (std::holds_alternative<Duration Options::*>(setting.member)) {
    return fmt::format("{} to {}", format_duration(Duration(setting.min)),
                       format_duration(Duration(setting.max)));
  }
  return fmt::format("{} to {}", format_number(setting, setting.min),
                     format_number(setting, setting.max));
}

}  // namespace

std::string config_reference() {
  std::string out =
      "# Settings\n\n"
      "Each setting has one name: `log_level` in the file, `MAINSPRING_LOG_LEVEL` in the "
      "environment, "
      "`--log-level` as a flag.\n"
      "A flag overrides the environment, the environment the file, the file the default. "
      "`mainspring config --explain` shows\n"
      "every value and its origin.\n\n"
      "The file is TOML, one `name = value` per line, without tables: `--config FILE`, else "
      "`$MAINSPRING_CONFIG`, else the first\n"
      "existing of `$XDG_CONFIG_HOME/mainspring/config.toml` (`~/.config/…`) and "
      "`/etc/mainspring/config.toml` (if readable). Unknown names and\n"
      "invalid values are errors. Write times as text with a unit (`\"500ms\"`, `\"30s\"`, "
      "`\"15m\"`, `\"24h\"`, `\"7d\"`), sizes as text\n"
      "(`\"16MiB\"`) or bytes.\n\n"
      "A setting that names a file also accepts a systemd credential of its name: with "
      "`LoadCredential=tls_key:/etc/mainspring/tls.key`\n"
      "the server reads `tls_key` from `$CREDENTIALS_DIRECTORY`. A credential overrides the file, "
      "the "
      "environment overrides both.\n\n"
      "```toml\ndata = \"/var/lib/mainspring\"\nlog_level = \"warn\"\nretention_dead = \"90d\"\n"
      "```\n\n"
      "Generated by `mainspring config --reference`.\n\n"
      "| Name | Default | Values | Meaning |\n|---|---|---|---|\n";
  const Options defaults;
  for (const Setting& setting : settings()) {
    std::string meaning(setting.meaning);
    if (!setting.raise_if.empty()) meaning += fmt::format(". Change it if {}", setting.raise_if);
    out += fmt::format("| `{}` | `{}` | {} | {} |\n", setting.name,
                       format_setting(setting, defaults), values_of(setting), meaning);
  }
  return out;
}

std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> names;
  if (text == "none") return names;
  while (!text.empty()) {
    const std::size_t end = text.find(',');
    if (end != 0) names.emplace_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return names;
}

}  // namespace mainspring::cli
