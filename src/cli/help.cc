// --help and the man page, generated from the table of commands.
#include <fmt/format.h>

#include <algorithm>

#include "cli/command.h"
#include "cli/table.h"
#include "cli/version.h"

namespace mainspring::cli {
namespace {

constexpr std::size_t kColumns = 80;

struct Line {
  std::string left;
  std::string right;
};

// The first words of all commands, for the program's own help. A test compares them with the table.
const std::vector<Line>& topics() {
  static const std::vector<Line> all = {
      {"serve, host", "run the server, or job folders of another server"},
      {"work, step, lease", "run programs for jobs, once, or under a lock"},
      {"scale", "match the number of workers to demand and calendar"},
      {"enqueue, jobs, why", "create, find and change jobs; why a job waits"},
      {"bulk, dead, quarantine", "change many jobs; failed jobs; crashing jobs"},
      {"queues, breaker", "pause and limit queues; protect services"},
      {"schedules, timers", "run jobs at planned times, or repeatedly"},
      {"workflow, pipeline", "run jobs that depend on each other"},
      {"sessions, leases", "jobs in strict order; named locks"},
      {"trigger, callbacks", "jobs on events; requests when jobs end"},
      {"workers, top, events", "list and stop workers; live rates and events"},
      {"history, mark, marks, views", "past counts; marks on charts; saved views"},
      {"jobs-host, logs", "list, run and deploy job folders; their logs"},
      {"store, verify, bench", "back up, move and check the store; measure it"},
      {"token, tls, audit", "access tokens, certificates, the audit log"},
      {"health, doctor", "check the server and this machine"},
      {"support-bundle, version", "what to attach to a problem report"},
      {"config, completion, help", "settings, shell completions, more help"},
  };
  return all;
}

// A command line, continued on further lines before its flags if it is too long.
std::string shell_lines(std::string_view line) {
  std::string out = "  ";
  std::size_t used = out.size();
  while (!line.empty()) {
    std::size_t end = line.find(" --", 1);
    end = std::min({end, line.find(" | ", 1), line.find(" < ", 1), line.size()});
    const std::string_view part = line.substr(0, end);
    constexpr std::size_t kContinuation = 2;  // " \\"
    const bool fits = used + display_width(part) + kContinuation <= kColumns;
    if (!fits && used > 2) {
      out += " \\\n     ";
      used = 5;
    }
    out += part;
    used += display_width(part);
    line.remove_prefix(end);
  }
  return out + "\n";
}

std::string flag_usage(const Flag& flag) {
  const std::string letter = flag.letter.empty() ? "" : fmt::format("-{}, ", flag.letter);
  if (flag.value.empty()) return letter + "--" + flag.name;
  if (flag.value.starts_with('[')) return fmt::format("--{}{}", flag.name, flag.value);
  return fmt::format("--{} {}", flag.name, flag.value);
}

std::string with_choices(const Flag& flag) {
  std::string help = flag.help;
  if (!flag.choices.empty()) help += fmt::format(" ({})", fmt::join(flag.choices, ", "));
  if (flag.repeated) help += "; may be repeated";
  return help;
}

Line setting_line(const Setting& setting) {
  const std::string_view gap = is_switch(setting) ? "" : " ";
  return {fmt::format("{}{}{}", flag_of(setting), gap, setting.value),
          fmt::format("{} [{}]", setting.meaning, format_setting(setting, Options()))};
}

// One line per flag. Short: the flags of the connection to a server are one line.
enum class Lines : std::uint8_t { all, short_connection };
std::vector<Line> flag_lines(const Command& command, Lines which) {
  std::vector<Line> lines;
  for (const Flag& flag : command.flags) lines.push_back({flag_usage(flag), with_choices(flag)});
  // doctor and support-bundle take all of them.
  constexpr unsigned kAll = kClientScope | kServeScope;
  if ((command.scopes & kAll) == kAll) {
    lines.push_back({"--SETTING VALUE",
                     "as given to the server: every flag of `mainspring serve`, "
                     "and --server, --token-file, --ca-file"});
    return lines;
  }
  for (const Setting* setting : settings_of(command)) {
    if (which == Lines::short_connection && setting->scopes == kClientScope) {
      if (setting->name == "server")
        lines.push_back({"--server URL", "see `mainspring help connection`"});
      continue;
    }
    lines.push_back(setting_line(*setting));
  }
  return lines;
}

std::string columns(const std::vector<Line>& lines, std::size_t left) {
  std::string out;
  for (const Line& line : lines) {
    const std::string body = wrapped(line.right.empty() ? " " : line.right, left + 4, kColumns);
    if (line.left.size() > left) {
      out += fmt::format("  {}\n{}", line.left, body);
    } else {
      out += fmt::format("  {:<{}}  {}", line.left, left, body.substr(left + 4));
    }
  }
  return out;
}

void collect_leaves(const Command& command, const std::string& path, std::vector<Line>& out) {
  for (const Command& child : command.children) {
    if (child.hidden) continue;
    const std::string name = path.empty() ? child.name : path + " " + child.name;
    if (child.run != nullptr) out.push_back({name, child.summary});
    collect_leaves(child, name, out);
  }
}

std::string leaf_columns(const Command& command) {
  std::vector<Line> lines;
  collect_leaves(command, "", lines);
  return columns(lines, 18);
}

std::string heading(const Io& io, std::string_view text) {
  return "\n" + coloured(io, text, Colour::bold) + "\n";
}

// -- man ------------------------------------------------------------------------------------------

// Escapes text for roff; characters beyond ASCII become their number.
std::string roff(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool line_begins = out.empty() || out.back() == '\n';
    if (byte == '\\') {
      out += "\\e";
    } else if (byte == '-') {
      out += "\\-";
    } else if (line_begins && (byte == '\'' || byte == '.')) {
      out += fmt::format("\\&{}", text[i]);
    } else if (byte < 0x80) {
      out += text[i];
    } else {
      const int more = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
      unsigned code = byte & (0x3fu >> more);
      for (int k = 0; k < more && i + 1 < text.size(); ++k) {
        code = code << 6 | (static_cast<unsigned char>(text[++i]) & 0x3fu);
      }
      out += fmt::format("\\[u{:04X}]", code);
    }
  }
  return out;
}

void man_command(const Command& command, std::vector<std::string> path, std::string& out) {
  if (command.hidden) return;
  if (command.run != nullptr) {
    out += fmt::format(".SS {}\n{}\n", roff(usage_line(command, path)), roff(command.description));
    for (const Argument& argument : command.arguments) {
      out += fmt::format(".TP\n.B {}\n{}\n", roff(argument.name), roff(argument.help));
    }
    for (const Line& line : flag_lines(command, Lines::short_connection)) {
      out += fmt::format(".TP\n.B {}\n{}\n", roff(line.left), roff(line.right));
    }
    for (const Example& example : command.examples) {
      out += fmt::format(".PP\n{}\n.br\n.B {}\n", roff(example.comment), roff(example.line));
    }
    if (!command.exits.empty()) {
      out += ".PP\nExit codes:";
      for (const ExitCode& exit : command.exits) {
        out += fmt::format("\n.br\n{} {}", exit.code, roff(exit.meaning));
      }
      out += '\n';
    }
  }
  for (const Command& child : command.children) {
    std::vector<std::string> below = path;
    below.push_back(child.name);
    man_command(child, std::move(below), out);
  }
}

}  // namespace

