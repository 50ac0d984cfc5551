// Housekeeping steps whose last run failed. A failed step is logged, counted and shown; the other
// steps continue.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>

#include "base/mutex.h"
#include "mainspring/result.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace mainspring {

class Housekeeping {
 public:
  Housekeeping(Log& log, Registry& registry) : log_(log), registry_(registry) {
    (void)failures("refresh");  // so that the metric is there before anything fails
  }

  // `error`: nullptr = the step succeeded. Logged when the step starts or ceases to fail.
  void note(const std::string& step, const Error* error) MS_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (error == nullptr) {
      if (failing_.erase(step) != 0) log_.info("housekeeping works again", {{"step", step}});
      return;
    }
    failures(step).add();
    if (failing_.insert_or_assign(step, error->message).second)
      log_.warn("housekeeping fails", {{"step", step}, {"error", error->message}});
  }

  // "housekeeping fails: prune: …"; "" = no step fails.
  std::string failing() const MS_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    std::string out;
    for (const auto& [step, why] : failing_)
      out += fmt::format("{}{}: {}", out.empty() ? "housekeeping fails: " : "; ", step, why);
    return out;
  }

 private:
  Counter& failures(const std::string& step) {
    return registry_.counter("mainspring_housekeeping_failures_total", "Failed housekeeping steps.",
                             {{"step", step}});
  }

  Log& log_;
  Registry& registry_;
  mutable Mutex mutex_;
  std::map<std::string, std::string> failing_ MS_GUARDED_BY(mutex_);
};

}  // namespace mainspring
