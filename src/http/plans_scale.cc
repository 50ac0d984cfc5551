// The plan of the scaling signal.
#include "api/json.h"
#include "broker/broker.h"
#include "http/plans.h"
#include "model/queue_pattern.h"
#include "scale/scaler.h"

namespace mainspring::http {
namespace {

double rounded(double value) {
  return std::round(value * 1000) / 1000;
}
double seconds(Duration time) {
  return rounded(static_cast<double>(time.count()) / 1e6);
}

void write_service(JsonWriter& w, const ServiceTime& service) {
  constexpr std::string_view kSources[] = {"recent", "history", "prior"};
  w.key("service").begin_object().key("mean_ms").real(seconds(service.mean) * 1e3);
  w.key("p95_ms").real(seconds(service.p95) * 1e3).key("samples").number(service.samples);
  w.key("source").string(kSources[static_cast<std::size_t>(service.source)]).end_object();
}

void write_seconds(JsonWriter& w, std::string_view name, const std::optional<Duration>& time) {
  w.key(name);
  time ? w.real(seconds(*time)) : w.null();
}

void write_queue(JsonWriter& w, const ScaleQueue& queue) {
  w.begin_object().key("queue").string(queue.name).key("workers").number(queue.workers);
  w.key("ready").number(queue.ready).key("running").number(queue.running);
  w.key("due_within_lead").number(queue.due).key("held").number(queue.held).key("gate");
  queue.gate.empty() ? w.null() : w.string(queue.gate);
  w.key("arrivals_per_s").real(rounded(queue.load.arrivals_per_s));
  w.key("cost").real(rounded(queue.load.cost));
  write_seconds(w, "oldest_seconds", queue.oldest);
  write_service(w, queue.service);
  w.end_object();
}

void write_signal(JsonWriter& w, const ScaleSignal& signal) {
  w.begin_object().key("value").number(signal.desired);
  w.key("desired_workers").number(signal.desired).key("raw").number(signal.raw);
  w.key("reason").string(signal.reason).key("until");
  signal.until ? w.time(*signal.until) : w.null();
  const SlotsNeeded& needed = signal.needed;
  w.key("slots_needed").begin_object().key("total").real(rounded(needed.total));
  w.key("flow").real(rounded(needed.flow)).key("backlog").real(rounded(needed.backlog));
  w.key("due").real(rounded(needed.due)).end_object();
  w.key("ready").number(signal.ready).key("running").number(signal.running);
  w.key("due_within_lead").number(signal.due).key("held").number(signal.held);
  w.key("work_seconds").real(rounded(signal.work_seconds));
  w.key("arrivals_per_s").real(rounded(signal.arrivals_per_s));
  write_seconds(w, "oldest_seconds", signal.oldest);
  write_seconds(w, "drain_seconds", signal.drain);
  write_service(w, signal.service);
  w.key("workers").begin_object().key("seen").number(signal.workers_seen);
  w.key("idle").number(signal.workers_idle).key("quiet").number(signal.workers_quiet).end_object();
  w.key("min").number(signal.options.min).key("max").number(signal.options.max);
  w.key("queues").begin_array();
  for (const ScaleQueue& queue : signal.queues) write_queue(w, queue);
  w.end_array().end_object();
}

Reply signal_reply(const ScaleSignal& signal) {
  Reply reply;
  JsonWriter w(reply.body);
  write_signal(w, signal);
  return reply;
}

// A call that waits until the value is another one. Each commit with events may change it.
DoStream wait_for_another(Services& services, ScaleRequest asked, int value, Duration wait) {
  struct State {
    ScaleRequest asked;
    std::shared_ptr<void> listener;
    std::uint64_t at = 0;
  };
  const auto state = std::make_shared<State>();
  state->asked = std::move(asked);
  DoStream stream;
  stream.pool = Pool::store;
  stream.wait = wait;
  stream.next = [&services, state, value](bool last) -> StreamPiece {
    Events& events = services.broker.events();
    if (state->listener == nullptr)
      state->listener = events.listen(services.options.max_event_streams);
    state->at = events.newest();
    const auto signal = services.scaler.signal(state->asked);
    if (!signal) return {.reply = error_reply(signal.error())};
    // Without room for a listener there is nothing to wait for.
    const bool changed = signal->desired != value || state->listener == nullptr;
    if (!changed && !last) return {};
    return {.reply = signal_reply(*signal)};
  };
  stream.watch = [&services, state](std::function<void()> ready) -> Result<std::shared_ptr<void>> {
    return services.broker.events().watch(state->at, std::move(ready));
  };
  return stream;
}

}  // namespace

Plan plan_scale(const Request& request, Services& services) {
  ScaleRequest asked;
  if (const auto* pool = query_value(request, "pool")) {
    const auto declared = services.options.scale_pools.find(*pool);
    if (declared != services.options.scale_pools.end()) asked = declared->second;
  }
  if (auto read = asked.read(request.query); !read) return error_reply(read.error());
  asked.within = request.caller->within(Verb::read);
  for (const std::string& queue : asked.queues) {
    if (!is_pattern(queue) && !request.caller->may(Verb::read, queue)) {
      return error_reply({.code = ErrorCode::forbidden,
                          .message = "queue " + queue + ": the token has no scope read for it",
                          .field = "queues"});
    }
  }
  const auto wait = parse_wait(request);
  if (!wait) return error_reply(wait.error());
  if (*wait > Duration(0)) {
    const auto value = query_integer(request, "value", 0, kMaxScaleWorkers);
    const auto* text = query_value(request, "value");
    if (!value && (text == nullptr || *text != "0")) return error_reply(value.error());
    return wait_for_another(services, std::move(asked), value ? *value : 0, *wait);
  }
  return DoRead{[&services, asked = std::move(asked)] {
    const auto signal = services.scaler.signal(asked);
    return signal ? signal_reply(*signal) : error_reply(signal.error());
  }};
}

}  // namespace mainspring::http
