// ContinuousJob: keeps a folder's script running, on every node or, as a singleton, on one of them.
//
// One job of the engine represents the life of a continuous job; every run of the script is an
// attempt of it:
//
//   available ─claim─▶ running ──exit 0───────▶ scheduled  (snoozed for the restart time)
//                         │ ────exit 3───────▶ retryable   (an error more; restart time, back-off)
//                         │ ────node dies────▶ retryable   (its lease expires: another node)
//                         └────disabled──────▶ cancelled
//
// So a singleton is guarded by that job's lease: its kind, continuous/{name}, is the same on all
// nodes, and one node claims it. Without is_singleton the kind also contains the node's name.
#pragma once

#include <optional>
#include <string>

#include "host/job_runner.h"
#include "worker/worker.h"

namespace mainspring {

// How long after a run the next one starts. Source: Kudu; the back-off is our addition.
class RestartRule {
 public:
  struct Options {
    Duration restart_time = std::chrono::seconds(60);
    bool back_off = true;
  };
  explicit RestartRule(Options options) : options_(options) {}
  Duration after(bool succeeded, Duration lived);

  // A run that lasted this long is restarted at once.
  static constexpr Duration kHealthy = std::chrono::seconds(120);
  // This many consecutive short failures wait for restart_time each. After that the pause doubles
  // with each further failure, up to kLongest.
  static constexpr int kPatience = 5;
  static constexpr Duration kLongest = std::chrono::minutes(15);
  int failures() const { return failures_; }

 private:
  const Options options_;
  int failures_ = 0;
};

class ContinuousJob final : public JobRunner {
 public:
  ContinuousJob(HostParts& host, std::string name);
  ~ContinuousJob() override;

  JobView view() const override;
  // Called when a status changes, to update the version of lists.
  std::function<void()> on_change;

  static std::string kind_of(const HostParts& host, const JobFolder& folder);

 private:
  void serve(const JobFolder& folder, std::stop_token stop) override;
  void rest() override;
  // Enqueues an engine job for this life; waits until it has ended or `stop` is requested.
  void keep_job(const JobFolder& folder, const std::string& kind, std::stop_token stop);
  void await_end(const JobFolder& folder, JobId id, std::stop_token stop);
  Duration restart_time(const JobFolder& folder) const;
  void cancel_job(const JobFolder& folder, JobId id);
  void cancel_leftovers(const std::string& kind);
  HandlerResult run_once(const JobFolder& folder, JobLog& log, RestartRule& rule,
                         const ClaimedJob& job, Context& context);
  Outcome outcome(const JobFolder& folder, JobLog& log, RestartRule& rule,
                  const Result<ScriptEnd>& end, Context& context);
  bool look_for_others(JobId id);
  void look_again_in(Duration time);
  // Also writes a log line and the status file.
  void set_status(ContinuousStatus status);
  void write_status_file(ContinuousStatus status);

  const std::string name_;
  mutable Mutex mutex_;
  ContinuousStatus status_ MS_GUARDED_BY(mutex_) = ContinuousStatus::initializing;
  int port_ MS_GUARDED_BY(mutex_) = 0;
  JobId job_ MS_GUARDED_BY(mutex_) = 0;
  std::string worker_ MS_GUARDED_BY(mutex_);
  std::shared_ptr<JobLog> log_ MS_GUARDED_BY(mutex_);  // of the last serve()
  // When to look for a singleton at other nodes, and what ends the wait before that.
  Instant look_at_ MS_GUARDED_BY(mutex_) = Instant::never();
  std::stop_source wake_ MS_GUARDED_BY(mutex_){std::nostopstate};
};

}  // namespace mainspring
