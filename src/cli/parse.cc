// Command lines: CLI11, set up from the table of commands, with messages that name flag and rule.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <memory>
#include <utility>

#include "base/edit_distance.h"
#include "cli/command.h"

namespace mainspring::cli {
namespace {

// Receives the words of one command from CLI11.
struct Level {
  const Command* command = nullptr;
  CLI::App* app = nullptr;
  bool help = false;
  std::map<std::string, std::vector<std::string>> flags;
  std::map<std::string, bool> switches;
  std::map<std::string, std::vector<std::string>> settings;
  std::map<std::string, bool> setting_switches;
  std::map<std::string, std::string> single;
  std::map<std::string, std::vector<std::string>> many;
  std::vector<std::unique_ptr<Level>> children;
};

bool is_switch(const Flag& flag) {
  return flag.value.empty();
}
bool takes_several(const Argument& argument) {
  return argument.count == Argument::Count::many || argument.count == Argument::Count::any;
}
bool value_is_optional(const Flag& flag) {
  return flag.value.starts_with('[');
}

void add_many(CLI::App& app, const std::string& name, std::vector<std::string>& target) {
  app.add_option(name, target)->allow_extra_args(false);
}

void build(Level& level, CLI::App& app, const Command& command) {
  level.command = &command;
  level.app = &app;
  app.set_help_flag();
  app.allow_extras();
  // One command per level: else CLI11 takes an argument that has the name of a command ("help
  // serve", a queue named "bench") for that command.
  app.require_subcommand(0, 1);
  app.add_flag("-h,--help", level.help);
  for (const std::vector<Flag>* flags : {&common_flags(), &command.flags}) {
    for (const Flag& flag : *flags) {
      if (flag.name == "help") continue;
      if (is_switch(flag)) {
        const std::string letter = flag.letter.empty() ? "" : "-" + flag.letter + ",";
        app.add_flag(letter + "--" + flag.name, level.switches[flag.name]);
      } else {
        add_many(app, "--" + flag.name, level.flags[flag.name]);
      }
    }
  }
  for (const Setting* setting : settings_of(command)) {
    if (is_switch(*setting)) {
      app.add_flag(flag_of(*setting), level.setting_switches[std::string(setting->name)]);
    } else {
      add_many(app, flag_of(*setting), level.settings[std::string(setting->name)]);
    }
  }
  for (const Argument& argument : command.arguments) {
    if (takes_several(argument)) {
      app.add_option(argument.name, level.many[argument.name]);
    } else {
      app.add_option(argument.name, level.single[argument.name]);
    }
  }
  for (const Command& child : command.children) {
    level.children.push_back(std::make_unique<Level>());
    CLI::App& below = *app.add_subcommand(child.name);
    const std::string other = other_number(child.name);
    if (!child.children.empty() && child_named(command, other) == &child) below.alias(other);
    build(*level.children.back(), below, child);
  }
}

// Finds the flag `word` ("--name") anywhere below `command`.
const Flag* find_flag(const Command& command, std::string_view word) {
  for (const std::vector<Flag>* flags : {&common_flags(), &command.flags}) {
    for (const Flag& flag : *flags) {
      if (word.substr(2) == flag.name) return &flag;
    }
  }
  for (const Command& child : command.children) {
    if (const Flag* flag = find_flag(child, word)) return flag;
  }
  return nullptr;
}

const Setting* setting_of_flag(std::string_view word) {
  const std::string_view flag = word.substr(0, word.find('='));
  for (const Setting& setting : settings()) {
    if (flag_of(setting) == flag) return &setting;
  }
  return nullptr;
}

// Moves settings before and between the words of a command to its end:
// `mainspring --server URL jobs list` becomes `mainspring jobs list --server URL`.
std::vector<std::string> settings_after_command(const std::vector<std::string>& words) {
  std::vector<std::string> out, settings;
  const Command* command = &root();
  std::size_t i = 0;
  if (!words.empty()) out.push_back(words[i++]);
  while (i < words.size() && !command->children.empty() && words[i] != "--") {
    const std::string& word = words[i++];
    if (!word.starts_with("--")) {
      out.push_back(word);
      command = child_named(*command, word);
      if (command == nullptr) break;
      continue;
    }
    const Setting* setting = setting_of_flag(word);
    std::vector<std::string>& target = setting != nullptr ? settings : out;
    target.push_back(word);
    const Flag* flag = setting == nullptr ? find_flag(*command, word) : nullptr;
    const bool takes_value =
        setting != nullptr ? !is_switch(*setting) : flag != nullptr && !is_switch(*flag);
    if (takes_value && word.find('=') == std::string::npos && i < words.size())
      target.push_back(words[i++]);
  }
  out.insert(out.end(), settings.begin(), settings.end());
  out.insert(out.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
  return out;
}

// Splits "--name=value" into two words (CLI11 would drop an empty value), and adds an empty value
// to a flag whose optional value is missing.
std::vector<std::string> normalized(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  const Command* command = &root();  // the command that the words so far name
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      out.insert(out.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
      break;
    }
    const std::size_t equals = word.find('=');
    if (word.starts_with("--") && equals != std::string::npos) {
      out.push_back(word.substr(0, equals));
      out.push_back(word.substr(equals + 1));
      continue;
    }
    out.push_back(word);
    if (!word.starts_with("--")) {
      const auto child =
          std::find_if(command->children.begin(), command->children.end(),
                       [&](const Command& candidate) { return candidate.name == word; });
      if (child != command->children.end()) command = &*child;
      continue;
    }
    const Flag* flag = find_flag(*command, word);
    if (flag == nullptr) flag = find_flag(root(), word);
    if (flag == nullptr || is_switch(*flag)) continue;
    if (value_is_optional(*flag)) {
      out.emplace_back();
    } else if (i + 1 < words.size()) {
      out.push_back(words[++i]);
    }
  }
  return out;
}

// The commands of this name one level deeper: `cancel` is `jobs cancel`, or `bulk cancel`.
std::vector<std::string> deeper(const std::string& word) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> found;
  for (const Command& child : root().children) {
    if (found.size() < kMost && child_named(child, word) != nullptr)
      found.push_back(fmt::format("{} {}", child.name, word));
  }
  return found;
}

// The name here of what other programs call `word`.
std::string usual_name(const std::string& word, const std::vector<std::string>& known) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"--port", "--listen"}, {"--bind", "--listen"}, {"--host", "--listen"},
      {"--host", "--server"}, {"--url", "--server"},  {"status", "health"}};
  for (const auto& [other, name] : kNames) {
    if (word == other && std::ranges::find(known, name) != known.end()) return std::string(name);
  }
  return word;
}

