// JobHost: finds job folders, runs them as jobs of an engine, and follows their changes.
//
//   jobs/continuous/mailer ─▶ ContinuousJob ─┐
//   jobs/triggered/report  ─▶ TriggeredJobs ─┼─▶ jobs of queue "host" ─▶ script_run ─▶ JobLog
//   jobs/queues/photos     ─▶ QueueFolder ───┘        (queue photos)
//        ▲
//        └─ inotify, 5 s of quiet; deployments and commands at once
//
// Works with any Jobs: the broker of this process, or a client of a server. Several hosts may share
// one engine; then singletons and triggered runs are exclusive among them.
#pragma once

#include <memory>

#include "broker/jobs.h"
#include "env/processes.h"
#include "env/random.h"
#include "host/control.h"
#include "host/options.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace mainspring {

class JobHost final : public HostControl {
 public:
  // Locks the data directory, and ends processes that an earlier host left running. The arguments
  // outlive it. Errors: invalid_argument (the first of options.validate()), conflict (another
  // process uses the data directory), io_error.
  static Result<std::unique_ptr<JobHost>> open(HostOptions options, Jobs& jobs,
                                               Processes& processes, const Clock& clock,
                                               Random& random, Log& log, Registry& registry);
  ~JobHost() override;  // stops

  // Finds and runs jobs. Call once.
  void start();
  // Asks children to end, gives them their stopping_wait_time, and waits for them. Then nothing of
  // this host runs. May be called twice, and before start.
  void stop();
  // Scans the folders now, without a quiet period. Returns when the findings are decided.
  void refresh();

  HostView view() override;
  std::vector<JobView> list(std::optional<JobType> type) override;
  Result<JobView> find(JobType type, const std::string& name) override;
  std::uint64_t version() override;
  Result<JobView> deploy_file(JobType type, const std::string& name, const std::string& file_name,
                              std::string_view content) override;
  Result<JobView> deploy_zip(JobType type, const std::string& name, std::string_view zip) override;
  Result<void> remove(JobType type, const std::string& name) override;
  Result<std::string> settings(JobType type, const std::string& name) override;
  Result<void> put_settings(JobType type, const std::string& name, std::string_view json) override;
  Result<std::string> run(const std::string& name, const std::string& arguments,
                          const std::string& trigger) override;
  Result<void> cancel_run(const std::string& name) override;
  Result<std::vector<RunRecord>> history(const std::string& name) override;
  Result<RunRecord> run_of(const std::string& name, const std::string& id) override;
  Result<void> stop_job(const std::string& name) override;
  Result<void> start_job(const std::string& name) override;
  Result<int> port(const std::string& name) override;
  Result<LogText> log(JobType type, const std::string& name, const std::string& run,
                      std::int64_t position, std::size_t max) override;
  Result<Watch> watch_log(JobType type, const std::string& name, const std::string& run,
                          std::int64_t position, std::function<void()> changed) override;
  bool log_ended(JobType type, const std::string& name, const std::string& run) override;
  Result<std::string> data_file(std::string_view path, std::size_t max) override;
  Result<std::vector<DataEntry>> data_directory(std::string_view path) override;
  Result<std::pair<HookView, bool>> add_hook(const std::string& url, const std::string& event,
                                             bool insecure_ssl) override;
  std::vector<HookView> hooks() override;
  Result<void> remove_hook(const std::string& id) override;
  void publish(const std::string& event, std::string_view json) override;

  struct Impl;

 private:
  explicit JobHost(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
