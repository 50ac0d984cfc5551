// Workflows of a remote server: every call of the client, over real sockets.
#include <doctest/doctest.h>

#include "client/client.h"
#include "server.h"

using namespace mainspring;
using mainspring::test::Server;
using namespace std::chrono_literals;

namespace {

WorkflowSpec two_steps() {
  WorkflowSpec spec{.name = "order", .input = R"({"n":7})"};
  spec.steps.push_back({.name = "first",
                        .job = NewJob{.queue = "q",
                                      .kind = "do",
                                      .args = R"({"n":{"$ref":"input.n"}})",
                                      .max_attempts = 1},
                        .undo = NewJob{.queue = "q", .kind = "undo", .max_attempts = 1}});
  spec.steps.push_back({.name = "second", .after = {"first"}, .signal = "go"});
  spec.result = R"({"$ref":"second"})";
  return spec;
}

struct WorkflowRig {
  Server server;
  SystemRandom random;
  std::unique_ptr<Client> client;

  WorkflowRig() {
    auto opened = Client::open(server.client_options(), random);
    REQUIRE(opened.has_value());
    client = std::move(*opened);
  }
  WorkflowId start(const WorkflowSpec& spec) {
    const auto started = client->start_workflow(spec);
    REQUIRE_MESSAGE(started.has_value(), started.error().message);
    return started->id;
  }
  // The one job that can be claimed, and its end.
  std::string end(Outcome outcome) {
    auto claimed = client->claim({.worker = "w", .queues = {"q"}, .max = 1}, 20s, {});
    REQUIRE(claimed.has_value());
    REQUIRE(claimed->jobs.size() == 1);
    const ClaimedJob& job = claimed->jobs[0];
    const auto done =
        client->finish({.worker = "w", .results = {{job.id, job.token, std::move(outcome)}}});
    REQUIRE(done.has_value());
    return job.kind + job.args;
  }
};

}  // namespace

TEST_CASE("a remote workflow is started once per key, signalled, waited for and read") {
  WorkflowRig rig;
  WorkflowSpec spec = two_steps();
  spec.key = "k/1";
  const WorkflowId id = rig.start(spec);
  const auto again = rig.client->start_workflow(spec);
  REQUIRE(again.has_value());
  CHECK(again->id == id);
  CHECK(again->duplicate);
  CHECK(rig.end(Complete{"1"}) == R"(do{"n":7})");
  CHECK(rig.client->wait_workflow(id, 0s, {})->state == WorkflowState::running);
  REQUIRE(rig.client->signal_workflow({.id = id, .name = "go", .signal_id = "a", .payload = "[2]"})
              .has_value());
  const auto ended = rig.client->wait_workflow(id, 20s, {});
  REQUIRE(ended.has_value());
  CHECK(ended->state == WorkflowState::completed);
  CHECK(ended->result == "[2]");
  CHECK(ended->key == "k/1");
  CHECK(rig.client->get_workflow(id)->version == ended->version);
  const auto first = rig.client->workflow_steps(id, 0, 1);
  REQUIRE(first.has_value());
  CHECK(first->steps.at(0).name == "first");
  REQUIRE(first->next.has_value());
  const auto rest = rig.client->workflow_steps(id, *first->next, 10);
  CHECK(rest->steps.at(0).result == "[2]");
  CHECK_FALSE(rest->next.has_value());
  CHECK(rig.client->cancel_workflow({.id = id, .reason = "", .within = {}}).error().code ==
        ErrorCode::conflict);
  CHECK(rig.client->get_workflow(77).error().code == ErrorCode::not_found);
}

