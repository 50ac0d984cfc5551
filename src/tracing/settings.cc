// Reading OTEL_* variables.
#include "tracing/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace mainspring {
namespace {

constexpr std::size_t kMaxPairs = 64;
constexpr std::size_t kMaxValueBytes = 8 << 10;

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::string lower_text(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = static_cast<char>(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool coded = text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 &&
                       hex_digit(text[i + 2]) >= 0;
    if (!coded) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(hex_digit(text[i + 1]) << 4 | hex_digit(text[i + 2]));
    i += 2;
  }
  return out;
}

class Reader {
 public:
  Reader(const std::function<std::optional<std::string>(std::string_view)>& value,
         std::vector<std::string>& warnings)
      : value_(value), warnings_(warnings) {}

  // "" = not set. The standard reads an empty value as not set.
  std::string text(std::string_view name) const {
    const auto value = value_(name);
    return value ? std::string(trimmed(*value)) : std::string();
  }
  void ignore(std::string_view name, std::string_view value, std::string_view rule) const {
    warnings_.push_back(
        fmt::format("{} \"{}\": must be {}; it is ignored", name, value.substr(0, 100), rule));
  }
  std::int64_t number(std::string_view name, std::int64_t fallback, std::int64_t min,
                      std::int64_t max) const {
    const std::string given = text(name);
    if (given.empty()) return fallback;
    std::int64_t out = 0;
    const auto [last, problem] = std::from_chars(given.data(), given.data() + given.size(), out);
    const bool ok = problem == std::errc() && last == given.data() + given.size();
    if (ok && out >= min && out <= max) return out;
    ignore(name, given, fmt::format("{} to {}", min, max));
    return fallback;
  }
  // "a=1,b=2", percent-encoded.
  std::vector<std::pair<std::string, std::string>> pairs(std::string_view name) const {
    std::vector<std::pair<std::string, std::string>> out;
    const std::string given = text(name);
    std::string_view rest = given;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      const std::string_view entry = trimmed(rest.substr(0, comma));
      rest.remove_prefix(std::min(rest.size(), comma + 1));
      if (entry.empty()) continue;
      const std::size_t equals = entry.find('=');
      const std::string_view key = trimmed(entry.substr(0, std::min(equals, entry.size())));
      std::string value;
      if (equals != entry.npos) value = percent_decoded(trimmed(entry.substr(equals + 1)));
      const bool plain = std::none_of(value.begin(), value.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
      });
      if (equals == entry.npos || key.empty() || !plain || value.size() > kMaxValueBytes ||
          out.size() == kMaxPairs) {
        // Without the text: it may hold a password.
        warnings_.push_back(
            fmt::format("{}: entry {} must be NAME=VALUE, at most {} entries; it is ignored", name,
                        out.size() + 1, kMaxPairs));
        continue;
      }
      out.emplace_back(std::string(key), std::move(value));
    }
    return out;
  }

 private:
  const std::function<std::optional<std::string>(std::string_view)>& value_;
  std::vector<std::string>& warnings_;
};

Sampler sampler_of(const Reader& read) {
  constexpr std::string_view kName = "OTEL_TRACES_SAMPLER";
  constexpr std::string_view kArg = "OTEL_TRACES_SAMPLER_ARG";
  std::string name = read.text(kName);
  if (name.empty()) return {};
  Sampler out;
  constexpr std::string_view kParent = "parentbased_";
  out.parent_based = name.starts_with(kParent);
  if (out.parent_based) name.erase(0, kParent.size());
  if (name == "always_on") return out;
  if (name == "always_off") {
    out.ratio = 0;
    return out;
  }
  if (name != "traceidratio") {
    read.ignore(kName, read.text(kName),
                "always_on, always_off or traceidratio, also with parentbased_ before it");
    return {};
  }
  const std::string arg = read.text(kArg);
  if (arg.empty()) return out;
  char* end = nullptr;
  const double ratio = std::strtod(arg.c_str(), &end);
  if (*end != '\0' || !std::isfinite(ratio) || ratio < 0 || ratio > 1) {
    read.ignore(kArg, arg, "a number from 0 to 1");
    return out;
  }
  out.ratio = ratio;
  return out;
}

}  // namespace

bool Sampler::samples(const std::array<std::uint8_t, 16>& trace) const {
  if (ratio >= 1) return true;
  std::uint64_t low = 0;
  for (std::size_t i = 8; i < 16; ++i) low = low << 8 | trace[i];
  // The last 63 bits, as other implementations do, so that they choose the same traces.
  return static_cast<double>(low >> 1) < ratio * 0x1p63;
}

