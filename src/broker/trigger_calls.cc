// Triggers: input checks, and the broker's calls.
#include "broker/trigger_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "api/json.h"
#include "broker/sync_call.h"
#include "env/digest.h"
#include "workflow/references.h"

namespace mainspring {
namespace {

// Retries if the definition changes while an event is processed.
constexpr int kTries = 3;
constexpr std::array<std::string_view, 4> kHookNames = {"body", "headers", "query", "trigger"};
constexpr std::array<std::string_view, 2> kFolderNames = {"file", "trigger"};
constexpr std::array<std::string_view, 2> kEndedNames = {"job", "trigger"};

template <std::size_t N>
Result<void> check_references(std::string_view field, std::string_view json,
                              const std::array<std::string_view, N>& names) {
  std::string unknown;
  MS_TRY(workflow::for_each_reference(field, json, [&](std::string_view name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) unknown = name;
  }));
  if (unknown.empty()) return {};
  return invalid(std::string(field),
                 fmt::format("{}: a reference to \"{}\": must begin with {}", field,
                             cut_text(unknown, 64), fmt::join(names, ", ")));
}

workflow::Names names_of(const std::string& trigger, const FireTriggerRequest& event) {
  return [&trigger, &event](std::string_view name) -> std::optional<std::string> {
    if (name == "body") return event.body;
    if (name == "headers") return event.headers;
    if (name == "query") return event.query;
    if (name == "file") return event.file;
    if (name == "job") return event.job;
    if (name != "trigger") return std::nullopt;
    std::string out;
    JsonWriter w(out);
    w.begin_object().key("name").string(trigger).key("event").string(event.event).end_object();
    return out;
  };
}

bool is_below(std::string_view path, std::string_view root) {
  while (root.size() > 1 && root.ends_with('/')) root.remove_suffix(1);
  if (root == "/") return true;
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

}  // namespace

Result<void> check_trigger(const Trigger& trigger) {
  MS_TRY(validate(trigger));
  if (trigger.folder) return check_references("job.args", trigger.job.args, kFolderNames);
  if (trigger.ended) return check_references("job.args", trigger.job.args, kEndedNames);
  MS_TRY(check_references("job.args", trigger.job.args, kHookNames));
  const std::string& id = trigger.http->event_id;
  const std::string_view name = workflow::name_of(id);
  if (id.empty() || name == "body" || name == "headers" || name == "query") return {};
  return invalid("http.event_id", fmt::format("http.event_id \"{}\": must begin with body., "
                                              "headers. or query.",
                                              cut_text(id, 64)));
}

Result<void> check_watch_roots(const Trigger& trigger, std::span<const std::string> roots) {
  if (!trigger.folder) return {};
  const std::string& path = trigger.folder->path;
  if (roots.empty()) {
    return invalid("folder.path", fmt::format("folder.path \"{}\": this server watches no folders: "
                                              "it was started without --watch-root",
                                              cut_text(path, 128)));
  }
  if (std::any_of(roots.begin(), roots.end(),
                  [&](const std::string& root) { return is_below(path, root); }))
    return {};
  return invalid("folder.path",
                 fmt::format("folder.path \"{}\": must be below a --watch-root of this server",
                             cut_text(path, 128)));
}

Result<std::string> kept_secret(const HookSource& http, std::string_view secret) {
  if (secret.empty() || http.auth == HookAuth::signature) return std::string(secret);
  const bool printable =
      std::all_of(secret.begin(), secret.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (!printable || secret.size() < kMinHookTokenBytes || secret.size() > kMaxHookTokenBytes) {
    return invalid("secret", fmt::format("secret: must be {} to {} letters, digits and signs",
                                         kMinHookTokenBytes, kMaxHookTokenBytes));
  }
  return to_hex(sha256(secret));
}

Result<std::string> trigger_args(const Trigger& trigger, const FireTriggerRequest& event) {
  std::string args;
  if (trigger.job.args == "{}") {
    args = trigger.folder ? event.file : trigger.ended ? event.job : event.body;
  } else {
    MS_TRY_ASSIGN(args, workflow::resolve(trigger.job.args, names_of(trigger.name, event),
                                          workflow::Missing::refuse, kMaxArgsBytes));
  }
  if (args.size() <= kMaxArgsBytes) return args;
  return Error{ErrorCode::too_large,
               fmt::format("the args of the job have {} bytes: must be at most {}", args.size(),
                           kMaxArgsBytes)};
}

std::string event_id_of(std::string_view reference, const FireTriggerRequest& event) {
  const auto value = workflow::value_of(reference, names_of("", event));
  if (!value || *value == "null") return {};
  std::string text;
  JsonReader in(*value, JsonReader::Unknown::skip);
  if (in.peek() != JsonType::string || !in.string(text)) text = *value;
  return text.size() <= kMaxEventBytes ? text : to_hex(sha256(text));
}

Result<TriggerFired> fire_event(Broker& broker, const std::string& name,
                                const FireTriggerRequest& event, const TriggerEventSource& source) {
  if (event.event.size() > kMaxEventBytes || !is_utf8(event.event)) {
    return invalid("event",
                   fmt::format("event: must be UTF-8 of at most {} bytes", kMaxEventBytes));
  }
  for (int i = 1;; ++i) {
    MS_TRY_ASSIGN(const TriggerInfo info, broker.store_trigger(name));
    if (!source.within.has(info.trigger.job.queue)) {
      return Error{ErrorCode::not_found, fmt::format("trigger {}: there is no such trigger", name)};
    }
    MS_TRY_ASSIGN(std::string args, trigger_args(info.trigger, event));
    auto fired = broker.fire(FireTrigger{.name = name,
                                         .event = event.event,
                                         .args = std::move(args),
                                         .made_at = source.made_at,
                                         .version = info.version,
                                         .fence = source.fence,
                                         .within = source.within});
    const bool changed =
        !fired && fired.error().code == ErrorCode::conflict && fired.error().field == "version";
    if (!changed || i == kTries) return fired;
  }
}

// -- the broker's calls ---------------------------------------------------------------------------

Result<PutTriggerResult> Broker::put_trigger(Trigger trigger, const std::string& secret,
                                             std::optional<bool> paused) {
  MS_TRY(check_trigger(trigger));
  MS_TRY(check_watch_roots(trigger, options_.watch_roots));
  PutTrigger put{.trigger = std::move(trigger), .paused = paused};
  if (put.trigger.http) {
    MS_TRY_ASSIGN(put.secret, kept_secret(*put.trigger.http, secret));
  }
  return call<PutTriggerResult>(std::move(put));
}

Result<void> Broker::remove_trigger(const std::string& name) {
  MS_TRY(call<Done>(RemoveTrigger{.name = name}));
  return {};
}

Result<void> Broker::pause_trigger(PauseTrigger request) {
  request.reason = std::string(cut_text(request.reason, kMaxTextBytes));
  MS_TRY(call<Done>(std::move(request)));
  return {};
}

Result<TriggerFired> Broker::fire(FireTrigger request) {
  return call<TriggerFired>(std::move(request));
}

Result<TriggerFired> Broker::fire_trigger(const std::string& name,
                                          const FireTriggerRequest& event) {
  return fire_event(*this, name, event, {});
}

Result<TriggerInfo> Broker::store_trigger(const std::string& name) const {
  return store_.trigger(name);
}

Result<TriggerInfo> Broker::get_trigger(const std::string& name) {
  MS_TRY_ASSIGN(TriggerInfo info, store_.trigger(name));
  info.secret.clear();
  return info;
}

Result<std::vector<TriggerInfo>> Broker::triggers(const std::string& after, int limit) {
  MS_TRY_ASSIGN(std::vector<TriggerInfo> all, store_.triggers(after, limit));
  for (TriggerInfo& info : all) info.secret.clear();
  return all;
}

Result<TriggerEventPage> Broker::trigger_events(const std::string& name, int limit,
                                                std::int64_t before) {
  return store_.trigger_events(name, limit, before);
}

}  // namespace mainspring
