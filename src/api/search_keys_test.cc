// Keys of the index of searchable paths.
#include "api/search_keys.h"

#include <doctest/doctest.h>

#include "api/job_match.h"

namespace mainspring {
namespace {

std::vector<std::string> keys_at(const std::string& args, const std::string& path) {
  std::vector<std::string> out;
  for (auto& [place, key] : search_keys(args, {split_path(path)})) out.push_back(key);
  return out;
}
bool index_finds(const std::string& args, const std::string& path, const std::string& wanted) {
  const auto have = keys_at(args, path);
  const auto look = keys_of_search(wanted);
  return std::find_first_of(have.begin(), have.end(), look.begin(), look.end()) != have.end();
}
bool matches(const std::string& args, const std::string& path, const std::string& wanted) {
  JobQuery query;
  query.terms.push_back({.about = JobTerm::About::args, .any = {wanted}, .path = split_path(path)});
  return matches_payload(query, Job{.args = args});
}

TEST_CASE("equal numbers have the same canonical form, and integers of 64 bits differ in each") {
  for (const char* one : {"1", "1.0", "1e0", "10e-1", "0.1E+1", "100e-2"})
    CHECK(canonical_number(one) == "1e0");
  for (const char* zero : {"0", "-0", "0.00", "0e5", "-0.0e-3"})
    CHECK(canonical_number(zero) == "0");
  CHECK(canonical_number("4711") == "4711e0");
  CHECK(canonical_number("471100") == "4711e2");
  CHECK(canonical_number("-0.0025") == "-25e-4");
  CHECK(canonical_number("9223372036854775807") != canonical_number("9223372036854775806"));
  CHECK(canonical_number("18446744073709551615") == "18446744073709551615e0");
  CHECK(canonical_number("1e99999999999") == "1e99999999999");
  CHECK(canonical_number("1e000000000001") == "1e1");
  for (const char* none : {"", "-", "01", "1.", ".5", "1e", "+1", "0x1", "1 ", "nan"})
    CHECK_FALSE(is_json_number(none));
}

TEST_CASE("the index finds exactly the scalars that a search finds by reading") {
  const std::string longer(201, 'x');
  const std::string args =
      R"({"order":4711,"text":"4711","yes":true,"none":null,"big":9007199254740993,"half":0.50,)"
      R"("customer":{"id":"c-1","tags":["a","b"]},"items":[{"sku":"x1"},{"sku":2}],"0":"zero",)"
      R"("long":")" +
      longer + R"("})";
  const std::vector<std::pair<const char*, std::string>> all = {{"order", "4711"},
                                                                {"order", "4711.0"},
                                                                {"order", "4712"},
                                                                {"text", "4711"},
                                                                {"text", "4711.0"},
                                                                {"yes", "true"},
                                                                {"yes", "false"},
                                                                {"big", "9007199254740993"},
                                                                {"big", "9007199254740992"},
                                                                {"half", "0.5"},
                                                                {"half", "5e-1"},
                                                                {"customer.id", "c-1"},
                                                                {"customer", "c-1"},
                                                                {"customer.tags.1", "b"},
                                                                {"customer.tags.2", "b"},
                                                                {"items.0.sku", "x1"},
                                                                {"items.1.sku", "2"},
                                                                {"0", "zero"},
                                                                {"long", longer},
                                                                {"long", longer + "x"},
                                                                {"long", longer.substr(0, 200)},
                                                                {"missing", ""},
                                                                {"customer.id.x", "c-1"}};
  for (const auto& [path, wanted] : all) {
    INFO(path << " = " << wanted.substr(0, 20));
    CHECK(index_finds(args, path, wanted) == matches(args, path, wanted));
  }
  CHECK(matches(args, "none", "null"));
  CHECK(keys_of_search("null").empty());  // null is not indexed: such a search reads the jobs
  CHECK(keys_at(args, "none").empty());
  CHECK(keys_at(args, "customer").empty());
  CHECK(keys_at(args, "long")[0].size() == 1 + kMaxKeyText + 32);
}

TEST_CASE("the last one of repeated members counts") {
  CHECK(keys_at(R"({"a":1,"a":2})", "a") == keys_at(R"({"a":2})", "a"));
  CHECK(keys_at(R"({"a":1,"a":{"b":2}})", "a").empty());
  CHECK_FALSE(matches(R"({"a":1,"a":2})", "a", "1"));
}

}  // namespace
}  // namespace mainspring
