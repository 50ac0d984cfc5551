// Reads the TOML file with toml++ into setting names and texts.
#include <fmt/format.h>

#include "base/toml.h"
#include "cli/options.h"

namespace mainspring::cli {
namespace {

std::string at_source(std::string_view file, const toml::source_region& source) {
  return fmt::format("{}:{}", file, source.begin.line);
}

// Converts a value to the text that its flag takes.
Result<std::string> text_of_node(const toml::node& node, std::string_view where,
                                 std::string_view key) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::to_string(number->get());
  if (const auto* flag = node.as_boolean()) return std::string(flag->get() ? "true" : "false");
  return invalid(std::string(key),
                 fmt::format("{}: {} must be a text or a whole number", where, key));
}

}  // namespace

Result<ConfigFile> parse_config(std::string_view file, std::string_view text) {
  MS_TRY_ASSIGN(const toml::table table, parse_toml(text, file));
  ConfigFile out;
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    const std::string where = at_source(file, key.source());
    if (node.is_table()) {
      out.mistakes.push_back(invalid(
          name, fmt::format("{}: [{}]: settings are not in tables; write only lines `name = value`",
                            where, name)));
      continue;
    }
    if (find_setting(name) == nullptr) {
      std::vector<std::string> known;
      for (const Setting& setting : settings()) known.emplace_back(setting.name);
      out.mistakes.push_back(
          invalid(name, fmt::format("{}: there is no setting \"{}\".{} `mainspring config "
                                    "--explain` lists them",
                                    where, name, suggestion(name, known))));
      continue;
    }
    auto value = text_of_node(node, where, name);
    if (!value) {
      out.mistakes.push_back(value.error());
      continue;
    }
    out.values[name] = std::move(*value);
  }
  return out;
}

}  // namespace mainspring::cli
