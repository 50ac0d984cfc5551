// The sources of a role program's values: flags, the environment, a TOML file.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/result.h"

namespace mainspring::roles {

// The file that --config names:
//
//   freeze = ["mailer"]
//   [role]
//   smtp_host = "localhost"
struct ConfigFile {
  std::set<std::string> freeze;
  std::map<std::string, std::string> role;
};
// Errors: invalid_argument (no TOML, unknown keys, values of a wrong type), with file and line.
Result<ConfigFile> parse_config_file(const std::string& file, std::string_view text);
// Errors also: not_found, too_large, io_error.
Result<ConfigFile> read_config_file(const std::string& file);

inline constexpr std::size_t kMaxConfigBytes = 1 << 20;

struct Flags {
  bool help = false;
  std::string engine;  // "" = none
  std::string listen;  // HOST:PORT; "" = no status server
  std::string config;  // a file; "" = none
  std::map<std::string, std::string> set;
  std::set<std::string> freeze;
  std::string log_level = "info";
};
// `words` without the program's name. Errors: invalid_argument.
Result<Flags> parse_flags(const std::vector<std::string>& words);
std::string help_text(const std::string& program, const std::string& description);

// The values for roles, and which roles sleep.
struct Settings {
  std::map<std::string, std::string> flags;                         // --set
  std::function<const char*(const std::string& name)> environment;  // nullptr = not set
  ConfigFile file;                                                  // as last read
  std::set<std::string> freeze_flags;                               // --freeze

  std::optional<std::string> value(std::string_view name) const;
  bool frozen(std::string_view role) const;
};
// "smtp.host" is MAINSPRING_ROLE_SMTP_HOST.
std::string environment_name(std::string_view name);

}  // namespace mainspring::roles
