// lease run: runs a command while this process holds a lease.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/handlers.h"
#include "cli/support.h"
#include "env/clock.h"
#include "env/processes.h"
#include "env/signals.h"
#include "worker/auto_renew_lease.h"
#include "worker/renewing.h"

namespace mainspring::cli {
namespace {

constexpr Duration kLeaseRunGrace = 10s;  // between TERM and KILL after a signal
// Short after a loss: the holder learns of it only a margin before the server releases the lease.
constexpr Duration kLostGrace = 2s;
constexpr Duration kMaxWait = 24h;

Result<LeaseOptions> options_of(const Invocation& invocation) {
  LeaseOptions options;
  MS_TRY_ASSIGN(const auto ttl, invocation.duration("ttl"));
  MS_TRY_ASSIGN(const auto wait, invocation.duration("wait"));
  options.ttl = ttl.value_or(kDefaultNamedLease);
  options.wait = wait.value_or(Duration(0));
  if (options.ttl < kMinLease || options.ttl > kMaxLease) {
    return invalid("ttl", fmt::format("--ttl {}: must be 1s to 12h", format_duration(options.ttl)));
  }
  if (options.wait > kMaxWait) {
    return invalid("wait",
                   fmt::format("--wait {}: must be at most 24h", format_duration(options.wait)));
  }
  return options;
}

// Reports the holder.
Result<int> held(const Error& error, const std::string& name, Jobs& jobs, Io& io) {
  if (error.code != ErrorCode::lease_held) return error;
  const auto lease = jobs.get_lease(name);
  const std::string holder = lease && !lease->holder.empty() ? lease->holder : "another holder";
  io.err(fmt::format("mainspring: lease {} is held by {}\n", name, printable(holder)));
  return info(ErrorCode::lease_held).exit_code;
}

}  // namespace

Result<int> run_lease_run(const Invocation& invocation, Io& io) {
  const std::string name = *invocation.argument("NAME");
  MS_TRY(check_name("NAME", name));
  MS_TRY_ASSIGN(LeaseOptions options, options_of(invocation));
  StopSignals signals;
  const SystemClock clock;
  SystemRandom random;
  // A lost lease and signals both end the command.
  std::stop_source stop;
  const std::stop_callback on_signal(signals.stop(), [&] { stop.request_stop(); });
  const std::stop_callback hurry(signals.hurry(), [] { _exit(130); });  // its keeper kills the tree
  options.stop = signals.stop();
  options.on_lost = [&] { stop.request_stop(); };

  MS_TRY_ASSIGN(const auto connection, connect(invocation, 0s));
  const Duration margin = lease_margin(options.ttl);
  auto lease = acquire(connection->jobs(), clock, random, name, std::move(options));
  if (!lease) return held(lease.error(), name, connection->jobs(), io);

  ProcessSpec spec;
  spec.argv = invocation.all_arguments("COMMAND");
  spec.environment = inherited_environment("MAINSPRING_LEASE_");
  std::erase_if(spec.environment, [](const std::string& entry) {
    return entry.starts_with("MAINSPRING_ACCESS_TOKEN=");  // not for the command
  });
  spec.environment.push_back("MAINSPRING_LEASE_NAME=" + name);
  spec.environment.push_back(fmt::format("MAINSPRING_LEASE_TOKEN={}", lease->token()));
  spec.inherit_streams = true;
  spec.kill_grace_at_stop = [&] {
    return lease->lost() ? std::min(kLostGrace, margin / 2) : kLeaseRunGrace;
  };
  SystemProcesses processes;
  const auto end = processes.run(
      spec, [](std::string_view) {}, stop.get_token());
  const bool noticed = lease->lost();
  const auto released = lease->release();
  // If this process was stopped for longer than the lease, only the server knows.
  const bool lost = noticed || (!released && released.error().code == ErrorCode::lease_lost);
  if (!end) return end.error();
  if (lost) {
    io.err(fmt::format("mainspring: lease {} was lost; the command was ended\n", name));
    return info(ErrorCode::lease_held).exit_code;
  }
  if (!released) {
    io.err(fmt::format("mainspring: lease {} could not be released, and will expire: {}\n", name,
                       released.error().message));
  }
  return end->signal != 0 ? 128 + end->signal : end->exit_code;
}

}  // namespace mainspring::cli
