// Log: events on one line each, to one place, for an administrator.
//
//   log.info("store opened", {{"directory", dir}, {"jobs", fmt::to_string(n)}});
//   2026-01-31T09:00:00.123Z INFO store opened directory=/var/lib/ms jobs=12
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mainspring/time.h"

namespace mainspring {

enum class LogLevel { debug, info, warn, error, off };
enum class LogFormat {
  text,     // 2026-01-31T09:00:00.123Z INFO store opened jobs=12
  json,     // {"time":"2026-01-31T09:00:00.123Z","level":"info","msg":"…","jobs":"12"}
  journal,  // <6>store opened jobs=12: the journal has the time, and reads the level
};

class Log {
 public:
  using Fields = std::vector<std::pair<std::string_view, std::string>>;
  virtual ~Log() = default;
  // Writes one line. Thread-safe.
  virtual void write(LogLevel level, std::string_view message, const Fields& fields) = 0;

  void debug(std::string_view message, const Fields& fields = {}) {
    write(LogLevel::debug, message, fields);
  }
  void info(std::string_view message, const Fields& fields = {}) {
    write(LogLevel::info, message, fields);
  }
  void warn(std::string_view message, const Fields& fields = {}) {
    write(LogLevel::warn, message, fields);
  }
  void error(std::string_view message, const Fields& fields = {}) {
    write(LogLevel::error, message, fields);
  }
};

// One line, without its end.
std::string log_line(LogFormat format, LogLevel level, WallTime at, std::string_view message,
                     const Log::Fields& fields);

// To standard error, from `level` on.
class StderrLog final : public Log {
 public:
  explicit StderrLog(LogLevel level, LogFormat format = LogFormat::text)
      : level_(level), format_(format) {}
  void write(LogLevel level, std::string_view message, const Fields& fields) override;

 private:
  LogLevel level_;
  LogFormat format_;
};

// Nowhere.
class NullLog final : public Log {
 public:
  void write(LogLevel, std::string_view, const Fields&) override {}
};

}  // namespace mainspring
