// Shell completions, generated from the table of commands.
#include <fmt/format.h>

#include <algorithm>

#include "cli/command.h"

namespace mainspring::cli {
namespace {

// What a shell offers as the value of a flag, or as an argument.
struct Offer {
  std::vector<std::string> words;  // "bash", "zsh"
  bool list = false;               // several of `words`, with commas
  std::string names;               // what `mainspring complete` prints: "queues", "schedules"
  enum class Files { none, any, directories } files = Files::none;
  bool operator==(const Offer&) const = default;
};

struct Word {
  std::string text;  // "list", "--json"
  std::string help;
  std::optional<Offer> value = {};  // of a flag; nullopt = it takes none as a word of its own
};

// The words that may follow one command, with the values of its flags.
struct Node {
  std::string path;   // "jobs list"; "" = the program
  std::string alias;  // "job" of "jobs"; "" = none
  std::vector<Word> commands;
  std::vector<Word> flags;
  Offer argument;
};

// The commands whose flag of one name takes the same value.
struct SameValue {
  std::string flag;  // "--color"
  Offer offer;
  std::vector<std::string> paths;  // of these commands; empty = of all that have the flag
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

// `value`: the placeholder in the help, "FILE". nullopt if it is optional, "[=TIME]".
std::optional<Offer> offer_of(std::string_view value, std::vector<std::string> choices, bool list) {
  if (value.starts_with('[')) return std::nullopt;
  Offer offer{.words = std::move(choices), .list = list, .names = names_of(value, "")};
  if (value == "DIR") offer.files = Offer::Files::directories;
  if (value.find("FILE") != std::string_view::npos) offer.files = Offer::Files::any;
  return offer;
}

void walk(const Command& command, const std::string& path, const std::string& alias,
          std::vector<Node>& nodes) {
  Node node{.path = path, .alias = alias, .commands = {}, .flags = {}, .argument = {}};
  for (const Argument& argument : command.arguments) {
    if (node.argument.names.empty()) node.argument.names = names_of(argument.name, path);
    if (!argument.choices.empty()) node.argument.words = argument.choices;
  }
  for (const Command& child : command.children) {
    if (!child.hidden) node.commands.push_back({child.name, child.summary});
  }
  for (const std::vector<Flag>* flags : {&command.flags, &common_flags()}) {
    for (const Flag& flag : *flags) {
      Word word{"--" + flag.name, flag.help};
      if (!flag.value.empty()) word.value = offer_of(flag.value, flag.choices, flag.list);
      node.flags.push_back(std::move(word));
    }
  }
  for (const Setting* setting : settings_of(command)) {
    Word word{flag_of(*setting), std::string(setting->meaning)};
    if (!is_switch(*setting)) {
      word.value = offer_of(setting->value, split_choices(setting->choices), false);
    }
    node.flags.push_back(std::move(word));
  }
  nodes.push_back(std::move(node));
  for (const Command& child : command.children) {
    if (child.hidden) continue;
    std::string other = other_number(child.name);
    if (child.children.empty() || child_named(command, other) != &child) other = "";
    walk(child, path.empty() ? child.name : path + " " + child.name, other, nodes);
  }
}

std::vector<Node> all_nodes() {
  std::vector<Node> nodes;
  walk(root(), "", "", nodes);
  return nodes;
}

// One name can be a switch in one command and take a value in another.
std::vector<SameValue> same_values(const std::vector<Node>& nodes) {
  std::map<std::string, std::vector<SameValue>> by_flag;
  std::map<std::string, bool> also_switch;
  for (const Node& node : nodes) {
    for (const Word& word : node.flags) {
      if (!word.value) {
        also_switch[word.text] = true;
        continue;
      }
      std::vector<SameValue>& known = by_flag[word.text];
      auto same = std::find_if(known.begin(), known.end(),
                               [&](const SameValue& one) { return one.offer == *word.value; });
      if (same == known.end()) same = known.insert(same, {word.text, *word.value, {}});
      same->paths.push_back(node.path);
    }
  }
  std::vector<SameValue> out;
  for (auto& [flag, values] : by_flag) {
    if (values.size() == 1 && !also_switch[flag]) values.front().paths.clear();
    for (SameValue& value : values) out.push_back(std::move(value));
  }
  return out;
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
// variable that it sets (zsh uses `path` for PATH). `help jobs list` is the path of `jobs list`.
std::string path_finder(const std::vector<Node>& nodes, std::string_view typed) {
  std::string out = fmt::format(
      "  for word in {}; do\n"
      "    if [[ -z $at$help && $word == help ]]; then help=1; continue; fi\n"
      "    case \"${{at:+$at }}$word\" in\n",
      typed);
  std::string known;
  for (const Node& node : nodes) {
    if (!node.alias.empty()) {
      out += fmt::format("      {}|{}) at={} ;;\n", quoted(node.path, ""), quoted(node.alias, ""),
                         node.path);
    } else if (!node.path.empty()) {
      known += (known.empty() ? "" : "|") + quoted(node.path, "");
    }
  }
  return out + fmt::format("      {}) at=\"${{at:+$at }}$word\" ;;\n    esac\n  done\n", known);
}

// The patterns of `case "$at $previous"` for flags with a value.
std::string flag_patterns(const SameValue& value) {
  if (value.paths.empty()) return fmt::format("*' {}'", value.flag);
  std::string out;
  for (const std::string& path : value.paths) {
    out += (out.empty() ? "" : "|") + quoted(path + " " + value.flag, "");
  }
  return out;
}

std::string bash_offer(const Offer& offer) {
  if (offer.list) {
    return fmt::format(
        "mapfile -t COMPREPLY < <(compgen -P \"${{current%\"${{current##*,}}\"}}\" -W '{}' -- "
        "\"${{current##*,}}\")",
        fmt::join(offer.words, " "));
  }
  const auto compgen = [](const std::string& how) {
    return fmt::format("mapfile -t COMPREPLY < <(compgen {} -- \"$current\")", how);
  };
  if (!offer.words.empty()) return compgen(fmt::format("-W '{}'", fmt::join(offer.words, " ")));
  if (!offer.names.empty()) {
    return compgen(fmt::format("-W \"$(mainspring complete {} 2>/dev/null)\"", offer.names));
  }
  if (offer.files == Offer::Files::none) return ":";
  return compgen(offer.files == Offer::Files::directories ? "-d" : "-f");
}

std::string zsh_offer(const Offer& offer) {
  if (offer.list) {
    return fmt::format("compset -P '*,'; compadd -q -S , -- {}", fmt::join(offer.words, " "));
  }
  if (!offer.words.empty()) return fmt::format("compadd -- {}", fmt::join(offer.words, " "));
  if (!offer.names.empty()) {
    return fmt::format("compadd -- ${{(f)\"$(mainspring complete {} 2>/dev/null)\"}}", offer.names);
  }
  if (offer.files == Offer::Files::none) return ":";
  return offer.files == Offer::Files::directories ? "_files -/" : "_files";
}

std::string fish_offer(const Offer& offer) {
  std::string out = offer.files == Offer::Files::none ? " -x" : " -r -F";
  const std::string words = fmt::format("{}", fmt::join(offer.words, " "));
  if (offer.list) {
    out += fmt::format(" -a '(__mainspring_list {})'", words);
  } else if (!words.empty()) {
    out += fmt::format(" -a '{}'", words);
  } else if (!offer.names.empty()) {
    out += fmt::format(" -a '(mainspring complete {} 2>/dev/null)'", offer.names);
  }
  return out;
}

}  // namespace

std::string completion_bash() {
  const std::vector<Node> nodes = all_nodes();
  std::string out = R"(# bash completion of mainspring, made by `mainspring completion bash`.
# Use it: source <(mainspring completion bash)
_mainspring() {
  local at= help= words= flags= arguments= names= word current previous start i join=
  local typed=(mainspring)
  # Bash splits words at : and =. A name with : becomes one word again, --flag=value two.
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == = && ${typed[-1]} == --* ]]; then
      typed+=('') join=1
    elif [[ $word == = || ( -n $word && -z ${word//:/} ) ]]; then
      typed[-1]+=$word join=1
    elif [[ -n $join && -n $word ]]; then
      typed[-1]+=$word join=
    else
      typed+=("$word") join=
    fi
  done
  current=${typed[-1]} previous=${typed[-2]}
)" + path_finder(nodes, R"("${typed[@]:1:${#typed[@]}-2}")") +
                    "  case \"$at $previous\" in\n";
  for (const SameValue& value : same_values(nodes)) {
    out += fmt::format("    {}) {} ;;\n", flag_patterns(value), bash_offer(value.offer));
  }
  out += "    *)\n  case $at in\n";
  for (const Node& node : nodes) {
    out += fmt::format("    '{}') flags='{}'", node.path, texts(node.flags));
    if (!node.commands.empty()) out += fmt::format(" words='{}'", texts(node.commands));
    if (!node.argument.words.empty()) {
      out += fmt::format(" arguments='{}'", fmt::join(node.argument.words, " "));
    }
    if (!node.argument.names.empty()) out += " names=" + node.argument.names;
    out += " ;;\n";
  }
  return out + R"sh(  esac
  if [[ $current == -* ]]; then
    words=$flags
  elif [[ -z $help ]]; then
    words+=" $arguments"
    [[ -z $names ]] || words+=" $(mainspring complete "$names" 2>/dev/null)"
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  ;;
  esac
  # Bash replaces only what follows the last : of the word.
  if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
    start=${current%"${current##*:}"}
    COMPREPLY=("${COMPREPLY[@]#"$start"}")
  fi
}
complete -o bashdefault -o default -F _mainspring mainspring
)sh";
}

std::string completion_zsh() {
  const std::vector<Node> nodes = all_nodes();
  std::string out = R"(#compdef mainspring
# zsh completion of mainspring, made by `mainspring completion zsh`.
# Use it: put it as _mainspring into a directory of $fpath, or: source <(mainspring completion zsh)
_mainspring() {
  local word previous=${words[CURRENT-1]} at='' help=''
  local -a typed offers
  typed=("${(@)words[2,CURRENT-1]}")
)" + path_finder(nodes, "\"${typed[@]}\"") +
                    R"(  if [[ ${words[CURRENT]} == --*=* ]]; then
    previous=${words[CURRENT]%%=*}
    compset -P '*='
  fi
  case "$at $previous" in
)";
  for (const SameValue& value : same_values(nodes)) {
    out += fmt::format("    {}) {}; return ;;\n", flag_patterns(value), zsh_offer(value.offer));
  }
  out += "  esac\n  case $at in\n";
  const auto offers = [](const std::vector<Word>& words) {
    std::string list;
    for (const Word& word : words) {
      list += " " + quoted(word.text + ":" + first_phrase(word.help), "'\\''");
    }
    return list;
  };
  for (const Node& node : nodes) {
    const bool argument = !node.argument.words.empty() || !node.argument.names.empty();
    out += fmt::format(
        "    '{}')\n      if [[ ${{words[CURRENT]}} == -* ]]; then offers=({} )\n"
        "      else offers=({} ); {}fi ;;\n",
        node.path, offers(node.flags), offers(node.commands),
        argument ? fmt::format("if [[ -z $help ]]; then {}; return; fi; ", zsh_offer(node.argument))
                 : "");
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
  const std::vector<Node> nodes = all_nodes();
  std::string out = R"(# fish completion of mainspring, made by `mainspring completion fish`.
# Use it: mainspring completion fish > ~/.config/fish/completions/mainspring.fish
function __mainspring_at
  set -l at ''
  set -l help
  for word in (commandline -opc)[2..-1]
    if test -z "$at$help" -a "$word" = help
      set help 1
      continue
    end
    switch (string trim -- "$at $word")
)";
  std::string known;
  for (const Node& node : nodes) {
    if (!node.alias.empty()) {
      out += fmt::format("      case {} {}\n        set at {}\n", quoted(node.path, "\\'"),
                         quoted(node.alias, "\\'"), node.path);
    } else if (!node.path.empty()) {
      known += " " + quoted(node.path, "\\'");
    }
  }
  out += fmt::format("      case{}\n", known) + R"(        set at (string trim -- "$at $word")
    end
  end
  test "$at" = "$argv[1]"
end
# Words of a list with commas.
function __mainspring_list
  set -l before (commandline -ct | string replace -r '^--[^=]*=' '' | string match -r '^.*,')
  printf "$before%s\n" $argv
end
complete -c mainspring -f
)";
  for (const Node& node : nodes) {
    const std::string when =
        fmt::format("complete -c mainspring -n \"__mainspring_at '{}'\"", node.path);
    for (const Word& word : node.commands) {
      out +=
          fmt::format("{} -a {} -d {}\n", when, word.text, quoted(first_phrase(word.help), "\\'"));
    }
    const bool argument = !node.argument.words.empty() || !node.argument.names.empty();
    if (argument) out += when + fish_offer(node.argument).substr(3) + "\n";
    for (const Word& word : node.flags) {
      out += fmt::format("{} -l {}{} -d {}\n", when, word.text.substr(2),
                         word.value ? fish_offer(*word.value) : "",
                         quoted(first_phrase(word.help), "\\'"));
    }
  }
  return out;
}

}  // namespace mainspring::cli
