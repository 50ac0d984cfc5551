// Trace context: the W3C header `traceparent`, which links a job to the request that enqueued it.
//
// A job stores the context in its headers, where any client can set it. Follow-ups and callbacks
// have the headers of their job, so they belong to the same trace. Source:
// https://www.w3.org/TR/trace-context/ (version 00)
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mainspring {

struct WorkflowSpec;

struct TraceContext {
  std::array<std::uint8_t, 16> trace{};  // not all zero
  std::array<std::uint8_t, 8> span{};    // not all zero
  bool sampled = false;
  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

inline constexpr std::string_view kTraceParent = "traceparent";
inline constexpr std::string_view kTraceState = "tracestate";
inline constexpr std::size_t kMaxTraceStateBytes = 512;

// nullopt: not a valid context. Versions above 00 are read as 00.
std::optional<TraceContext> parse_trace_parent(std::string_view text);
std::string format_trace_parent(const TraceContext& context);
// Bytes as hex digits, in lower case.
std::string hex_of(std::span<const std::uint8_t> bytes);

// `headers` is a JSON object of strings, or "".

// The context of a job. nullopt: none, or an invalid one.
std::optional<TraceContext> trace_of(std::string_view headers);
// Sets the context. False: the headers would exceed kMaxHeadersBytes; nothing was changed.
bool set_trace(std::string& headers, const TraceContext& context);
// The raw text of a string in the headers, with escapes unresolved; "" = none.
std::string_view header_text(std::string_view headers, std::string_view name);

// The trace headers of a request, for jobs without a context of their own. Invalid texts are
// ignored, as the standard requires.
struct TraceHeaders {
  std::string parent;  // valid, or ""
  std::string state;   // "" = none
  TraceHeaders() = default;
  TraceHeaders(std::string_view parent_text, std::string_view state_text);
  bool empty() const { return parent.empty(); }
  void add_to(std::string& headers) const;
};
// Adds the trace to the jobs of all steps, including sub-workflows.
void add_trace(WorkflowSpec& spec, const TraceHeaders& headers);
TraceHeaders trace_headers_of(std::string_view headers);

// While this object exists, jobs that this thread enqueues belong to the trace. Must be destroyed
// on the thread that created it.
class TraceScope {
 public:
  explicit TraceScope(TraceHeaders headers);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  const TraceHeaders headers_;
  const TraceHeaders* const before_;
};
// The trace of this thread; nullptr = none.
const TraceHeaders* current_trace();

}  // namespace mainspring
