// A stream of events, split by the network at any place.
#include "client/event_blocks.h"

#include <doctest/doctest.h>

#include <vector>

using namespace mainspring;

TEST_CASE("blocks are independent of where the pieces end, and have their ids") {
  const std::string stream =
      "retry: 1000\nid: a-1\n\nid: a-2\nevent: dead\ndata: {\"n\":2}\n\n: \nid: a-3\n\n"
      "id: a-4\nevent: dead\ndata: {\"n\":4}\n\nid: a-5\ndata: cut o";
  for (std::size_t size = 1; size <= stream.size(); ++size) {
    EventBlocks blocks("a-0");
    std::vector<std::string> told;
    for (std::size_t at = 0; at < stream.size(); at += size) {
      const auto good = blocks.take(std::string_view(stream).substr(at, size),
                                    [&](const std::string& data) -> Result<void> {
                                      told.push_back(blocks.last_id() + data);
                                      return {};
                                    });
      REQUIRE(good.has_value());
    }
    CHECK(told == std::vector<std::string>{"a-2{\"n\":2}", "a-4{\"n\":4}"});
    CHECK(blocks.last_id() == "a-4");  // the truncated part arrives again
  }
}

TEST_CASE("an event without an end and an event that cannot be decoded are refused") {
  EventBlocks blocks;
  const auto read = [](const std::string&) -> Result<void> { return Error{.message = "no"}; };
  CHECK(blocks.take(std::string(EventBlocks::kMaxBlockBytes, 'x'), read).has_value());
  CHECK_FALSE(blocks.take("x", read).has_value());
  blocks.begin();
  CHECK(blocks.take("data: 1\n\n", read).error().message == "no");
}