TEST_CASE("a remote workflow is paused, cancelled, parked, retried and taken as done") {
  WorkflowRig rig;
  const WorkflowId id = rig.start(two_steps());
  const auto started = rig.client->workflow_steps(id, 0, 1);
  REQUIRE(started.has_value());
  CHECK(started->steps.at(0).job_state == JobState::available);
  CHECK(started->steps.at(0).max_attempts > 0);
  rig.end(Complete{"1"});
  CHECK(rig.client->pause_workflow({.id = id, .paused = true, .within = {}})->paused);
  CHECK_FALSE(rig.client->pause_workflow({.id = id, .paused = false, .within = {}})->paused);
  CHECK(rig.client->cancel_workflow({.id = id, .reason = "enough", .within = {}})->state ==
        WorkflowState::undoing);
  CHECK(rig.end(Dead{"broken", "it is"}).starts_with("undo"));
  CHECK(rig.client->wait_workflow(id, 20s, {})->state == WorkflowState::parked);
  RetryWorkflow retry{.id = id, .step = "first", .by_hand = false, .within = {}};
  CHECK(rig.client->retry_workflow(retry)->state == WorkflowState::undoing);
  rig.end(Dead{"broken", "it is"});
  retry.by_hand = true;
  REQUIRE(rig.client->wait_workflow(id, 20s, {})->state == WorkflowState::parked);
  CHECK(rig.client->retry_workflow(retry)->state == WorkflowState::cancelled);
  const auto listed = rig.client->workflows(
      {.name = "order", .state = WorkflowState::cancelled, .within = {}}, 10, 0);
  REQUIRE(listed.has_value());
  REQUIRE(listed->workflows.size() == 1);
  CHECK(listed->workflows[0].reason.find("enough") != std::string::npos);
  CHECK(rig.client->workflows({}, 10, id)->workflows.empty());
}

TEST_CASE("a step parks a remote workflow, and an operator gives its result by hand") {
  WorkflowRig rig;
  WorkflowSpec spec = two_steps();
  spec.steps[0].on_failure = OnStepFailure::park;
  const WorkflowId id = rig.start(spec);
  rig.end(Dead{"broken", "it is"});
  REQUIRE(rig.client->wait_workflow(id, 20s, {})->state == WorkflowState::parked);
  RetryWorkflow retry{.id = id, .step = "first", .by_hand = false, .within = {}, .result = "7"};
  CHECK(rig.client->retry_workflow(retry).error().field == "result");
  retry.by_hand = true;
  CHECK(rig.client->retry_workflow(retry)->state == WorkflowState::running);
  CHECK(rig.client->workflow_steps(id, 0, 1)->steps.at(0).result == "7");
}

TEST_CASE("a remote workflow is forked and shows its original") {
  WorkflowRig rig;
  const WorkflowId id = rig.start(two_steps());
  ForkWorkflow fork{.id = id, .step = "first", .input = {}, .key = "again", .within = {}};
  CHECK(rig.client->fork_workflow(fork).error().code == ErrorCode::conflict);
  rig.end(Dead{"broken", "it is"});
  REQUIRE(rig.client->wait_workflow(id, 20s, {})->state == WorkflowState::failed);
  fork.step = "";
  CHECK(rig.client->fork_workflow(fork).error().field == "step");
  fork.step = "none";
  CHECK(rig.client->fork_workflow(fork).error().code == ErrorCode::invalid_argument);
  fork.step = "first";
  fork.input = R"({"n":8})";
  const auto started = rig.client->fork_workflow(fork);
  REQUIRE(started.has_value());
  CHECK(rig.client->fork_workflow(fork)->duplicate);
  const auto info = rig.client->get_workflow(started->id);
  REQUIRE(info.has_value());
  CHECK(info->forked_from == ForkedFrom{id, "first"});
  CHECK(info->input == R"({"n":8})");
  CHECK(info->key == "again");
  CHECK(rig.client->workflows({}, 10, 0)->workflows.at(0).forked_from->id == id);
  CHECK_FALSE(rig.client->workflow_steps(info->id, 0, 1)->steps.at(0).taken_over);
}

TEST_CASE("a caller that waits for a remote workflow returns on a stop request") {
  WorkflowRig rig;
  const WorkflowId id = rig.start(two_steps());
  std::stop_source stop;
  stop.request_stop();
  const auto info = rig.client->wait_workflow(id, 1h, stop.get_token());
  REQUIRE(info.has_value());
  CHECK(info->state == WorkflowState::running);
}
