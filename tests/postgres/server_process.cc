// ServerProcess: a thread that runs the program with SystemProcesses and reads its output.
#include "postgres/server_process.h"

#include <fmt/format.h>
#include <signal.h>

#include <optional>
#include <thread>

#include "base/mutex.h"
#include "env/clock.h"
#include "env/processes.h"

namespace mainspring::pg_testing {

struct ServerProcess::State {
  mutable Mutex mutex;
  CondVar changed;
  std::string log MS_GUARDED_BY(mutex);
  std::string line MS_GUARDED_BY(mutex);  // the one that is being written
  int ready MS_GUARDED_BY(mutex) = 0;
  int pid MS_GUARDED_BY(mutex) = 0;
  bool running MS_GUARDED_BY(mutex) = false;
  std::string refused MS_GUARDED_BY(mutex);  // why it did not start
  std::string ready_text;
  std::stop_source stop;
  std::thread thread;

  void take(std::string_view text) {
    MutexLock lock(mutex);
    log.append(text);
    if (log.size() > 2 * kLogBytes) log.erase(0, log.size() - kLogBytes);
    for (const char c : text) {
      if (c != '\n') {
        line += c;
        continue;
      }
      if (line.find(ready_text) != std::string::npos) ++ready;
      line.clear();
    }
    changed.notify_all();
  }

  // Waits until `holds`, at most `limit`; returns whether it holds. The analysis does not see that
  // the mutex that `holds` requires is this one.
  template <class Condition>
  bool await(Duration limit, const Condition& holds)
      MS_REQUIRES(mutex) MS_NO_THREAD_SAFETY_ANALYSIS {
    const SystemClock clock;
    const Instant end = clock.now().instant + limit;
    for (Instant now = clock.now().instant; !holds() && now < end; now = clock.now().instant) {
      changed.wait_for(mutex, end - now);
    }
    return holds();
  }
};

namespace {

std::vector<std::string> plain_environment() {
  std::vector<std::string> out;
  for (std::string& entry : inherited_environment()) {
    if (entry.starts_with("PG") || entry.starts_with("LC_") || entry.starts_with("LANG")) continue;
    out.push_back(std::move(entry));
  }
  out.emplace_back("LC_ALL=C.UTF-8");
  return out;
}

}  // namespace

ServerProcess::ServerProcess() : state_(std::make_unique<State>()) {}

ServerProcess::~ServerProcess() {
  kill();
}

Result<void> ServerProcess::start(const ServerSpec& spec, Duration limit) {
  State& s = *state_;
  {
    MutexLock lock(s.mutex);
    if (s.running) return Error{ErrorCode::conflict, spec.argv[0] + " runs already"};
  }
  if (s.thread.joinable()) s.thread.join();
  MutexLock lock(s.mutex);
  s.ready_text = spec.ready;
  s.ready = 0;
  s.line.clear();
  s.refused.clear();
  s.running = true;
  s.stop = std::stop_source();
  ProcessSpec program{.argv = spec.argv, .environment = plain_environment()};
  program.directory = spec.directory;
  program.output_cap_bytes = 0;
  program.kill_grace = Duration(0);
  program.limits.user = spec.user;
  program.limits.no_core = true;
  if (spec.file_bytes > 0) program.limits.file_bytes = spec.file_bytes;
  program.output = [&s](OutputStream, std::string_view text) { s.take(text); };
  program.started = [&s](ProcessIds ids) {
    MutexLock inner(s.mutex);
    s.pid = ids.program;
  };
  s.thread = std::thread([&s, program = std::move(program), token = s.stop.get_token()] {
    SystemProcesses processes;
    const Result<ProcessEnd> end = processes.run(
        program, [](std::string_view) {}, token);
    MutexLock inner(s.mutex);
    if (!end) s.refused = end.error().message;
    s.pid = 0;
    s.running = false;
    s.changed.notify_all();
  });
  s.await(limit, [&s]() MS_REQUIRES(s.mutex) { return s.ready > 0 || !s.running; });
  if (s.running && s.ready > 0) return {};
  s.stop.request_stop();
  const std::string why = s.running ? "was not ready in time" : "ended at once";
  return Error{ErrorCode::unavailable,
               fmt::format("{} {} {}\n{}", spec.argv[0], why, s.refused, s.log)};
}

void ServerProcess::signal(int number) const {
  MutexLock lock(state_->mutex);
  if (state_->pid > 0) ::kill(state_->pid, number);
}

bool ServerProcess::await_end(Duration limit) {
  State& s = *state_;
  {
    MutexLock lock(s.mutex);
    if (!s.await(limit, [&s]() MS_REQUIRES(s.mutex) { return !s.running; })) return false;
  }
  if (s.thread.joinable()) s.thread.join();
  return true;
}

void ServerProcess::kill() {
  signal(SIGKILL);
  // If it was not started yet, or its end goes unnoticed, the keeper kills the remaining processes.
  if (!await_end(std::chrono::seconds(5))) state_->stop.request_stop();
  if (state_->thread.joinable()) state_->thread.join();
}

int ServerProcess::pid() const {
  MutexLock lock(state_->mutex);
  return state_->pid;
}

int ServerProcess::times_ready() const {
  MutexLock lock(state_->mutex);
  return state_->ready;
}

bool ServerProcess::await_ready(int times, Duration limit) {
  State& s = *state_;
  MutexLock lock(s.mutex);
  s.await(limit, [&]() MS_REQUIRES(s.mutex) { return s.ready >= times || !s.running; });
  return s.ready >= times && s.running;
}

std::string ServerProcess::log() const {
  MutexLock lock(state_->mutex);
  return state_->log;
}

Result<void> run_program(const std::vector<std::string>& argv, const std::string& user,
                         const std::string& directory) {
  ProcessSpec spec{.argv = argv, .environment = plain_environment()};
  spec.directory = directory;
  spec.limits.user = user;
  SystemProcesses processes;
  MS_TRY_ASSIGN(const ProcessEnd end, processes.run(
                                          spec, [](std::string_view) {}, std::stop_token()));
  if (end.exit_code == 0) return {};
  return Error{ErrorCode::internal, fmt::format("{} ended with {}: {}{}", argv[0], end.exit_code,
                                                end.out.tail, end.err.tail)};
}

}  // namespace mainspring::pg_testing
