// Names of role states, and validation of role options.
#include "mainspring/role.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/mutex.h"
#include "env/clock.h"
#include "mainspring/job.h"

namespace mainspring {

std::string_view to_string(RoleState state) {
  static constexpr std::array<std::string_view, 6> kNames = {"starting", "running",  "pausing",
                                                             "frozen",   "stopping", "stopped"};
  return kNames[static_cast<std::size_t>(state)];
}

bool wait_for_stop(std::stop_token stop, Duration limit) {
  const SystemClock clock;
  const Instant end = clock.now().instant + limit;
  Mutex mutex;
  CondVar changed;
  const std::stop_callback on_stop(stop, [&] {
    MutexLock lock(mutex);
    changed.notify_all();
  });
  MutexLock lock(mutex);
  while (!stop.stop_requested()) {
    const Instant now = clock.now().instant;
    if (now >= end) return false;
    changed.wait_for(mutex, end == Instant::never() ? kForever : end - now);
  }
  return true;
}

std::vector<Error> RoleOptions::validate() const {
  std::vector<Error> errors;
  const auto at_least = [&](const char* field, Duration value, Duration least) {
    if (value >= least) return;
    errors.push_back(invalid(
        field, fmt::format("{} {}: must be at least {}", field,
                           format_duration(std::max(value, Duration(0))), format_duration(least))));
  };
  at_least("first_pause", first_pause, std::chrono::milliseconds(1));
  at_least("longest_pause", longest_pause, first_pause);
  at_least("healthy", healthy, Duration(0));
  at_least("stop_limit", stop_limit, std::chrono::milliseconds(1));
  for (std::size_t i = 0; i < startup_tasks.size(); ++i) {
    const std::string field = fmt::format("startup_tasks[{}]", i);
    if (auto name = check_name(field + ".name", startup_tasks[i].name); !name) {
      errors.push_back(name.error());
    }
    if (!startup_tasks[i].task) errors.push_back(invalid(field, field + ".task: must be given"));
  }
  return errors;
}

}  // namespace mainspring
