// Converts structs to and from JSON with Boost.Describe. The typed calls of engine.h use it.
//
//   struct Point { int x = 0; std::optional<std::string> note; };
//   BOOST_DESCRIBE_STRUCT(Point, (), (x, note))
//   to_json(Point{.x = 1})                 // {"x":1}
//   from_json<Point>("{\"x\":1,\"z\":2}")  // unknown fields are ignored, missing fields keep their
//                                          // default
//
// Fields may be bool, integers, floating point, std::string, described enums (as their name), Json
// (any value, as it is), std::optional (absent or null = nullopt), std::vector, std::map with
// string keys, and described structs with described base classes.
#pragma once

#include <boost/describe.hpp>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "mainspring/result.h"

namespace mainspring {

// A JSON value that stays as it is.
struct Json {
  std::string text = "null";
  friend bool operator==(const Json&, const Json&) = default;
};

namespace reflect {

// -- writing
void append_string(std::string& out, std::string_view text);
void append_number(std::string& out, std::int64_t value);
void append_number(std::string& out, std::uint64_t value);
void append_number(std::string& out, double value);  // not finite: an enqueue etc. refuses it

// -- reading: a value in a parsed document; borrows the document
class View {
 public:
  explicit View(const void* value) : value_(value) {}
  bool is_null() const;
  bool is_object() const;
  bool is_array() const;
  // Returns false if it has another type, or does not fit.
  bool get(bool& out) const;
  bool get(std::int64_t& out) const;
  bool get(std::uint64_t& out) const;
  bool get(double& out) const;
  bool get(std::string& out) const;
  std::string text() const;  // as JSON
  std::optional<View> member(std::string_view name) const;
  std::size_t size() const;  // of an array or object
  View at(std::size_t index) const;
  std::pair<std::string, View> member_at(std::size_t index) const;

 private:
  const void* value_;
};

class Document {
 public:
  // Errors: invalid_argument (not JSON, or nested deeper than 64).
  static Result<Document> parse(std::string_view json);
  Document(Document&&) noexcept;
  ~Document();
  View root() const;

