// Workflows over real sockets: every route, accepted and refused; waits, undo, hidden data.
#include <fmt/format.h>

#include "api/workflow_shapes.h"
#include "env/random.h"
#include "http/http_test_support.h"
#include "model/token_text.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view kOrder = R"({"name":"order","input":{"order":7},"key":"o-7","steps":[
  {"name":"charge","job":{"queue":"pay","kind":"charge","max_attempts":1,
    "args":{"order":{"$ref":"input.order"}}},
    "undo":{"queue":"pay","kind":"refund","max_attempts":1}},
  {"name":"paid","signal":"paid","after":["charge"]},
  {"name":"ship","after":["paid"],"job":{"queue":"pack","kind":"ship","max_attempts":1,
    "args":{"charge":{"$ref":"charge.id"}}}}],
  "result":{"parcel":{"$ref":"ship.parcel"}}})";

std::string workflows_path(WorkflowId id, std::string_view verb = "") {
  return fmt::format("/v1/workflows/{}{}", id, verb);
}
WorkflowId start(Peer& peer, std::string_view body = kOrder) {
  const Answer answer = peer.call("POST", "/v1/workflows", std::string(body));
  REQUIRE_MESSAGE(answer.status == 201, answer.body);
  return decode_workflow_started(answer.body)->id;
}
WorkflowInfo workflows_read(Peer& peer, WorkflowId id, std::string_view query = "") {
  const Answer answer = peer.call("GET", workflows_path(id, query));
  const auto info = decode_workflow_info(answer.body);
  REQUIRE_MESSAGE(info.has_value(), answer.body);
  return *info;
}
ClaimedJob workflows_claim(Peer& peer) {
  const Answer answer =
      peer.call("POST", "/v1/claim", R"({"worker":"w","queues":["pay","pack"],"wait":"20s"})");
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  const auto claimed = decode_claim_response(answer.body);
  REQUIRE(claimed->jobs.size() == 1);
  return claimed->jobs[0];
}
void workflows_finish(Peer& peer, const ClaimedJob& job, std::string_view more) {
  const Answer answer =
      peer.call("POST", "/v1/finish",
                fmt::format(R"({{"worker":"w","results":[{{"id":{},"token":{},{}}}]}})", job.id,
                            job.token, more));
  REQUIRE_MESSAGE(has(answer.body, R"("status":"ok")"), answer.body);
}
// A workflow of one job in `queue`.
std::string single(std::string_view queue, std::string_view name = "one") {
  return fmt::format(
      R"({{"name":"{}","steps":[{{"name":"s","job":{{"queue":"{}","kind":"k"}}}}]}})", name, queue);
}

}  // namespace

TEST_CASE("WF: a workflow runs over HTTP, and waiting clients are answered at its last commit") {
  TestServer server;
  Peer peer(server), waiter(server);
  const WorkflowId id = start(peer);
  const Answer again = peer.call("POST", "/v1/workflows", std::string(kOrder));
  CHECK(again.status == 200);
  CHECK(again.body == fmt::format(R"({{"id":{},"duplicate":true}})", id));
  waiter.send(
      fmt::format("GET {}?wait=30s HTTP/1.1\r\nHost: localhost\r\n\r\n", workflows_path(id)));
  const ClaimedJob charge = workflows_claim(peer);
  CHECK(charge.kind == "charge");
  CHECK(charge.args == R"({"order":7})");
  workflows_finish(peer, charge, R"("outcome":"complete","result":{"id":"c1"})");
  CHECK(peer.call("POST", workflows_path(id, "/signal"),
                  R"({"name":"paid","id":"1","payload":{"by":"card"}})")
            .body == fmt::format(R"({{"id":{},"signal":"paid"}})", id));
  const ClaimedJob ship = workflows_claim(peer);
  CHECK(ship.args == R"({"charge":"c1"})");
  workflows_finish(peer, ship, R"("outcome":"complete","result":{"parcel":"p9"})");
  const Answer waited = waiter.receive();
  CHECK(waited.status == 200);
  const auto info = decode_workflow_info(waited.body);
  REQUIRE(info);
  CHECK(info->state == WorkflowState::completed);
  CHECK(info->result == R"({"parcel":"p9"})");
  CHECK(info->completed == 3);
  const auto steps =
      decode_workflow_steps(peer.call("GET", workflows_path(id, "/steps?limit=2")).body);
  REQUIRE(steps);
  REQUIRE(steps->steps.size() == 2);
  CHECK(steps->steps[1].result == R"({"by":"card"})");
  REQUIRE(steps->next == 2);
  const auto rest =
      decode_workflow_steps(peer.call("GET", workflows_path(id, "/steps?after=2")).body);
  REQUIRE(rest->steps.size() == 1);
  CHECK(rest->steps[0].name == "ship");
  CHECK_FALSE(rest->next.has_value());
  const Answer late = peer.call("POST", workflows_path(id, "/signal"), R"({"name":"paid"})");
  CHECK(late.status == 409);
  CHECK(code_of(late) == "conflict");
}

