// Posts events through the guarded client, on a separate thread.
#include "host/hooks.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <thread>

#include "api/json.h"
#include "base/mutex.h"
#include "base/secret.h"
#include "host/deploy.h"
#include "host/files.h"
#include "outgoing/outgoing_client.h"

namespace mainspring {
namespace {

constexpr std::size_t kMaxHookEventBytes = 80;
constexpr std::size_t kMaxFileBytes = 4 << 20;
constexpr std::size_t kMaxContextBytes = 4096;
constexpr int kGone = 410;
constexpr const char* kFailed = "error";

// -- hooks.json

template <std::string HookView::*Field>
bool text(JsonReader& in, HookView& hook) {
  return in.string(hook.*Field);
}

constexpr JsonField<HookView> kFields[] = {
    {"id", &text<&HookView::id>},
    {"url", &text<&HookView::url>},
    {"event", &text<&HookView::event>},
    {"insecure_ssl", [](JsonReader& in, HookView& hook) { return in.boolean(hook.insecure_ssl); }},
    {"last_status", &text<&HookView::last_status>},
    {"last_reason", &text<&HookView::last_reason>},
    {"last_datetime", &text<&HookView::last_datetime>},
    {"last_context", &text<&HookView::last_context>},
};

Result<std::vector<HookView>> read_hooks(const std::string& path) {
  MS_TRY_ASSIGN(const auto file, read_whole_file(path, kMaxFileBytes));
  std::vector<HookView> hooks;
  if (!file) return hooks;
  JsonReader in(*file, JsonReader::Unknown::skip);
  const bool read = in.array(Hooks::kMaxHooks, [&](std::size_t) {
    hooks.emplace_back();
    return in.object(kFields, hooks.back());
  });
  if (read && in.end()) return hooks;
  return Error{ErrorCode::io_error,
               fmt::format("cannot read {}: {}; fix or remove it", path, in.error().message)};
}

std::string to_json(const std::vector<HookView>& hooks) {
  std::string out;
  JsonWriter w(out);
  w.begin_array();
  for (const HookView& hook : hooks) {
    w.begin_object().key("id").string(hook.id).key("url").string(hook.url);
    w.key("event").string(hook.event).key("insecure_ssl").boolean(hook.insecure_ssl);
    w.key("last_status").string(hook.last_status).key("last_reason").string(hook.last_reason);
    w.key("last_datetime").string(hook.last_datetime);
    w.key("last_context").string(hook.last_context).end_object();
  }
  w.end_array();
  return out + "\n";
}

Result<void> check_event(std::string_view event) {
  const bool plain = !event.empty() && event.size() <= kMaxHookEventBytes &&
                     std::all_of(event.begin(), event.end(), [](char c) {
                       return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                              (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
                     });
  if (plain) return {};
  return invalid("event", fmt::format("event \"{}\": must be 1 to {} letters, digits, '.', '_' or "
                                      "'-', such as TriggeredJobFinished",
                                      cut_text(event, kMaxHookEventBytes), kMaxHookEventBytes));
}

// -- posting

struct PostOutcome {
  int status = 0;  // 0 = there was no answer
  std::string reason;
};

PostOutcome post(const OutgoingClient& client, const HookView& hook, const std::string& json) {
  OutgoingRequest request;
  request.url = hook.url;
  request.headers = {{"Content-Type", "application/json"}};
  request.body = json;
  request.take_userinfo = true;
  request.certificates = hook.insecure_ssl ? Certificates::any : Certificates::verified;
  const auto answer = client.post(request);
  if (!answer) return {0, answer.error().message};
  return {answer->status, answer->reason};
}

// The hook as shown to people, without passwords.
HookView shown(HookView hook) {
  hook.url = without_password(hook.url);
  return hook;
}

}  // namespace

struct Hooks::Impl {
  struct Event {
    std::string name;
    std::string json;
  };

  Impl(std::string path_of_file, const Clock& the_clock, Random& the_random, Log& the_log,
       std::unique_ptr<Resolver> the_resolver, std::unique_ptr<OutgoingClient> the_client)
      : path(std::move(path_of_file)),
        clock(the_clock),
        random(the_random),
        log(the_log),
        resolver(std::move(the_resolver)),
        client(std::move(the_client)) {}

  const std::string path;
  const Clock& clock;
  Random& random;
  Log& log;
  const std::unique_ptr<Resolver> resolver;
  const std::unique_ptr<OutgoingClient> client;

  // Held while the hooks are written, so that files are written in the order of changes. `mutex`,
  // which guards reads of the hooks, is not held meanwhile.
  Mutex writing;
  Mutex mutex;
  CondVar changed;
  std::vector<HookView> hooks MS_GUARDED_BY(mutex);
  std::deque<Event> waiting MS_GUARDED_BY(mutex);
  bool busy MS_GUARDED_BY(mutex) = false;
  bool stopping MS_GUARDED_BY(mutex) = false;
  std::thread thread;

  std::vector<HookView> all() {
    MutexLock lock(mutex);
    return hooks;
  }

  // `change` modifies the hooks and returns whether it changed them. If they cannot be written, the
  // change is undone.
  template <class F>
  Result<void> update(F&& change) MS_EXCLUDES(writing) {
    MutexLock order(writing);
    std::vector<HookView> next = all();
    MS_TRY_ASSIGN(const bool is_changed, change(next));
    if (!is_changed) return {};
    MS_TRY(write_file_atomically(path, to_json(next), 0600));
    MutexLock lock(mutex);
    hooks = std::move(next);
    return {};
  }

