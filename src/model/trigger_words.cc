// Triggers: the words and rules of their definitions.
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

// Neither empty parts nor "." nor "..": what is compared with the watch roots is the place itself.
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

}  // namespace

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
  if (trigger.http.has_value() == trigger.folder.has_value())
    return invalid("http", "a trigger has a source: give http or folder, and not both");
  if (trigger.http) MS_TRY(check_hook(*trigger.http));
  if (trigger.folder) MS_TRY(check_folder(*trigger.folder));
  MS_TRY(validate(trigger.job, "job."));
  if (trigger.job.run_at)
    return invalid("job.run_at", "job.run_at: its jobs have many times; give delay");
  return check_not_reserved("job.queue", trigger.job.queue);
}

}  // namespace mainspring
