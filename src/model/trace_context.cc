// Parses and formats trace contexts, in a request header and in the headers of a job.
#include "model/trace_context.h"

#include <algorithm>

#include "mainspring/job.h"
#include "mainspring/workflow.h"

namespace mainspring {
namespace {

constexpr std::size_t kTraceParentBytes = 55;  // 00-<32>-<16>-<2>

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Returns false unless the text is lower-case hex digits and not all zero.
bool read_hex(std::string_view text, std::span<std::uint8_t> bytes) {
  bool zero = true;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int high = digit_of(text[2 * i]);
    const int low = digit_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<std::uint8_t>(high << 4 | low);
    zero = zero && bytes[i] == 0;
  }
  return !zero;
}

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// Start and length of the string value of a name; npos = none.
struct Place {
  std::size_t at = std::string_view::npos;
  std::size_t bytes = 0;
};
// An unescaped quote starts or ends a string, so a quoted name before a colon is a key.
Place place_of(std::string_view headers, std::string_view name) {
  for (std::size_t at = headers.find(name); at != headers.npos; at = headers.find(name, at + 1)) {
    std::size_t next = at + name.size();
    const bool quoted = at > 0 && headers[at - 1] == '"' && (at < 2 || headers[at - 2] != '\\') &&
                        next < headers.size() && headers[next] == '"';
    if (!quoted) continue;
    ++next;
    const auto skip = [&] {
      while (next < headers.size() && is_space(headers[next])) ++next;
    };
    skip();
    if (next >= headers.size() || headers[next] != ':') continue;
    ++next;
    skip();
    if (next >= headers.size() || headers[next] != '"') continue;
    const std::size_t begin = ++next;
    while (next < headers.size() && headers[next] != '"') next += headers[next] == '\\' ? 2 : 1;
    if (next >= headers.size()) return {};
    return {begin, next - begin};
  }
  return {};
}

// Whether the value needs no escapes.
bool needs_no_escape(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; });
}

bool add_header(std::string& headers, std::string_view name, std::string_view value) {
  const std::size_t open = headers.find('{');
  const bool fresh = open == std::string::npos;
  if (fresh && !headers.empty()) return false;
  std::string entry;
  entry.append("\"").append(name).append("\":\"").append(value).append("\"");
  if (headers.size() + entry.size() + 2 > kMaxHeadersBytes) return false;
  if (fresh) {
    headers = "{" + entry + "}";
    return true;
  }
  std::size_t first = open + 1;
  while (first < headers.size() && is_space(headers[first])) ++first;
  if (first < headers.size() && headers[first] != '}') entry += ',';
  headers.insert(open + 1, entry);
  return true;
}

}  // namespace

std::optional<TraceContext> parse_trace_parent(std::string_view text) {
  if (text.size() < kTraceParentBytes) return std::nullopt;
  const bool dashes = text[2] == '-' && text[35] == '-' && text[52] == '-';
  const int high = digit_of(text[0]), low = digit_of(text[1]);
  if (!dashes || high < 0 || low < 0) return std::nullopt;
  const int version = high << 4 | low;
  const bool ends =
      text.size() == kTraceParentBytes || (version > 0 && text[kTraceParentBytes] == '-');
  if (version == 0xff || !ends) return std::nullopt;
  TraceContext out;
  if (!read_hex(text.substr(3), out.trace) || !read_hex(text.substr(36), out.span))
    return std::nullopt;
  const int flags_high = digit_of(text[53]), flags_low = digit_of(text[54]);
  if (flags_high < 0 || flags_low < 0) return std::nullopt;
  out.sampled = (flags_low & 1) != 0;
  return out;
}

std::string hex_of(std::span<const std::uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::string format_trace_parent(const TraceContext& context) {
  return "00-" + hex_of(context.trace) + "-" + hex_of(context.span) +
         (context.sampled ? "-01" : "-00");
}

std::string_view header_text(std::string_view headers, std::string_view name) {
  const Place place = place_of(headers, name);
  return place.at == headers.npos ? std::string_view() : headers.substr(place.at, place.bytes);
}

std::optional<TraceContext> trace_of(std::string_view headers) {
  if (headers.empty()) return std::nullopt;
  return parse_trace_parent(header_text(headers, kTraceParent));
}

bool set_trace(std::string& headers, const TraceContext& context) {
  const std::string text = format_trace_parent(context);
  const Place place = place_of(headers, kTraceParent);
  if (place.at == std::string::npos) return add_header(headers, kTraceParent, text);
  if (headers.size() - place.bytes + text.size() > kMaxHeadersBytes) return false;
  headers.replace(place.at, place.bytes, text);
  return true;
}

TraceHeaders::TraceHeaders(std::string_view parent_text, std::string_view state_text) {
  const auto context = parse_trace_parent(parent_text);
  if (!context) return;
  parent = format_trace_parent(*context);
  if (state_text.size() <= kMaxTraceStateBytes && needs_no_escape(state_text)) state = state_text;
}

void TraceHeaders::add_to(std::string& headers) const {
  if (parent.empty() || place_of(headers, kTraceParent).at != std::string::npos) return;
  if (!add_header(headers, kTraceParent, parent) || state.empty()) return;
  if (place_of(headers, kTraceState).at == std::string::npos)
    (void)add_header(headers, kTraceState, state);
}

void add_trace(WorkflowSpec& spec, const TraceHeaders& headers) {
  for (StepSpec& step : spec.steps) {
    if (step.job) headers.add_to(step.job->headers);
    if (step.undo) headers.add_to(step.undo->headers);
    if (!step.workflow) continue;
    WorkflowSpec child = *step.workflow;
    add_trace(child, headers);
    step.workflow = SubWorkflow(child);
  }
}

TraceHeaders trace_headers_of(std::string_view headers) {
  if (headers.empty()) return {};
  return {header_text(headers, kTraceParent), header_text(headers, kTraceState)};
}

namespace {
thread_local const TraceHeaders* trace_of_thread = nullptr;
}  // namespace

TraceScope::TraceScope(TraceHeaders headers)
    : headers_(std::move(headers)), before_(trace_of_thread) {
  trace_of_thread = headers_.empty() ? nullptr : &headers_;
}
TraceScope::~TraceScope() {
  trace_of_thread = before_;
}

const TraceHeaders* current_trace() {
  return trace_of_thread;
}

}  // namespace mainspring
