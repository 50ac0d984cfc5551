// Events of several nodes in each other's rings: once, in order, with a gap where some are missing.
#include "engine/event_relay.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>

#include "disk_sqlite/sqlite_store.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

using Lines = std::vector<std::string>;
using Ask = PeerRelay::Ask;

// Nodes without notifiers: the test decides when messages of one node reach another.
struct Town {
  struct Node {
    Node(Town& town, std::int64_t number_, EventOptions options)
        : number(number_),
          events(*town.store, town.clock, registry, options),
          relay(std::make_unique<EventRelay>(events, town.clock, number_)) {}
    std::int64_t number;
    Registry registry;
    Events events;
    std::unique_ptr<EventRelay> relay;
    std::shared_ptr<void> listener;
  };

  explicit Town(int count, EventOptions options = {}) {
    char name[] = "/tmp/mainspring_test_XXXXXX";
    directory = mkdtemp(name);
    store = std::move(
        *open_sqlite_store({.directory = directory, .reserve_bytes = 0}, clock.now(), log));
    for (int i = 1; i <= count; ++i) {
      clock.advance(1ms);
      nodes.push_back(std::make_unique<Node>(*this, i, options));
    }
  }
  ~Town() {
    nodes.clear();
    store.reset();
    std::filesystem::remove_all(directory);
  }
  Node& at(int number) { return *nodes.at(static_cast<std::size_t>(number - 1)); }

  // A distinct event: a queue of this name was paused.
  void happens(int number, const std::string& queue) {
    const Operation operation = PauseQueue{.queue = queue};
    const OperationResult result = Done{};
    if (at(number).events.wanted(clock.now().instant))
      at(number).events.record({&operation, 1}, {&result, 1}, {}, clock.now());
  }
  void listen(int number) { at(number).listener = at(number).events.listen(10); }
  void ask_all() {
    for (const auto& asks : nodes) {
      for (const auto& asked : nodes) {
        if (asks != asked) asked->relay->asked(asks->number, asks->relay->asks());
      }
    }
  }
  // Until no node has anything left to send.
  void carry_all(std::size_t room = 1 << 16) {
    for (bool more = true; more;) {
      more = false;
      for (const auto& from : nodes) {
        for (const auto& to : nodes) {
          if (from == to || !from->relay->has(to->number)) continue;
          const std::string bytes = from->relay->take(to->number, room);
          if (bytes.empty()) continue;
          to->relay->heard(from->number, bytes);
          more = true;
        }
      }
    }
  }
  // All nodes listen and know each other, and no message is in flight.
  void gather() {
    for (const auto& node : nodes) listen(static_cast<int>(node->number));
    ask_all();
    carry_all();
  }
  static std::string line(const Event& event) {
    std::string out(to_string(event.type));
    if (event.facts != nullptr) out += " " + event.facts->queue;
    if (!event.reason.empty()) out += " " + event.reason;
    return out;
  }
  // The events in the node's ring after a position.
  Lines told(int number, std::uint64_t after = 0) {
    Lines out;
    for (const EventPtr& event : at(number).events.read(after, 1000).events) {
      if (!event->mark) out.push_back(line(*event));
    }
    return out;
  }
  // The events that a stream with these marks has not seen.
  Lines behind(int number, const EventMarks& marks) {
    Events& events = at(number).events;
    const Events::Place place = events.place_after(marks);
    Lines out;
    if (!place.gap.empty()) out.push_back("gap " + std::string(place.gap));
    for (const EventPtr& event : events.read(place.position, 1000).events) {
      const std::string process = event->process ? *event->process : events.process();
      if (!event->mark && event->number > place.marks.of(process)) out.push_back(line(*event));
    }
    return out;
  }

  std::string directory;
  ManualClock clock;
  NullLog log;
  std::unique_ptr<Store> store;
  std::vector<std::unique_ptr<Node>> nodes;
};

}  // namespace

TEST_CASE("events of each node are in the ring of every node, once, in order") {
  Town town(3);
  town.gather();
  town.happens(1, "a1");
  town.happens(2, "b1");
  town.happens(2, "b2");
  town.carry_all();
  town.happens(1, "a2");
  town.carry_all();
  const Lines wanted[] = {
      {"queue_paused a1", "queue_paused b1", "queue_paused b2", "queue_paused a2"},
      {"queue_paused b1", "queue_paused b2", "queue_paused a1", "queue_paused a2"},
      {"queue_paused a1", "queue_paused b1", "queue_paused b2", "queue_paused a2"}};
  for (int i = 1; i <= 3; ++i) CHECK(town.told(i) == wanted[i - 1]);
}

