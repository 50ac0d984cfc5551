// Log lines on standard error, as text, as JSON and for the journal.
#include "telemetry/log.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "mainspring/time.h"

namespace mainspring {
namespace {

// Values with blanks, quotes or control characters are quoted, so that a line stays a line.
std::string log_value(std::string_view value) {
  const bool plain = !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    return c > ' ' && c != '"' && c != '\\' && c != 0x7f;
  });
  if (plain) return std::string(value);
  std::string out = "\"";
  for (std::size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    const auto next = i + 1 < value.size() ? static_cast<unsigned char>(value[i + 1]) : 0;
    if (c == '\xc2' && next >= 0x80 && next < 0xa0) {  // U+0080 to U+009F: terminals obey them
      out += fmt::format("\\u{:04x}", next);
      ++i;
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// Invalid UTF-8 is kept: readers of logs replace it.
void add_json_text(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

std::string fields_text(const Log::Fields& fields) {
  std::string out;
  for (const auto& [name, value] : fields) out += fmt::format(" {}={}", name, log_value(value));
  return out;
}

std::string json_line(LogLevel level, WallTime at, std::string_view message,
                      const Log::Fields& fields) {
  static constexpr std::string_view kNames[] = {"debug", "info", "warn", "error", "off"};
  std::string out = fmt::format(R"({{"time":"{}","level":"{}","msg":)", format_wall_time(at),
                                kNames[static_cast<int>(level)]);
  add_json_text(out, message);
  for (const auto& [name, value] : fields) {
    out += ',';
    add_json_text(out, name);
    out += ':';
    add_json_text(out, value);
  }
  return out + "}";
}

// The journal reads the priority from the prefix (sd-daemon(3)) and keeps the time itself.
std::string journal_line(LogLevel level, std::string_view message, const Log::Fields& fields) {
  static constexpr int kPriorities[] = {7, 6, 4, 3, 3};
  std::string text = std::string(message) + fields_text(fields);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return fmt::format("<{}>{}", kPriorities[static_cast<int>(level)], text);
}

}  // namespace

std::string log_line(LogFormat format, LogLevel level, WallTime at, std::string_view message,
                     const Log::Fields& fields) {
  if (format == LogFormat::json) return json_line(level, at, message, fields);
  if (format == LogFormat::journal) return journal_line(level, message, fields);
  static constexpr std::string_view kNames[] = {"DEBUG", "INFO", "WARN", "ERROR", "OFF"};
  return fmt::format("{} {} {}{}", format_wall_time(at), kNames[static_cast<int>(level)], message,
                     fields_text(fields));
}

void StderrLog::write(LogLevel level, std::string_view message, const Fields& fields) {
  if (level < level_) return;
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  const WallTime at = WallTime::from_ms(t.tv_sec * 1000LL + t.tv_nsec / 1'000'000);
  std::string line = log_line(format_, level, at, message, fields);
  line += '\n';
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace mainspring
