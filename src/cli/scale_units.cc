// scale units: starts and stops the instances of a systemd template.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "cli/scale.h"
#include "client/calls.h"
#include "env/processes.h"

namespace mainspring::cli {
namespace {

constexpr int kMaxInstance = 10'000;

// Runs systemctl; returns its output.
Result<std::string> systemctl(std::vector<std::string> words) {
  ProcessSpec spec;
  spec.argv = {"systemctl"};
  spec.argv.insert(spec.argv.end(), words.begin(), words.end());
  spec.environment = inherited_environment("MAINSPRING_");
  std::string out, err;
  spec.output = [&](OutputStream stream, std::string_view bytes) {
    (stream == OutputStream::out ? out : err) += bytes;
  };
  SystemProcesses processes;
  MS_TRY_ASSIGN(const ProcessEnd end, processes.run(spec, [](std::string_view) {}, {}));
  if (end.signal == 0 && end.exit_code == 0) return out;
  return Error{ErrorCode::unavailable,
               fmt::format("systemctl {}: {}", fmt::join(words, " "), err.substr(0, 300))};
}

class Units {
 public:
  Units(Client& client, std::string unit) : client_(client), template_(std::move(unit)) {}

  // Starts missing instances. Of surplus ones, the highest become quiet, and are stopped when they
  // hold no job. So are instances that were quiet before this process: they do no work, and the
  // process that made them quiet may have ended.
  Result<void> apply(int desired) {
    MS_TRY_ASSIGN(const std::set<int> all, instances());
    MS_TRY_ASSIGN(const auto workers, by_pid());
    std::map<int, const WorkerInfo*> active, surplus;
    for (const int instance : all) {
      MS_TRY_ASSIGN(const WorkerInfo* worker, worker_of(instance, workers));
      const bool works = worker == nullptr || worker->command == WorkerCommand::none ||
                         (worker->command == WorkerCommand::quiet && mine_.contains(instance));
      (works ? active : surplus).emplace(instance, worker);
    }
    while (std::ssize(active) > desired) surplus.insert(active.extract(std::prev(active.end())));
    waits_ = !surplus.empty();
    for (const auto& [instance, worker] : surplus) MS_TRY(stop(instance, worker));
    for (const auto& [instance, worker] : active) {
      if (worker != nullptr && worker->command == WorkerCommand::quiet && mine_.erase(instance) > 0)
        MS_TRY(command(*worker, "resume"));
    }
    int missing = desired - static_cast<int>(active.size());
    for (int i = 1; missing > 0 && i <= kMaxInstance; ++i) {
      if (all.contains(i)) continue;
      MS_TRY(systemctl({"start", "--no-block", name(i)}));
      --missing;
    }
    return {};
  }
  // Surplus instances still run.
  bool waits() const { return waits_; }

 private:
  std::string name(int instance) const { return fmt::format("{}{}.service", template_, instance); }

  Result<std::set<int>> instances() const {
    MS_TRY_ASSIGN(const std::string listed,
                  systemctl({"list-units", "--plain", "--no-legend", "--state=active,activating",
                             template_ + "*.service"}));
    std::set<int> out;
    for (std::size_t at = 0; at < listed.size();) {
      const std::size_t end = std::min(listed.find('\n', at), listed.size());
      const std::string_view line = std::string_view(listed).substr(at, end - at);
      at = end + 1;
      if (!line.starts_with(template_)) continue;
      int instance = 0;
      const char* const from = line.data() + template_.size();
      const auto [rest, problem] = std::from_chars(from, line.data() + line.size(), instance);
      if (problem == std::errc() && instance > 0 && std::string_view(rest).starts_with(".service"))
        out.insert(instance);
    }
    return out;
  }

  // The workers of this machine.
  Result<std::map<std::int64_t, WorkerInfo>> by_pid() const {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    MS_TRY_ASSIGN(const std::vector<WorkerInfo> all, static_cast<Jobs&>(client_).workers());
    std::map<std::int64_t, WorkerInfo> out;
    for (const WorkerInfo& worker : all) {
      if (worker.facts.host == host) out.emplace(worker.facts.pid, worker);
    }
    return out;
  }

  Result<const WorkerInfo*> worker_of(int instance,
                                      const std::map<std::int64_t, WorkerInfo>& workers) const {
    MS_TRY_ASSIGN(const std::string text,
                  systemctl({"show", "--value", "--property=MainPID", name(instance)}));
    std::int64_t pid = 0;
    std::from_chars(text.data(), text.data() + text.size(), pid);
    const auto found = workers.find(pid);
    return found == workers.end() ? nullptr : &found->second;
  }

  Result<void> stop(int instance, const WorkerInfo* worker) {
    // A worker that the server has not seen yet may claim at any moment.
    if (worker == nullptr) return {};
    if (worker->command == WorkerCommand::none) {
      mine_.insert(instance);
      return command(*worker, "quiet");
    }
    if (worker->running > 0 || worker->parked) return {};
    mine_.erase(instance);
    auto stopped = systemctl({"stop", "--no-block", name(instance)});
    return stopped ? Result<void>() : stopped.error();
  }

  Result<void> command(const WorkerInfo& worker, const char* what) const {
    auto done = client_.request(
        "POST", fmt::format("/v1/workers/{}/{}", percent_encode(worker.id), what), "");
    return done ? Result<void>() : done.error();
  }

  Client& client_;
  const std::string template_;  // with the @
  std::set<int> mine_;          // instances that were made quiet here
  bool waits_ = false;
};

}  // namespace

Result<int> run_scale_units(const Invocation& invocation, Io& io) {
  std::string unit = *invocation.argument("TEMPLATE");
  if (unit.ends_with(".service")) unit.resize(unit.size() - std::string_view(".service").size());
  if (!unit.ends_with('@') || unit.size() < 2) {
    return invalid("TEMPLATE", fmt::format("{}: must be a template such as mainspring-worker@",
                                           unit.substr(0, 64)));
  }
  const std::string pool = invocation.flag("pool").value_or(unit.substr(0, unit.size() - 1));
  MS_TRY_ASSIGN(const std::string query, scale_query(invocation, pool));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, 15s));
  Units units(*connection->client, unit);
  return follow_scale(
      invocation, io, *connection->client, query, pool,
      [&](const ScaleAnswer& answer) { return units.apply(answer.value); },
      [&] { return units.waits(); });
}

}  // namespace mainspring::cli
