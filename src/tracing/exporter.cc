// The queue of spans and the thread that empties it.
#include "tracing/exporter.h"

#include <fmt/format.h>

#include <deque>
#include <thread>

#include "base/mutex.h"
#include "outgoing/outgoing_client.h"
#include "outgoing/url_check.h"
#include "tracing/otlp.h"

namespace mainspring {
namespace {

constexpr std::size_t kMaxAnswer = 64 << 10;
constexpr Duration kFirstWait = std::chrono::seconds(1);

bool is_transient(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

// The host of a URL that has one: text between "//" and the port or path.
std::string host_in(std::string_view url) {
  url.remove_prefix(std::min(url.size(), url.find("//") + 2));
  url = url.substr(0, url.find_first_of("/?#"));
  if (const auto at = url.rfind('@'); at != url.npos) url.remove_prefix(at + 1);
  if (url.starts_with('[')) return std::string(url.substr(1, url.find(']') - 1));
  return std::string(url.substr(0, url.find(':')));
}

}  // namespace

struct Exporter::Impl {
  Impl(TraceSettings settings_, const Clock& clock_, Log& log_, Registry& registry)
      : settings(std::move(settings_)),
        clock(clock_),
        log(log_),
        exported(counter(registry, "exported")),
        dropped(counter(registry, "dropped")),
        rejected(counter(registry, "rejected")),
        failed(counter(registry, "failed")) {}

  static Counter& counter(Registry& registry, const std::string& outcome) {
    return registry.counter("mainspring_otlp_spans_total", "Spans by outcome of their export.",
                            {{"outcome", outcome}});
  }

  void run();
  std::vector<Span> take();
  void send(const std::vector<Span>& batch, const std::stop_token& stop);
  void complain(const std::string& why);