std::string usage_line(const Command& command, const std::vector<std::string>& path) {
  std::string out = "mainspring";
  for (const std::string& word : path) out += " " + word;
  if (!command.children.empty()) out += command.run == nullptr ? " COMMAND" : " [COMMAND]";
  for (const Argument& argument : command.arguments) {
    if (argument.count == Argument::Count::optional) {
      out += fmt::format(" [{}]", argument.name);
    } else if (argument.count == Argument::Count::any) {
      out += fmt::format(" [{}…]", argument.name);
    } else {
      out +=
          fmt::format(" {}{}", argument.name, argument.count == Argument::Count::many ? "…" : "");
    }
  }
  return out + " [FLAG…]";
}

std::string help_text(const Command& command, const std::vector<std::string>& path, const Io& io) {
  std::string out = fmt::format("{}\n", usage_line(command, path));
  out += '\n' +
         wrapped(command.description.empty() ? command.summary : command.description, 0, kColumns);
  if (&command == &root()) {
    out += heading(io, "Commands") + columns(topics(), 27) +
           wrapped(
               "`mainspring help jobs` lists the commands of jobs, `mainspring help --all` "
               "all.",
               0, kColumns)
               .insert(0, "\n");
  } else if (!command.children.empty()) {
    out += heading(io, "Commands") + leaf_columns(command);
  }
  if (!command.arguments.empty()) {
    std::vector<Line> lines;
    for (const Argument& argument : command.arguments) {
      lines.push_back({argument.name, argument.help});
    }
    out += heading(io, "Arguments") + columns(lines, 24);
  }
  const std::vector<Line> flags = flag_lines(command, Lines::short_connection);
  if (!flags.empty()) out += heading(io, "Flags [default]") + columns(flags, 24);
  std::vector<Line> common;
  for (const Flag& flag : common_flags()) common.push_back({flag_usage(flag), flag.help});
  out += heading(io, "Flags of every command") + columns(common, 24);
  if (!command.examples.empty()) {
    out += heading(io, "Examples");
    for (const Example& example : command.examples) {
      if (!example.comment.empty()) {
        out += coloured(io, fmt::format("  # {}", example.comment), Colour::dim) + "\n";
      }
      out += shell_lines(example.line);
    }
  }
  if (!command.exits.empty()) {
    out += heading(io, "Exit codes");
    for (const ExitCode& exit : command.exits) {
      out += fmt::format("  {:>3}  {}", exit.code, wrapped(exit.meaning, 7, kColumns).substr(7));
    }
  }
  return out;
}

