// The rules of definitions, each with the field that violates it.
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

TEST_CASE("steps wait for the steps that they name and those that they refer to") {
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

TEST_CASE("invalid values are refused by field") {
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

TEST_CASE("steps that wait for one another in a cycle are refused") {
  CHECK(field_refused(R"({"name":"a","after":["c"],"job":{"kind":"k"}},)"
                      R"({"name":"b","after":["a"],"job":{"kind":"k"}},)"
                      R"({"name":"c","after":["b"],"job":{"kind":"k"}})") == "steps[0].after");
  CHECK(field_refused(R"({"name":"a","if":{"ref":"a.x"},"job":{"kind":"k"}})") != "");
}

TEST_CASE("a child workflow is validated by the same rules, with the path of the field") {
  const auto in = [](const std::string& steps, const std::string& more = "") {
    return R"({"name":"a","workflow":{"name":"sub","steps":[)" + steps + "]" + more + "}}";
  };
  CHECK(field_refused(in(kA)) == "");
  CHECK(field_refused(in("")) == "steps[0].workflow.steps");
  CHECK(field_refused(kA + R"(,{"name":"b","workflow":{"name":"","steps":[]}})") ==
        "steps[1].workflow.name");
  const auto refused =
      validate(with_steps(in(in(R"({"name":"x","job":{"kind":"k","delay":"1s"}})"))));
  CHECK(refused.error().field == "steps[0].workflow.steps[0].workflow.steps[0].job.delay");
  CHECK(refused.error().message.starts_with(refused.error().field));
  CHECK(field_refused(in(kA, R"(,"key":"k")")) == "steps[0].workflow.key");
  CHECK(field_refused(in(in(in(kA)))) == "");
  CHECK(field_refused(in(in(in(in(kA))))) ==
        "steps[0].workflow.steps[0].workflow.steps[0].workflow.steps[0].workflow");
  CHECK_FALSE(decode_workflow([&] {
                std::string deep = kA;
                for (int i = 0; i < 30; ++i) deep = in(deep);
                return R"({"name":"w","steps":[)" + deep + "]}";
              }())
                  .has_value());
  const std::string sub = R"(,{"name":"s","workflow":{"name":"sub","steps":[)" + kA + "]";
  CHECK(field_refused(kA + sub + R"(},"undo":{"kind":"u"}})") == "steps[1].undo");
  CHECK(field_refused(kA + sub + R"(},"undo_if_failed":true})") == "steps[1].undo_if_failed");
  CHECK(field_refused(kA + sub + R"(},"job":{"kind":"k"}})") == "steps[1]");
  CHECK(field_refused(kA + sub + R"(,"input":{"$ref":"b"}}})") == "steps[1].workflow.input");
  CHECK(field_refused(kA + sub + R"(,"input":{"$ref":"item"}}})") == "steps[1].workflow.input");
  CHECK(field_refused(kA + sub + R"(,"input":{"$ref":"item"}},"each":[1]})") == "");
  // It does not see the workflow around it.
  CHECK(field_refused(kA + sub + R"(,"result":{"$ref":"s"}}})") == "steps[1].workflow.result");
  const auto plan = workflow::plan(with_steps(kA + sub + R"(,"input":{"$ref":"a.x"}}})"));
  REQUIRE(plan.has_value());
  CHECK(plan->at(1).parents == std::vector<int>{1});
}

TEST_CASE("the steps of all nested workflows are limited together") {
  WorkflowSpec inner{.name = "sub"}, outer{.name = "w"};
  for (int i = 0; i < 2500; ++i) {
    StepSpec step{.name = "s" + std::to_string(i)};
    step.sleep = std::chrono::seconds(1);
    inner.steps.push_back(std::move(step));
  }
  for (const char* name : {"a", "b", "c"}) outer.steps.push_back({.name = name, .workflow = inner});
  CHECK(workflow::steps_in_all(outer) == 7503);
  CHECK(validate(outer));
  outer.steps.push_back({.name = "d", .workflow = inner});
  const auto refused = validate(outer);
  CHECK(refused.error().code == ErrorCode::too_large);
  CHECK(refused.error().field == "steps");
  // Deeper than a reader can be expected to look.
  for (int i = 0; i < 1000; ++i) {
    WorkflowSpec next{.name = "w"};
    next.steps.push_back({.name = "a", .workflow = outer});
    outer = std::move(next);
  }
  CHECK_FALSE(validate(outer).has_value());
}

TEST_CASE("a definition decodes to what was encoded") {
  const WorkflowSpec spec = read(
      R"({"name":"order","key":"o-1","input":{"n":1},"undo_order":"parallel","deadline":"1h",)"
      R"("result":{"$ref":"b"},"steps":[)"
      R"({"name":"a","job":{"queue":"q","kind":"k","priority":2},"undo":{"kind":"u"},)"
      R"("undo_if_failed":true,"each":[1,2],"deadline":"5s","on_failure":"continue"},)"
      R"({"name":"b","after":["a"],"signal":"go","if":{"ref":"a.0","equals":7,"negate":true}},)"
      R"({"name":"c","sleep":"3s"},)"
      R"({"name":"d","each":[1],"workflow":{"name":"sub","input":{"$ref":"item"},"deadline":"1m",)"
      R"("undo_order":"parallel","result":1,"steps":[{"name":"e","sleep":"1s"}]}}]})");
  std::string text;
  encode_workflow(spec, text);
  CHECK(read(text) == spec);
  CHECK(validate(spec));
}

}  // namespace mainspring