 private:
  struct Impl;
  explicit Document(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// "path: must be rule".
Error wrong(const std::string& path, std::string_view rule);

template <class T>
concept DescribedStruct = boost::describe::has_describe_members<T>::value && !std::is_union_v<T>;
template <class T>
concept DescribedEnum = std::is_enum_v<T> && boost::describe::has_describe_enumerators<T>::value;
template <class T>
using Members = boost::describe::describe_members<T, boost::describe::mod_any_access |
                                                         boost::describe::mod_inherited>;

// Calls `function` with each descriptor of a list that Boost.Describe returns.
template <template <class...> class List, class... Descriptors, class F>
void for_each_described(List<Descriptors...>, [[maybe_unused]] F&& function) {
  (function(Descriptors()), ...);
}

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsMap : std::false_type {};
template <class T>
struct IsMap<std::map<std::string, T>> : std::true_type {};
template <class>
inline constexpr bool kNever = false;

template <class T>
void write(std::string& out, const T& value);

template <DescribedEnum T>
void write_enum(std::string& out, T value) {
  const char* name = nullptr;
  for_each_described(boost::describe::describe_enumerators<T>(), [&](auto e) {
    if (e.value == value) name = e.name;
  });
  if (name != nullptr) {
    append_string(out, name);
  } else {
    append_number(out, static_cast<std::int64_t>(value));
  }
}

template <DescribedStruct T>
void write_struct(std::string& out, const T& value) {
  out += '{';
  bool first = true;
  for_each_described(Members<T>(), [&](auto member) {
    const auto& field = value.*member.pointer;
    if constexpr (IsOptional<std::remove_cvref_t<decltype(field)>>::value) {
      if (!field) return;
    }
    if (!first) out += ',';
    first = false;
    append_string(out, member.name);
    out += ':';
    write(out, field);
  });
  out += '}';
}

template <class T>
void write_items(std::string& out, const T& items) {
  out += '[';
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += ',';
    first = false;
    write<std::remove_cvref_t<typename T::value_type>>(out, item);
  }
  out += ']';
}

template <class T>
void write(std::string& out, const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    out += value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, Json>) {
    out += value.text;
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    append_string(out, value);
  } else if constexpr (std::signed_integral<T>) {
    append_number(out, static_cast<std::int64_t>(value));
  } else if constexpr (std::unsigned_integral<T>) {
    append_number(out, static_cast<std::uint64_t>(value));
  } else if constexpr (std::floating_point<T>) {
    append_number(out, static_cast<double>(value));
  } else if constexpr (DescribedEnum<T>) {
    write_enum(out, value);
  } else if constexpr (IsOptional<T>::value) {
    if (value) {
      write(out, *value);
    } else {
      out += "null";
    }
  } else if constexpr (IsVector<T>::value) {
    write_items(out, value);
  } else if constexpr (IsMap<T>::value) {
    out += '{';
    for (bool first = true; const auto& [name, item] : value) {
      if (!first) out += ',';
      first = false;
      append_string(out, name);
      out += ':';
      write(out, item);
    }
    out += '}';
  } else if constexpr (DescribedStruct<T>) {
    write_struct(out, value);
  } else {
    static_assert(kNever<T>, "describe this type: BOOST_DESCRIBE_STRUCT(T, (), (fields…))");
  }
}

template <class T>
Result<void> read(View from, T& value, const std::string& path);

template <std::integral T>
Result<void> read_integer(View from, T& value, const std::string& path) {
  using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
  Wide wide = 0;
  if (!from.get(wide) || wide < std::numeric_limits<T>::min() ||
      wide > std::numeric_limits<T>::max()) {
    return wrong(path, "an integer from " + std::to_string(std::numeric_limits<T>::min()) + " to " +
                           std::to_string(std::numeric_limits<T>::max()));
  }
  value = static_cast<T>(wide);
  return {};
}

template <DescribedEnum T>
Result<void> read_enum(View from, T& value, const std::string& path) {
  std::string name;
  const bool is_text = from.get(name);
  bool found = false;
  std::string names;
  for_each_described(boost::describe::describe_enumerators<T>(), [&](auto e) {
    names += (names.empty() ? "" : ", ") + std::string(e.name);
    if (is_text && name == e.name) value = e.value, found = true;
  });
  if (!found) return wrong(path, "one of " + names);
  return {};
}

template <DescribedStruct T>
Result<void> read_struct(View from, T& value, const std::string& path) {
  if (!from.is_object()) return wrong(path, "an object");
  Result<void> result;
  for_each_described(Members<T>(), [&](auto member) {
    if (!result) return;
    if (const std::optional<View> field = from.member(member.name)) {
      result = read(*field, value.*member.pointer,
                    path.empty() ? std::string(member.name) : path + "." + member.name);
    }
  });
  return result;
}

template <class T>
Result<void> read(View from, T& value, const std::string& path) {
  if constexpr (std::is_same_v<T, bool>) {
    if (!from.get(value)) return wrong(path, "true or false");
  } else if constexpr (std::is_same_v<T, Json>) {
    value.text = from.text();
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!from.get(value)) return wrong(path, "a string");
  } else if constexpr (std::integral<T>) {
    return read_integer(from, value, path);
  } else if constexpr (std::floating_point<T>) {
    double number = 0;
    if (!from.get(number)) return wrong(path, "a number");
    value = static_cast<T>(number);
  } else if constexpr (DescribedEnum<T>) {
    return read_enum(from, value, path);
  } else if constexpr (IsOptional<T>::value) {
    if (from.is_null()) {
      value.reset();
    } else {
      return read(from, value.emplace(), path);
    }
  } else if constexpr (IsVector<T>::value) {
    if (!from.is_array()) return wrong(path, "an array");
    value.clear();
    for (std::size_t i = 0; i < from.size(); ++i) {
      typename T::value_type item{};
      MS_TRY(read(from.at(i), item, path + "[" + std::to_string(i) + "]"));
      value.push_back(std::move(item));
    }
  } else if constexpr (IsMap<T>::value) {
    if (!from.is_object()) return wrong(path, "an object");
    value.clear();
    for (std::size_t i = 0; i < from.size(); ++i) {
      auto [name, view] = from.member_at(i);
      MS_TRY(read(view, value[name], path + "." + name));
    }
  } else if constexpr (DescribedStruct<T>) {
    return read_struct(from, value, path);
  } else {
    static_assert(kNever<T>, "describe this type: BOOST_DESCRIBE_STRUCT(T, (), (fields…))");
  }
  return {};
}

// "Thumbnail" of my::Thumbnail: the compiler's name without namespaces.
template <class T>
constexpr std::string_view type_name() {
  const std::string_view text = __PRETTY_FUNCTION__;  // "… [with T = my::Thumbnail; …]"
  const std::size_t begin = text.find("T = ") + 4;
  std::string_view name = text.substr(begin, text.find_first_of(";]", begin) - begin);
  if (const std::size_t colon = name.rfind("::"); colon != std::string_view::npos) {
    name.remove_prefix(colon + 2);
  }
  return name;
}

}  // namespace reflect

template <class T>
std::string to_json(const T& value) {
  std::string out;
  reflect::write(out, value);
  return out;
}

// Errors: invalid_argument, with the path of the wrong field as `field`.
template <class T>
Result<T> from_json(std::string_view json) {
  MS_TRY_ASSIGN(const reflect::Document document, reflect::Document::parse(json));
  T value{};
  MS_TRY(reflect::read(document.root(), value, ""));
  return value;
}

// The kind of a job of type T: T::kind if it exists, else the type's own name.
template <class T>
constexpr std::string_view kind_of() {
  if constexpr (requires { std::string_view(T::kind); }) {
    return T::kind;
  } else {
    return reflect::type_name<T>();
  }
}

}  // namespace mainspring
