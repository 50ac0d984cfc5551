// Hooks: posts events to registered URLs. Kept in a file; no retries; an answer 410 removes a hook;
// the limit is 10 s; user:password@ in the URL is basic authentication. Source: Kudu.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "env/clock.h"
#include "env/random.h"
#include "host/control.h"
#include "telemetry/log.h"

namespace mainspring {

class Hooks {
 public:
  // `path`: hooks.json, readable by its owner only, as URLs may contain passwords. `limit`: of a
  // post, from its start to the end of the answer. Errors: io_error, also for an invalid file (it
  // is not overwritten); invalid_argument (outgoing_allow: what hooks may reach beyond public
  // addresses, see OutgoingOptions).
  static Result<std::unique_ptr<Hooks>> open(std::string path, const Clock& clock, Random& random,
                                             Log& log, std::vector<std::string> outgoing_allow,
                                             Duration limit = kLimit);
  ~Hooks();  // waits for the current post, up to its limit; drops the others

  // Returns the hook, and whether it is new. Errors: invalid_argument (url: not allowed for
  // outgoing requests; event), conflict (the url has a hook of another event), too_large
  // (kMaxHooks), io_error, storage_full.
  Result<std::pair<HookView, bool>> add(const std::string& url, const std::string& event,
                                        bool insecure_ssl);
  // URLs are shown by without_password(); also in the result of add().
  std::vector<HookView> list() const;
  // Errors: not_found, io_error, storage_full.
  Result<void> remove(const std::string& id);
  // Posts in the background, one after another, each to the hooks of its event, in order. Up to
  // kMaxWaiting events wait; beyond that the oldest is dropped with a warning in the log. The hook
  // records the last post: last_status "200" or "error", last_reason "OK" or the error,
  // last_datetime, last_context the start of the posted text.
  void publish(const std::string& event, std::string_view json);
  // Waits until all posts are done; for tests and the shutdown.
  void drain();

  static constexpr Duration kLimit = std::chrono::seconds(10);
  static constexpr std::size_t kMaxHooks = 100;
  static constexpr std::size_t kMaxWaiting = 1000;

 private:
  struct Impl;
  explicit Hooks(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