std::string program_path(const std::vector<std::string>& path) {
  return path.empty() ? "mainspring" : fmt::format("mainspring {}", fmt::join(path, " "));
}

Error unexpected(const Level& level, const std::vector<std::string>& path,
                 const std::string& word) {
  const Command& command = *level.command;
  std::vector<std::string> known;
  std::string message;
  if (word.starts_with("-") && word != "-") {
    for (const std::vector<Flag>* flags : {&common_flags(), &command.flags}) {
      for (const Flag& flag : *flags) known.push_back("--" + flag.name);
    }
    for (const Setting* setting : settings_of(command)) known.push_back(flag_of(*setting));
    // Settings of a command may be before its words.
    if (!command.children.empty()) {
      for (const Setting& setting : settings()) known.push_back(flag_of(setting));
    }
    message = fmt::format("{}: unknown flag of `{}`.", word, program_path(path));
  } else if (!command.children.empty()) {
    for (const Command& child : command.children) known.push_back(child.name);
    message = fmt::format("\"{}\": there is no such command of `{}`.", word, program_path(path));
  } else {
    message = fmt::format("\"{}\": `{}` takes no further argument.", word, program_path(path));
  }
  std::string meant = suggestion(usual_name(word, known), known);
  // `lease run` and `leases list` are two groups.
  const Command* sibling = path.size() == 1 ? child_named(root(), other_number(path[0])) : nullptr;
  if (sibling != nullptr && child_named(*sibling, word) != nullptr)
    meant = fmt::format(" Did you mean {} {}?", sibling->name, word);
  if (const auto found = path.empty() ? deeper(word) : std::vector<std::string>(); !found.empty())
    meant = fmt::format(" Did you mean {}?", fmt::join(found, " or "));
  return invalid(word, message + meant + fmt::format(" See {} --help", program_path(path)));
}