std::string help_all(const Io& io) {
  return heading(io, "Commands").substr(1) + leaf_columns(root());
}

std::string help_connection(const Io& io) {
  std::string out = wrapped(
      "Commands that talk to a server have these flags. Each is also a setting: in the file by its "
      "name, in the environment as MAINSPRING_SERVER and so on.",
      0, kColumns);
  std::vector<Line> lines;
  for (const Setting& setting : settings()) {
    if (setting.scopes == kClientScope) lines.push_back(setting_line(setting));
  }
  return out + heading(io, "Flags [default]") + columns(lines, 24);
}

std::vector<std::string> topic_words() {
  std::vector<std::string> words;
  for (const Line& line : topics()) {
    for (std::string& word : split_names(line.left)) {
      std::erase(word, ' ');
      words.push_back(std::move(word));
    }
  }
  return words;
}

std::string man_page() {
  std::string out = fmt::format(
      ".\\\" Generated by `mainspring man`; change src/cli/commands*.cc instead.\n"
      ".TH MAINSPRING 1 \"\" \"mainspring {}\" \"User Commands\"\n"
      ".nh\n.ad l\n"  // a hyphen at the end of a line would look like a part of a name
      ".SH NAME\n"
      "mainspring \\- {}\n"
      ".SH SYNOPSIS\n"
      ".B mainspring\n"
      "{}\n"
      ".SH DESCRIPTION\n"
      "{}\n"
      ".SH COMMANDS\n",
      kVersion, roff(root().summary), roff("COMMAND [FLAG…]"), roff(root().description));
  for (const Command& child : root().children) man_command(child, {child.name}, out);
  out += ".SH FLAGS OF EVERY COMMAND\n";
  for (const Flag& flag : common_flags()) {
    out += fmt::format(".TP\n.B {}\n{}\n", roff(flag_usage(flag)), roff(flag.help));
  }
  out += ".SH CONNECTION\nFlags of the commands that talk to a server.\n";
  for (const Setting& setting : settings()) {
    if (setting.scopes != kClientScope) continue;
    const Line line = setting_line(setting);
    out += fmt::format(".TP\n.B {}\n{}\n", roff(line.left), roff(line.right));
  }
  out +=
      ".SH EXIT CODES\n"
      ".TP\n"
      ".B 0\n"
      "success\n";
  std::map<int, std::string> codes;
#define MS_ERROR(code, http, exit, retry, text) \
  codes[exit] += (codes[exit].empty() ? "" : "; ") + std::string(#code ": " text);
#include "mainspring/errors.def"
#undef MS_ERROR
  for (const auto& [code, meaning] : codes) {
    out += fmt::format(".TP\n.B {}\n{}\n", code, roff(meaning));
  }
  out +=
      ".SH SETTINGS\nIn the file by this name, in the environment as MAINSPRING_NAME, as a flag "
      "with dashes.\n";
  const Options defaults;
  for (const Setting& setting : settings()) {
    out += fmt::format(".TP\n.B {} = {}\n{}; {}\n", roff(setting.name),
                       roff(format_setting(setting, defaults)), roff(setting.meaning),
                       roff(rule_of(setting)));
  }
  out +=
      ".SH FILES\n.TP\n.B $XDG_CONFIG_HOME/mainspring/config.toml\nsettings of a user\n"
      ".TP\n.B /etc/mainspring/config.toml\nsettings of the machine, if the user has none\n";
  return out;
}

}  // namespace mainspring::cli
