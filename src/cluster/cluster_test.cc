// Tests of the view of the leader, and of the parts of a link.
#include <doctest/doctest.h>

#include "cluster/leader.h"
#include "cluster/link.h"

namespace mainspring {
namespace {

class Lines final : public Log {
 public:
  void write(LogLevel, std::string_view message, const Fields&) override {
    lines.emplace_back(message);
  }
  std::vector<std::string> lines;
};

TEST_CASE("a caller line is read as it was written, and nothing else is") {
  const CallerLine line{
      .term = 7, .local = true, .secure = true, .peer = "unix uid=1000", .certificate = "CN=a"};
  const std::string text = encode_caller(line);
  REQUIRE(text.ends_with('\n'));
  const auto read = decode_caller(std::string_view(text).substr(0, text.size() - 1));
  REQUIRE(read.has_value());
  CHECK(read->term == 7);
  CHECK(read->local);
  CHECK(read->secure);
  CHECK_FALSE(read->ping);
  CHECK(read->peer == "unix uid=1000");
  CHECK(read->certificate == "CN=a");
  for (const std::string_view bad :
       {"", "7", "7\tl\tp", "x\tl\tp\tc", "7\tz\tp\tc", "7\tl\tp\tc\td", "\tl\tp\tc"}) {
    CAPTURE(bad);
    CHECK_FALSE(decode_caller(bad).has_value());
  }
}

TEST_CASE("a frame is read as it was written") {
  for (const int flags : {0, 1, 2, 4, 8, 15}) {
    const Frame frame{.bytes = 0x01020304,
                      .ends = (flags & 1) != 0,
                      .closes_client = (flags & 2) != 0,
                      .closes_link = (flags & 4) != 0,
                      .refused = (flags & 8) != 0};
    const Frame read = decode_frame(encode_frame(frame));
    CHECK(read.bytes == frame.bytes);
    CHECK(read.ends == frame.ends);
    CHECK(read.closes_client == frame.closes_client);
    CHECK(read.closes_link == frame.closes_link);
    CHECK(read.refused == frame.refused);
  }
}

TEST_CASE("links need a key of 64 hex digits") {
  CHECK(LinkKeys::open(Secret(std::string(64, 'a'))).has_value());
  CHECK(LinkKeys::open(Secret("short")).error().code == ErrorCode::invalid_argument);
}

TEST_CASE("the view follows the terms, and each change is logged and counted once") {
  Lines log;
  Registry registry;
  Leadership leadership(log, registry);
  int changes = 0;
  auto watch = leadership.watch([&] { ++changes; });
  CHECK(leadership.not_ready() == "the cluster has no leader");
  leadership.set({.term = 1, .node = 1, .address = "a:1", .is_me = true, .why = "first start"});
  CHECK_FALSE(leadership.not_ready().has_value());
  CHECK(registry.render().find("\nmainspring_leader 1\n") != std::string::npos);
  CHECK(registry.render().find("\nmainspring_takeovers_total 0\n") != std::string::npos);
  leadership.set({.term = 2, .node = 2, .address = "b:1", .why = "node 1 was lost"});
  leadership.set({.term = 1, .node = 1, .address = "a:1", .is_me = true});  // too late
  CHECK(leadership.view()->node == 2);
  CHECK(registry.render().find("\nmainspring_leader 0\n") != std::string::npos);
  CHECK(registry.render().find("\nmainspring_takeovers_total 1\n") != std::string::npos);
  leadership.note_reach("connection refused");
  leadership.note_reach("connection refused");
  CHECK(leadership.not_ready() == "the leader, node 2 at b:1, does not answer: connection refused");
  leadership.note_reach("");
  CHECK_FALSE(leadership.not_ready().has_value());
  CHECK(leadership.describe().find("(term 2: node 1 was lost)") != std::string::npos);
  watch.reset();
  leadership.set({.term = 3, .why = "node 2 has stopped"});
  CHECK(changes == 2);
  CHECK(log.lines == std::vector<std::string>{"this node leads the cluster",
                                              "another node leads the cluster",
                                              "the leader does not answer", "the leader answers",
                                              "the cluster has no leader"});
}

}  // namespace
}  // namespace mainspring
