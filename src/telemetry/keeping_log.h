// KeepingLog: a log for tests, which keeps its lines.
#pragma once

#include <fmt/format.h>

#include <string>

#include "base/mutex.h"
#include "telemetry/log.h"

namespace mainspring {

// "warn a redrive has stopped job=7": the level only of warnings. Safe from every thread.
class KeepingLog final : public Log {
 public:
  void write(LogLevel level, std::string_view message, const Fields& fields) override {
    MutexLock lock(mutex_);
    text_ += level == LogLevel::warn ? "warn " : "";
    text_.append(message);
    for (const auto& [name, value] : fields) text_ += fmt::format(" {}={}", name, value);
    text_ += '\n';
  }
  std::string text() {
    MutexLock lock(mutex_);
    return text_;
  }

 private:
  Mutex mutex_;
  std::string text_ MS_GUARDED_BY(mutex_);
};

}  // namespace mainspring
