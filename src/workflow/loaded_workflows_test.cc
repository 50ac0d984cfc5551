// Workflows that a store keeps in memory.
#include "workflow/loaded_workflows.h"

#include <doctest/doctest.h>

namespace mainspring::workflow {
namespace {

WallTime at(std::int64_t us) {
  return WallTime::from_us(us);
}
std::shared_ptr<Start> one(std::size_t input = 10) {
  return make_start({.input = std::string(input, '1'), .asked = "", .specs = {}});
}

TEST_CASE("a loaded workflow is found by its number and its time until it ends") {
  KeptStarts kept;
  const auto start = one();
  kept.keep(7, at(1), start);
  CHECK(kept.find(7, at(1)) == start);
  CHECK(kept.peek(7) == start.get());
  CHECK(kept.find(8, at(1)) == nullptr);
  kept.drop(7);
  kept.drop(7);
  CHECK(kept.find(7, at(1)) == nullptr);
}

TEST_CASE("a reused number belongs to another workflow") {
  KeptStarts kept;
  kept.keep(7, at(1), one());
  CHECK(kept.find(7, at(2)) == nullptr);
  const auto second = one();
  kept.keep(7, at(2), second);
  CHECK(kept.find(7, at(2)) == second);
  CHECK(kept.find(7, at(1)) == nullptr);
  kept.forget();
  CHECK(kept.peek(7) == nullptr);
}

TEST_CASE("the most recently used ones are kept") {
  KeptStarts kept;
  const std::size_t quarter = KeptStarts::kMaxBytes / 4;
  for (WorkflowId id = 1; id <= 3; ++id) kept.keep(id, at(1), one(quarter));
  CHECK(kept.find(1, at(1)) != nullptr);
  for (WorkflowId id = 4; id <= 5; ++id) kept.keep(id, at(1), one(quarter));
  CHECK(kept.peek(1) != nullptr);
  CHECK(kept.peek(2) == nullptr);
  CHECK(kept.peek(3) == nullptr);
  CHECK(kept.peek(4) != nullptr);
  CHECK(kept.peek(5) != nullptr);
}

TEST_CASE("definitions are parsed once, and an invalid definition is an error") {
  const auto start = make_start(
      {.input = "", .asked = "", .specs = {R"({"step":{"name":"a","sleep":"1s"}})", "no"}});
  CHECK(start->steps == 2);
  const auto first = definition_of(*start, 1);
  REQUIRE(first.has_value());
  CHECK((*first)->spec.name == "a");
  CHECK(definition_of(*start, 1)->get() == first->get());
  CHECK_FALSE(definition_of(*start, 2).has_value());
  CHECK_FALSE(definition_of(*start, 3).has_value());
  CHECK_FALSE(definition_of(*start, 0).has_value());
}

}  // namespace
}  // namespace mainspring::workflow
