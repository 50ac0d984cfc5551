// Requests to a test server, and what their answers mean for a test.
#include "mainspring/testing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>

#include "api/json.h"
#include "client/client.h"
#include "env/random.h"
#include "testing/server_process.h"

namespace mainspring::testing {

namespace detail {

struct Server {
  std::unique_ptr<ServerProcess> process;  // nullptr: it was running
  std::string url, token;
  std::uint64_t seed = 0;
  SystemRandom random;
  std::unique_ptr<Client> client;

  std::string request(std::string_view method, std::string_view path, std::string_view body) {
    auto answer = client->request(method, path, body);
    if (!answer) throw Failure(fmt::format("{} {}: {}", method, path, answer.error().message));
    return std::move(*answer);
  }
};

}  // namespace detail

namespace {

constexpr int kPage = 1000;
constexpr std::size_t kMaxShown = 20;  // jobs in a message
constexpr std::size_t kMaxShownBytes = 200;
// A drain or an await may last 10 minutes.
constexpr Duration kLongestWait = std::chrono::minutes(11);
constexpr std::uint64_t kSeeds = 1'000'000'000;
constexpr std::array<std::string_view, 3> kRuns = {"one run", "a second run", "a third run"};

struct StartedLine {
  std::string url, token;
  std::int64_t seed = 0;
};
constexpr JsonField<StartedLine> kStartedFields[] = {
    {"url", [](JsonReader& in, StartedLine& s) { return in.string(s.url); }},
    {"token", [](JsonReader& in, StartedLine& s) { return in.string(s.token); }},
    {"seed",
     [](JsonReader& in, StartedLine& s) { return in.integer(s.seed, std::int64_t{0}, INT64_MAX); }},
};

struct SpaceAnswer {
  std::string name, prefix;
};
constexpr JsonField<SpaceAnswer> kSpaceFields[] = {
    {"namespace", [](JsonReader& in, SpaceAnswer& s) { return in.string(s.name); }},
    {"prefix", [](JsonReader& in, SpaceAnswer& s) { return in.string(s.prefix); }},
};

struct DrainAnswer {
  bool drained = false;
  std::int64_t left = 0;
};
constexpr JsonField<DrainAnswer> kDrainAnswer[] = {
    {"drained", [](JsonReader& in, DrainAnswer& d) { return in.boolean(d.drained); }},
    {"left",
     [](JsonReader& in, DrainAnswer& d) { return in.integer(d.left, std::int64_t{0}, INT64_MAX); }},
};

constexpr JsonField<Fired> kFiredFields[] = {
    {"at", [](JsonReader& in, Fired& f) { return in.wall_time(f.at); }},
    {"what", [](JsonReader& in, Fired& f) { return in.string(f.what); }},
    {"job", [](JsonReader& in, Fired& f) { return in.integer(f.job, std::int64_t{1}, INT64_MAX); }},
    {"workflow",
     [](JsonReader& in, Fired& f) { return in.integer(f.workflow, std::int64_t{1}, INT64_MAX); }},
    {"queue", [](JsonReader& in, Fired& f) { return in.string(f.queue); }},
    {"schedule", [](JsonReader& in, Fired& f) { return in.string(f.schedule); }},
    {"lock", [](JsonReader& in, Fired& f) { return in.string(f.lock); }},
    {"session", [](JsonReader& in, Fired& f) { return in.string(f.session); }},
};
struct ClockAnswer {
  WallTime now;
  std::vector<Fired> fired;
  bool complete = true;
};
constexpr JsonField<ClockAnswer> kClockAnswer[] = {
    {"now", [](JsonReader& in, ClockAnswer& c) { return in.wall_time(c.now); }},
    {"fired",
     [](JsonReader& in, ClockAnswer& c) {
       return in.array(
           1'000'000, [&](std::size_t) { return in.object(kFiredFields, c.fired.emplace_back()); });
     }},
    {"complete", [](JsonReader& in, ClockAnswer& c) { return in.boolean(c.complete); }},
};

template <class T, std::size_t N>
T read_answer(std::string_view body, const JsonField<T> (&fields)[N]) {
  T out{};
  JsonReader in(body, JsonReader::Unknown::skip);
  if (!in.object(fields, out)) {
    throw Failure(fmt::format("the test server's answer is not understood: {}: {}",
                              in.error().message, cut_text(body, kMaxShownBytes)));
  }
  return out;
}

std::string shown(const std::string& args) {
  return std::string(cut_text(args, kMaxShownBytes));
}

void drain_scope(detail::Server& server, std::string_view field, const std::string& name,
                 Duration timeout) {
  std::string body;
  JsonWriter w(body);
  w.begin_object();
  if (!name.empty()) w.key(field).string(name);
  w.key("timeout").duration(timeout).end_object();
  const auto done = read_answer(server.request("POST", "/v1/test/drain", body), kDrainAnswer);
  if (done.drained) return;
  throw Failure(fmt::format("drain: {} jobs{} are left after {}", done.left,
                            name.empty() ? "" : fmt::format(" of {} {}", field, name),
                            format_duration(timeout)));
}

}  // namespace

NotIdempotent::NotIdempotent(const std::string& kind, std::string which_run, std::string first_seen,
                             std::string then_seen)
    : Failure(fmt::format("{} is not idempotent: after one run there was {}, after {} {}", kind,
                          first_seen, which_run, then_seen)),
      run(std::move(which_run)),
      first(std::move(first_seen)),
      then(std::move(then_seen)) {}

// -- the server

TestServer::TestServer(const ServerOptions& options) : server_(std::make_shared<detail::Server>()) {
  server_->url = options.url;
  server_->token = options.token;
  if (options.url.empty()) {
    server_->process = std::make_unique<ServerProcess>(options);
    const auto started = read_answer(server_->process->line(), kStartedFields);
    server_->url = started.url;
    server_->token = started.token;
    server_->seed = static_cast<std::uint64_t>(started.seed);
  }
  ClientOptions how{.url = server_->url, .token = Secret(server_->token)};
  how.read_timeout = kLongestWait;
  auto client = Client::open(std::move(how), server_->random);
  if (!client) throw Failure(client.error().message);
  server_->client = std::move(*client);
}

TestServer::~TestServer() = default;
TestServer::TestServer(TestServer&&) noexcept = default;

const std::string& TestServer::url() const {
  return server_->url;
}
const std::string& TestServer::token() const {
  return server_->token;
}
std::uint64_t TestServer::seed() const {
  return server_->seed;
}

Engine TestServer::engine(EngineOptions options) const {
  options.token = server_->token;
  auto engine = Engine::open(server_->url, std::move(options));
  if (!engine) throw Failure(engine.error().message);
  return std::move(*engine);
}

std::string TestServer::request(std::string_view method, std::string_view path,
                                std::string_view body) const {
  return server_->request(method, path, body);
}

// -- namespaces

Namespace TestServer::make_namespace(const std::string& name) const {
  std::string body;
  JsonWriter w(body);
  w.begin_object();
  if (!name.empty()) w.key("name").string(name);
  w.end_object();
  auto made = read_answer(request("POST", "/v1/test/namespace", body), kSpaceFields);
  return Namespace(server_, std::move(made.name), std::move(made.prefix));
}

Namespace::Namespace(std::shared_ptr<detail::Server> server, std::string name, std::string prefix)
    : server_(std::move(server)), name_(std::move(name)), prefix_(std::move(prefix)) {}
Namespace::Namespace(Namespace&&) noexcept = default;
Namespace::~Namespace() {
  if (server_ == nullptr) return;
  std::string body;
  JsonWriter(body).begin_object().key("namespace").string(name_).end_object();
  // One that is gone already, or whose server is, needs no reset.
  (void)server_->client->request("POST", "/v1/test/reset", body);
}

void Namespace::drain(Duration timeout) const {
  drain_scope(*server_, "namespace", name_, timeout);
}

void TestServer::drain(const std::string& queue, Duration timeout) const {
  drain_scope(*server_, "queue", queue, timeout);
}

// -- what is enqueued

std::vector<Job> TestServer::jobs(std::string_view kind, std::string_view queue) const {
  std::vector<Job> out;
  JobFilter filter{.queue = std::string(queue), .kind = std::string(kind)};
  filter.whole_args = true;
  for (JobId before = 0;;) {
    auto page = server_->client->list(filter, kPage, before);
    if (!page) throw Failure(fmt::format("listing jobs: {}", page.error().message));
    for (Job& job : page->jobs) {
      if (!is_terminal(job.state)) out.push_back(std::move(job));
    }
    if (!page->next) break;
    before = *page->next;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

void TestServer::fail_enqueued(std::string_view kind, std::string_view queue,
                               const std::vector<Job>& others) {
  std::string text;
  for (std::size_t i = 0; i < std::min(others.size(), kMaxShown); ++i)
    text += fmt::format("\n  job {}: {}", others[i].id, shown(others[i].args));
  throw Failure(fmt::format("no job {} that fits is enqueued in queue {}; {}{}", kind, queue,
                            others.empty() ? "there is none" : "there are:", text));
}

void TestServer::fail_refuted(const Job& job) {
  throw Failure(fmt::format("job {} {} is enqueued in queue {}: {}", job.id, job.kind, job.queue,
                            shown(job.args)));
}

// -- time

WallTime TestServer::now() const {
  return read_answer(request("GET", "/v1/test/clock"), kClockAnswer).now;
}

std::vector<Fired> TestServer::move_clock(const std::string& where, AdvanceOptions options) const {
  constexpr std::array<std::string_view, 3> kWords = {"live", "keep", "lose"};
  const std::string body = fmt::format(R"({{{},"leases":"{}","settle":"{}"}})", where,
                                       kWords[static_cast<std::size_t>(options.leases)],
                                       format_duration(options.settle));
  auto moved = read_answer(request("POST", "/v1/test/clock", body), kClockAnswer);
  if (moved.complete) return std::move(moved.fired);
  throw Failure(fmt::format("advance: more is due than one call does; the time is {}",
                            format_wall_time(moved.now)));
}

std::vector<Fired> TestServer::advance(Duration by, AdvanceOptions options) const {
  return move_clock(fmt::format(R"("advance":"{}")", format_duration(by)), options);
}

std::vector<Fired> TestServer::advance_to(WallTime to, AdvanceOptions options) const {
  return move_clock(fmt::format(R"("to":"{}")", format_wall_time(to)), options);
}

Job TestServer::wait_for(JobId job, JobState state, Duration timeout) const {
  request("GET", fmt::format("/v1/test/await?job={}&state={}&timeout={}", job, to_string(state),
                             format_duration(timeout)));
  auto found = server_->client->get(job);
  if (!found) throw Failure(fmt::format("job {}: {}", job, found.error().message));
  return std::move(*found);
}

// -- faults

Chaos TestServer::chaos(ChaosOptions options) const {
  const std::uint64_t seed = options.seed.value_or(server_->random.below(kSeeds));
  const std::string space = options.space == nullptr ? "" : options.space->name();
  std::string body;
  JsonWriter w(body);
  w.begin_object().key("seed").number(static_cast<std::int64_t>(seed));
  if (!space.empty()) w.key("namespace").string(space);
  w.key("duplicate_delivery").real(options.duplicate_delivery);
  w.key("lost_lease").real(options.lost_lease).key("lost_finish").real(options.lost_finish);
  if (options.delay > 0) {
    w.key("delay").begin_object().key("p").real(options.delay);
    w.key("max").duration(options.max_delay).end_object();
  }
  w.end_object();
  request("POST", "/v1/test/faults", body);
  std::fprintf(stderr, "chaos: seed %llu\n", static_cast<unsigned long long>(seed));
  return Chaos(server_, seed, space);
}

Chaos::Chaos(std::shared_ptr<detail::Server> server, std::uint64_t seed, std::string space)
    : server_(std::move(server)), seed_(seed), space_(std::move(space)) {}
Chaos::Chaos(Chaos&&) noexcept = default;
Chaos::~Chaos() {
  if (server_ == nullptr) return;
  (void)server_->client->request(
      "DELETE", space_.empty() ? "/v1/test/faults" : "/v1/test/faults?namespace=" + space_, "");
}

void TestServer::check_idempotent(std::string kind, std::string args, const Handler& handler,
                                  const std::function<std::string()>& observe,
                                  Duration timeout) const {
  const Namespace space = make_namespace();
  request("POST", "/v1/test/faults",
          fmt::format(R"({{"namespace":"{}","lost_finish":1,"lost_finish_of":"request"}})",
                      space.name()));
  std::vector<std::string> seen;
  std::optional<std::string> failure;
  EngineOptions options;
  options.worker.slots = 1;
  Engine engine = this->engine(std::move(options));
  engine.on_kind(kind,
                 [&](const ClaimedJob& job, Context& context) -> HandlerResult {
                   try {
                     HandlerResult result = handler(job, context);
                     if (!result) failure = result.error().message;
                     if (result) seen.push_back(observe());
                     return result;
                   } catch (const std::exception& error) {
                     failure = error.what();
                     throw;
                   }
                 },
                 {.queue = space.queue("once")});
  if (auto started = engine.start(); !started) throw Failure(started.error().message);
  const auto made = engine.enqueue(NewJob{.queue = space.queue("once"),
                                          .kind = kind,
                                          .args = std::move(args),
                                          .max_attempts = static_cast<int>(kRuns.size())});
  if (!made) throw Failure(made.error().message);
  const auto ended = engine.wait(made->id, timeout);
  engine.stop();
  if (failure)
    throw Failure(fmt::format("{} failed in run {}: {}", kind, seen.size() + 1, *failure));
  if (!ended || ended->state != JobState::completed || seen.size() != kRuns.size()) {
    throw Failure(fmt::format("{} is {} after {} runs", kind,
                              ended ? to_string(ended->state) : ended.error().message,
                              seen.size()));
  }
  for (std::size_t i = 1; i < seen.size(); ++i) {
    if (seen[i] != seen[0]) throw NotIdempotent(kind, std::string(kRuns[i]), seen[0], seen[i]);
  }
}

}  // namespace mainspring::testing