TEST_CASE("a listener on one node makes all nodes exchange events until it leaves") {
  Town town(3, {.memory = 10s});
  town.ask_all();
  for (int i = 1; i <= 3; ++i) CHECK(town.at(i).relay->asks() == Ask::nothing);
  town.happens(2, "unheard");
  town.listen(1);
  CHECK(town.at(1).relay->asks() == Ask::here);
  town.ask_all();
  for (int i = 2; i <= 3; ++i) CHECK(town.at(i).events.wanted(town.clock.now().instant));
  CHECK(town.at(2).relay->asks() == Ask::along);
  town.ask_all();
  town.carry_all();
  town.happens(3, "c");
  town.carry_all();
  for (int i = 1; i <= 3; ++i) CHECK(town.told(i) == Lines{"queue_paused c"});

  town.at(1).listener.reset();
  town.clock.advance(11s);
  CHECK(town.at(1).relay->asks() == Ask::nothing);
  town.clock.advance(std::chrono::seconds(PeerRelay::kAskedForSeconds));
  for (int i = 2; i <= 3; ++i) {
    CHECK(town.at(i).relay->asks() == Ask::nothing);
    CHECK_FALSE(town.at(i).relay->serves(1));
    CHECK_FALSE(town.at(i).events.wanted(town.clock.now().instant));
  }
}

TEST_CASE("a lost event is sent again, and an event that arrives twice is recorded once") {
  Town town(2);
  town.gather();
  town.happens(1, "a1");
  EventRelay& from = *town.at(1).relay;
  const std::string lost = from.take(2, 1 << 16);
  CHECK_FALSE(lost.empty());
  from.lost(2);
  const std::string again = from.take(2, 1 << 16);
  CHECK(again == lost);
  town.at(2).relay->heard(1, again);
  town.at(2).relay->heard(1, again);
  CHECK_FALSE(from.has(2));
  CHECK(town.told(2) == Lines{"queue_paused a1"});
  // The position where its events start can be lost, too.
  Town other(2);
  other.listen(2);
  other.ask_all();
  EventRelay& begins = *other.at(1).relay;
  CHECK_FALSE(begins.take(2, 1 << 16).empty());
  CHECK_FALSE(begins.has(2));
  begins.lost(2);
  CHECK(begins.has(2));
}

TEST_CASE("a client that moves between restarting nodes sees each event exactly once") {
  Town town(3);
  town.gather();
  town.happens(1, "a1");
  town.carry_all();
  // Node 1 restarts: it stops cleanly and returns as another process.
  town.at(1).relay->closing();
  town.happens(1, "a2");
  town.carry_all();
  const EventMarks at_2 = town.at(2).events.newest_place().marks;
  town.clock.advance(1ms);
  town.nodes[0] = std::make_unique<Town::Node>(town, 4, EventOptions{});
  town.listen(1);
  town.ask_all();
  town.carry_all();
  town.happens(2, "b1");
  town.carry_all();
  CHECK(town.behind(1, at_2) == Lines{"queue_paused b1"});
  const EventMarks at_new = town.at(1).events.newest_place().marks;
  CHECK(town.behind(3, at_new).empty());
  CHECK(at_new.all().size() == 3);
  town.happens(3, "c1");
  CHECK(town.behind(3, at_new) == Lines{"queue_paused c1"});
}

TEST_CASE("a client that is cut off at one node continues at its position at another") {
  Town town(3);
  town.gather();
  town.happens(1, "a1");
  town.happens(2, "b1");
  town.carry_all();
  // The client has seen a1 and b1 at node 3, and nothing after them.
  const EventMarks seen = town.at(3).events.newest_place().marks;
  CHECK(EventMarks::parse(seen.text()) == seen);
  CHECK(town.behind(1, seen).empty());
  town.happens(3, "c1");
  town.happens(1, "a2");
  town.carry_all();
  CHECK(town.behind(1, seen) == Lines{"queue_paused a2", "queue_paused c1"});
  CHECK(town.behind(2, seen) == Lines{"queue_paused a2", "queue_paused c1"});
  // Node 2 shows the events that the client has not seen. It skips a3, which arrives there later.
  town.happens(1, "a3");
  const EventMarks ahead = town.at(1).events.newest_place().marks;
  town.happens(2, "b2");
  CHECK(town.behind(2, ahead) == Lines{"queue_paused b2"});
  town.carry_all();
  CHECK(town.behind(2, ahead) == Lines{"queue_paused b2"});
  // From a process that no node knows.
  EventMarks foreign = seen;
  foreign.set("feedn9", 7);
  CHECK(town.behind(1, foreign).front() == "gap restart");
}

