// Commands for workers, marks of worker versions and the gauge of workers: on a real store, stepped
// by hand.
#include "broker/worker_commands.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "broker/nodes_bench.h"

using namespace mainspring;

namespace {

std::shared_ptr<const WorkerFacts> facts_of(std::int64_t pid, std::string version = "",
                                            std::string language = "") {
  return std::make_shared<const WorkerFacts>(WorkerFacts{.host = "web-1",
                                                         .pid = pid,
                                                         .version = std::move(version),
                                                         .language = std::move(language),
                                                         .slots = 4});
}

struct CommandBench : Nodes {
  Broker& broker() { return *a->broker; }
  Answered claim_of(Node& node, const std::string& worker, Duration wait = 20s,
                    std::shared_ptr<const WorkerFacts> facts = nullptr) {
    auto slot = std::make_shared<std::optional<OperationResult>>();
    Claim claim{.worker = worker, .queues = {"q"}};
    claim.facts = std::move(facts);
    node.broker->submit_claim(std::move(claim), wait,
                              [slot](OperationResult result) { *slot = std::move(result); });
    settle(node);
    return slot;
  }
  static const ClaimResult& claimed(const Answered& answered) {
    REQUIRE(answered->has_value());
    return std::get<ClaimResult>(**answered);
  }
  static WorkerCommand ask(Node& node, const std::string& worker) {
    WorkerCommand command = WorkerCommand::none;
    bool answered = false;
    node.broker->submit(Renew{.worker = worker}, [&](const OperationResult& result) {
      command = std::get<RenewResult>(result).command;
      answered = true;
    });
    REQUIRE(answered);  // without a step
    return command;
  }
  Result<WorkerInfo> command(Node& node, const std::string& worker, WorkerCommand what) {
    auto result = node.broker->command_worker({.worker = worker, .command = what});
    settle(node);
    return result;
  }
  std::vector<std::string> marks() {
    std::vector<std::string> texts;
    const auto page = db.store->marks({});
    for (const Mark& mark : page->marks) texts.push_back(mark.text);
    return texts;
  }
};

}  // namespace

TEST_CASE_FIXTURE(CommandBench, "a waiting claim of a quiet worker is answered with the command") {
  const auto parked = claim_of(*a, "w");
  const auto other = claim_of(*a, "other");
  const auto quiet = command(*a, "w", WorkerCommand::quiet);
  REQUIRE(quiet);
  CHECK(quiet->command == WorkerCommand::quiet);
  CHECK(claimed(parked).jobs.empty());
  CHECK(claimed(parked).command == WorkerCommand::quiet);
  CHECK_FALSE(other->has_value());
}

TEST_CASE_FIXTURE(CommandBench, "a quiet worker gets no jobs until it is resumed") {
  (void)claim_of(*a, "w", 0s);
  REQUIRE(command(*a, "w", WorkerCommand::quiet));
  enqueue(*a);
  // Its first claim is answered at once. Later claims wait, so that it does not ask in a loop.
  CHECK(claimed(claim_of(*a, "w")).command == WorkerCommand::quiet);
  const auto waits = claim_of(*a, "w");
  CHECK_FALSE(waits->has_value());
  SUBCASE("its claim ends with its wait") {
    clock.advance(20s);
    settle(*a);
    CHECK(claimed(waits).jobs.empty());
    CHECK(claimed(waits).command == WorkerCommand::quiet);
  }
  SUBCASE("its claim gets the job when it is resumed") {
    const auto resumed = command(*a, "w", WorkerCommand::none);
    REQUIRE(resumed);
    CHECK(resumed->command == WorkerCommand::none);
    CHECK(claimed(waits).jobs.size() == 1);
    CHECK(claimed(waits).command == WorkerCommand::none);
  }
  SUBCASE("another worker gets the job") {
    CHECK(claimed(claim_of(*a, "other")).jobs.size() == 1);
  }
}

TEST_CASE_FIXTURE(CommandBench,
                  "a renewal brings the command, and one without leases commits nothing") {
  enqueue(*a);
  const auto got = claim_of(*a, "w");
  const ClaimedJob running = claimed(got).jobs.at(0);
  REQUIRE(command(*a, "w", WorkerCommand::stop));
  std::optional<RenewResult> renewed;
  broker().submit(Renew{.worker = "w", .leases = {{.id = running.id, .token = running.token}}},
                  [&](OperationResult result) { renewed = std::get<RenewResult>(result); });
  settle(*a);
  REQUIRE(renewed);
  CHECK(renewed->renewed.size() == 1);
  CHECK(renewed->command == WorkerCommand::stop);
  const auto before = db.store->commits();
  CHECK(ask(*a, "w") == WorkerCommand::stop);
  CHECK(ask(*a, "unknown") == WorkerCommand::none);
  CHECK(db.store->commits() == before);
}

