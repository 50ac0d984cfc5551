// ContinuousJob: runs a folder's script always, on this node or, as a singleton, on one of all.
//
// One job of the engine stands for the life of a continuous job; every run of the script is an
// attempt of it:
//
//   available ─claim─▶ running ──exit 0───────▶ scheduled  (snoozed for the restart time)
//                         │ ────exit 3───────▶ retryable   (an error more; restart time, back-off)
//                         │ ────node dies────▶ retryable   (its lease expires: another node)
//                         └────disabled──────▶ cancelled
//
// So the lease of that job is what makes a singleton one: its kind, continuous/{name}, is the same
// on all nodes, and one claim has it. Without is_singleton the kind has the node's name too.
#pragma once

#include <optional>
#include <string>

#include "host/job_runner.h"
#include "worker/worker.h"

namespace mainspring {

// How long after a run the next one begins. Source: Kudu; the back-off is ours.
class RestartRule {
 public:
  struct Options {
    Duration restart_time = std::chrono::seconds(60);
    bool back_off = true;
  };
  explicit RestartRule(Options options) : options_(options) {}
  Duration after(bool succeeded, Duration lived);

  // A run that lived so long is restarted at once.
  static constexpr Duration kHealthy = std::chrono::seconds(120);
  // So many short failures in a row wait for restart_time each; from then on it is doubled with
  // each further one, up to kLongest.
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
  // Calls when a status changes: for the versions of lists.
  std::function<void()> on_change;

  static std::string kind_of(const HostParts& host, const JobFolder& folder);

 private:
  void serve(const JobFolder& folder, std::stop_token stop) override;
  void rest() override;
  // Has an engine job stand for this life; waits until it has ended or until `stop`.
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
  // With its line in the log, and its file.
  void set_status(ContinuousStatus status);
  void write_status_file(ContinuousStatus status);

  const std::string name_;
  mutable Mutex mutex_;
  ContinuousStatus status_ MS_GUARDED_BY(mutex_) = ContinuousStatus::initializing;
  int port_ MS_GUARDED_BY(mutex_) = 0;
  JobId job_ MS_GUARDED_BY(mutex_) = 0;
  std::string worker_ MS_GUARDED_BY(mutex_);
  std::shared_ptr<JobLog> log_ MS_GUARDED_BY(mutex_);  // when it was served
  // When a singleton is to be looked for at other nodes, and what ends the waiting before that.
  Instant look_at_ MS_GUARDED_BY(mutex_) = Instant::never();
  std::stop_source wake_ MS_GUARDED_BY(mutex_){std::nostopstate};
};

}  // namespace mainspring
