// Span: a timed piece of a trace, as OpenTelemetry defines it, and where spans go.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "mainspring/time.h"
#include "model/trace_context.h"

namespace mainspring {

enum class SpanKind : std::uint8_t { internal = 1, producer = 4, consumer = 5 };  // as OTLP numbers

using SpanValue = std::variant<std::string, std::int64_t, std::vector<std::string>>;

struct Span {
  TraceContext context;  // its trace and its own id
  std::optional<std::array<std::uint8_t, 8>> parent;
  std::string state;  // tracestate
  std::string name;
  SpanKind kind = SpanKind::internal;
  WallTime start, end;
  std::vector<std::pair<std::string_view, SpanValue>> attributes;  // names live as long as the span
  bool failed = false;                                             // status "error"

  std::size_t bytes() const;  // about, in memory
};

class SpanSink {
 public:
  virtual ~SpanSink() = default;
  // Callable from every thread, under locks: it does not wait.
  virtual void add(Span span) = 0;
};

}  // namespace mainspring
