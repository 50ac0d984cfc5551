// Structs to JSON and back, and errors with their path.
#include "mainspring/reflect.h"

#include <doctest/doctest.h>

namespace {

enum class Fit { cover, contain };
BOOST_DESCRIBE_ENUM(Fit, cover, contain)

struct Size {
  int width = 200;
  std::optional<int> height;
};
BOOST_DESCRIBE_STRUCT(Size, (), (width, height))

struct Base {
  std::string source = "camera";
};
BOOST_DESCRIBE_STRUCT(Base, (), (source))

struct Thumbnail : Base {
  std::string path;
  bool sharp = false;
  double quality = 0.8;
  Fit fit = Fit::cover;
  std::vector<Size> sizes;
  std::map<std::string, std::uint8_t> levels;
  mainspring::Json extra;
};
BOOST_DESCRIBE_STRUCT(Thumbnail, (Base), (path, sharp, quality, fit, sizes, levels, extra))

struct Named {
  static constexpr std::string_view kind = "photos:named";
};
BOOST_DESCRIBE_STRUCT(Named, (), ())

}  // namespace

using namespace mainspring;

TEST_CASE("a struct becomes JSON and the JSON the same struct") {
  Thumbnail job;
  job.path = "a \"b\"\n.jpg";
  job.sharp = true;
  job.fit = Fit::contain;
  job.sizes = {{.width = 1}, {.width = 2, .height = -3}};
  job.levels = {{"red", 255}};
  job.extra.text = "{\"x\":[1,null]}";
  const std::string json = to_json(job);
  CHECK(json ==
        "{\"source\":\"camera\",\"path\":\"a \\\"b\\\"\\n.jpg\",\"sharp\":true,\"quality\":0.8,"
        "\"fit\":\"contain\",\"sizes\":[{\"width\":1},{\"width\":2,\"height\":-3}],"
        "\"levels\":{\"red\":255},\"extra\":{\"x\":[1,null]}}");
  const auto back = from_json<Thumbnail>(json);
  REQUIRE(back.has_value());
  CHECK(back->path == job.path);
  CHECK(back->fit == Fit::contain);
  CHECK(back->sizes.at(1).height == -3);
  CHECK(back->levels.at("red") == 255);
  CHECK(back->extra == job.extra);
  CHECK(to_json(*back) == json);
}

TEST_CASE("missing fields keep their default, unknown ones are ignored") {
  const auto size = from_json<Size>("{\"depth\":1,\"height\":null}");
  REQUIRE(size.has_value());
  CHECK(size->width == 200);
  CHECK_FALSE(size->height);
}

TEST_CASE("a value of the wrong type is refused with its path") {
  const auto refused = [](std::string_view json) { return from_json<Thumbnail>(json).error(); };
  CHECK(refused("{\"sizes\":[{},{\"width\":\"x\"}]}").field == "sizes[1].width");
  CHECK(refused("{\"sizes\":[{\"width\":3000000000}]}").message ==
        "sizes[0].width: must be an integer from -2147483648 to 2147483647");
  CHECK(refused("{\"levels\":{\"red\":256}}").field == "levels.red");
  CHECK(refused("{\"fit\":\"stretch\"}").message == "fit: must be one of cover, contain");
  CHECK(refused("[]").message == "must be an object");
  CHECK(refused("{").code == ErrorCode::invalid_argument);
  CHECK(refused(std::string(100, '[') + std::string(100, ']')).code == ErrorCode::invalid_argument);
}

TEST_CASE("plain values are JSON too") {
  CHECK(to_json(12) == "12");
  CHECK(to_json(std::string("x")) == "\"x\"");
  CHECK(to_json(std::vector<bool>{true, false}) == "[true,false]");
  CHECK(to_json(std::uint64_t{18446744073709551615u}) == "18446744073709551615");
  CHECK(*from_json<std::uint64_t>("18446744073709551615") == 18446744073709551615u);
  CHECK(*from_json<std::vector<int>>("[1,2]") == std::vector<int>{1, 2});
}

TEST_CASE("a type's kind is its declared kind, else its name") {
  CHECK(kind_of<Named>() == "photos:named");
  CHECK(kind_of<Thumbnail>() == "Thumbnail");
}
