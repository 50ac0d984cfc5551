// Callbacks: jobs of the callback queue are posted, and the response becomes their outcome.
#include "callbacks/callbacks.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "callbacks/gone_receivers.h"
#include "model/callback.h"
#include "outgoing/tiny_server.h"
#include "telemetry/keeping_log.h"
#include "worker/fake_jobs.h"

using namespace mainspring;
using namespace mainspring::testing;
using namespace std::chrono_literals;

namespace {

constexpr const char* kFailure = "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n";
constexpr const char* kGone = "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n";
constexpr const char* kBusy =
    "HTTP/1.1 429 Slow Down\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n";
constexpr std::string_view kKey = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

// The store's side: deliveries as follow-ups create them.
class Deliveries final : public FakeJobs {
 public:
  JobId add_for(const std::string& url, int attempt = 1, JobId about = 7,
                int max_attempts = Callbacks::kMaxAttempts) {
    const std::string args = fmt::format(
        R"({{"job":{},"queue":"mails","kind":"send","state":"dead","attempt":2,"result":null,)"
        R"("reason":"max_attempts","description":"no","data":{{"url":"{}"}}}})",
        about, url);
    MutexLock lock(jobs_mutex_);
    const JobId id = add(std::string(kCallbackKind), args, [&](ClaimedJob& job) {
      job.queue = kCallbackQueue;
      job.attempt = attempt;
      job.max_attempts = max_attempts;
      job.timeout = 15min;
    });
    jobs_[id] = Kept{args, attempt};
    return id;
  }
  Result<Job> get(JobId id) override {
    MutexLock lock(jobs_mutex_);
    Job job;
    job.id = id;
    job.queue = kCallbackQueue;
    job.kind = kCallbackKind;
    job.args = jobs_[id].args;
    job.attempt = jobs_[id].attempt;
    job.created_at = WallTime::from_us(std::int64_t{1'700'000'000} * 1'000'000);
    return job;
  }

 private:
  struct Kept {
    std::string args;
    int attempt = 1;
  };
  Mutex jobs_mutex_;
  std::map<JobId, Kept> jobs_ MS_GUARDED_BY(jobs_mutex_);
};

struct Fixture {
  SystemClock clock;
  SeededRandom random{7};
  KeepingLog log;
  Registry registry;
  Deliveries jobs;
  CallbackOptions options{.slots = 2, .timeout = 30s, .outgoing_allow = {"127.0.0.0/8"}};
  std::unique_ptr<Callbacks> callbacks;

  SigningKeys keys() const { return std::move(*parse_signing_keys("f", kKey)); }
  void start() {
    auto opened = Callbacks::open(
        options, jobs, [this] { return Result<SigningKeys>(keys()); }, clock, random, log,
        registry);
    REQUIRE_MESSAGE(opened, opened.error().message);
    callbacks = std::move(*opened);
    callbacks->start();
  }
  std::string header(const std::string& request, const std::string& name) const {
    const std::size_t at = request.find("\r\n" + name + ": ");
    REQUIRE(at != std::string::npos);
    const std::size_t begin = at + name.size() + 4;
    return request.substr(begin, request.find("\r\n", begin) - begin);
  }
  std::string error_of(JobId id) { return jobs.outcome<Retry>(id).error; }
};

}  // namespace

TEST_CASE("a delivery is posted once, signed, and completes with the receiver's 2xx") {
  Fixture f;
  TinyServer receiver({"HTTP/1.1 204 No Content\r\n\r\n"});
  f.start();
  const JobId id = f.jobs.add_for(receiver.url("/hook?x=1"));
  REQUIRE(f.jobs.await_outcomes(1));
  CHECK(f.jobs.outcome<Complete>(id).result == R"({"status":204})");
  const auto requests = receiver.requests();
  REQUIRE(requests.size() == 1);
  CHECK(requests[0].starts_with("POST /hook?x=1 HTTP/1.1\r\n"));
  CHECK(f.header(requests[0], "content-type") == "application/json");
  CHECK(f.header(requests[0], "webhook-id") == fmt::format("msg_60a24181e4000_{}", id));
  const std::string body = requests[0].substr(requests[0].find("\r\n\r\n") + 4);
  CHECK(
      body.starts_with(R"({"type":"job.dead","timestamp":"2023-11-14T22:13:20Z","data":{"job":7)"));
  CHECK(body.find("hook") == std::string::npos);
  const std::string timestamp = f.header(requests[0], "webhook-timestamp");
  CHECK(verify_signature(f.keys(), {f.header(requests[0], "webhook-id"), timestamp, body},
                         f.header(requests[0], "webhook-signature"), f.clock.now().wall));
  CHECK(f.registry.render().find("mainspring_callbacks_total{outcome=\"delivered\"} 1") !=
        std::string::npos);
}

TEST_CASE("a failed delivery is retried later: 500, a redirect, a receiver with Retry-After") {
  Fixture f;
  TinyServer target;
  const std::string redirect =
      fmt::format("HTTP/1.1 302 Found\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n", target.url());
  TinyServer receiver({kFailure, redirect, kBusy});
  f.options.slots = 1;
  f.start();
  const JobId first = f.jobs.add_for(receiver.url());
  REQUIRE(f.jobs.await_outcomes(1));
  REQUIRE(f.jobs.ended_as<Retry>(first));
  const auto after = f.jobs.outcome<Retry>(first).after;
  CHECK((after >= 4s && after <= 6s));
  CHECK(f.error_of(first) == "the receiver answered 500 Oh");
  const JobId second = f.jobs.add_for(receiver.url(), 4);
  REQUIRE(f.jobs.await_outcomes(2));
  REQUIRE(f.jobs.ended_as<Retry>(second));
  CHECK(f.error_of(second).find("redirect") != std::string::npos);
  CHECK(target.requests().empty());
  const auto fourth = f.jobs.outcome<Retry>(second).after;
  CHECK((fourth >= 32s && fourth <= 48s));
  const JobId third = f.jobs.add_for(receiver.url());
  REQUIRE(f.jobs.await_outcomes(3));
  CHECK(f.jobs.outcome<Retry>(third).after == 120s);
}

TEST_CASE("a delivery that is retried by hand starts with short pauses again") {
  Fixture f;
  TinyServer receiver({kFailure, kFailure});
  f.options.slots = 1;
  f.start();
  // Two rounds used up its 12 attempts each; this is the first attempt of the third.
  const JobId again = f.jobs.add_for(receiver.url(), 25, 7, 36);
  REQUIRE(f.jobs.await_outcomes(1));
  REQUIRE(f.jobs.ended_as<Retry>(again));
  CHECK(f.jobs.outcome<Retry>(again).after >= 4s);
  CHECK(f.jobs.outcome<Retry>(again).after <= 6s);
  const JobId last = f.jobs.add_for(receiver.url(), 36, 7, 36);
  REQUIRE(f.jobs.await_outcomes(2));
  CHECK(f.jobs.outcome<Retry>(last).after >= 48min);
}

TEST_CASE("a receiver that is gone ends the delivery") {
  Fixture f;
  TinyServer receiver({kGone});
  f.options.slots = 1;
  f.start();
  const JobId gone = f.jobs.add_for(receiver.url());
  REQUIRE(f.jobs.await_outcomes(1));
  REQUIRE(f.jobs.ended_as<CancelJob>(gone));
  CHECK(f.jobs.outcome<CancelJob>(gone).reason == "gone");
}

TEST_CASE("a gone receiver gets no more deliveries of that job, but those of other jobs") {
  Fixture f;
  TinyServer receiver({kGone});
  f.options.slots = 1;
  f.start();
  f.jobs.add_for(receiver.url("/a"));
  REQUIRE(f.jobs.await_outcomes(1));
  const JobId next = f.jobs.add_for(receiver.url("/a"));
  REQUIRE(f.jobs.await_outcomes(2));
  CHECK(f.jobs.outcome<CancelJob>(next).reason == "gone");
  CHECK(receiver.requests().size() == 1);
  CHECK(f.registry.render().find("mainspring_callbacks_total{outcome=\"gone\"} 1\n") !=
        std::string::npos);
  f.jobs.add_for(receiver.url("/b"));        // another URL of the same job
  f.jobs.add_for(receiver.url("/a"), 1, 8);  // another job
  f.jobs.add_for(receiver.url("/a"), 2);     // retried by hand
  REQUIRE(f.jobs.await_outcomes(5));
  CHECK(receiver.requests().size() == 4);
}

TEST_CASE("of the gone receivers, the oldest is forgotten") {
  GoneReceivers gone;
  for (JobId job = 1; job <= JobId(GoneReceivers::kMost) + 1; ++job) gone.add(job, "u");
  gone.add(5, "u");  // known
  CHECK_FALSE(gone.has(1, "u"));
  CHECK(gone.has(2, "u"));
  CHECK(gone.has(GoneReceivers::kMost + 1, "u"));
  CHECK_FALSE(gone.has(2, "v"));
}

TEST_CASE("a receiver that never answers takes the timeout and an attempt") {
  Fixture f;
  TinyServer receiver({""});
  f.options.timeout = 1s;
  f.start();
  const JobId id = f.jobs.add_for(receiver.url());
  REQUIRE(f.jobs.await_outcomes(1));
  CHECK(f.jobs.ended_as<Retry>(id));
}

TEST_CASE("an address that is not public gets no deliveries unless it is allowed") {
  Fixture f;
  TinyServer receiver;
  f.options.outgoing_allow = {};
  f.start();
  CHECK_FALSE(f.callbacks->check(receiver.url()));
  CHECK_FALSE(f.callbacks->check("http://169.254.169.254/latest"));
  CHECK_FALSE(f.callbacks->check("https://user:secret@example.com/"));
  CHECK_FALSE(f.callbacks->check("ftp://example.com/"));
  CHECK(f.callbacks->check("https://example.com/hook"));
  const JobId id = f.jobs.add_for(receiver.url());
  REQUIRE(f.jobs.await_outcomes(1));
  REQUIRE(f.jobs.ended_as<Retry>(id));
  CHECK(f.error_of(id).find("outgoing_allow") != std::string::npos);
  CHECK(receiver.requests().empty());
}

TEST_CASE("a node that stops releases its current deliveries without counting an attempt") {
  Fixture f;
  TinyServer receiver({""});
  f.start();
  const JobId id = f.jobs.add_for(receiver.url());
  receiver.wait_for(1);
  f.callbacks->stop();
  CHECK(f.jobs.ended_as<Snooze>(id));
}

TEST_CASE("the log contains neither the key nor the path of the url") {
  Fixture f;
  TinyServer receiver({kFailure, kGone});
  f.options.slots = 1;
  f.start();
  f.jobs.add_for(receiver.url("/path-with-a-secret"));
  f.jobs.add_for(receiver.url("/path-with-a-secret"));
  f.jobs.add_for("http://127.0.0.1:1/path-with-a-secret");
  REQUIRE(f.jobs.await_outcomes(3));
  f.callbacks->stop();
  const std::string log = f.log.text();
  CHECK(log.find("path-with-a-secret") == std::string::npos);
  CHECK(log.find("MfKQ9r8GKYq") == std::string::npos);
  CHECK(f.registry.render().find("path-with-a-secret") == std::string::npos);
}

TEST_CASE("a node with no slots takes no delivery") {
  Fixture f;
  f.options.slots = 0;
  f.start();
  CHECK(f.callbacks->check("http://127.0.0.1:99/x"));
  CHECK(f.jobs.with_lock([&] { return f.jobs.claims.empty(); }));
}

TEST_CASE("invalid options are refused by name") {
  Fixture f;
  const auto refused = [&](CallbackOptions options) {
    auto opened = Callbacks::open(
        options, f.jobs, [&] { return Result<SigningKeys>(f.keys()); }, f.clock, f.random, f.log,
        f.registry);
    return opened ? std::string() : opened.error().field;
  };
  CHECK(refused({.slots = -1}) == "callback_slots");
  CHECK(refused({.slots = 5000}) == "callback_slots");
  CHECK(refused({.timeout = 1ms}) == "callback_timeout");
  CHECK(refused({.outgoing_allow = {"300.1.1.1/8"}}) == "outgoing_allow");
}