  void run();
  void publish_to(const HookView& hook, const Event& event);
};

void Hooks::Impl::run() {
  for (;;) {
    Event event;
    std::vector<HookView> to;
    {
      MutexLock lock(mutex);
      busy = false;
      changed.notify_all();
      while (waiting.empty() && !stopping) changed.wait(mutex);
      if (stopping) return;
      event = std::move(waiting.front());
      waiting.pop_front();
      busy = true;
      to = hooks;
    }
    for (const HookView& hook : to) {
      if (hook.event != event.name) continue;
      publish_to(hook, event);
      MutexLock lock(mutex);
      if (stopping) return;
    }
  }
}

void Hooks::Impl::publish_to(const HookView& hook, const Event& event) {
  const PostOutcome outcome = post(*client, hook, event.json);
  const auto updated = update([&](std::vector<HookView>& next) -> Result<bool> {
    const auto found =
        std::find_if(next.begin(), next.end(), [&](const HookView& h) { return h.id == hook.id; });
    if (found == next.end()) return false;  // removed meanwhile
    if (outcome.status == kGone) {
      next.erase(found);
      return true;
    }
    found->last_status = outcome.status == 0 ? kFailed : fmt::to_string(outcome.status);
    found->last_reason = outcome.reason;
    found->last_datetime = format_wall_time(clock.now().wall);
    found->last_context = cut_text(event.json, kMaxContextBytes);
    return true;
  });
  if (outcome.status == kGone) {
    log.info("hook removed: its server answered 410", {{"id", hook.id}, {"event", hook.event}});
  } else if (outcome.status < 200 || outcome.status > 299) {
    log.warn(
        "hook failed",
        {{"id", hook.id}, {"status", fmt::to_string(outcome.status)}, {"reason", outcome.reason}});
  }
  if (!updated)
    log.warn("the outcome of a hook was not recorded", {{"reason", updated.error().message}});
}

Hooks::Hooks(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  impl_->thread = std::thread([this] { impl_->run(); });
}

Hooks::~Hooks() {
  {
    MutexLock lock(impl_->mutex);
    impl_->stopping = true;
    impl_->changed.notify_all();
  }
  impl_->thread.join();
}

Result<std::unique_ptr<Hooks>> Hooks::open(std::string path, const Clock& clock, Random& random,
                                           Log& log, std::vector<std::string> outgoing_allow,
                                           Duration limit) {
  OutgoingOptions options;
  options.allow = std::move(outgoing_allow);
  options.total_limit = limit;
  options.connect_limit = std::min(limit, options.connect_limit);
  auto resolver = std::make_unique<SystemResolver>();
  MS_TRY_ASSIGN(auto client, OutgoingClient::open(std::move(options), *resolver, clock));
  auto impl = std::make_unique<Impl>(std::move(path), clock, random, log, std::move(resolver),
                                     std::move(client));
  MS_TRY_ASSIGN(auto hooks, read_hooks(impl->path));
  {
    MutexLock lock(impl->mutex);
    impl->hooks = std::move(hooks);
  }
  return std::unique_ptr<Hooks>(new Hooks(std::move(impl)));
}

Result<std::pair<HookView, bool>> Hooks::add(const std::string& url, const std::string& event,
                                             bool insecure_ssl) {
  MS_TRY(impl_->client->check(url, true));
  MS_TRY(check_event(event));
  std::pair<HookView, bool> added;
  MS_TRY(impl_->update([&](std::vector<HookView>& hooks) -> Result<bool> {
    const auto same = std::find_if(hooks.begin(), hooks.end(),
                                   [&](const HookView& hook) { return hook.url == url; });
    if (same != hooks.end() && same->event != event) {
      return Error{ErrorCode::conflict,
                   fmt::format("url: a hook with this URL exists, for the event {}: {}",
                               same->event, same->id),
                   "url"};
    }
    if (same != hooks.end()) {
      added = {*same, false};
      return false;
    }
    if (hooks.size() == kMaxHooks) {
      return Error{ErrorCode::too_large,
                   fmt::format("there are {} hooks already; remove one", kMaxHooks)};
    }
    HookView hook;
    hook.id = impl_->random.hex128();
    hook.url = url;
    hook.event = event;
    hook.insecure_ssl = insecure_ssl;
    hooks.push_back(hook);
    added = {std::move(hook), true};
    return true;
  }));
  added.first = shown(std::move(added.first));
  return added;
}

std::vector<HookView> Hooks::list() const {
  std::vector<HookView> hooks = impl_->all();
  for (HookView& hook : hooks) hook = shown(std::move(hook));
  return hooks;
}

Result<void> Hooks::remove(const std::string& id) {
  return impl_->update([&](std::vector<HookView>& hooks) -> Result<bool> {
    if (std::erase_if(hooks, [&](const HookView& hook) { return hook.id == id; }) != 0) return true;
    return Error{ErrorCode::not_found, fmt::format("no hook {}", id.substr(0, kMaxHookEventBytes))};
  });
}

void Hooks::publish(const std::string& event, std::string_view json) {
  std::size_t dropped = 0;
  {
    MutexLock lock(impl_->mutex);
    bool wanted = false;
    for (const HookView& hook : impl_->hooks) wanted = wanted || hook.event == event;
    if (!wanted) return;
    for (; impl_->waiting.size() >= kMaxWaiting; ++dropped) impl_->waiting.pop_front();
    impl_->waiting.push_back({event, std::string(json)});
    impl_->changed.notify_all();
  }
  if (dropped != 0) {
    impl_->log.warn("hooks are too slow: the oldest event was dropped",
                    {{"waiting", fmt::to_string(kMaxWaiting)}});
  }
}

void Hooks::drain() {
  MutexLock lock(impl_->mutex);
  while ((!impl_->waiting.empty() || impl_->busy) && !impl_->stopping) {
    impl_->changed.wait(impl_->mutex);
  }
}

}  // namespace mainspring