std::string shown_endpoint(std::string_view url) {
  url = url.substr(0, url.find_first_of("?#"));
  const std::size_t slashes = url.find("://");
  const std::size_t begin = slashes == url.npos ? 0 : slashes + 3;
  const std::string scheme(url.substr(0, begin));
  url.remove_prefix(begin);
  // Everything up to the last '@' may be a password, also with a '/' in it.
  if (const std::size_t at = url.rfind('@'); at != url.npos) url.remove_prefix(at + 1);
  const std::size_t path = std::min(url.find('/'), url.size());
  const std::string_view host = url.substr(0, path);
  const std::size_t bracket = host.find(']');
  const std::size_t colon = host.find(':', bracket == host.npos ? 0 : bracket);
  const bool plain =
      colon == host.npos || host.substr(colon + 1).find_first_not_of("0123456789") == host.npos;
  return scheme + (plain ? std::string(url) : "***");
}

Result<std::optional<TraceSettings>> trace_settings(
    const std::function<std::optional<std::string>(std::string_view)>& value,
    std::vector<std::string>& warnings) {
  const Reader read(value, warnings);
  if (lower_text(read.text("OTEL_SDK_DISABLED")) == "true") return std::nullopt;
  if (const std::string exporter = read.text("OTEL_TRACES_EXPORTER");
      !exporter.empty() && exporter != "otlp") {
    if (exporter != "none") read.ignore("OTEL_TRACES_EXPORTER", exporter, "otlp or none");
    return std::nullopt;
  }
  const auto either = [&](std::string_view what) {
    const std::string own = fmt::format("OTEL_EXPORTER_OTLP_TRACES_{}", what);
    return read.text(own).empty() ? fmt::format("OTEL_EXPORTER_OTLP_{}", what) : own;
  };
  TraceSettings out;
  const std::string endpoint = either("ENDPOINT");
  out.url = read.text(endpoint);
  if (out.url.empty()) return std::nullopt;
  out.variable = endpoint;
  const auto refuse = [&](std::string_view rule) {
    return invalid(endpoint, fmt::format("{} \"{}\": {}", endpoint,
                                         shown_endpoint(out.url).substr(0, 200), rule));
  };
  if (!out.url.starts_with("http://") && !out.url.starts_with("https://"))
    return refuse("must be a URL with http or https");
  const std::size_t host = out.url.find("//") + 2;
  if (out.url.substr(host, out.url.find_first_of("/?#", host) - host).find('@') != out.url.npos)
    return refuse("must not contain a user or password; use OTEL_EXPORTER_OTLP_HEADERS");
  if (endpoint == "OTEL_EXPORTER_OTLP_ENDPOINT") {
    while (out.url.ends_with('/')) out.url.pop_back();
    out.url += "/v1/traces";
  }
  const std::string protocol = either("PROTOCOL");
  if (const std::string given = read.text(protocol); given == "grpc") {
    return invalid(protocol, fmt::format("{} \"grpc\": must be http/json; use the collector's HTTP "
                                         "port, usually 4318",
                                         protocol));
  } else if (!given.empty() && given != "http/json") {
    warnings.push_back(
        fmt::format("{} \"{}\": traces are sent as http/json, the only supported "
                    "protocol; collectors take it at the same address",
                    protocol, given.substr(0, 100)));
  }
  out.headers = read.pairs(either("HEADERS"));
  out.timeout = std::chrono::milliseconds(read.number(either("TIMEOUT"), 10'000, 1, 600'000));
  out.resource = read.pairs("OTEL_RESOURCE_ATTRIBUTES");
  if (const std::string name = read.text("OTEL_SERVICE_NAME"); !name.empty()) {
    std::erase_if(out.resource, [](const auto& entry) { return entry.first == "service.name"; });
    out.resource.emplace_back("service.name", name);
  }
  const bool named = std::any_of(out.resource.begin(), out.resource.end(),
                                 [](const auto& entry) { return entry.first == "service.name"; });
  if (!named) out.resource.emplace_back("service.name", "mainspring");
  out.sampler = sampler_of(read);
  const auto size = [&](std::string_view name, std::int64_t fallback, std::int64_t max) {
    return static_cast<std::size_t>(read.number(name, fallback, 1, max));
  };
  out.max_queue = size("OTEL_BSP_MAX_QUEUE_SIZE", 2048, 1'000'000);
  out.max_batch = std::min(size("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512, 10'000), out.max_queue);
  out.delay = std::chrono::milliseconds(read.number("OTEL_BSP_SCHEDULE_DELAY", 5000, 1, 3'600'000));
  return out;
}

}  // namespace mainspring
