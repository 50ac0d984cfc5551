// The parts of the table of commands.
#pragma once

#include "cli/command.h"

namespace mainspring::cli {
// The settings that commands of a client take as flags.
inline constexpr unsigned kClient = kClientScope | kEverywhere;

std::vector<Command> running_commands();  // serve, work, lease, enqueue, bench, pipeline
Command work_command();
Command lease_command();
Command step_command();
Command tls_command();
std::vector<Command> chart_commands();    // history, mark, marks, views
std::vector<Command> looking_commands();  // jobs, queues, dead, workers
std::vector<Command> timing_commands();   // schedules, timers, leases, sessions, workflow
Command scale_command();
Command workflow_command();
Command triggers_command();
Command breakers_command();
Command jobs_command();
Command why_command();  // a top-level command, and a child of jobs
Command bulk_command();
Command quarantine_command();
Command pipeline_command();
std::vector<Command> health_commands();  // top, health, doctor, support-bundle
std::vector<Command> host_commands();    // host, jobs-host, logs
std::vector<Command> access_commands();  // token, audit, callbacks
// verify, store, tls, config, version, completion, help, man
std::vector<Command> operating_commands();

// The flags of job_options.h.
enum class JobTimeout { flag, none };  // none: the command has another --timeout
std::vector<Flag> job_flags(JobTimeout timeout);
}  // namespace mainspring::cli
