// How a filter's output becomes the next items.
#include "worker/pipe.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace mainspring {
namespace {

const PipeTo kTo{.queue = "p.thumbnail", .kind = "thumbnail", .timeout = {}};

ClaimedJob item(std::string args = R"({"file":"a.jpg","size":1})") {
  ClaimedJob job;
  job.id = 7;
  job.args = std::move(args);
  job.priority = 3;
  job.headers = R"({"traceparent":"00-1"})";
  job.tags = {"red"};
  job.session = "customer-1";
  return job;
}

std::vector<std::string> args_of(std::string_view output, const PipeTo& to = kTo) {
  const auto next = pass_on(item(), output, to);
  REQUIRE(next.has_value());
  std::vector<std::string> out;
  for (const NewJob& job : *next) out.push_back(job.args);
  return out;
}

std::string refusal(std::string_view output) {
  const auto next = pass_on(item(), output, kTo);
  REQUIRE_FALSE(next.has_value());
  return next.error().message;
}

using Args = std::vector<std::string>;

TEST_CASE("unknown members pass through a filter, and members of the output replace them") {
  CHECK(args_of(R"({"size":2,"width":200})") == Args{R"({"file":"a.jpg","size":2,"width":200})"});
  CHECK(args_of("{}") == Args{R"({"file":"a.jpg","size":1})"});
  CHECK(args_of(R"({"size":null})") == Args{R"({"file":"a.jpg","size":null})"});
  PipeTo replaces = kTo;
  replaces.carries = false;
  CHECK(args_of(R"({"width":200})", replaces) == Args{R"({"width":200})"});
}

TEST_CASE("names that need escaping pass through as they are") {
  const auto next = pass_on(item(R"({"a\"b":"c\n","\u00e9":1})"), R"({"x":{"y":[1, 2]}})", kTo);
  REQUIRE(next.has_value());
  CHECK(next->at(0).args == R"({"a\"b":"c\n","x":{"y":[1, 2]},"é":1})");
}

TEST_CASE("no output drops the item, a list makes several items") {
  CHECK(args_of("").empty());
  CHECK(args_of("null").empty());
  CHECK(args_of("[]").empty());
  CHECK(args_of(R"([{"page":1}, {"page":2}])") ==
        Args{R"({"file":"a.jpg","page":1,"size":1})", R"({"file":"a.jpg","page":2,"size":1})"});
}

TEST_CASE("an invalid output is refused with the reason") {
  CHECK(refusal(R"("done")") ==
        R"(the output "done": must be an object, a list of objects, or nothing)");
  refusal("7");
  refusal("true");
  refusal(R"([{"page":1}, 2])");
  refusal("[null]");
  refusal("{");
  std::string many = "[{}";
  for (std::size_t i = 0; i < kMaxNextJobs; ++i) many += ",{}";
  CHECK(refusal(many + "]") == "the output is a list of more than 1000 items");
}

TEST_CASE("sender, priority and session are passed on with the item") {
  ClaimedJob first = item();
  auto next = pass_on(first, "{}", kTo);
  REQUIRE(next.has_value());
  const NewJob& made = next->at(0);
  CHECK(made.queue == "p.thumbnail");
  CHECK(made.kind == "thumbnail");
  CHECK(made.correlation_id == "7");
  CHECK(made.headers == first.headers);
  CHECK(made.tags == first.tags);
  CHECK(made.priority == 3);
  CHECK(made.session == "customer-1");
  CHECK(validate_next(*next).has_value());
  first.correlation_id = "order-7";
  CHECK(pass_on(first, "{}", kTo)->at(0).correlation_id == "order-7");
}

}  // namespace
}  // namespace mainspring
