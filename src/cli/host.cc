// host: a job host that works for another server; and the options of a job host from settings.
#include "cli/host.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "base/secret.h"
#include "cli/handlers.h"
#include "cli/version.h"
#include "env/private_memory.h"
#include "env/signals.h"
#include "host/job_host.h"

namespace mainspring::cli {

Result<std::optional<HostOptions>> host_options(const Options& options, const std::string& data,
                                                Log& log) {
  Understood<HostVariables> variables =
      read_host_variables([](const char* name) { return std::getenv(name); });
  for (const std::string& warning : variables.warnings) {
    log.warn("a variable is ignored", {{"warning", warning}});
  }
  HostOptions host;
  // As in WebJobs, the variable takes precedence; a relative path starts at --jobs.
  const std::string base = options.jobs == "none" ? "." : options.jobs;
  if (const std::string& root = variables.value.root_path; !root.empty()) {
    host.roots.push_back((std::filesystem::path(base) / root).string());
  }
  if (options.jobs != "none") host.roots.push_back(options.jobs);
  if (host.roots.empty()) {
    if (!options.webjobs_api) return std::nullopt;
    return invalid("webjobs_api", "--webjobs-api: needs --jobs DIR");
  }
  host.data = options.host_data == "auto" ? data + "/host" : options.host_data;
  if (options.jobs_user != "none") host.user = options.jobs_user;
  host.strict = options.strict_webjobs;
  host.variables = std::move(variables.value);
  host.environment = inherited_environment();
  host.quiet = options.folder_quiet;
  host.retention = options.folder_retention;
  host.log_roll_bytes = options.job_log_roll_bytes;
  host.log_generations = static_cast<int>(options.job_log_generations);
  host.log_cap_bytes = options.job_log_cap_bytes;
  host.outgoing_allow = split_names(options.outgoing_allow);
  if (auto errors = host.validate(); !errors.empty()) return errors.front();
  return host;
}

Result<int> run_host(const Invocation& invocation, Io& io) {
  StopSignals signals;  // first, so that every thread inherits its mask
  if (!invocation.options.allow_core) MS_TRY(keep_memory_private());
  (void)std::signal(SIGPIPE, SIG_IGN);
  (void)std::signal(SIGXFSZ, SIG_IGN);
  const SystemClock clock;
  StderrLog log(log_level_of(invocation.options), log_format_of(invocation.options));
  Registry registry;
  SystemProcesses processes;
  MS_TRY_ASSIGN(const auto connection, connect(invocation, std::chrono::seconds(15)));
  const std::string& data = invocation.options.host_data;
  MS_TRY_ASSIGN(auto options,
                host_options(invocation.options, data == "auto" ? "host-data" : data, log));
  if (!options) return invalid("jobs", "--jobs: must be given: the directory of the job folders");
  if (data == "auto") options->data = "host-data";
  JobTokens job_tokens(*connection->client, clock);
  options->access = program_access(invocation, job_tokens);
  MS_TRY_ASSIGN(const auto host, JobHost::open(std::move(*options), connection->jobs(), processes,
                                               clock, connection->random, log, registry));
  host->start();
  const HostView view = host->view();
  print_line(io, invocation.json
                     ? fmt::format("{{\"instance\":\"{}\",\"pid\":{},\"version\":\"{}\"}}",
                                   view.instance, getpid(), kVersion)
                     : fmt::format("Running the job folders in {} for {}. Ctrl-C stops them.",
                                   view.directory, without_password(invocation.options.server)));
  signals.wait();
  log_stop(log, signals);
  const std::stop_callback hurry(signals.hurry(), [] { _exit(130); });
  if (io.err_is_terminal) io.err("Stopping the jobs; Ctrl-C again ends at once.\n");
  host->stop();
  log.info("stopped");
  return kExitOk;
}

}  // namespace mainspring::cli
