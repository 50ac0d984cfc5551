// Flags with CLI11, the file with toml++, and their precedence.
#include "roles/settings.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "base/toml.h"
#include "env/fd.h"

namespace mainspring::roles {
namespace {

std::string at(const std::string& file, const toml::source_region& source) {
  return fmt::format("{}:{}", file, source.begin.line);
}

Result<std::set<std::string>> names_of(const std::string& where, const toml::node& node) {
  std::set<std::string> names;
  const toml::array* list = node.as_array();
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const auto* name = list->get(i)->as_string();
    if (name == nullptr) {
      list = nullptr;
      break;
    }
    names.insert(name->get());
  }
  if (list == nullptr) {
    return invalid("freeze", where + ": freeze must be a list of names, as [\"mailer\"]");
  }
  return names;
}

Result<std::map<std::string, std::string>> values_of(const std::string& file,
                                                     const std::string& where,
                                                     const toml::node& node) {
  const toml::table* table = node.as_table();
  if (table == nullptr) return invalid("role", where + ": role must be a table, as [role]");
  std::map<std::string, std::string> values;
  for (const auto& [key, value] : *table) {
    std::string& into = values[std::string(key.str())];
    if (const auto* text = value.as_string()) {
      into = text->get();
    } else if (const auto* number = value.as_integer()) {
      into = fmt::to_string(number->get());
    } else if (const auto* real = value.as_floating_point()) {
      into = fmt::to_string(real->get());
    } else if (const auto* flag = value.as_boolean()) {
      into = flag->get() ? "true" : "false";
    } else {
      return invalid(std::string(key.str()),
                     fmt::format("{}: role.{} must be a text, a number, true or false",
                                 at(file, key.source()), key.str()));
    }
  }
  return values;
}

Result<void> set_value(const std::string& text, std::map<std::string, std::string>& values) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return invalid("set", fmt::format("--set \"{}\": must be NAME=VALUE", text));
  }
  values[text.substr(0, equals)] = text.substr(equals + 1);
  return {};
}

// Receives the words from CLI11.
struct Words {
  std::vector<std::string> engine, listen, config, set, freeze, log_level;
};

Result<void> once(const std::string& flag, const std::vector<std::string>& given,
                  std::string& into) {
  if (given.size() > 1) {
    return invalid(flag,
                   fmt::format("--{}: given {} times: must be given once", flag, given.size()));
  }
  if (given.empty()) return {};
  if (given[0].empty()) return invalid(flag, fmt::format("--{} \"\": must not be empty", flag));
  into = given[0];
  return {};
}

Result<Flags> collect(const Words& words) {
  Flags flags;
  MS_TRY(once("engine", words.engine, flags.engine));
  MS_TRY(once("listen", words.listen, flags.listen));
  MS_TRY(once("config", words.config, flags.config));
  MS_TRY(once("log-level", words.log_level, flags.log_level));
  for (const std::string& text : words.set) MS_TRY(set_value(text, flags.set));
  flags.freeze.insert(words.freeze.begin(), words.freeze.end());
  static constexpr std::string_view kLevels[] = {"debug", "info", "warn", "error", "off"};
  if (std::find(std::begin(kLevels), std::end(kLevels), flags.log_level) == std::end(kLevels)) {
    return invalid("log-level", fmt::format("--log-level \"{}\": must be debug, info, warn, error "
                                            "or off",
                                            flags.log_level));
  }
  return flags;
}

}  // namespace

Result<ConfigFile> parse_config_file(const std::string& file, std::string_view text) {
  MS_TRY_ASSIGN(const toml::table table, parse_toml(text, file));
  ConfigFile config;
  for (const auto& [key, node] : table) {
    const std::string where = at(file, key.source());
    if (key.str() == "freeze") {
      MS_TRY_ASSIGN(config.freeze, names_of(where, node));
    } else if (key.str() == "role") {
      MS_TRY_ASSIGN(config.role, values_of(file, where, node));
    } else {
      return invalid(std::string(key.str()),
                     fmt::format("{}: there is no setting \"{}\": must be freeze or [role]", where,
                                 key.str()));
    }
  }
  return config;
}

Result<ConfigFile> read_config_file(const std::string& file) {
  // Non-blocking: a hangup reads the file on the signal thread.
  const Fd fd(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) {
    return Error{ErrorCode::not_found,
                 fmt::format("--config {}: cannot be read: {}", file, std::strerror(errno))};
  }
  if (!S_ISREG(status.st_mode)) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--config {}: must be a regular file", file)};
  }
  std::string text(kMaxConfigBytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return Error{ErrorCode::io_error,
                   fmt::format("--config {}: cannot be read: {}", file, std::strerror(errno))};
    }
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  if (text.size() > kMaxConfigBytes) {
    return Error{ErrorCode::too_large,
                 fmt::format("--config {}: over {} bytes", file, kMaxConfigBytes)};
  }
  return parse_config_file(file, text);
}

Result<Flags> parse_flags(const std::vector<std::string>& words) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras(true);
  Words given;
  bool help = false;
  app.add_flag("--help,-h", help);
  const std::pair<const char*, std::vector<std::string>*> options[] = {
      {"--engine", &given.engine}, {"--listen", &given.listen}, {"--config", &given.config},
      {"--set", &given.set},       {"--freeze", &given.freeze}, {"--log-level", &given.log_level}};
  for (const auto& [name, into] : options) app.add_option(name, *into)->expected(1)->take_all();
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    // CLI11 has its own error messages; the flag is at their beginning.
    const std::string text = error.what();
    const std::string flag = text.substr(0, text.find(':'));
    return invalid(flag, flag.starts_with('-') ? flag + ": needs a value" : text);
  }
  if (help) {
    Flags flags;
    flags.help = true;
    return flags;
  }
  if (const std::vector<std::string> extra = app.remaining(); !extra.empty()) {
    return invalid(extra[0],
                   fmt::format("\"{}\": there is no such flag; --help lists them", extra[0]));
  }
  return collect(given);
}

std::string help_text(const std::string& program, const std::string& description) {
  return fmt::format(
      "Usage: {} [flags]\n{}{}\n"
      "  --engine DIR|URL   the jobs: a directory, or http://HOST:PORT of a server\n"
      "  --listen HOST:PORT /healthz, /readyz and /metrics; without it there are none\n"
      "  --config FILE      TOML: freeze = [\"ROLE\"], and values in [role]\n"
      "  --set NAME=VALUE   a value for the roles; may be repeated\n"
      "  --freeze ROLE      this role sleeps; may be repeated\n"
      "  --log-level LEVEL  debug, info, warn, error or off [info]\n"
      "  --help             this\n\n"
      "SIGTERM and Ctrl-C stop it, a second one ends it at once. SIGHUP reads FILE again: roles\n"
      "named in freeze sleep when they end, others wake up.\n",
      program, description.empty() ? "" : description + "\n", "");
}

std::string environment_name(std::string_view name) {
  std::string out = "MAINSPRING_ROLE_";
  for (const char c : name) {
    const bool separator = c == '-' || c == '.';
    out += separator ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return out;
}

std::optional<std::string> Settings::value(std::string_view name) const {
  const std::string key(name);
  if (const auto found = flags.find(key); found != flags.end()) return found->second;
  if (environment) {
    if (const char* text = environment(environment_name(name))) return std::string(text);
  }
  if (const auto found = file.role.find(key); found != file.role.end()) return found->second;
  return std::nullopt;
}

bool Settings::frozen(std::string_view role) const {
  const std::string name(role);
  return freeze_flags.count(name) > 0 || file.freeze.count(name) > 0;
}

}  // namespace mainspring::roles