TEST_CASE("events that left the ring before they were sent are a gap") {
  Town town(2, {.buffer = 4});
  town.gather();
  for (int i = 1; i <= 9; ++i) town.happens(1, fmt::format("a{}", i));
  town.carry_all();
  CHECK(town.told(2, town.at(2).events.oldest()) ==
        Lines{"queue_paused a6", "queue_paused a7", "queue_paused a8", "queue_paused a9"});
  Town wide(2, {.buffer = 8});
  wide.gather();
  for (int i = 1; i <= 9; ++i) wide.happens(1, fmt::format("a{}", i));
  // Only the last events fit beside the gap.
  wide.at(2).relay->heard(1, wide.at(1).relay->take(2, 600));
  const Lines told = wide.told(2);
  REQUIRE(told.size() >= 2);
  CHECK(told[0] == "gap node");
  CHECK(told[1] == "queue_paused a2");
}

TEST_CASE("a node that vanished or restarted is a gap; one that stopped cleanly is not") {
  Town town(3);
  town.gather();
  town.happens(2, "b1");
  town.carry_all();
  const std::uint64_t before = town.at(1).events.newest();
  town.at(1).relay->gone(2);
  CHECK(town.told(1, before) == Lines{"gap node"});
  town.at(1).relay->gone(2);
  CHECK(town.told(1, before) == Lines{"gap node"});
  // The node was there all the time and vanishes only now.
  town.happens(2, "b2");
  town.carry_all();
  town.at(1).relay->gone(2);
  CHECK(town.told(1, before) == Lines{"gap node", "queue_paused b2", "gap node"});

  const std::uint64_t then = town.at(1).events.newest();
  town.at(3).relay->closing();
  town.happens(3, "its last");
  town.carry_all();
  CHECK_FALSE(town.at(3).relay->has(1));
  town.at(1).relay->gone(3);
  CHECK(town.told(1, then) == Lines{"queue_paused its last"});

  Town other(2);
  other.gather();
  const std::string first = R"({"process":"aan7","from":3,"to":3,"events":[]})";
  const std::string second = R"({"process":"bbn7","from":0,"to":0,"events":[]})";
  const std::uint64_t at = other.at(1).events.newest();
  other.at(1).relay->heard(7, first);
  other.at(1).relay->heard(7, second);
  CHECK(other.told(1, at) == Lines{"gap node"});
}

TEST_CASE("events of other nodes are not relayed") {
  Town town(2);
  town.gather();
  const JobId ended[] = {4};
  town.at(1).events.record_ended(ended, town.clock.now());
  const std::uint64_t before = town.at(2).events.newest();
  town.carry_all();
  CHECK(town.at(2).events.newest() == before);
  town.happens(1, "a1");
  town.carry_all();
  CHECK(town.told(2, before) == Lines{"queue_paused a1"});  // and no gap
}

TEST_CASE("an event arrives unchanged, and one message carries as many events as fit") {
  Town town(2);
  town.gather();
  const std::string said =
      R"({"process":"ccn9","from":4,"to":8,"events":[)"
      R"({"n":5,"type":"progress","at":1700000000000001,"job":8,"attempt":2,"value":0.5,)"
      R"("text":"half","queue":"q","kind":"k","tags":["x","y"]},)"
      R"({"n":6,"type":"of a later version","at":1},{"n":6,"type":"queue_paused","at":1},)"
      R"({"n":7,"type":"breaker_opened","at":1,"breaker":"geo","until":9},)"
      R"({"n":8,"type":"changed","at":1,"object":"schedule/nightly"}]})";
  const std::uint64_t before = town.at(1).events.newest();
  town.at(1).relay->heard(9, said);
  const auto page = town.at(1).events.read(before, 10);
  REQUIRE(page.events.size() == 4);
  CHECK(page.events[0]->mark);
  const Event& progress = *page.events[1];
  CHECK(progress.number == 5);
  CHECK(*progress.process == "ccn9");
  CHECK(progress.at == WallTime::from_us(1700000000000001));
  CHECK(progress.job == 8);
  CHECK(progress.attempt == 2);
  CHECK(progress.progress == Progress{0.5, "half"});
  CHECK(progress.facts->tags == Lines{"x", "y"});
  CHECK(page.events[2]->breaker->open_until == WallTime::from_us(9));
  CHECK(page.events[3]->object == "schedule/nightly");
  // Damaged and unknown messages are ignored.
  town.at(1).relay->heard(9, said.substr(0, said.size() - 1));
  town.at(1).relay->heard(9, "");
  for (const char* const name : {"", "a,b", "a\\nb", "a-b"}) {
    town.at(1).relay->heard(9,
                            fmt::format(R"({{"process":"{}","from":0,"to":0,"events":[]}})", name));
  }
  CHECK(town.at(1).events.newest() == before + 4);

  for (int i = 0; i < 50; ++i) town.happens(1, fmt::format("a{}", i));
  const std::uint64_t at = town.at(2).events.newest();
  CHECK(town.at(1).relay->take(2, 600).size() <= 600);
  town.at(1).relay->lost(2);
  town.carry_all(600);
  CHECK(town.told(2, at).size() == 50);
}
