// The schedules of the model store.
#pragma once

#include <utility>

#include "conformance/model_state.h"

namespace mainspring {

// The effects of schedules on jobs.
class ModelJobs {
 public:
  virtual ~ModelJobs() = default;
  virtual JobId make(const NewJob& job, WallTime run_at, JobState state, std::int64_t schedule) = 0;
  virtual void ask_to_stop(Record& record, const std::string& reason) = 0;
  virtual void end_now(Record& record, const std::string& reason) = 0;
  virtual void begin(Record& record) = 0;
};

template <class T>
concept ScheduleOperation = std::is_same_v<T, PutSchedule> || std::is_same_v<T, PauseSchedule> ||
    std::is_same_v<T, SetTimer>;

class ModelSchedules {
 public:
  ModelSchedules(ModelDisk& disk, ModelJobs& jobs) : disk_(disk), jobs_(jobs) {}

  OperationResult run(const PutSchedule& op, Now now);
  OperationResult run(const RemoveSchedule& op);
  OperationResult run(const PauseSchedule& op, Now now);
  OperationResult run(const SetTimer& op, Now now);
  OperationResult run(const FireSchedule& op, Now now);
  void job_ended(const Record& record, Now now);
  bool take_wrote() { return std::exchange(wrote_, false); }

  WallTime next_fire() const;
  Result<ScheduleInfo> read(const std::string& name) const;
  std::vector<ScheduleInfo> list(const std::string& after, int limit) const;
  std::vector<ScheduleInfo> due(WallTime now, int limit) const;
  Result<LedgerPage> ledger(const std::string& name, int limit, std::int64_t before) const;

 private:
  static Error missing() {
    return {.code = ErrorCode::not_found, .message = "there is no such schedule"};
  }
  std::map<std::string, ScheduleRecord>::iterator find(const std::string& name,
                                                       const Within& within);
  std::vector<Record*> jobs_of(const ScheduleRecord& schedule, bool waiting) const;
  ScheduleInfo shown(const ScheduleRecord& schedule) const;
  void set_paused(ScheduleRecord& schedule, bool paused, std::string reason, Now now);
  void add_row(ScheduleRecord& schedule, LedgerRow row, Now now);
  std::string why_not(ScheduleRecord& schedule, const FireSchedule& op, WallTime nominal,
                      JobState& begins);
  std::string overlap(ScheduleRecord& schedule, Overlap policy, JobState& begins);
  JobId fire(ScheduleRecord& schedule, const FireSchedule& op, const Tick& tick, JobState begins,
             Now now);

  ModelDisk& disk_;
  ModelJobs& jobs_;
  bool wrote_ = false;
};

}  // namespace mainspring
