// mainspring::run: flags, signals, configuration and the status server around a RoleHost.
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <optional>

#include "api/json.h"
#include "base/mutex.h"
#include "env/clock.h"
#include "env/signals.h"
#include "mainspring/role.h"
#include "roles/role_host.h"
#include "roles/status_server.h"

namespace mainspring {
namespace {

using roles::Flags;
using roles::RoleHost;
using roles::RoleView;
using roles::Settings;
using roles::StatusAnswer;
using roles::StatusServer;

constexpr int kExitOk = 0, kExitUsage = 64, kExitFailed = 70, kExitHurried = 130;

LogLevel log_level_of(const std::string& name) {
  if (name == "debug") return LogLevel::debug;
  if (name == "warn") return LogLevel::warn;
  if (name == "error") return LogLevel::error;
  return name == "off" ? LogLevel::off : LogLevel::info;
}

StatusAnswer health_of(const RoleHost& host) {
  StatusAnswer answer;
  JsonWriter json(answer.body);
  json.begin_object().key("status").string("ok").key("roles").begin_array();
  for (const RoleView& role : host.view()) {
    json.begin_object();
    json.key("name").string(role.name).key("state").string(to_string(role.state));
    json.key("freeze").boolean(role.freeze).key("starts").number(role.starts);
    json.key("failures").number(role.failures).key("last_failure").string(role.last_failure);
    json.end_object();
  }
  json.end_array().end_object();
  return answer;
}

StatusAnswer readiness_of(const RoleHost& host) {
  StatusAnswer answer;
  const bool ready = host.ready();
  answer.status = ready ? 200 : 503;
  answer.body = ready ? R"({"status":"ready"})" : R"({"status":"not_ready"})";
  return answer;
}

StatusAnswer status_of(const std::string& path, const RoleHost& host, const Registry& registry) {
  if (path == "/healthz") return health_of(host);
  if (path == "/readyz") return readiness_of(host);
  if (path == "/metrics") return {200, registry.render(), "text/plain; version=0.0.4"};
  return {404, R"({"status":"there are /healthz, /readyz and /metrics"})", "application/json"};
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

// A program, from its flags to its end. Signals may arrive at any time.
class Program {
 public:
  Program(std::span<Role* const> given, RoleOptions options, Flags flags)
      : roles_(given.begin(), given.end()),
        options_(std::move(options)),
        flags_(std::move(flags)),
        log_(log_level_of(flags_.log_level)) {}

  int run(StopSignals& signals) MS_EXCLUDES(mutex_);
  // Reads the configuration again.
  void reload() MS_EXCLUDES(mutex_);

 private:
  Result<Settings> settings() const;
  Result<void> open_engine(StopSignals& signals);
  int fail(const Error& error, int code) {
    log_.error(error.message);
    return code;
  }

  std::vector<Role*> roles_;
  RoleOptions options_;
  Flags flags_;
  StderrLog log_;
  const SystemClock clock_;
  std::atomic<bool> failed_{false};
  std::optional<Engine> engine_;
  Mutex mutex_;
  RoleHost* host_ MS_GUARDED_BY(mutex_) = nullptr;  // while it runs
  bool reload_wanted_ MS_GUARDED_BY(mutex_) = false;
};

Result<Settings> Program::settings() const {
  Settings settings;
  settings.flags = flags_.set;
  settings.freeze_flags = flags_.freeze;
  settings.environment = [](const std::string& name) { return ::getenv(name.c_str()); };
  if (!flags_.config.empty()) {
    MS_TRY_ASSIGN(settings.file, roles::read_config_file(flags_.config));
  }
  return settings;
}

Result<void> Program::open_engine(StopSignals& signals) {
  if (flags_.engine.empty()) return {};
  EngineOptions options = options_.engine;
  if (!options.log) {
    options.log = [this](std::string_view level, std::string_view text) {
      log_.write(log_level_of(std::string(level)), text, {});
    };
  }
  if (!options.on_fatal) {
    options.on_fatal = [this, &signals](const Error& error) {
      log_.error("the store failed; stopping", {{"why", error.message}});
      failed_ = true;
      signals.request();
    };
  }
  MS_TRY_ASSIGN(engine_, Engine::open(flags_.engine, std::move(options)));
  return {};
}

void Program::reload() {
  MutexLock lock(mutex_);
  reload_wanted_ = host_ == nullptr;  // then it is done once the host runs
  if (reload_wanted_) return;
  Result<Settings> read = settings();
  Result<void> done;
  if (read) done = host_->configure(std::move(*read));
  if (!read || !done) {
    log_.error("the new configuration is invalid; the old one stays in use",
               {{"why", read ? done.error().message : read.error().message}});
    return;
  }
  log_.info("the configuration was read again");
}

int Program::run(StopSignals& signals) {
  Result<Settings> read = settings();
  if (!read) return fail(read.error(), kExitUsage);
  if (auto opened = open_engine(signals); !opened) {
    return fail(opened.error(), info(opened.error().code).exit_code);
  }
  Registry registry;
  RoleHost host(roles_, options_, engine_ ? &*engine_ : nullptr, clock_, log_, registry);
  if (auto done = host.configure(std::move(*read)); !done) return fail(done.error(), kExitUsage);
  host.on_fatal([&](const Error& error) {
    log_.error("the engine cannot be started; stopping", {{"why", error.message}});
    failed_ = true;
    signals.request();
  });
  std::unique_ptr<StatusServer> server;
  if (!flags_.listen.empty()) {
    auto started = StatusServer::start(
        flags_.listen, [&](const std::string& path) { return status_of(path, host, registry); });
    if (!started) return fail(started.error(), info(started.error().code).exit_code);
    server = std::move(*started);
    log_.info("listens", {{"url", server->url()}});
  }
  const std::stop_callback hurry(signals.hurry(), [] { _exit(kExitHurried); });
  if (auto started = host.start(); !started) {
    const bool usage = started.error().code == ErrorCode::invalid_argument;
    return fail(started.error(), usage ? kExitUsage : kExitFailed);
  }
  bool wanted = false;
  {
    MutexLock lock(mutex_);
    host_ = &host;
    wanted = reload_wanted_;
  }
  if (wanted) reload();
  signals.wait();
  if (signals.first() != 0) log_.info("stopping", {{"why", signals.why()}});
  {
    MutexLock lock(mutex_);
    host_ = nullptr;
  }
  host.stop([&](const std::vector<std::string>& late) {
    log_.error("not stopped within the limit; ending at once",
               {{"limit", format_duration(options_.stop_limit)}, {"late", joined(late)}});
    _exit(kExitFailed);
  });
  if (failed_) return kExitFailed;
  log_.info("stopped");
  return kExitOk;
}

}  // namespace

int run(std::span<Role* const> roles, int argc, char** argv, RoleOptions options) {
  // First, so that every thread inherits its signal mask. A hangup before the program exists waits.
  Mutex mutex;
  Program* program = nullptr;
  StopSignals signals([&] {
    MutexLock lock(mutex);
    if (program != nullptr) program->reload();
  });
  std::string name = options.program;
  if (name.empty()) name = argc > 0 ? argv[0] : "program";
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  Result<Flags> flags = roles::parse_flags(words);
  if (!flags) {
    fmt::print(stderr, "{}: {}\n", name, flags.error().message);
    return kExitUsage;
  }
  if (flags->help) {
    fmt::print("{}", roles::help_text(name, options.description));
    return kExitOk;
  }
  Program made(roles, std::move(options), std::move(*flags));
  {
    MutexLock lock(mutex);
    program = &made;
  }
  const int code = made.run(signals);
  MutexLock lock(mutex);
  program = nullptr;
  return code;
}

int run(std::initializer_list<Role*> roles, int argc, char** argv, RoleOptions options) {
  return run(std::span<Role* const>(roles.begin(), roles.size()), argc, argv, std::move(options));
}

}  // namespace mainspring