TEST_CASE_FIXTURE(CommandBench, "a command makes an event, and a repeated one does not") {
  const auto listener = broker().events().listen(1);
  (void)claim_of(*a, "w");
  const auto count = [&] {
    const auto page = broker().events().read(0, 100);
    return std::count_if(page.events.begin(), page.events.end(),
                         [](const EventPtr& event) { return event->object == "worker/w"; });
  };
  REQUIRE(command(*a, "w", WorkerCommand::quiet));
  CHECK(count() == 1);
  REQUIRE(command(*a, "w", WorkerCommand::quiet));
  CHECK(count() == 1);
  REQUIRE(command(*a, "w", WorkerCommand::none));
  CHECK(count() == 2);
  REQUIRE(command(*a, "w", WorkerCommand::none));
  CHECK(count() == 2);
}

TEST_CASE_FIXTURE(CommandBench, "a worker that stops cannot be resumed, and stays stopped") {
  (void)claim_of(*a, "w");
  REQUIRE(command(*a, "w", WorkerCommand::stop));
  const auto quiet = command(*a, "w", WorkerCommand::quiet);
  REQUIRE(quiet);
  CHECK(quiet->command == WorkerCommand::stop);
  const auto resumed = command(*a, "w", WorkerCommand::none);
  REQUIRE_FALSE(resumed);
  CHECK(resumed.error().code == ErrorCode::conflict);
  CHECK(broker().workers()->at(0).command == WorkerCommand::stop);
}

TEST_CASE_FIXTURE(CommandBench,
                  "a command for an unknown worker or for a worker of the server is refused") {
  Claim own{.worker = "own", .queues = {"mainspring.callbacks"}};
  broker().submit_claim(own, 20s, [](const OperationResult&) {});
  settle(*a);
  for (const char* name : {"own", "unknown", ""}) {
    const auto refused = command(*a, name, WorkerCommand::stop);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::not_found);
  }
}

TEST_CASE_FIXTURE(CommandBench, "a command needs the scope for every queue of the worker") {
  broker().submit_claim({.worker = "w", .queues = {"q", "films"}}, 20s,
                        [](const OperationResult&) {});
  settle(*a);
  const auto as = [&](const char* scopes) {
    CommandWorker request{.worker = "w", .command = WorkerCommand::quiet};
    request.within = {std::make_shared<const Scopes>(*Scopes::parse(scopes)), Verb::admin};
    const auto done = broker().command_worker(request);
    return done ? std::string() : std::string(done.error().name());
  };
  CHECK(as("admin=other") == "not_found");
  CHECK(as("admin=q") == "forbidden");
  CHECK(as("admin=q admin=films") == "");
  (void)broker().command_worker({.worker = "w"});
  // The queues of a worker that only finishes jobs are unknown.
  broker().submit(Finish{.worker = "finishes", .results = {{1, 1, Complete{}}}},
                  [](const OperationResult&) {});
  settle(*a);
  CommandWorker request{.worker = "finishes", .command = WorkerCommand::quiet};
  request.within = {std::make_shared<const Scopes>(*Scopes::parse("admin=q")), Verb::admin};
  CHECK(broker().command_worker(request).error().code == ErrorCode::not_found);
  request.within = {std::make_shared<const Scopes>(*Scopes::parse("admin")), Verb::admin};
  CHECK(broker().command_worker(request).has_value());
}

TEST_CASE_FIXTURE(CommandBench, "a new process with the same name starts without a command") {
  (void)claim_of(*a, "w", 0s, facts_of(11));
  REQUIRE(command(*a, "w", WorkerCommand::stop));
  CHECK(claimed(claim_of(*a, "w", 0s, facts_of(11))).command == WorkerCommand::stop);
  enqueue(*a);
  const auto got = claim_of(*a, "w", 0s, facts_of(12));
  CHECK(claimed(got).command == WorkerCommand::none);
  CHECK(claimed(got).jobs.size() == 1);
}

TEST_CASE_FIXTURE(CommandBench, "a command given to one node reaches the worker of another") {
  const auto parked = claim_of(*b, "w");
  // The node that is asked has seen the worker before.
  (void)claim_of(*a, "w", 0s);
  REQUIRE(command(*a, "w", WorkerCommand::quiet));
  CHECK_FALSE(parked->has_value());
  REQUIRE_FALSE(a->notified.empty());
  CHECK(a->notified.back().commands == std::vector<CommandNotice>{{"w", WorkerCommand::quiet}});
  carry();
  CHECK(claimed(parked).command == WorkerCommand::quiet);
  CHECK(ask(*b, "w") == WorkerCommand::quiet);
  REQUIRE(command(*a, "w", WorkerCommand::none));
  carry();
  CHECK(ask(*b, "w") == WorkerCommand::none);
}