TEST_CASE("WF: cancelling undoes completed steps; an undo that dies parks the workflow") {
  TestServer server;
  server.log.expect("a workflow is parked");
  Peer peer(server);
  const WorkflowId id = start(peer);
  workflows_finish(peer, workflows_claim(peer), R"("outcome":"complete","result":{"id":"c1"})");
  CHECK(peer.call("POST", workflows_path(id, "/pause")).status == 200);
  CHECK(workflows_read(peer, id).paused);
  CHECK(peer.call("POST", workflows_path(id, "/resume")).status == 200);
  const Answer cancelled =
      peer.call("POST", workflows_path(id, "/cancel"), R"({"reason":"wrong address"})");
  CHECK(cancelled.status == 200);
  CHECK(decode_workflow_info(cancelled.body)->state == WorkflowState::undoing);
  ClaimedJob refund = workflows_claim(peer);
  CHECK(refund.kind == "refund");
  workflows_finish(peer, refund, R"("outcome":"dead","reason":"no_money")");
  CHECK(workflows_read(peer, id, "?wait=30s").state == WorkflowState::parked);
  const Answer retried = peer.call("POST", workflows_path(id, "/retry"));
  CHECK_MESSAGE(retried.status == 200, retried.body);
  refund = workflows_claim(peer);
  workflows_finish(peer, refund, R"("outcome":"dead","reason":"no_money")");
  CHECK(workflows_read(peer, id, "?wait=30s").state == WorkflowState::parked);
  CHECK(peer.call("POST", workflows_path(id, "/retry"), R"({"step":"charge","by_hand":true})")
            .status == 200);
  const WorkflowInfo info = workflows_read(peer, id);
  CHECK(info.state == WorkflowState::cancelled);
  CHECK(has(info.reason, "wrong address"));
  const std::string audit = peer.call("GET", "/v1/audit?object=workflow%2F1").body;
  for (const std::string_view action : {"cancel_workflow", "pause_workflow", "resume_workflow"})
    CHECK(has(audit, action));
  CHECK(has(audit, R"({"reason":"wrong address"})"));
  CHECK(has(audit, R"({"step":"charge","by_hand":true})"));
  CHECK(has(peer.call("GET", "/metrics").body, "mainspring_workflow_alarms_total 2"));
}

TEST_CASE("a failed step may park its workflow; a retry or an answer continues it") {
  TestServer server;
  server.log.expect("a workflow is parked");
  Peer peer(server);
  const WorkflowId id = start(peer, R"({"name":"order","steps":[
    {"name":"charge","on_failure":"park",
      "job":{"queue":"pay","kind":"charge","max_attempts":1}},
    {"name":"ship","job":{"queue":"pack","kind":"ship",
      "args":{"charge":{"$ref":"charge.id"}}}}]})");
  workflows_finish(peer, workflows_claim(peer), R"("outcome":"dead","reason":"no_answer")");
  WorkflowInfo info = workflows_read(peer, id, "?wait=30s");
  CHECK(info.state == WorkflowState::parked);
  CHECK(info.reason == "step charge: dead: no_answer");
  CHECK(decode_workflow_info(peer.call("POST", workflows_path(id, "/retry")).body)->state ==
        WorkflowState::running);
  workflows_finish(peer, workflows_claim(peer), R"("outcome":"dead","reason":"no_answer")");
  CHECK(workflows_read(peer, id, "?wait=30s").state == WorkflowState::parked);
  const auto refused = [&](std::string_view body, int status, std::string_view field) {
    const Answer answer = peer.call("POST", workflows_path(id, "/retry"), std::string(body));
    CHECK_MESSAGE(answer.status == status, answer.body);
    CHECK_MESSAGE(has(answer.body, field), answer.body);
  };
  refused(R"({"step":"ship"})", 404, "ship");
  refused(R"({"step":"charge","result":1})", 400, R"("field":"result")");
  refused(R"({"by_hand":true,"result":1})", 400, R"("field":"result")");
  const Answer done = peer.call("POST", workflows_path(id, "/retry"),
                                R"({"step":"charge","by_hand":true,"result":{"id":"c1"}})");
  REQUIRE_MESSAGE(done.status == 200, done.body);
  CHECK(workflows_claim(peer).args == R"({"charge":"c1"})");
  CHECK(has(peer.call("GET", "/v1/audit?object=workflow%2F1").body,
            R"({"step":"charge","by_hand":true})"));
}

