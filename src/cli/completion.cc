// Shell completions, generated from the table of commands.
#include <fmt/format.h>

#include <algorithm>

#include "cli/command.h"

namespace mainspring::cli {
namespace {

struct Word {
  std::string text;  // "list", "--json"
  std::string help;
};

// The words that may follow one command, and the values of its flags.
struct Node {
  std::string path;  // "jobs list"; "" = the program
  std::vector<Word> commands;
  std::vector<Word> flags;
  std::string names;  // of its arguments: "queues", "schedules", "" = none to offer
};

struct Value {
  std::string flag;  // "--color"
  std::vector<std::string> choices;
  std::string kind;  // "FILE", "DIR"; for other words nothing is offered
};

std::vector<std::string> split_choices(std::string_view choices) {
  std::vector<std::string> out;
  while (!choices.empty()) {
    const std::size_t end = choices.find('|');
    out.emplace_back(choices.substr(0, end));
    choices = end == std::string_view::npos ? std::string_view{} : choices.substr(end + 1);
  }
  return out;
}

// The list that `mainspring complete` prints for a flag or an argument with such a value.
std::string names_of(std::string_view value, std::string_view path) {
  if (value == "QUEUE") return "queues";
  return value == "NAME" && path.starts_with("schedules") ? "schedules" : "";
}

void walk(const Command& command, const std::string& path, std::vector<Node>& nodes,
          std::map<std::string, Value>& values) {
  Node node{.path = path, .commands = {}, .flags = {}, .names = {}};
  for (const Argument& argument : command.arguments) {
    if (node.names.empty()) node.names = names_of(argument.name, path);
  }
  for (const Command& child : command.children) {
    if (!child.hidden) node.commands.push_back({child.name, child.summary});
  }
  for (const std::vector<Flag>* flags : {&command.flags, &common_flags()}) {
    for (const Flag& flag : *flags) {
      const std::string name = "--" + flag.name;
      node.flags.push_back({name, flag.help});
      if (!flag.value.empty()) values[name] = {name, flag.choices, flag.value};
    }
  }
  for (const Setting* setting : settings_of(command)) {
    const std::string name = flag_of(*setting);
    node.flags.push_back({name, std::string(setting->meaning)});
    if (is_switch(*setting)) continue;
    values[name] = {name, split_choices(setting->choices), std::string(setting->value)};
  }
  nodes.push_back(std::move(node));
  for (const Command& child : command.children) {
    if (!child.hidden)
      walk(child, path.empty() ? child.name : path + " " + child.name, nodes, values);
  }
}

std::string texts(const std::vector<Word>& words) {
  std::string out;
  for (const Word& word : words) out += (out.empty() ? "" : " ") + word.text;
  return out;
}

// Quotes `text` for a shell, with single quotes.
std::string quoted(std::string_view text, std::string_view quote_as) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += quote_as;
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string first_phrase(std::string_view help) {
  const std::size_t end = help.find(';');
  return std::string(help.substr(0, std::min(end, std::size_t{70})));
}

// The loop that finds the command path among the typed words, for bash and zsh. `at` is the
// variable that it sets (zsh uses `path` for PATH).
std::string path_finder(const std::vector<Node>& nodes) {
  std::string known;
  for (const Node& node : nodes) {
    if (!node.path.empty()) known += fmt::format("{}|", quoted(node.path, ""));
  }
  known.pop_back();
  return fmt::format(
      "  for word in \"${{typed[@]}}\"; do\n"
      "    case \"${{at:+$at }}$word\" in\n      {}) at=\"${{at:+$at }}$word\" ;;\n"
      "    esac\n  done\n",
      known);
}

}  // namespace

std::string completion_bash() {
  std::vector<Node> nodes;
  std::map<std::string, Value> values;
  walk(root(), "", nodes, values);
  std::string out =
      "# bash completion of mainspring, made by `mainspring completion bash`.\n"
      "# Use it: source <(mainspring completion bash)\n"
      "_mainspring() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local at= words= word typed=(\"${COMP_WORDS[@]:1:COMP_CWORD-1}\")\n"
      "  [[ $current == = ]] && current=\n"
      "  [[ $previous == = ]] && previous=${COMP_WORDS[COMP_CWORD-2]}\n"
      "  case $previous in\n";
  for (const auto& [name, value] : values) {
    if (value.kind.starts_with('[')) continue;
    std::string action = "return";
    if (!value.choices.empty()) {
      action = fmt::format("mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$current\"); return",
                           fmt::join(value.choices, " "));
    } else if (const std::string names = names_of(value.kind, ""); !names.empty()) {
      action = fmt::format(
          "mapfile -t COMPREPLY < <(compgen -W \"$(mainspring complete {} 2>/dev/null)\" -- "
          "\"$current\"); return",
          names);
    } else if (value.kind == "DIR") {
      action = "mapfile -t COMPREPLY < <(compgen -d -- \"$current\"); return";
    } else if (value.kind.find("FILE") != std::string::npos) {
      action = "mapfile -t COMPREPLY < <(compgen -f -- \"$current\"); return";
    }
    out += fmt::format("    {}) {} ;;\n", name, action);
  }
  out += "  esac\n" + path_finder(nodes) + "  case $at in\n";
  for (const Node& node : nodes) {
    const std::string words =
        node.names.empty() ? "'" + texts(node.commands) + "'"
                           : fmt::format("$(mainspring complete {} 2>/dev/null)", node.names);
    out += fmt::format("    '{}') if [[ $current == -* ]]; then words='{}'; else words={}; fi ;;\n",
                       node.path, texts(node.flags), words);
  }
  out +=
      "  esac\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
      "}\n"
      "complete -o bashdefault -o default -F _mainspring mainspring\n";
  return out;
}

std::string completion_zsh() {
  std::vector<Node> nodes;
  std::map<std::string, Value> values;
  walk(root(), "", nodes, values);
  std::string out =
      "#compdef mainspring\n"
      "# zsh completion of mainspring, made by `mainspring completion zsh`.\n"
      "# Use it: put it as _mainspring into a directory of $fpath, or: source <(mainspring "
      "completion zsh)\n"
      "_mainspring() {\n"
      "  local word\n"
      "  local -a typed offers\n"
      "  typed=(\"${(@)words[2,CURRENT-1]}\")\n"
      "  local at=''\n"
      "  case ${words[CURRENT-1]} in\n";
  for (const auto& [name, value] : values) {
    if (value.kind.starts_with('[')) continue;
    std::string action = "return";
    if (!value.choices.empty()) {
      action = fmt::format("compadd -- {}; return", fmt::join(value.choices, " "));
    } else if (const std::string names = names_of(value.kind, ""); !names.empty()) {
      action = fmt::format("compadd -- ${{(f)\"$(mainspring complete {} 2>/dev/null)\"}}; return",
                           names);
    } else if (value.kind == "DIR") {
      action = "_files -/; return";
    } else if (value.kind.find("FILE") != std::string::npos) {
      action = "_files; return";
    }
    out += fmt::format("    {}) {} ;;\n", name, action);
  }
  out += "  esac\n" + path_finder(nodes) + "  case $at in\n";
  const auto offers = [](const std::vector<Word>& words) {
    std::string list;
    for (const Word& word : words) {
      list += " " + quoted(word.text + ":" + first_phrase(word.help), "'\\''");
    }
    return list;
  };
  for (const Node& node : nodes) {
    out += fmt::format(
        "    '{}')\n      if [[ ${{words[CURRENT]}} == -* ]]; then offers=({} )\n"
        "      else offers=({} ); {}fi ;;\n",
        node.path, offers(node.flags), offers(node.commands),
        node.names.empty()
            ? ""
            : fmt::format("compadd -- ${{(f)\"$(mainspring complete {} 2>/dev/null)\"}}; return; ",
                          node.names));
  }
  return out +
         "  esac\n"
         "  if (( ${#offers} )); then _describe 'mainspring' offers; else _files; fi\n"
         "}\n"
         "if [[ ${funcstack[1]} == _mainspring ]]; then _mainspring \"$@\"; else compdef "
         "_mainspring "
         "mainspring; fi\n";
}

std::string completion_fish() {
  std::vector<Node> nodes;
  std::map<std::string, Value> values;
  walk(root(), "", nodes, values);
  std::string out =
      "# fish completion of mainspring, made by `mainspring completion fish`.\n"
      "# Use it: mainspring completion fish > ~/.config/fish/completions/mainspring.fish\n"
      "function __mainspring_at\n"
      "  set -l at ''\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    if contains -- (string trim -- \"$at $word\")";
  for (const Node& node : nodes) {
    if (!node.path.empty()) out += " " + quoted(node.path, "\\'");
  }
  out +=
      "\n      set at (string trim -- \"$at $word\")\n    end\n  end\n"
      "  test \"$at\" = \"$argv[1]\"\nend\ncomplete -c mainspring -f\n";
  for (const Node& node : nodes) {
    const std::string when =
        fmt::format("complete -c mainspring -n \"__mainspring_at '{}'\"", node.path);
    for (const Word& word : node.commands) {
      out +=
          fmt::format("{} -a {} -d {}\n", when, word.text, quoted(first_phrase(word.help), "\\'"));
    }
    if (!node.names.empty())
      out += fmt::format("{} -a '(mainspring complete {} 2>/dev/null)'\n", when, node.names);
    for (const Word& word : node.flags) {
      out += fmt::format("{} -l {}", when, word.text.substr(2));
      const auto value = values.find(word.text);
      if (value != values.end() && !value->second.kind.starts_with('[')) {
        const bool file = value->second.kind == "DIR" || value->second.kind.ends_with("FILE") ||
                          value->second.kind.ends_with("FILE.jsonl");
        out += file ? " -r -F" : " -x";
        const std::string names = names_of(value->second.kind, "");
        if (!value->second.choices.empty()) {
          out += fmt::format(" -a '{}'", fmt::join(value->second.choices, " "));
        } else if (!names.empty()) {
          out += fmt::format(" -a '(mainspring complete {} 2>/dev/null)'", names);
        }
      }
      out += fmt::format(" -d {}\n", quoted(first_phrase(word.help), "\\'"));
    }
  }
  return out;
}

}  // namespace mainspring::cli