  const TraceSettings settings;
  const std::string shown = shown_endpoint(settings.url);
  const Clock& clock;
  Log& log;
  Counter& exported;
  Counter& dropped;
  Counter& rejected;
  Counter& failed;
  SystemResolver resolver;
  std::unique_ptr<OutgoingClient> client;
  Mutex mutex;
  CondVar changed;
  std::deque<std::pair<Span, Instant>> queue MS_GUARDED_BY(mutex);  // with when it was added
  std::size_t queue_bytes MS_GUARDED_BY(mutex) = 0;
  bool stopped MS_GUARDED_BY(mutex) = false;
  bool finished MS_GUARDED_BY(mutex) = false;  // the thread
  bool complained = false;                     // of the export that failed last
  std::stop_source giving_up;
  std::jthread thread;
};

std::vector<Span> Exporter::Impl::take() {
  MutexLock lock(mutex);
  for (;;) {
    if (!queue.empty()) {
      const Duration age = clock.now().instant - queue.front().second;
      if (stopped || queue.size() >= settings.max_batch || age >= settings.delay) break;
      changed.wait_for(mutex, settings.delay - age);
    } else {
      if (stopped) return {};
      changed.wait(mutex);
    }
  }
  std::vector<Span> batch;
  while (!queue.empty() && batch.size() < settings.max_batch) {
    queue_bytes -= queue.front().first.bytes();
    batch.push_back(std::move(queue.front().first));
    queue.pop_front();
  }
  return batch;
}

void Exporter::Impl::complain(const std::string& why) {
  if (!complained) log.warn("traces are not exported", {{"collector", shown}, {"why", why}});
  complained = true;
}

void Exporter::Impl::send(const std::vector<Span>& batch, const std::stop_token& stop) {
  const std::string body = otlp_json(batch, settings.resource);
  const auto count = static_cast<std::int64_t>(batch.size());
  OutgoingRequest request{.url = settings.url, .body = body, .stop = stop};
  request.headers.push_back({"content-type", "application/json"});
  for (const auto& [name, value] : settings.headers) request.headers.push_back({name, value});
  Duration wait = kFirstWait;
  for (int attempt = 1;; ++attempt) {
    const auto response = client->post(request);
    const bool again = response ? is_transient(response->status)
                                : response.error().code != ErrorCode::invalid_argument;
    if (response && response->status / 100 == 2) {
      const std::int64_t refused = std::min(rejected_spans(response->body), count);
      rejected.add(refused);
      exported.add(count - refused);
      if (complained) log.info("traces are exported again", {{"collector", shown}});
      complained = false;
      return;
    }
    complain(response ? fmt::format("it answered {} {}", response->status, response->reason)
                      : response.error().message);
    if (!again || attempt == kMaxAttempts || stop.stop_requested()) break;
    const Duration asked = response ? response->retry_after.value_or(wait) : wait;
    MutexLock lock(mutex);
    const Instant until = clock.now().instant + std::min(std::max(asked, wait), kMaxWait);
    while (!stopped && clock.now().instant < until)
      changed.wait_for(mutex, until - clock.now().instant);
    if (stopped) break;  // one attempt for each remaining batch
    wait = std::min(2 * wait, kMaxWait);
  }
  failed.add(count);
}

void Exporter::Impl::run() {
  const std::stop_token given_up = giving_up.get_token();
  for (;;) {
    const std::vector<Span> batch = take();
    if (batch.empty() || given_up.stop_requested()) break;
    send(batch, given_up);
  }
  MutexLock lock(mutex);
  finished = true;
  changed.notify_all();
}

Exporter::Exporter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Exporter::~Exporter() {
  stop();
}

Result<std::unique_ptr<Exporter>> Exporter::open(TraceSettings settings, const Clock& clock,
                                                 Log& log, Registry& registry) {
  auto impl = std::make_unique<Impl>(std::move(settings), clock, log, registry);
  // The operator chose the collector: its address may be any, on any port.
  MS_TRY_ASSIGN(impl->client, OutgoingClient::open({.allow = {host_in(impl->settings.url)},
                                                    .max_body_bytes = kMaxAnswer,
                                                    .connect_limit = impl->settings.timeout,
                                                    .total_limit = impl->settings.timeout},
                                                   impl->resolver, clock));
  if (auto good = impl->client->check(impl->settings.url, false); !good) {
    constexpr std::string_view kField = "url: ";
    std::string_view rule = good.error().message;
    if (rule.starts_with(kField)) rule.remove_prefix(kField.size());
    good.error().message = fmt::format("{} \"{}\": {}", impl->settings.variable, impl->shown, rule);
    good.error().field = impl->settings.variable;
    return good.error();
  }
  Impl* const self = impl.get();
  impl->thread = std::jthread([self] { self->run(); });
  return std::unique_ptr<Exporter>(new Exporter(std::move(impl)));
}

void Exporter::add(Span span) {
  const std::size_t bytes = span.bytes();
  MutexLock lock(impl_->mutex);
  if (impl_->stopped || impl_->queue.size() >= impl_->settings.max_queue ||
      impl_->queue_bytes + bytes > kMaxQueueBytes) {
    impl_->dropped.add();
    return;
  }
  impl_->queue.emplace_back(std::move(span), impl_->clock.now().instant);
  impl_->queue_bytes += bytes;
  const std::size_t waiting = impl_->queue.size();
  if (waiting == 1 || waiting == impl_->settings.max_batch) impl_->changed.notify_one();
}

void Exporter::stop() {
  {
    MutexLock lock(impl_->mutex);
    impl_->stopped = true;
    impl_->changed.notify_all();
    // A collector that does not answer must not hold up the stop.
    const Instant until = impl_->clock.now().instant + kLastFlush;
    while (!impl_->finished && impl_->clock.now().instant < until)
      impl_->changed.wait_for(impl_->mutex, until - impl_->clock.now().instant);
  }
  impl_->giving_up.request_stop();
  if (impl_->thread.joinable()) impl_->thread.join();
}

}  // namespace mainspring