TEST_CASE("a child workflow and its parent refer to each other by number") {
  TestServer server;
  Peer peer(server);
  const WorkflowId id = start(peer, R"({"name":"trip","steps":[{"name":"book","workflow":{
    "name":"booking","input":{"of":{"$ref":"workflow.id"}},"result":{"$ref":"fly.seat"},
    "steps":[{"name":"fly","job":{"queue":"pay","kind":"fly"}}]}}],"result":{"$ref":"book"}})");
  const auto steps = decode_workflow_steps(peer.call("GET", workflows_path(id, "/steps")).body);
  REQUIRE(steps.has_value());
  const WorkflowId child = steps->steps.at(0).workflow;
  REQUIRE(child > id);
  CHECK(workflows_read(peer, child).parent == WorkflowParent{id, "book"});
  CHECK(workflows_read(peer, child).input == fmt::format(R"({{"of":{}}})", id));
  CHECK(has(peer.call("GET", workflows_path(child)).body,
            fmt::format(R"("parent":{{"workflow":{},"step":"book"}})", id)));
  workflows_finish(peer, workflows_claim(peer), R"("outcome":"complete","result":{"seat":"1a"})");
  CHECK(workflows_read(peer, id, "?wait=20s").result == R"("1a")");
  CHECK(peer.call("POST", workflows_path(child, "/cancel")).status == 409);
  const Answer bad = peer.call("POST", "/v1/workflows", R"({"name":"n","steps":[{"name":"s",
    "workflow":{"name":"m","steps":[{"name":"t","job":{"queue":"$x","kind":"k"}}]}}]})");
  CHECK(bad.status == 400);
  CHECK(has(bad.body, R"("field":"steps[0].workflow.steps[0].job.queue")"));
}

TEST_CASE("workflows are listed by name and state, newest first, page by page") {
  TestServer server;
  Peer peer(server);
  for (const std::string_view name : {"a", "b", "a", "a"}) start(peer, single("q", name));
  peer.call("POST", workflows_path(3, "/cancel"));
  const auto ids = [&](std::string_view query) {
    const Answer answer = peer.call("GET", fmt::format("/v1/workflows{}", query));
    const auto page = decode_workflow_page(answer.body);
    REQUIRE_MESSAGE(page.has_value(), answer.body);
    std::string out;
    for (const WorkflowInfo& one : page->workflows) out += fmt::format("{} ", one.id);
    return out + (page->next ? fmt::format("then {}", *page->next) : "");
  };
  CHECK(ids("") == "4 3 2 1 ");
  CHECK(ids("?name=a") == "4 3 1 ");
  CHECK(ids("?name=a&state=running") == "4 1 ");
  CHECK(ids("?state=cancelled") == "3 ");
  CHECK(ids("?limit=2") == "4 3 then 3");
  CHECK(ids("?limit=2&before=3") == "2 1 ");
}

TEST_CASE("an invalid workflow is refused with its field") {
  TestServer server;
  Peer peer(server);
  const auto field = [&](const std::string& target, const std::string& body) {
    const Answer answer = peer.call("POST", target, body);
    CHECK(answer.status == 400);
    const std::size_t at = answer.body.find(R"("field":")") + 9;
    return answer.body.substr(at, answer.body.find('"', at) - at);
  };
  CHECK(field("/v1/workflows", R"({"name":"w","steps":[]})") == "steps");
  CHECK(field("/v1/workflows", R"({"name":"w","steps":[{"name":"s"}]})") == "steps[0]");
  CHECK(field("/v1/workflows", single("mainspring.callbacks")) == "steps[0].job.queue");
  CHECK(field("/v1/workflows", R"({"name":"w","steps":[{"name":"s","sleep":"1s","x":1}]})") ==
        "steps[0].x");
  const WorkflowId id = start(peer, single("q"));
  CHECK(field(workflows_path(id, "/signal"), R"({"payload":1})") == "name");
  CHECK(peer.call("GET", workflows_path(99)).status == 404);
  CHECK(peer.call("GET", workflows_path(99, "?wait=10s")).status == 404);
  CHECK(peer.call("GET", workflows_path(99, "/steps")).status == 404);
  for (const std::string_view verb : {"/cancel", "/pause", "/resume", "/retry"})
    CHECK(peer.call("POST", workflows_path(99, verb)).status == 404);
  for (const std::string_view query : {"?state=nice", "?limit=0", "?before=x", "?name=%20"})
    CHECK(peer.call("GET", fmt::format("/v1/workflows{}", query)).status == 400);
  CHECK(peer.call("GET", workflows_path(id, "/steps?after=-1")).status == 400);
  CHECK(peer.call("GET", "/v1/workflows/none").status == 400);
}

