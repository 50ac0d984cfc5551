// FakeHost: job folders in memory, for tests of their routes.
#pragma once

#include <algorithm>
#include <map>

#include "base/mutex.h"
#include "host/control.h"
#include "http/http_test_support.h"

namespace mainspring::test {

inline WallTime wall(std::string_view text) {
  return parse_wall_time(text).value();
}

// Returns values that a test sets, and records its calls.
class FakeHost final : public HostControl {
 public:
  JobView& add(JobType type, const std::string& name) {
    MutexLock lock(mutex_);
    ++version_;
    JobView& job = jobs_[{type, name}];
    job.folder.type = type;
    job.folder.name = name;
    job.folder.directory = "/jobs/" + std::string(folder_of(type)) + "/" + name;
    job.folder.run_file = "run.sh";
    job.folder.host.name = "BashScriptHost";
    job.folder.settings_json = "{}";
    job.pool = "default";
    return job;
  }
  void add_run(const std::string& name, RunRecord run) {
    MutexLock lock(mutex_);
    ++version_;
    jobs_.at({JobType::triggered, name}).latest_run = run;
    runs_[name].insert(runs_[name].begin(), std::move(run));
  }
  // Appends to a log; `run` "" = of a continuous job.
  void write(const std::string& name, const std::string& run, std::string_view text) {
    change_log(name + "/" + run, [&](FakeLog& log) { log.text += text; });
  }
  void end_log(const std::string& name, const std::string& run) {
    change_log(name + "/" + run, [](FakeLog& log) { log.ended = true; });
  }
  std::size_t watches() {
    MutexLock lock(mutex_);
    std::size_t count = 0;
    for (auto& [key, log] : logs_) count += log.watchers.size();
    return count;
  }
  int log_calls() {
    MutexLock lock(mutex_);
    return log_calls_;
  }
  void set_port(int port) {
    MutexLock lock(mutex_);
    port_ = port;
  }
  void fail_with(Error error) {
    MutexLock lock(mutex_);
    failure_ = std::move(error);
  }
  std::string called() {
    MutexLock lock(mutex_);
    return called_;
  }

  HostView view() override {
    HostView view;
    view.instance = "3f9a1c";
    view.directory = "/jobs";
    view.running = 2;
    view.layers = {{"process_group", true, ""}, {"cgroup_memory", false, "no permission"}};
    view.problems = {"jobs/triggered/empty: No runnable script file was found."};
    return view;
  }
  std::vector<JobView> list(std::optional<JobType> type) override {
    MutexLock lock(mutex_);
    std::vector<JobView> out;
    for (const auto& [key, job] : jobs_) {
      if (!type || key.first == *type) out.push_back(job);
    }
    return out;
  }
  Result<JobView> find(JobType type, const std::string& name) override {
    MutexLock lock(mutex_);
    const auto job = jobs_.find({type, name});
    if (job == jobs_.end()) return not_found(name);
    return job->second;
  }
  std::uint64_t version() override {
    MutexLock lock(mutex_);
    return version_;
  }

  Result<JobView> deploy_file(JobType type, const std::string& name, const std::string& file_name,
                              std::string_view content) override {
    note("deploy_file " + name + " " + file_name + " " + std::string(content.substr(0, 64)) + " " +
         std::to_string(content.size()));
    MS_TRY(failure());
    add(type, name).folder.run_file = file_name;
    return find(type, name);
  }
  Result<JobView> deploy_zip(JobType type, const std::string& name, std::string_view zip) override {
    note("deploy_zip " + name + " " + std::to_string(zip.size()));
    MS_TRY(failure());
    add(type, name);
    return find(type, name);
  }
  Result<void> remove(JobType type, const std::string& name) override {
    MutexLock lock(mutex_);
    ++version_;
    jobs_.erase({type, name});
    return {};
  }
  Result<std::string> settings(JobType type, const std::string& name) override {
    MS_TRY_ASSIGN(JobView job, find(type, name));
    return std::move(job.folder.settings_json);
  }
  Result<void> put_settings(JobType type, const std::string& name, std::string_view json) override {
    if (!json.starts_with('{')) return invalid("settings", "settings: must be a JSON object");
    MutexLock lock(mutex_);
    const auto job = jobs_.find({type, name});
    if (job == jobs_.end()) return not_found(name);
    job->second.folder.settings_json = json;
    ++version_;
    return {};
  }

  Result<std::string> run(const std::string& name, const std::string& arguments,
                          const std::string& trigger) override {
    MS_TRY(find(JobType::triggered, name));
    note("run " + name + " [" + arguments + "] [" + trigger + "]");
    MS_TRY(failure());
    return "202611211046315000";
  }
  Result<void> cancel_run(const std::string& name) override {
    note("cancel_run " + name);
    return failure();
  }
  Result<std::vector<RunRecord>> history(const std::string& name) override {
    MutexLock lock(mutex_);
    const auto runs = runs_.find(name);
    if (runs == runs_.end()) return not_found(name);
    return runs->second;
  }
  Result<RunRecord> run_of(const std::string& name, const std::string& id) override {
    MutexLock lock(mutex_);
    for (const RunRecord& run : runs_[name]) {
      if (run.id == id) return run;
    }
    return not_found(id);
  }

  Result<void> stop_job(const std::string& name) override {
    note("stop_job " + name);
    MS_TRY(find(JobType::continuous, name));
    return failure();
  }
  Result<void> start_job(const std::string& name) override {
    note("start_job " + name);
    MS_TRY(find(JobType::continuous, name));
    return failure();
  }
  Result<int> port(const std::string& name) override {
    MS_TRY(find(JobType::continuous, name));
    MutexLock lock(mutex_);
    if (port_ == 0) return not_found(name);
    return port_;
  }

