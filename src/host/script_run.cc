// A run: working copy, environment, isolation, log, monitoring, end.
#include "host/script_run.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "base/mutant.h"
#include "base/mutex.h"
#include "env/leftovers.h"
#include "env/private_files.h"
#include "host/deploy.h"
#include "host/run_watch.h"
#include "model/program_end.h"
#include "worker/program_words.h"
#include "worker/start_failure.h"

namespace mainspring {
namespace {

namespace fs = std::filesystem;

// A loopback port that is free now. 0 = none.
int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  int port = 0;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    port = ntohs(address.sin_port);
  }
  close(fd);
  return port;
}

// A new name for the shutdown file of one run: the file must not exist when the run starts.
std::string new_shutdown_file(const HostParts& host, const JobFolder& folder) {
  const std::string directory = shutdown_files_path(host.options, folder.type, folder.name);
  std::error_code ignored;
  fs::remove_all(directory, ignored);
  // The job may run as another user and must be able to see the file.
  (void)make_traversable_directories(directory);
  fs::permissions(directory, fs::perms(0755), ignored);
  return fmt::format("{}/{}", directory, host.random.hex128().substr(0, 16));
}

class Run {
 public:
  Run(const HostParts& host, const ScriptRun& run)
      : host_(host),
        run_(run),
        watch_({.idle_timeout = run.idle_timeout, .liveness = run.liveness},
               host.clock.now().instant) {}

  Result<ScriptEnd> go();
  bool started() const { return keeper_ != 0; }

 private:
  void add_environment(ProcessSpec& spec);
  void on_output(OutputStream stream, std::string_view bytes);
  Instant step(Now now);
  void on_stop();

  const HostParts& host_;
  const ScriptRun& run_;
  std::string shutdown_file_;
  int port_ = 0;
  std::unique_ptr<Cgroup> group_;
  std::stop_source end_;  // of the process: the caller's stop, or idleness
  std::atomic<int> keeper_{0};
  std::atomic<bool> idle_{false};
  Mutex mutex_;
  RunWatch watch_ MS_GUARDED_BY(mutex_);
};

void Run::add_environment(ProcessSpec& spec) {
  const auto add = [&spec](std::string_view name, std::string_view value) {
    spec.environment.push_back(fmt::format("{}={}", name, value));
  };
  add("WEBJOBS_RUN_ID", run_.run_id);
  add("WEBJOBS_COMMAND_ARGUMENTS", run_.arguments_text);
  const bool continuous = run_.folder.type == JobType::continuous;
  if (continuous) {
    port_ = free_port();
    add("WEBJOBS_PORT", fmt::to_string(port_));
  }
  if (continuous || !host_.options.strict) {
    shutdown_file_ = new_shutdown_file(host_, run_.folder);
    add("WEBJOBS_SHUTDOWN_FILE", shutdown_file_);
  }
}

void Run::on_output(OutputStream stream, std::string_view bytes) {
  {
    MutexLock lock(mutex_);
    watch_.on_output(host_.clock.now().instant);
  }
  const LogSource source = stream == OutputStream::out ? LogSource::out : LogSource::err;
  (void)run_.log.output(source, bytes);  // the log itself reports a full disk
}

Instant Run::step(Now now) {
  MutexLock lock(mutex_);
  const RunWatch::Step step = watch_.step(now.instant, [this]() -> std::optional<Duration> {
    if (group_ != nullptr) {
      if (const auto used = group_->cpu_time()) return used;
    }
    return cpu_time_of_tree(keeper_.load());
  });
  if (step.say_running) (void)run_.log.write(LogSource::system_info, "WebJob is still running");
  if (step.idle) {
    idle_ = true;
    (void)run_.log.write(
        LogSource::system_error,
        fmt::format(
            "Command '{}' was aborted due to no output nor CPU activity for {} seconds. You "
            "can increase the WEBJOBS_IDLE_TIMEOUT setting if needed.",
            run_.folder.run_command(),
            std::chrono::duration_cast<std::chrono::seconds>(run_.idle_timeout).count()));
    end_.request_stop();
  }
  return step.next;
}

void Run::on_stop() {
  if (!shutdown_file_.empty() && !MS_MUTANT(host_writes_no_shutdown_file)) {
    const std::string time = format_wall_time(host_.clock.now().wall);
    if (auto good = write_file_atomically(shutdown_file_, time); !good) {
      (void)run_.log.write(LogSource::system_warn, good.error().message);
    }
  }
  end_.request_stop();
}

