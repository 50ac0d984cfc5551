// Scalars of args by path, and their keys in the index.
#include "api/search_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "env/digest.h"

namespace mainspring {
namespace {

constexpr std::size_t kMaxExponentDigits = 9;

bool is_decimal(char c) {
  return c >= '0' && c <= '9';
}

struct NumberParts {
  bool negative = false;
  std::string_view whole, fraction, exponent;  // the exponent with its sign
};

// nullopt: it is not a JSON number.
std::optional<NumberParts> parts_of(std::string_view text) {
  NumberParts parts;
  const auto take_digits = [&text] {
    std::size_t n = 0;
    while (n < text.size() && is_decimal(text[n])) ++n;
    const std::string_view digits = text.substr(0, n);
    text.remove_prefix(n);
    return digits;
  };
  if (text.starts_with('-')) parts.negative = true, text.remove_prefix(1);
  parts.whole = take_digits();
  if (parts.whole.empty() || (parts.whole.size() > 1 && parts.whole[0] == '0')) return std::nullopt;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    parts.fraction = take_digits();
    if (parts.fraction.empty()) return std::nullopt;
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    parts.exponent = text;
    if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
    if (take_digits().empty()) return std::nullopt;
  }
  return text.empty() ? std::optional(parts) : std::nullopt;
}

std::string key_of(const ScalarValue& value) {
  switch (value.type) {
    case JsonType::string:
      if (value.text.size() <= kMaxKeyText) return "s" + value.text;
      return "S" + value.text.substr(0, kMaxKeyText) + std::string(bytes_of(sha256(value.text)));
    case JsonType::number:
      return "n" + canonical_number(value.text);
    default:
      return value.text == "true" ? "t" : value.text == "false" ? "f" : "";
  }
}

}  // namespace

std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> out;
  for (;;) {
    const std::size_t end = path.find('.');
    out.emplace_back(path.substr(0, end));
    if (end == std::string_view::npos) return out;
    path.remove_prefix(end + 1);
  }
}

bool is_json_number(std::string_view text) {
  return parts_of(text).has_value();
}

// DIGITSeEXPONENT, without zeros at the beginning and the end of the digits; 0 for every zero.
std::string canonical_number(std::string_view number) {
  const auto parts = parts_of(number);
  if (!parts) return std::string(number);
  std::string digits(parts->whole);
  digits += parts->fraction;
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.empty()) return "0";
  std::string_view text = parts->exponent;
  const bool below = text.starts_with('-');
  if (below || text.starts_with('+')) text.remove_prefix(1);
  text.remove_prefix(std::min(text.find_first_not_of('0'), text.size()));
  if (text.size() > kMaxExponentDigits) return std::string(number);  // no program means this
  std::int64_t exponent = 0;
  std::from_chars(text.data(), text.data() + text.size(), exponent);
  if (below) exponent = -exponent;
  exponent -= std::ssize(parts->fraction);
  const std::size_t kept = digits.find_last_not_of('0') + 1;
  exponent += static_cast<std::int64_t>(digits.size() - kept);
  digits.resize(kept);
  return fmt::format("{}{}e{}", parts->negative ? "-" : "", digits, exponent);
}

bool is_value(const ScalarValue& value, std::string_view wanted) {
  if (value.text == wanted) return true;
  return value.type == JsonType::number && is_json_number(wanted) &&
         canonical_number(value.text) == canonical_number(wanted);
}

ScalarsAt::ScalarsAt(const std::string& args, std::vector<const Path*> paths)
    : paths_(std::move(paths)), values_(paths_.size()), has_(paths_.size()) {
  Places all(paths_.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  if (all.empty()) return;
  JsonReader in(args, JsonReader::Unknown::skip);
  walk(in, 0, all);
}

ScalarsAt::Places ScalarsAt::below(const Places& places, std::size_t depth,
                                   std::string_view name) const {
  Places out;
  for (const std::size_t i : places) {
    const Path& path = *paths_[i];
    if (path.size() > depth && path[depth] == name) out.push_back(i);
  }
  return out;
}

bool ScalarsAt::walk(JsonReader& in, std::size_t depth, const Places& places) {
  for (const std::size_t i : places) {
    if (paths_[i]->size() == depth) has_[i] = false;  // a later member replaces an earlier one
  }
  const JsonType type = in.peek();
  if (type == JsonType::object) {
    return in.members([&](std::string_view name) {
      const Places inside = below(places, depth, name);
      return inside.empty() ? in.skip() : walk(in, depth + 1, inside);
    });
  }
  if (type == JsonType::array) {
    return in.array(SIZE_MAX, [&](std::size_t index) {
      const Places inside = below(places, depth, fmt::format_int(index).c_str());
      return inside.empty() ? in.skip() : walk(in, depth + 1, inside);
    });
  }
  std::string value;
  const bool read =
      type == JsonType::string ? in.string(value) : in.raw(value, JsonReader::Null::take);
  if (!read) return false;
  for (const std::size_t i : places) {
    if (paths_[i]->size() != depth) continue;
    values_[i] = {.type = type, .text = value};
    has_[i] = true;
  }
  return true;
}

std::vector<std::pair<std::size_t, std::string>> search_keys(
    const std::string& args, const std::vector<std::vector<std::string>>& paths) {
  std::vector<const ScalarsAt::Path*> wanted;
  wanted.reserve(paths.size());
  for (const auto& path : paths) wanted.push_back(&path);
  const ScalarsAt scalars(args, std::move(wanted));
  std::vector<std::pair<std::size_t, std::string>> out;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (scalars.at(i) == nullptr) continue;
    if (std::string key = key_of(*scalars.at(i)); !key.empty()) out.emplace_back(i, std::move(key));
  }
  return out;
}

std::vector<std::string> keys_of_search(std::string_view wanted) {
  if (wanted == "null") return {};
  std::vector<std::string> keys;
  keys.push_back(key_of({.type = JsonType::string, .text = std::string(wanted)}));
  if (is_json_number(wanted)) keys.push_back("n" + canonical_number(wanted));
  if (wanted == "true" || wanted == "false") keys.emplace_back(wanted.substr(0, 1));
  return keys;
}

}  // namespace mainspring
