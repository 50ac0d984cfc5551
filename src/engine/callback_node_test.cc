// Callbacks on a real node: a live node posts the stored deliveries until each one succeeds.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <future>

#include "broker/broker.h"
#include "callbacks/key_file.h"
#include "engine/node.h"
#include "env/random.h"
#include "mainspring/engine.h"
#include "model/callback.h"
#include "outgoing/tiny_server.h"

namespace {

using namespace mainspring;
using namespace mainspring::testing;
using namespace std::chrono_literals;

struct CallbackNodeFolder {
  std::string path = (std::filesystem::temp_directory_path() / "callback-node-XXXXXX").string();
  CallbackNodeFolder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~CallbackNodeFolder() { std::filesystem::remove_all(path); }
};

struct Fixture {
  CallbackNodeFolder folder;
  SystemClock clock;
  SystemRandom random;
  StderrLog log{LogLevel::error};
  std::unique_ptr<Registry> registry;
  std::unique_ptr<Node> node;

  void open(int slots) {
    node.reset();
    registry = std::make_unique<Registry>();
    NodeOptions options;
    options.sqlite.directory = folder.path;
    options.callbacks =
        CallbackOptions{.slots = slots, .timeout = 30s, .outgoing_allow = {"127.0.0.0/8"}};
    auto opened = Node::open(std::move(options), clock, log, *registry);
    REQUIRE_MESSAGE(opened, opened.error().message);
    node = std::move(*opened);
    node->start();
    node->callbacks()->start();
  }
  // As a follow-up creates it.
  JobId add(const std::string& url) const {
    NewJob job;
    job.queue = kCallbackQueue;
    job.kind = kCallbackKind;
    job.args = fmt::format(
        R"({{"job":7,"queue":"q","kind":"k","state":"completed","attempt":1,"result":null,)"
        R"("data":{{"url":"{}"}}}})",
        url);
    Enqueue request;
    request.jobs.push_back(std::move(job));
    // Not by enqueue(), which refuses the engine's own queues.
    std::promise<OperationResult> done;
    node->broker().submit(std::move(request),
                          [&](OperationResult result) { done.set_value(std::move(result)); });
    const OperationResult result = done.get_future().get();
    REQUIRE(std::holds_alternative<EnqueueResult>(result));
    return std::get<EnqueueResult>(result).jobs.at(0).id;
  }
  Job ended(JobId id) const {
    auto job = node->broker().wait(id, 30s, {});
    REQUIRE(job);
    return *job;
  }
};

std::string header(const std::string& request, const std::string& name) {
  const std::size_t at = request.find("\r\n" + name + ": ");
  REQUIRE(at != std::string::npos);
  const std::size_t begin = at + name.size() + 4;
  return request.substr(begin, request.find("\r\n", begin) - begin);
}

}  // namespace

TEST_CASE("a node posts the callbacks of its store, signed with the key beside the store") {
  Fixture f;
  TinyServer receiver;
  f.open(2);
  CHECK_FALSE(std::filesystem::exists(f.folder.path + "/callbacks.key"));
  const Job job = f.ended(f.add(receiver.url()));
  CHECK(job.state == JobState::completed);
  CHECK(job.result == R"({"status":200})");
  const std::string request = receiver.requests().at(0);
  const auto keys = key_of_directory(f.folder.path, f.random);
  REQUIRE(keys);
  const std::string id = header(request, "webhook-id");
  CHECK(id == fmt::format("msg_{:x}_{}", job.created_at.us(), job.id));
  CHECK(verify_signature(
      *keys,
      {id, header(request, "webhook-timestamp"), request.substr(request.find("\r\n\r\n") + 4)},
      header(request, "webhook-signature"), f.clock.now().wall));
}

TEST_CASE("deliveries of a worker that died are posted again with the same id") {
  Fixture f;
  TinyServer receiver;
  f.open(0);
  const JobId id = f.add(receiver.url());
  // A node that claims, posts and then vanishes.
  auto claimed = f.node->broker().claim(
      {.worker = "dead", .queues = {std::string(kCallbackQueue)}, .lease = 5s}, 0s, {});
  REQUIRE(claimed);
  REQUIRE(claimed->jobs.size() == 1);
  const std::string first =
      fmt::format("msg_{:x}_{}", f.node->broker().get(id)->created_at.us(), id);
  f.open(2);
  const auto job = f.node->broker().get(id);
  REQUIRE(job);
  CHECK(job->attempt == 1);
  // The lease ends. It was never renewed, so the delivery starts again at once.
  CHECK(f.ended(id).state == JobState::completed);
  CHECK(header(receiver.requests().at(0), "webhook-id") == first);
}

TEST_CASE("an operator's retry of a dead delivery posts it again with the same id") {
  Fixture f;
  TinyServer receiver({"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"});
  f.open(1);
  const JobId id = f.add(receiver.url());
  const Job gone = f.ended(id);
  CHECK(gone.state == JobState::cancelled);
  CHECK(gone.reason == "gone");
  REQUIRE(f.node->broker().retry({id}));
  CHECK(f.ended(id).state == JobState::completed);
  const auto requests = receiver.requests();
  REQUIRE(requests.size() == 2);
  CHECK(header(requests[0], "webhook-id") == header(requests[1], "webhook-id"));
}

TEST_CASE("an embedded engine posts progress and outcomes of its jobs if callbacks are enabled") {
  CallbackNodeFolder folder;
  TinyServer receiver;
  EngineOptions options;
  options.callback_slots = 1;
  options.outgoing_allow = {"127.0.0.0/8"};
  auto engine = Engine::open(folder.path, options);
  REQUIRE_MESSAGE(engine, engine.error().message);
  engine->on_kind("say", [](const ClaimedJob&, Context& context) -> HandlerResult {
    context.progress(0.5, "half");
    MS_TRY(context.send(R"({"row":7})"));
    MS_TRY(context.flush());
    return Outcome(Complete{"8"});
  });
  REQUIRE(engine->start());
  NewJob job{.kind = "say"};
  job.follow_ups = {
      callback_to(receiver.url(), FollowUp::kCompleted | FollowUp::kMessage | FollowUp::kProgress)};
  REQUIRE(engine->enqueue(job));
  receiver.wait_for(3);
  const auto requests = receiver.requests();
  CHECK(requests[0].find(R"({"type":"job.progress",)") != std::string::npos);
  CHECK(requests[0].find(R"("progress":{"value":0.5,"text":"half"},"token":)") !=
        std::string::npos);
  CHECK(requests[1].find(R"({"type":"job.message",)") != std::string::npos);
  CHECK(requests[1].find(R"("seq":1,"message":{"row":7}}})") != std::string::npos);
  CHECK(requests[2].find(R"({"type":"job.completed",)") != std::string::npos);
  job.follow_ups = {callback_to("http://169.254.169.254/latest")};
  const auto refused = engine->enqueue(job);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().field == "callback.url");
  engine->stop();
}