TEST_CASE("a workflow is visible to callers with rights to the queues of all its jobs") {
  HttpOptions options;
  options.require_token = true;
  TestServer server(options);
  SystemRandom random;
  Peer peer(server);
  int made = 0;
  const auto with = [&](std::string_view scopes) {
    const Secret text = make_token_text(random);
    TokenRecord record;
    record.name = fmt::format("t{}", ++made);
    record.digest = *digest_of_token(text.reveal());
    record.scopes = *Scopes::parse(scopes);
    std::atomic<bool> done = false;
    server.broker->submit(CreateToken{record}, [&](const OperationResult&) { done = true; });
    wait_until([&] { return done.load(); });
    return "Authorization: Bearer " + text.reveal() + "\r\n";
  };
  const auto ask = [&](const std::string& token, std::string_view method, const std::string& target,
                       std::string_view body = "") {
    peer.send(fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: {}\r\n\r\n{}",
                          method, target, token, body.size(), body));
    return peer.receive();
  };
  const std::string all = with("enqueue read read:payload admin work");
  const Answer half = ask(with("enqueue=pay"), "POST", "/v1/workflows", kOrder);
  CHECK(half.status == 403);
  CHECK(has(half.body, R"(enqueue=pack)"));
  constexpr std::string_view kInside = R"({"name":"n","steps":[{"name":"s","workflow":{"name":"m",
    "steps":[{"name":"t","job":{"queue":"pack","kind":"k"}}]}}]})";
  CHECK(has(ask(with("enqueue=pay"), "POST", "/v1/workflows", kInside).body, "enqueue=pack"));
  const auto started = decode_workflow_started(
      ask(with("enqueue=pay enqueue=pack"), "POST", "/v1/workflows", kOrder).body);
  REQUIRE(started);
  const std::string one = with("read=pay admin=pay");
  for (const std::string_view more : {"", "?wait=20s", "/steps"})
    CHECK(ask(one, "GET", workflows_path(started->id, more)).status == 404);
  CHECK(ask(one, "GET", "/v1/workflows").body == R"({"workflows":[],"next":null})");
  CHECK(ask(one, "POST", workflows_path(started->id, "/signal"), R"({"name":"paid"})").status ==
        404);
  for (const std::string_view verb : {"/cancel", "/pause", "/resume", "/retry"})
    CHECK(ask(one, "POST", workflows_path(started->id, verb)).status == 404);
  constexpr std::string_view kFork = R"({"step":"pay"})";
  CHECK(ask(one, "POST", workflows_path(started->id, "/fork"), kFork).status == 404);
  CHECK(ask(with("admin"), "POST", workflows_path(started->id, "/fork"), kFork).status == 403);
  CHECK(ask(all, "POST", workflows_path(started->id, "/fork"), kFork).status == 409);
  CHECK(ask(all, "POST", workflows_path(started->id, "/signal"),
            R"({"name":"paid","payload":"secret"})")
            .status == 200);
  CHECK(
      ask(all, "POST", workflows_path(started->id, "/cancel"), R"({"reason":"why not"})").status ==
      200);
  const std::string reader = with("read=pay read=pack read:payload=pay");
  for (const std::string_view more : {"", "?wait=20s", "/steps"}) {
    const Answer masked = ask(reader, "GET", workflows_path(started->id, more));
    CHECK(masked.status == 200);
    CHECK_FALSE(has(masked.body, R"("order":7)"));
    CHECK_FALSE(has(masked.body, "why not"));
    CHECK_FALSE(has(masked.body, "secret"));
  }
  CHECK_FALSE(has(ask(reader, "GET", "/v1/workflows").body, "why not"));
  CHECK(has(ask(all, "GET", workflows_path(started->id)).body, R"("input":{"order":7})"));
  CHECK(has(ask(all, "GET", "/v1/workflows").body, "why not"));
}

TEST_CASE("a thousand waits for workflows need no threads, and a closed one is removed") {
  TestServer server;
  Peer peer(server);
  const WorkflowId id = start(peer, single("pay"));
  std::vector<std::unique_ptr<Peer>> waiting;
  for (int i = 0; i < 1000; ++i) {
    waiting.push_back(std::make_unique<Peer>(server));
    waiting.back()->send(
        fmt::format("GET {}?wait=30s HTTP/1.1\r\nHost: localhost\r\n\r\n", workflows_path(id)));
  }
  waiting.resize(990);
  workflows_finish(peer, workflows_claim(peer), R"("outcome":"complete")");
  for (auto& one : waiting) CHECK(has(one->receive().body, R"("state":"completed")"));
}
