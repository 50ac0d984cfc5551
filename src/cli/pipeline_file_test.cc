// The format of a pipeline file, and the errors for invalid files.
#include "cli/pipeline_file.h"

#include <doctest/doctest.h>

namespace mainspring::cli {
namespace {

std::string mistake(const std::string& text) {
  const auto pipeline = decode_pipeline(text, "");
  REQUIRE_FALSE(pipeline.has_value());
  return pipeline.error().message;
}

std::string with(const std::string& members) {
  return R"({"name":"p","filters":[{"name":"a",)" + members + "}]}";
}

TEST_CASE("a filter has a queue of its own, and runs beside its file") {
  const auto pipeline = decode_pipeline(
      R"({"name":"photos","filters":[{"name":"shrink","exec":"./shrink.sh -w '2 00'","slots":2},)"
      R"({"name":"index","queue":"index","kind":"add","exec":"none","directory":"bin",)"
      R"("args":"replace","timeout":"1m","max_attempts":3,"retry_after":"10s"}]})",
      "/srv/photos");
  REQUIRE(pipeline.has_value());
  const Filter& shrink = pipeline->filters[0];
  CHECK(shrink.queue == "photos.shrink");
  CHECK(shrink.posted_kind() == "shrink");
  CHECK(shrink.kinds().empty());
  CHECK(shrink.argv == std::vector<std::string>{"./shrink.sh", "-w", "2 00"});
  CHECK(shrink.directory == "/srv/photos");
  CHECK(shrink.carries);
  const Filter& index = pipeline->filters[1];
  CHECK_FALSE(index.runs_here());
  CHECK(index.queue == "index");
  CHECK(index.kinds() == std::vector<std::string>{"add"});
  CHECK(index.directory == "/srv/photos/bin");
  CHECK_FALSE(index.carries);
  CHECK(index.max_attempts == 3);
}

TEST_CASE("an error in a pipeline names the field, the value and the rule") {
  CHECK(mistake(R"({"filters":[]})") == "name: must be given");
  CHECK(mistake(R"({"name":"p"})") == "filters: must have at least one");
  CHECK(mistake(R"({"name":"p","filters":[{"exec":"none"}]})").find("name") != std::string::npos);
  CHECK(mistake(with(R"("kind":"k")")).find("exec: must be given") != std::string::npos);
  CHECK(mistake(with(R"("exec":"none","slots":0)")).find("slots") != std::string::npos);
  CHECK(mistake(with(R"("exec":"none","args":"keep")")).find("merge or replace") !=
        std::string::npos);
  CHECK(mistake(with(R"("exec":"sh -c 'x")")).find("exec") != std::string::npos);
  CHECK(mistake(with(R"("exec":"none","queue":"a b")")).find("\"a b\"") != std::string::npos);
  CHECK(mistake(with(R"("exec":"none","timeout":"0s")")).find("more than 0") != std::string::npos);
  CHECK(mistake(with(R"("exec":"none","slot":1)")).find("slot") != std::string::npos);
  CHECK(mistake(
            R"({"name":"p","filters":[{"name":"a","exec":"none"},{"name":"a","exec":"none"}]})") ==
        "filters[1].name \"a\": is also the name of filters[0]: must be unique");
  CHECK(mistake(R"({"name":"p","filters":[{"name":"a","exec":"none"},)"
                R"({"name":"b","queue":"p.a","exec":"none"}]})") ==
        "filters[1].queue \"p.a\": is also the queue of filters[0]: must be unique");
}

}  // namespace
}  // namespace mainspring::cli
