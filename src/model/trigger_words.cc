// Names and rules of trigger definitions.
#include <fmt/format.h>

#include "mainspring/trigger.h"
#include "model/callback.h"

namespace mainspring {
namespace {

Result<void> check_hook(const HookSource& http) {
  if (http.rate < 1 || http.rate > kMaxHookRate) {
    return invalid("http.rate",
                   fmt::format("http.rate {}: must be 1 to {}", http.rate, kMaxHookRate));
  }
  if (http.event_id.size() <= kMaxEventBytes) return {};
  return invalid("http.event_id", fmt::format("http.event_id has {} bytes: must be at most {}",
                                              http.event_id.size(), kMaxEventBytes));
}

// No empty parts, "." or "..": the path compared with the watch roots must be the real location.
bool is_plain_path(std::string_view path) {
  if (path.size() < 2 || path.front() != '/') return false;
  while (!path.empty()) {
    path.remove_prefix(1);
    const std::string_view part = path.substr(0, path.find('/'));
    if (part.empty() || part == "." || part == "..") return false;
    path.remove_prefix(part.size());
  }
  return true;
}

Result<void> check_folder(const FolderSource& folder) {
  if (folder.path.size() > kMaxFolderPathBytes || !is_plain_path(folder.path) ||
      folder.path.find('\0') != std::string::npos) {
    return invalid("folder.path",
                   fmt::format("folder.path \"{}\": must be an absolute path of at most {} bytes, "
                               "without \"..\" and without a / at its end",
                               folder.path.substr(0, 64), kMaxFolderPathBytes));
  }
  if (folder.pattern.empty() || folder.pattern.size() > kMaxPatternBytes ||
      folder.pattern.find('/') != std::string::npos) {
    return invalid("folder.pattern",
                   fmt::format("folder.pattern \"{}\": must be 1 to {} bytes without a /",
                               folder.pattern.substr(0, 64), kMaxPatternBytes));
  }
  if (folder.stable < Duration(0) || folder.stable > kMaxStable) {
    return invalid("folder.stable",
                   fmt::format("folder.stable {}: must be 0s to {}", format_duration(folder.stable),
                               format_duration(kMaxStable)));
  }
  if (folder.node.empty()) return {};
  return check_name("folder.node", folder.node);
}

Result<void> check_ended(const EndedSource& ended, const NewJob& job) {
  if (!ended.queue.empty()) {
    MS_TRY(check_name("ended.queue", ended.queue));
    MS_TRY(check_not_reserved("ended.queue", ended.queue));
  }
  if (!ended.kind.empty()) MS_TRY(check_name("ended.kind", ended.kind));
  if (ended.on == 0 || (ended.on & ~FollowUp::kEveryEnd) != 0) {
    return invalid("ended.on",
                   "ended.on: must name at least one of \"completed\", \"cancelled\" and \"dead\"");
  }
  // An empty queue selects all queues, including the trigger's own jobs; such a chain ends by
  // itself.
  if (ended.queue != job.queue || (!ended.kind.empty() && ended.kind != job.kind)) return {};
  return invalid("ended.kind",
                 fmt::format("ended.kind \"{}\": its own jobs, of queue {} and kind {}, would fire "
                             "it again: name another kind, or another queue",
                             ended.kind, job.queue, job.kind));
}

std::uint8_t bit_of(JobState end) {
  if (end == JobState::completed) return FollowUp::kCompleted;
  if (end == JobState::cancelled) return FollowUp::kCancelled;
  return end == JobState::dead ? FollowUp::kDead : 0;
}

}  // namespace

bool fires(const EndedSource& source, std::string_view queue, std::string_view kind, JobState end) {
  if ((source.on & bit_of(end)) == 0) return false;
  if (!source.kind.empty() && source.kind != kind) return false;
  return source.queue.empty() ? !queue.starts_with(kReservedQueues) : source.queue == queue;
}

std::string_view to_string(HookAuth auth) {
  return auth == HookAuth::token ? "token" : "signature";
}
std::optional<HookAuth> parse_hook_auth(std::string_view text) {
  if (text == "token") return HookAuth::token;
  if (text == "signature") return HookAuth::signature;
  return std::nullopt;
}

Result<void> validate(const Trigger& trigger) {
  MS_TRY(check_name("name", trigger.name));
  const int sources = (trigger.http ? 1 : 0) + (trigger.folder ? 1 : 0) + (trigger.ended ? 1 : 0);
  if (sources != 1)
    return invalid("http", "a trigger has one source: give exactly one of http, folder and ended");
  if (trigger.http) MS_TRY(check_hook(*trigger.http));
  if (trigger.folder) MS_TRY(check_folder(*trigger.folder));
  MS_TRY(validate(trigger.job, "job."));
  if (trigger.ended) MS_TRY(check_ended(*trigger.ended, trigger.job));
  if (trigger.job.run_at) return invalid("job.run_at", "job.run_at: must not be given; use delay");
  return check_not_reserved("job.queue", trigger.job.queue);
}

}  // namespace mainspring
