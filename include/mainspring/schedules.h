// Schedules and timers of an engine: define, pause and trigger them; read ledgers and future ticks.
//
// What a schedule is: schedule.h. Guides: docs/guides/schedules.md, docs/guides/timers.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/schedule.h"

namespace mainspring {

class Jobs;

// The outcome of a definition.
enum class DefinitionOutcome : std::uint8_t { created, replaced, unchanged };
std::string_view to_string(DefinitionOutcome outcome);
struct DefinedSchedule {
  std::int64_t version = 1;
  DefinitionOutcome outcome = DefinitionOutcome::created;
};

// Borrows the engine, which must outlive it. Thread-safe. Errors of all calls: invalid_argument
// (with the field), unavailable; of all but put() and list() also not_found.
class EngineSchedules {
 public:
  explicit EngineSchedules(Jobs& jobs) : jobs_(&jobs) {}

  // Defines it, or changes its definition. The same definition again changes nothing. Returns its
  // version and whether it changed. Errors: overloaded (kMaxSchedules).
  Result<DefinedSchedule> put(Schedule schedule, RunCount runs = RunCount::keep);
  Result<void> remove(const std::string& name);
  Result<void> pause(const std::string& name, std::string reason = "");
  Result<void> resume(const std::string& name);
  // Several schedules, one after another: after an error some may be changed; call again. Errors:
  // invalid_argument (names and prefix, or neither).
  Result<ScheduleChanges> pause_all(ScheduleSet which, std::string reason = "");
  Result<ScheduleChanges> resume_all(ScheduleSet which);
  // The ticks of all schedules that are not paused, and due jobs by hour, from now until `within`
  // from now, at most kMaxUpcoming; up to `limit` ticks, 1 to kMaxUpcomingTicks.
  Result<Upcoming> upcoming(Duration within, int limit = 1000);
  // Runs it now. Returns the job, or 0 if the overlap policy skipped it.
  Result<JobId> trigger(const std::string& name);
  // Changes the timeout of a continuous timer while it runs; 0 = its own again. Errors: conflict
  // (it is not continuous).
  Result<void> set_timeout(const std::string& name, Duration timeout);

  Result<ScheduleInfo> get(const std::string& name);
  // By name, up to `limit`, 1 to 1000, names after `after`; "" = from the first.
  Result<std::vector<ScheduleInfo>> list(int limit = 100, const std::string& after = "");
  // The outcomes of its ticks, newest first: up to `limit` rows, 1 to 1000, older than `before`; 0
  // = from the newest.
  Result<LedgerPage> ledger(const std::string& name, int limit = 100, std::int64_t before = 0);
  // The next `count` ticks, 1 to kMaxPreview, from `from` on; nullopt = from now.
  Result<std::vector<PreviewTick>> preview(const std::string& name, int count = 10,
                                           std::optional<WallTime> from = {});

 private:
  Jobs* jobs_;
};

}  // namespace mainspring
