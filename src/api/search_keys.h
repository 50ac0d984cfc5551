// Keys of the index of searchable paths: how a value in args is found by the text of a search.
//
// Keys are bytes. The function search_value() of the PostgreSQL schema makes the same ones.
//   s TEXT         a string of up to kMaxKeyText bytes
//   S TEXT DIGEST  a longer one: its first kMaxKeyText bytes and its SHA-256
//   n NUMBER       a number in its canonical form: 1, 1.0 and 1e0 have the same key
//   t, f           true and false
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/json.h"

namespace mainspring {

inline constexpr std::size_t kMaxKeyText = 200;

// A path as in a search: "customer.id" is {"customer", "id"}.
std::vector<std::string> split_path(std::string_view path);
// Of a JSON number: equal numbers have the same form, whatever their notation. Integers are exact.
std::string canonical_number(std::string_view number);
bool is_json_number(std::string_view text);

// A string, number, boolean or null in JSON.
struct ScalarValue {
  JsonType type = JsonType::null;
  std::string text;  // of a string, or the JSON
};
// Whether a search for `wanted` finds it.
bool is_value(const ScalarValue& value, std::string_view wanted);

// The scalar at each path; of several with the same name the last. Others are null pointers.
// `args` is parsed once.
class ScalarsAt {
 public:
  using Path = std::vector<std::string>;
  ScalarsAt(const std::string& args, std::vector<const Path*> paths);
  const ScalarValue* at(std::size_t path) const { return has_[path] ? &values_[path] : nullptr; }

 private:
  using Places = std::vector<std::size_t>;
  Places below(const Places& places, std::size_t depth, std::string_view name) const;
  bool walk(JsonReader& in, std::size_t depth, const Places& places);

  std::vector<const Path*> paths_;
  std::vector<ScalarValue> values_;
  std::vector<bool> has_;
};

// The keys of a job: the number of its path in `paths`, and the key. Null has none.
std::vector<std::pair<std::size_t, std::string>> search_keys(
    const std::string& args, const std::vector<std::vector<std::string>>& paths);
// The keys under which a search for `wanted` has to look. Empty: the index cannot answer it.
std::vector<std::string> keys_of_search(std::string_view wanted);

}  // namespace mainspring