TEST_CASE("commands are forgotten with their workers and are bounded") {
  WorkerCommands commands;
  const Instant start;
  REQUIRE(commands.set("stops", WorkerCommand::stop, nullptr, start));
  REQUIRE(commands.set("quiet", WorkerCommand::quiet, nullptr, start));
  commands.forget(start + 6min, 5min);
  CHECK(commands.of("stops") == WorkerCommand::none);
  CHECK(commands.of("quiet") == WorkerCommand::quiet);
  commands.seen("quiet", nullptr, start + 23h);
  commands.forget(start + 46h, 5min);
  CHECK(commands.of("quiet") == WorkerCommand::quiet);
  commands.forget(start + 48h, 5min);
  CHECK(commands.empty());
  for (std::size_t i = 0; i < WorkerCommands::kMaxCommands; ++i)
    REQUIRE(commands.set(fmt::to_string(i), WorkerCommand::quiet, nullptr, start));
  CHECK_FALSE(commands.set("one more", WorkerCommand::quiet, nullptr, start));
  CHECK(commands.set("0", WorkerCommand::stop, nullptr, start));
  CHECK(commands.set("1", WorkerCommand::none, nullptr, start));
  CHECK(commands.set("one more", WorkerCommand::quiet, nullptr, start));
}

TEST_CASE("of several commands in one message, the last one for a worker counts") {
  ChangeHintSet set;
  set.add({.commands = {{"w", WorkerCommand::quiet}, {"x", WorkerCommand::stop}}});
  set.add({.commands = {{"w", WorkerCommand::none}}});
  CHECK_FALSE(set.empty());
  CHECK(set.take().commands ==
        std::vector<CommandNotice>{{"w", WorkerCommand::none}, {"x", WorkerCommand::stop}});
  CHECK(set.empty());
}

TEST_CASE_FIXTURE(CommandBench, "a new worker version makes one mark by itself") {
  (void)claim_of(*a, "w1", 0s, facts_of(1, "1.4", "Python 3.11.2"));
  CHECK(marks() == std::vector<std::string>{"Python worker 1.4"});
  CHECK(db.store->marks({})->marks.at(0).source == MarkSource::worker);
  CHECK(db.store->marks({})->marks.at(0).by == "worker web-1");
  const auto before = db.store->commits();
  clock.advance(2s);
  (void)claim_of(*a, "w2", 0s, facts_of(2, "1.4", "Python 3.12.0"));
  (void)claim_of(*a, "w3", 0s, facts_of(3, "", "Python 3.12.0"));
  (void)claim_of(*a, "w4", 0s);
  // Another node asks the store, which has the mark already.
  (void)claim_of(*b, "w5", 0s, facts_of(5, "1.4", "Python 3.11.2"));
  CHECK(db.store->commits() == before);
  clock.advance(2s);
  (void)claim_of(*a, "w6", 0s, facts_of(6, "1.4"));
  CHECK(marks() == std::vector<std::string>{"worker 1.4", "Python worker 1.4"});
}

TEST_CASE_FIXTURE(CommandBench, "marks of versions are made at most once a second") {
  for (int i = 0; i < 5; ++i)
    (void)claim_of(*a, fmt::format("w{}", i), 0s, facts_of(i + 1, fmt::format("v{}", i)));
  CHECK(marks().size() == 1);
  CHECK(settle(*a) <= clock.now().instant + 1s);
  for (std::size_t made = 2; made <= 5; ++made) {
    clock.advance(1s);
    settle(*a);
    CHECK(marks().size() == made);
  }
}

TEST_CASE_FIXTURE(CommandBench, "a mark that could not be stored is stored later") {
  db.away = true;
  (void)claim_of(*a, "w", 0s, facts_of(1, "1.4", "C++"));
  db.away = false;
  CHECK(marks().empty());
  clock.advance(11s);
  settle(*a);
  CHECK(marks() == std::vector<std::string>{"C++ worker 1.4"});
}

TEST_CASE("memory for worker versions is limited") {
  VersionMarks versions;
  for (int i = 0; i < 1000; ++i)
    versions.note("w", {.version = fmt::to_string(i), .language = "C++"});
  Instant now;
  std::size_t made = 0;
  for (; versions.next() != Instant::never(); now = now + 1s)
    made += versions.take(now).has_value() ? 1 : 0;
  CHECK(made == VersionMarks::kMaxWaiting);
}

TEST_CASE_FIXTURE(CommandBench, "workers are counted by version and language, beyond 50 as other") {
  for (int i = 0; i < 60; ++i)
    (void)claim_of(*a, fmt::format("w{}", i), 0s,
                   facts_of(i + 1, fmt::format("v{:02}", i), "Python 3.11.2"));
  (void)claim_of(*a, "second", 0s, facts_of(100, "v59", "Python 3.11.2"));
  const std::string text = a->registry.render();
  CHECK(text.find("mainspring_workers{version=\"v59\",language=\"Python 3.11.2\"} 2") !=
        std::string::npos);
  CHECK(text.find("mainspring_workers{version=\"v00\",language=\"Python 3.11.2\"} 1") !=
        std::string::npos);
  CHECK(text.find("mainspring_workers{version=\"other\",language=\"other\"} 10") !=
        std::string::npos);
}