// Flags for which a missing value has a meaning, for example all jobs instead of those of a queue.
// An empty value is an error for them: it is probably an unset shell variable.
bool names_something(std::string_view flag) {
  constexpr std::string_view kNames[] = {
      "queue",         "kind",           "tag",      "fingerprint", "session",
      "reply-session", "limit-key",      "reply-to", "callback",    "unique",
      "key",           "worker",         "job",      "directory",   "of-queue",
      "of-kind",       "idempotency-key"};
  return std::find(std::begin(kNames), std::end(kNames), flag) != std::end(kNames);
}

// Moves the parsed words of one level into `parsed`.
Result<void> collect(Level& level, Parsed& parsed) {
  parsed.help = parsed.help || level.help;
  for (const auto& [name, on] : level.switches) {
    if (on) parsed.invocation.flags[name].emplace_back();
  }
  parsed.invocation.json = parsed.invocation.has("json");
  const auto once = [](const std::string& flag, std::size_t count) -> Result<void> {
    if (count <= 1) return {};
    return invalid(flag, fmt::format("{}: given {} times: must be given once", flag, count));
  };
  for (const std::vector<Flag>* flags : {&common_flags(), &level.command->flags}) {
    for (const Flag& flag : *flags) {
      const auto found = level.flags.find(flag.name);
      if (found == level.flags.end() || found->second.empty()) continue;
      if (!flag.repeated) MS_TRY(once("--" + flag.name, found->second.size()));
      for (const std::string& value : found->second) {
        if (value.empty() && names_something(flag.name)) {
          return invalid(flag.name,
                         fmt::format("--{} \"\": must not be empty; leave it out", flag.name));
        }
        const auto& choices = flag.choices;
        const bool checked = !choices.empty() && !flag.list;
        if (checked && std::find(choices.begin(), choices.end(), value) == choices.end()) {
          return invalid(flag.name, fmt::format("--{} \"{}\": must be one of {}", flag.name, value,
                                                fmt::join(choices, ", ")));
        }
      }
      if (flag.name == "config") {
        parsed.config = found->second.back();
      } else {
        parsed.invocation.flags[flag.name] = found->second;
      }
    }
  }
  for (const auto& [name, values] : level.settings) {
    if (values.empty()) continue;
    const bool list = name == "server";  // tried in this order
    if (!list) MS_TRY(once(flag_of(*find_setting(name)), values.size()));
    parsed.settings[name] = list ? fmt::format("{}", fmt::join(values, ",")) : values.back();
  }
  for (const auto& [name, on] : level.setting_switches) {
    if (on) parsed.settings[name] = "true";
  }
  return {};
}

Result<void> collect_arguments(Level& level, Parsed& parsed) {
  for (const Argument& argument : level.command->arguments) {
    std::vector<std::string>& values = parsed.invocation.arguments[argument.name];
    if (takes_several(argument)) {
      values = level.many[argument.name];
    } else if (level.app->get_option(argument.name)->count() > 0) {
      values = {level.single[argument.name]};
    }
    const bool needed =
        argument.count == Argument::Count::one || argument.count == Argument::Count::many;
    if (values.empty() && needed && !parsed.help) {
      return invalid(argument.name, fmt::format("{} is missing. Usage: {}", argument.name,
                                                usage_line(*level.command, parsed.path)));
    }
  }
  return {};
}