  Result<LogText> log(JobType type, const std::string& name, const std::string& run,
                      std::int64_t position, std::size_t max) override {
    MS_TRY(find(type, name));
    MutexLock lock(mutex_);
    ++log_calls_;
    const std::string& text = logs_[name + "/" + run].text;
    const auto size = static_cast<std::int64_t>(text.size());
    if (position < 0) position = std::max<std::int64_t>(0, size + position);
    position = std::min(position, size);
    LogText out;
    out.text = text.substr(static_cast<std::size_t>(position), max);
    out.next = position + static_cast<std::int64_t>(out.text.size());
    out.at_end = out.next == size;
    return out;
  }
  Result<Watch> watch_log(JobType type, const std::string& name, const std::string& run,
                          std::int64_t position, std::function<void()> changed) override {
    MS_TRY(find(type, name));
    const std::string key = name + "/" + run;
    std::uint64_t number = 0;
    {
      MutexLock lock(mutex_);
      FakeLog& log = logs_[key];
      if (!log.ended && static_cast<std::int64_t>(log.text.size()) <= position) {
        number = ++next_watch_;
        log.watchers.emplace(number, changed);
      }
    }
    if (number == 0) changed();
    return Watch(new int(0), [this, key, number](int* nothing) {
      delete nothing;
      MutexLock lock(mutex_);
      logs_[key].watchers.erase(number);
    });
  }
  bool log_ended(JobType, const std::string& name, const std::string& run) override {
    MutexLock lock(mutex_);
    return logs_[name + "/" + run].ended;
  }
  Result<std::string> data_file(std::string_view path, std::size_t max) override {
    note("data_file " + std::string(path));
    if (path.find("..") != std::string_view::npos) return not_found(path);
    if (path.ends_with("large.bin")) {
      return Error{ErrorCode::too_large, "over " + std::to_string(max)};
    }
    return "the text of " + std::string(path);
  }

  Result<std::vector<DataEntry>> data_directory(std::string_view path) override {
    note("data_directory " + std::string(path));
    if (path.find("..") != std::string_view::npos) return not_found(path);
    return std::vector<DataEntry>{
        {.name = "a b", .directory = true, .changed_at = WallTime::from_us(1'767'225'600'000'000)},
        {.name = "log.txt", .bytes = 12, .changed_at = WallTime::from_us(1'767'225'600'000'000)}};
  }

  Result<std::pair<HookView, bool>> add_hook(const std::string& url, const std::string& event,
                                             bool insecure_ssl) override {
    if (!url.starts_with("http")) return invalid("url", "url: must be http:// or https://");
    MutexLock lock(mutex_);
    for (const HookView& hook : hooks_) {
      if (hook.url != url) continue;
      if (hook.event != event) return Error{ErrorCode::conflict, "the url has another hook"};
      return std::pair(hook, false);
    }
    HookView hook;
    hook.id = "hook" + std::to_string(hooks_.size() + 1);
    hook.url = url;
    hook.event = event;
    hook.insecure_ssl = insecure_ssl;
    hooks_.push_back(hook);
    return std::pair(hook, true);
  }
  std::vector<HookView> hooks() override {
    MutexLock lock(mutex_);
    return hooks_;
  }
  Result<void> remove_hook(const std::string& id) override {
    MutexLock lock(mutex_);
    const auto removed = std::erase_if(hooks_, [&](const HookView& h) { return h.id == id; });
    if (removed == 0) return not_found(id);
    return {};
  }
  void publish(const std::string& event, std::string_view json) override {
    note("publish " + event + " " + std::string(json));
  }

 private:
  struct FakeLog {
    std::string text;
    bool ended = false;
    std::map<std::uint64_t, std::function<void()>> watchers;
  };
  static Error not_found(std::string_view what) {
    return {ErrorCode::not_found, "there is no \"" + std::string(what) + "\""};
  }
  Result<void> failure() {
    MutexLock lock(mutex_);
    if (failure_) return *failure_;
    return {};
  }
  void note(std::string call) {
    MutexLock lock(mutex_);
    called_ = std::move(call);
  }
  template <class F>
  void change_log(const std::string& key, F change) {
    std::map<std::uint64_t, std::function<void()>> fired;
    {
      MutexLock lock(mutex_);
      FakeLog& log = logs_[key];
      change(log);
      fired.swap(log.watchers);
    }
    for (auto& [number, changed] : fired) changed();
  }

  Mutex mutex_;
  std::map<std::pair<JobType, std::string>, JobView> jobs_ MS_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<RunRecord>> runs_ MS_GUARDED_BY(mutex_);
  std::map<std::string, FakeLog> logs_ MS_GUARDED_BY(mutex_);
  std::vector<HookView> hooks_ MS_GUARDED_BY(mutex_);
  std::optional<Error> failure_ MS_GUARDED_BY(mutex_);
  std::string called_ MS_GUARDED_BY(mutex_);
  std::uint64_t version_ MS_GUARDED_BY(mutex_) = 1;
  std::uint64_t next_watch_ MS_GUARDED_BY(mutex_) = 0;
  int log_calls_ MS_GUARDED_BY(mutex_) = 0;
  int port_ MS_GUARDED_BY(mutex_) = 0;
};

struct HostServer {
  explicit HostServer(HostRoutes routes = {}, HttpOptions options = {})
      : server(std::move(options), {}, &host, routes) {}
  FakeHost host;
  TestServer server;
};

}  // namespace mainspring::test
