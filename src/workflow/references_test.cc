// References in JSON: found, replaced, refused.
#include "workflow/references.h"

#include <doctest/doctest.h>

namespace mainspring::workflow {
namespace {

std::optional<std::string> known(std::string_view name) {
  if (name == "charge") return R"({"id": 7, "lines": ["a", {"b": null}], "text": "x\"y"})";
  if (name == "list") return "[1,2]";
  return std::nullopt;
}

std::string resolved(std::string_view json, Missing missing = Missing::refuse) {
  auto out = resolve(json, known, missing, 1000);
  return out ? *out : out.error().message;
}

}  // namespace

TEST_CASE("a reference is replaced by its value, wherever it is") {
  CHECK(resolved(R"({"$ref":"charge.id"})") == "7");
  CHECK(resolved(R"({"a":{"$ref":"charge.text"},"b":[{"$ref":"charge.lines.1"},2]})") ==
        R"({"a":"x\"y","b":[{"b": null},2]})");
  CHECK(resolved(R"({"all":{"$ref":"list"}})") == R"({"all":[1,2]})");
  CHECK(resolved(R"({"a":{"$ref":"charge.lines.1.b"}})") == R"({"a":null})");
}

TEST_CASE("a text without references is passed on byte for byte") {
  CHECK(resolved(R"( { "a" : 1.50 } )") == R"( { "a" : 1.50 } )");
  CHECK(resolved(R"({"ref":"charge.id"})") == R"({"ref":"charge.id"})");
}

TEST_CASE("a reference to a missing value is refused, or becomes its default, or null") {
  CHECK(resolved(R"({"$ref":"charge.nothing"})").find("charge.nothing") != std::string::npos);
  CHECK(resolved(R"({"$ref":"ship.id"})").find("ship.id") != std::string::npos);
  CHECK(resolved(R"({"$ref":"charge.lines.2"})").find("does not exist") != std::string::npos);
  CHECK(resolved(R"({"$ref":"charge.nothing","default":{"a":1}})") == R"({"a":1})");
  CHECK(resolved(R"([{"$ref":"ship"}])", Missing::null) == "[null]");
}

TEST_CASE("an invalid reference is refused") {
  CHECK(resolved(R"({"$ref":7})").find("must be a string") != std::string::npos);
  CHECK(resolved(R"({"$ref":"charge","more":1})").find("may be beside") != std::string::npos);
  CHECK(resolved(R"({"$ref":".a"})").find("begin with a name") != std::string::npos);
}

TEST_CASE("a result over the limit is refused") {
  const auto out = resolve(R"({"$ref":"charge"})", known, Missing::refuse, 10);
  REQUIRE_FALSE(out.has_value());
  CHECK(out.error().code == ErrorCode::too_large);
}

TEST_CASE("conditions test for presence and compare values, not texts") {
  for (const char* nothing : {"null", "false", "0", "0.0", "\"\"", "[]", "{ }", "[ ]"})
    CHECK_FALSE(is_something(nothing));
  for (const char* something : {"true", "1", "-0.5", "\"0\"", "[0]", R"({"a":null})"})
    CHECK(is_something(something));
  CHECK(same_value("1", "1.0"));
  CHECK(same_value(R"("a")", R"("\u0061")"));
  CHECK(same_value(R"({"a": [1, 2]})", R"({"a":[1,2]})"));
  CHECK_FALSE(same_value("1", "\"1\""));
  CHECK_FALSE(same_value("null", "false"));
}

}  // namespace mainspring::workflow
