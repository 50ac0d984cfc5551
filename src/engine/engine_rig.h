// A test directory, and helpers shared by the engine's tests.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/mutex.h"
#include "env/clock.h"
#include "mainspring/engine.h"

namespace mainspring::test {

using namespace std::chrono_literals;

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "groups-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Result<Engine> open(EngineOptions options = {}) const {
    if (!options.log) options.log = [](std::string_view, std::string_view) {};
    return Engine::open((path / "jobs").string(), std::move(options));
  }
};

inline NewJob job_of(std::string queue, std::string kind, std::string args = "{}") {
  NewJob job;
  job.queue = std::move(queue);
  job.kind = std::move(kind);
  job.args = std::move(args);
  return job;
}

// Collects events and waits for them.
class EventLog {
 public:
  auto listener() {
    return [this](const EngineEvent& event) {
      const MutexLock lock(mutex_);
      events_.push_back(event);
      changed_.notify_all();
    };
  }
  // Waits for the first event of this type, of this job or (0) of any. False after a minute.
  bool await(EventType type, JobId job = 0) {
    const MutexLock lock(mutex_);
    const SystemClock clock;
    const Instant end = clock.now().instant + 60s;
    while (!has(type, job)) {
      const Instant now = clock.now().instant;
      if (now >= end) return false;
      changed_.wait_for(mutex_, end - now);
    }
    return true;
  }
  std::vector<EngineEvent> events() {
    const MutexLock lock(mutex_);
    return events_;
  }

 private:
  bool has(EventType type, JobId job) const MS_REQUIRES(mutex_) {
    return std::any_of(events_.begin(), events_.end(), [&](const EngineEvent& event) {
      return event.type == type && (job == 0 || event.job == job);
    });
  }
  Mutex mutex_;
  CondVar changed_;
  std::vector<EngineEvent> events_ MS_GUARDED_BY(mutex_);
};

template <class T>
ErrorCode code_of(const Result<T>& result) {
  REQUIRE_FALSE(result.has_value());
  return result.error().code;
}
template <class T>
std::string field_of(const Result<T>& result) {
  REQUIRE_FALSE(result.has_value());
  return result.error().field;
}

}  // namespace mainspring::test
