// The rules of definitions, each by the field that breaks it.
#include "workflow/definition.h"

#include <doctest/doctest.h>

#include "api/workflow_shapes.h"

namespace mainspring {
namespace {

WorkflowSpec read(std::string_view json) {
  auto spec = decode_workflow(json);
  REQUIRE_MESSAGE(spec.has_value(), spec.error().message);
  return *spec;
}
WorkflowSpec with_steps(const std::string& steps) {
  return read(R"({"name":"w","steps":[)" + steps + "]}");
}
std::string field_refused(const std::string& steps) {
  const auto checked = validate(with_steps(steps));
  return checked ? "" : checked.error().field;
}

const std::string kA = R"({"name":"a","job":{"kind":"k"}})";

}  // namespace

TEST_CASE("steps wait for those that they name and for those that they refer to") {
  const auto plan = workflow::plan(with_steps(
      kA + R"(,{"name":"b","job":{"kind":"k"}})"
           R"(,{"name":"c","after":["a"],"job":{"kind":"k","args":{"x":{"$ref":"b.y"}}},)"
           R"("undo":{"kind":"u","args":{"c":{"$ref":"c.id"},"b":{"$ref":"b"}}}})"
           R"(,{"name":"d","signal":"go","if":{"ref":"c.ok"}})"));
  REQUIRE_MESSAGE(plan.has_value(), plan.error().message);
  CHECK(plan->at(0).children == std::vector<int>{3});
  CHECK(plan->at(2).parents == std::vector<int>{1, 2});
  CHECK(plan->at(2).refs == std::map<std::string, int>{{"b", 2}, {"c", 3}});
  CHECK(plan->at(3).parents == std::vector<int>{3});
}

TEST_CASE("what breaks a rule is refused by its field") {
  CHECK(field_refused(kA) == "");
  CHECK(field_refused(R"({"name":"a b","job":{"kind":"k"}})") == "steps[0].name");
  CHECK(field_refused(R"({"name":"input","job":{"kind":"k"}})") == "steps[0].name");
  CHECK(field_refused(kA + "," + kA) == "steps[1].name");
  CHECK(field_refused(R"({"name":"a"})") == "steps[0]");
  CHECK(field_refused(R"({"name":"a","sleep":"1s","signal":"x"})") == "steps[0]");
  CHECK(field_refused(R"({"name":"a","job":{"kind":"k","delay":"1s"}})") == "steps[0].job.delay");
  CHECK(field_refused(R"({"name":"a","job":{"kind":"k","unique":{"key":"x"}}})") ==
        "steps[0].job.unique");
  CHECK(field_refused(R"({"name":"a","sleep":"1s","undo":{"kind":"u"}})") == "steps[0].undo");
  CHECK(field_refused(R"({"name":"a","sleep":"1s","each":[1]})") == "steps[0].each");
  CHECK(field_refused(R"({"name":"a","job":{"kind":"k"},"each":{"x":1}})") == "steps[0].each");
  CHECK(field_refused(R"({"name":"a","sleep":"1s","deadline":"1s"})") == "steps[0].deadline");
  CHECK(field_refused(R"({"name":"a","after":["b"],"job":{"kind":"k"}})") == "steps[0].after[0]");
  CHECK(field_refused(R"({"name":"a","after":["a"],"job":{"kind":"k"}})") == "steps[0].after[0]");
  CHECK(field_refused(R"({"name":"a","job":{"kind":"k","args":{"$ref":"b"}}})") ==
        "steps[0].job.args");
  CHECK(field_refused(R"({"name":"a","job":{"kind":"k","args":{"$ref":"a"}}})") ==
        "steps[0].job.args");
  CHECK(field_refused(R"({"name":"a","job":{"kind":"k","args":{"$ref":"item"}}})") ==
        "steps[0].job.args");
  CHECK(field_refused(R"({"name":"a","job":{"kind":"k","args":{"$ref":"item"}},"each":[1]})") ==
        "");
  CHECK(validate(read(R"({"name":"w","steps":[]})")).error().field == "steps");
  CHECK(validate(read(R"({"name":"","steps":[]})")).error().field == "name");
}

TEST_CASE("steps that wait for one another in a circle are refused") {
  CHECK(field_refused(R"({"name":"a","after":["c"],"job":{"kind":"k"}},)"
                      R"({"name":"b","after":["a"],"job":{"kind":"k"}},)"
                      R"({"name":"c","after":["b"],"job":{"kind":"k"}})") == "steps[0].after");
  CHECK(field_refused(R"({"name":"a","if":{"ref":"a.x"},"job":{"kind":"k"}})") != "");
}

TEST_CASE("a definition is the same after it was written and read") {
  const WorkflowSpec spec = read(
      R"({"name":"order","key":"o-1","input":{"n":1},"undo_order":"parallel","deadline":"1h",)"
      R"("result":{"$ref":"b"},"steps":[)"
      R"({"name":"a","job":{"queue":"q","kind":"k","priority":2},"undo":{"kind":"u"},)"
      R"("undo_if_failed":true,"each":[1,2],"deadline":"5s","on_failure":"continue"},)"
      R"({"name":"b","after":["a"],"signal":"go","if":{"ref":"a.0","equals":7,"negate":true}},)"
      R"({"name":"c","sleep":"3s"}]})");
  std::string text;
  encode_workflow(spec, text);
  CHECK(read(text) == spec);
  CHECK(validate(spec));
}

}  // namespace mainspring