// CLI11 has its own error messages; the flag is at their beginning.
Error translated(const CLI::ParseError& error) {
  std::string text = error.what();
  const std::size_t colon = text.find(':');
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && colon != std::string::npos) {
    const std::string flag = text.substr(0, colon);
    return invalid(flag, fmt::format("{}: needs a value", flag));
  }
  return invalid("", text);
}

}  // namespace

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  // An abbreviated flag: --prio.
  constexpr std::size_t kLeast = 3;
  const auto longer = std::find_if(known.begin(), known.end(),
                                   [&](const auto& name) { return name.starts_with(word); });
  if (longer != known.end() && word.find_first_not_of('-') + kLeast <= word.size())
    return fmt::format(" Did you mean {}?", *longer);
  const auto best = std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
    return edit_distance(word, a) < edit_distance(word, b);
  });
  if (best == known.end() || edit_distance(word, *best) > std::max<std::size_t>(1, word.size() / 3))
    return "";
  return fmt::format(" Did you mean {}?", *best);
}

Result<Parsed> parse_command_line(const std::vector<std::string>& words) {
  Parsed parsed;
  parsed.invocation.program = words.empty() ? "mainspring" : words[0];
  CLI::App app;
  Level top;
  build(top, app, root());
  std::vector<std::string> reversed = normalized(settings_after_command(words));
  std::reverse(reversed.begin(), reversed.end());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return translated(error);
  }
  Level* level = &top;
  while (true) {
    MS_TRY(collect(*level, parsed));
    const auto child = std::find_if(level->children.begin(), level->children.end(),
                                    [](const auto& candidate) { return candidate->app->parsed(); });
    const std::vector<std::string> extra = level->app->remaining();
    if (!extra.empty() && extra[0] != "--") return unexpected(*level, parsed.path, extra[0]);
    if (child == level->children.end()) break;
    level = child->get();
    parsed.path.push_back(level->command->name);
  }
  MS_TRY(collect_arguments(*level, parsed));
  parsed.invocation.command = level->command;
  return parsed;
}

// -- Invocation -----------------------------------------------------------------------------------

namespace {
std::optional<std::string> last_of(const std::map<std::string, std::vector<std::string>>& map,
                                   const std::string& name) {
  const auto found = map.find(name);
  if (found == map.end() || found->second.empty()) return std::nullopt;
  return found->second.back();
}
const std::vector<std::string>& all_of(const std::map<std::string, std::vector<std::string>>& map,
                                       const std::string& name) {
  static const std::vector<std::string> none;
  const auto found = map.find(name);
  return found == map.end() ? none : found->second;
}
}  // namespace

std::optional<std::string> Invocation::flag(const std::string& name) const {
  return last_of(flags, name);
}
std::optional<std::string> Invocation::argument(const std::string& name) const {
  return last_of(arguments, name);
}
const std::vector<std::string>& Invocation::all_flags(const std::string& name) const {
  return all_of(flags, name);
}
const std::vector<std::string>& Invocation::all_arguments(const std::string& name) const {
  return all_of(arguments, name);
}

Result<std::optional<Duration>> Invocation::duration(const std::string& name) const {
  const auto text = flag(name);
  if (!text) return std::optional<Duration>{};
  const auto value = parse_duration(*text);
  if (!value) {
    return invalid(name, fmt::format("--{} \"{}\": must be a time such as 500ms, 30s, 15m, 24h or "
                                     "7d",
                                     name, *text));
  }
  return std::optional<Duration>(*value);
}

Result<std::optional<std::int64_t>> Invocation::number(const std::string& name, std::int64_t min,
                                                       std::int64_t max) const {
  auto text = flag(name);
  if (!text) text = argument(name);
  if (!text) return std::optional<std::int64_t>{};
  const auto value = parse_count(*text);
  if (!value || *value < min || *value > max) {
    return invalid(name, fmt::format("{}{} \"{}\": must be a number from {} to {}",
                                     has(name) ? "--" : "", name, *text, min, max));
  }
  return std::optional<std::int64_t>(*value);
}

}  // namespace mainspring::cli
