// --help and the man page, generated from the table of commands.
#include <fmt/format.h>

#include <algorithm>

#include "cli/command.h"
#include "cli/table.h"
#include "cli/version.h"

namespace mainspring::cli {
namespace {

constexpr std::size_t kColumns = 80;

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

struct Line {
  std::string left;
  std::string right;
};

std::vector<Line> flag_lines(const Command& command) {
  std::vector<Line> lines;
  const Options defaults;
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
    std::string right =
        fmt::format("{} [{}]", setting->meaning, format_setting(*setting, defaults));
    const std::string_view gap = is_switch(*setting) ? "" : " ";
    lines.push_back({fmt::format("{}{}{}", flag_of(*setting), gap, setting->value), right});
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
    for (const Line& line : flag_lines(command)) {
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
  if (!command.children.empty()) {
    std::vector<Line> lines;
    collect_leaves(command, "", lines);
    out += heading(io, "Commands") + columns(lines, 18);
  }
  if (!command.arguments.empty()) {
    std::vector<Line> lines;
    for (const Argument& argument : command.arguments) {
      lines.push_back({argument.name, argument.help});
    }
    out += heading(io, "Arguments") + columns(lines, 24);
  }
  const std::vector<Line> flags = flag_lines(command);
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

std::string man_page() {
  std::string out = fmt::format(
      ".\\\" Generated by `mainspring man`; change src/cli/commands*.cc instead.\n"
      ".TH MAINSPRING 1 \"\" \"mainspring {}\" \"User Commands\"\n"
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
