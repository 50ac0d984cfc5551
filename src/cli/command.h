// Command: one row per command, with all its texts. The parser, --help, the man page and the shell
// completions are generated from these rows, so that they agree.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/secret.h"
#include "cli/io.h"
#include "cli/options.h"

namespace mainspring::cli {

struct Command;

// A parsed command line.
struct Invocation {
  const Command* command = nullptr;
  std::string program;                                    // argv[0]
  std::map<std::string, std::vector<std::string>> flags;  // by name without dashes; switches: ""
  std::map<std::string, std::vector<std::string>> arguments;  // by name: "QUEUE"
  Options options;
  Origins origins;
  Secret token;  // MAINSPRING_ACCESS_TOKEN; never a setting, which would be shown
  bool json = false;
  std::vector<std::string> mistakes = {};  // invalid settings that were left out: any_settings

  bool has(const std::string& flag) const { return flags.contains(flag); }
  // The (last) value of a flag or argument; nullopt if it was not given.
  std::optional<std::string> flag(const std::string& name) const;
  std::optional<std::string> argument(const std::string& name) const;
  const std::vector<std::string>& all_flags(const std::string& name) const;
  const std::vector<std::string>& all_arguments(const std::string& name) const;
  // The value of a flag or argument by kind; nullopt if it was not given. Errors:
  // invalid_argument, naming flag, value and rule.
  Result<std::optional<Duration>> duration(const std::string& name) const;
  Result<std::optional<std::int64_t>> number(const std::string& name, std::int64_t min,
                                             std::int64_t max) const;
};

// The exit code, or an error that main() prints and turns into its exit code.
using Run = Result<int> (*)(const Invocation& invocation, Io& io);

struct Flag {
  std::string name;   // without dashes
  std::string value;  // placeholder of its value: "FILE"; "[=TIME]" is optional; "" = a switch
  std::string help;
  bool repeated = false;
  std::vector<std::string> choices = {};
  std::string letter = {};  // of a switch: "f" also allows -f
  bool list = false;        // several of `choices` with commas; the command checks them
};

struct Argument {
  std::string name;
  std::string help;
  enum class Count { one, optional, many, any } count = Count::one;
  std::vector<std::string> choices = {};  // for completions; the command checks them
};

struct Example {
  std::string line;
  std::string comment;
};

struct ExitCode {
  int code;
  std::string meaning;
};

struct Command {
  std::string name;
  std::string summary;      // half a line
  std::string description;  // paragraphs
  std::vector<Argument> arguments = {};
  std::vector<Flag> flags = {};
  unsigned scopes = kNoScope;  // of the settings that are flags here
  std::vector<Example> examples = {};
  std::vector<ExitCode> exits = {};
  std::vector<Command> children = {};
  Run run = nullptr;  // nullptr = a group of children
  bool hidden = false;
  bool service = false;       // runs until it is stopped: its errors are lines of its log
  bool any_settings = false;  // runs with invalid settings too: see Invocation::mistakes
};

// The root of the table: the program itself.
const Command& root();

// Flags that every command has: json, help, config.
const std::vector<Flag>& common_flags();
// The settings that are flags of `command`, in table order.
std::vector<const Setting*> settings_of(const Command& command);
// "triggers" for "trigger", "job" for "jobs".
std::string other_number(const std::string& name);
// The child with that name, or the group with that name in singular or plural; nullptr if none.
const Command* child_named(const Command& parent, const std::string& word);

// " Did you mean jobs?", or "" if no known name is like `word`.
std::string suggestion(std::string_view word, const std::vector<std::string>& known);
// Finds the row of "mainspring jobs list"; nullptr if there is none.
const Command* find_command(const std::vector<std::string>& path);

// The result of parsing a command line.
struct Parsed {
  std::vector<std::string> path;  // of the command: {"jobs", "list"}; empty = the root
  bool help = false;
  Invocation invocation;                        // without options
  std::map<std::string, std::string> settings;  // flags that are settings, by setting name
  std::optional<std::string> config;            // --config
};
// Errors: invalid_argument (unknown flag or command, missing value or argument).
Result<Parsed> parse_command_line(const std::vector<std::string>& words);

// Texts generated from the rows.
std::string usage_line(const Command& command, const std::vector<std::string>& path);
std::string help_text(const Command& command, const std::vector<std::string>& path, const Io& io);
// Of `mainspring help --all` and `mainspring help connection`.
std::string help_all(const Io& io);
std::string help_connection(const Io& io);
// The commands that the program's own help names.
std::vector<std::string> topic_words();
std::string man_page();
std::string completion_bash();
std::string completion_zsh();
std::string completion_fish();

// Runs one command line; prints; returns the exit code. No exceptions are caught, as none are
// thrown.
int run_cli(const std::vector<std::string>& words, Io& io);

}  // namespace mainspring::cli