Result<ScriptEnd> Run::go() {
  MS_TRY_ASSIGN(const std::string directory, run_directory(host_, run_.folder));
  ProcessSpec spec = script_spec(host_, run_.folder, directory, run_.arguments);
  add_environment(spec);
  if (auto added = host_.options.access.add(spec.environment, host_.options.queue, run_.folder.name,
                                            run_.folder.settings.timeout.value_or(kForever));
      !added) {
    (void)run_.log.write(LogSource::system_warn,
                         fmt::format("No MAINSPRING_JOB_TOKEN: {}", added.error().message));
  }
  MS_TRY_ASSIGN(group_, host_.isolation.fence(run_.folder, spec));
  (void)run_.log.write(LogSource::system_info,
                       fmt::format("Run script '{}' with script host - '{}'",
                                   run_.folder.run_command(), run_.folder.host.name));
  spec.output_cap_bytes = 0;
  spec.output = [this](OutputStream stream, std::string_view bytes) { on_output(stream, bytes); };
  Ticker::Handle ticks;
  spec.started = [this, &ticks](ProcessIds ids) {
    keeper_ = ids.keeper;
    ticks = host_.ticker.add([this](Now now) { return step(now); });
    if (run_.on_running) run_.on_running(port_);
  };
  spec.kill_grace_at_stop = [this] { return idle_ ? Duration(0) : run_.grace(); };
  spec.term_if_handled = true;
  spec.no_term = host_.options.strict;
  if (group_ != nullptr) {
    spec.kill_rest = [this] { (void)group_->kill_all(); };
    spec.ended = [this](ProcessEnd& end) { add_of_group(end, *group_); };
  }
  const Instant begin = host_.clock.now().instant;
  Result<ProcessEnd> ended = [&] {
    const std::stop_callback on_stop(run_.stop, [this] { this->on_stop(); });
    return host_.processes.run(spec, nullptr, end_.get_token());
  }();
  ticks.reset();
  (void)run_.log.flush();
  if (!shutdown_file_.empty()) {
    std::error_code ignored;
    fs::remove(shutdown_file_, ignored);
  }
  if (!ended) return std::move(ended.error());
  return ScriptEnd{
      .process = std::move(*ended), .lived = host_.clock.now().instant - begin, .idle = idle_};
}

}  // namespace

Result<ScriptEnd> run_script(const HostParts& host, const ScriptRun& run) {
  Run one(host, run);
  Result<ScriptEnd> end = one.go();
  if (!end && !one.started()) return start_failure(std::move(end.error()));
  return end;
}

std::string ScriptEnd::how() const {
  return idle ? "killed: neither output nor CPU activity" : how_it_ended(process);
}

Duration stopping_wait_time(const JobFolder& folder) {
  using namespace std::chrono_literals;
  return folder.settings.stopping_wait_time.value_or(folder.type == JobType::triggered ? 30s : 5s);
}

Result<std::string> run_directory(const HostParts& host, const JobFolder& folder) {
  if (folder.in_place()) return folder.script_dir;
  return update_working_copy(folder.script_dir,
                             working_copies_path(host.options, folder.type, folder.name), {});
}

ProcessSpec script_spec(const HostParts& host, const JobFolder& folder,
                        const std::string& directory, const std::vector<std::string>& arguments) {
  ProcessSpec spec;
  spec.directory = directory;
  spec.argv = folder.host.command;
  // PATH would be searched for a bare name, and a name such as -x.sh would be an option.
  const bool executable = folder.host.extensions.empty();
  const bool dashed = folder.run_file.starts_with('-');
  spec.argv.push_back(executable ? fmt::format("{}/{}", directory, folder.run_file)
                      : dashed   ? "./" + folder.run_file
                                 : folder.run_file);
  spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
  const std::string data = job_data_path(host.options, folder.type, folder.name);
  (void)make_private_directories(data);
  const auto add = [&spec](std::string_view name, std::string_view value) {
    spec.environment.push_back(fmt::format("{}={}", name, value));
  };
  add("WEBJOBS_PATH", directory);
  add("WEBJOBS_NAME", folder.name);
  add("WEBJOBS_TYPE", to_string(folder.type));
  add("WEBJOBS_DATA_PATH", data);
  if (folder.type == JobType::triggered) {
    add(fmt::format("WEBSITE_TRIGGERED_JOB_RUNNING_{}", folder.name), "true");
  } else {
    add(fmt::format("WEBSITE_ALWAYS_ON_JOB_RUNNING_{}", folder.name), "true");
  }
  return spec;
}

}  // namespace mainspring
