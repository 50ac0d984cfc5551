// Exporter: sends spans to an OpenTelemetry collector, in batches, on a thread of its own.
//
//   add ──▶ queue (bounded: spans and bytes; the newest is dropped) ──▶ POST /v1/traces
//
// A batch is sent when it is full or its oldest span has waited for `delay`. A collector that is
// slow or unreachable costs only memory up to the limit: further spans are dropped and counted.
// While no span waits, the thread sleeps.
#pragma once

#include <memory>

#include "env/clock.h"
#include "env/random.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "tracing/settings.h"
#include "tracing/span.h"

namespace mainspring {

class Exporter final : public SpanSink {
 public:
  static constexpr std::size_t kMaxQueueBytes = 32 << 20;
  static constexpr int kMaxAttempts = 5;  // of a batch, while the collector asks to try again
  static constexpr Duration kMaxWait = std::chrono::seconds(30);  // between two of them
  static constexpr Duration kLastFlush = std::chrono::seconds(2);

  // All references outlive it. Errors: invalid_argument (the URL), unavailable (built without
  // libcurl).
  static Result<std::unique_ptr<Exporter>> open(TraceSettings settings, const Clock& clock,
                                                Log& log, Registry& registry);
  ~Exporter() override;  // stops
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  void add(Span span) override;
  // Sends waiting spans, for at most kLastFlush. May be called twice. Spans added later are
  // dropped.
  void stop();

 private:
  struct Impl;
  explicit Exporter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
