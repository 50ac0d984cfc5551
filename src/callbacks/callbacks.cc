// A worker with one handler, which sends requests.
#include "callbacks/callbacks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "callbacks/delivery.h"
#include "callbacks/gone_receivers.h"
#include "model/callback.h"
#include "model/trace_context.h"
#include "outgoing/outgoing_client.h"
#include "worker/worker.h"

namespace mainspring {
namespace {

// Renewed while a request is in progress; after a crash other nodes take over after this time.
constexpr Duration kLease = std::chrono::seconds(10);
constexpr Duration kMaxConnect = std::chrono::seconds(5);
constexpr std::size_t kMaxAnswerBytes = 64 << 10;  // the answer is not used

WorkerOptions worker_options(const CallbackOptions& options) {
  WorkerOptions worker;
  worker.queues = {std::string(kCallbackQueue)};
  worker.slots = options.slots;
  worker.graceful_stop = Callbacks::kGracefulStop;
  worker.lease = kLease;
  worker.claim_wait = kMaxClaimWait;
  return worker;
}

// A retry by hand resets the attempts of a delivery, so it starts with short pauses again.
Duration back_off(const ClaimedJob& job) {
  const RetryPolicy policy{
      .first_delay = Callbacks::kFirstDelay, .factor = 2, .max_delay = Callbacks::kMaxDelay};
  const int before = std::max(0, job.max_attempts - Callbacks::kMaxAttempts);
  return policy.delay(job.id, std::max(1, job.attempt - before)).value_or(Callbacks::kFirstDelay);
}

}  // namespace

std::vector<Error> CallbackOptions::validate() const {
  std::vector<Error> errors;
  if (slots < 0 || slots > Callbacks::kMaxSlots) {
    errors.push_back(invalid("callback_slots", fmt::format("callback_slots {}: must be 0 to {}",
                                                           slots, Callbacks::kMaxSlots)));
  }
  if (timeout < std::chrono::seconds(1) || timeout > std::chrono::minutes(5)) {
    errors.push_back(
        invalid("callback_timeout",
                fmt::format("callback_timeout {}: must be 1s to 5m", format_duration(timeout))));
  }
  return errors;
}

struct Callbacks::Impl {
  Impl(const CallbackOptions& options, Jobs& jobs_, Keys keys_, const Clock& clock_, Random& random,
       Log& log_, Registry& registry)
      : slots(options.slots),
        jobs(jobs_),
        keys(std::move(keys_)),
        clock(clock_),
        log(log_),
        delivered(counter(registry, "delivered")),
        gone(counter(registry, "gone")),
        refused(counter(registry, "refused")),
        unreachable(counter(registry, "unreachable")),
        seconds(registry.histogram("mainspring_callback_seconds", "Duration of callback requests.",
                                   duration_buckets())),
        worker(jobs_, clock_, random, log_, worker_options(options)) {
    worker.on(std::string(kCallbackKind),
              [this](const ClaimedJob& job, Context& context) { return deliver(job, context); },
              {.timeout = options.timeout + kMaxConnect});
  }

  static Counter& counter(Registry& registry, const std::string& outcome) {
    return registry.counter("mainspring_callbacks_total", "Callback requests by outcome.",
                            {{"outcome", outcome}});
  }

  HandlerResult deliver(const ClaimedJob& job, Context& context);
  void count(const Outcome& outcome);

  const int slots;
  Jobs& jobs;
  const Keys keys;
  const Clock& clock;
  Log& log;
  Counter& delivered;
  Counter& gone;
  Counter& refused;
  Counter& unreachable;
  Histogram& seconds;
  GoneReceivers gone_for_good;
  SystemResolver resolver;
  std::unique_ptr<OutgoingClient> client;
  WorkerRuntime worker;  // the last member: it is destroyed first
};

void Callbacks::Impl::count(const Outcome& outcome) {
  if (std::holds_alternative<Complete>(outcome)) return delivered.add();
  if (std::holds_alternative<CancelJob>(outcome)) return gone.add();
  refused.add();
}

HandlerResult Callbacks::Impl::deliver(const ClaimedJob& claimed, Context& context) {
  MS_TRY_ASSIGN(const Job job, jobs.get(claimed.id));
  const auto delivery = delivery_of(job);
  if (!delivery) return Outcome(Dead{"bad_callback", delivery.error().message});
  // A retry by hand is always sent, whatever the receiver answered before.
  const bool first = claimed.attempt == 1 && !MS_MUTANT(gone_receiver_asked_again);
  if (first && gone_for_good.has(delivery->about, delivery->url)) return Outcome(CancelJob{"gone"});
  MS_TRY_ASSIGN(const SigningKeys signing, keys());
  OutgoingRequest request = request_of(*delivery, signing, clock.now().wall);
  request.stop = context.stop_token();
  if (const TraceHeaders trace = trace_headers_of(claimed.headers); !trace.empty()) {
    request.headers.push_back({std::string(kTraceParent), trace.parent});
    if (!trace.state.empty()) request.headers.push_back({std::string(kTraceState), trace.state});
  }
  const Instant begin = clock.now().instant;
  const auto response = client->post(request);
  seconds.observe(std::chrono::duration<double>(clock.now().instant - begin).count());
  if (!response) {
    unreachable.add();
    return Outcome(Retry{.error = response.error().message, .after = back_off(claimed)});
  }
  Outcome outcome = outcome_of(*response, back_off(claimed));
  count(outcome);
  if (std::holds_alternative<CancelJob>(outcome)) gone_for_good.add(delivery->about, delivery->url);
  return outcome;
}

Callbacks::Callbacks(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Callbacks::~Callbacks() {
  stop();
}

Result<std::unique_ptr<Callbacks>> Callbacks::open(CallbackOptions options, Jobs& jobs, Keys keys,
                                                   const Clock& clock, Random& random, Log& log,
                                                   Registry& registry) {
  if (auto errors = options.validate(); !errors.empty()) return errors.front();
  auto impl = std::make_unique<Impl>(options, jobs, std::move(keys), clock, random, log, registry);
  MS_TRY_ASSIGN(impl->client,
                OutgoingClient::open({.allow = options.outgoing_allow,
                                      .max_body_bytes = kMaxAnswerBytes,
                                      .connect_limit = std::min(options.timeout, kMaxConnect),
                                      .total_limit = options.timeout},
                                     impl->resolver, clock));
  return std::unique_ptr<Callbacks>(new Callbacks(std::move(impl)));
}

Result<void> Callbacks::check(const std::string& url) const {
  return impl_->client->check(url, false);
}

void Callbacks::start() {
  if (impl_->slots == 0) return;
  if (const auto started = impl_->worker.start(); !started) {
    impl_->log.error("callbacks are not sent", {{"why", started.error().message}});
  }
}

void Callbacks::stop() {
  impl_->worker.stop();
}

}  // namespace mainspring
