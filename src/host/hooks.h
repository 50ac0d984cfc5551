// Hooks: posts events to URLs that asked for them. Kept in a file; no retries; a 410 answer removes
// a hook, 10 s are the limit, user:password@ in the URL is basic authentication. Source: Kudu.
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
  // `path`: hooks.json, readable by its owner only: URLs may hold passwords. `limit`: of a post,
  // from its first step to the end of the answer. Errors: io_error; a file that cannot be
  // understood is one (it is not overwritten); invalid_argument (outgoing_allow: what hooks may
  // reach beyond public addresses, see OutgoingOptions).
  static Result<std::unique_ptr<Hooks>> open(std::string path, const Clock& clock, Random& random,
                                             Log& log, std::vector<std::string> outgoing_allow,
                                             Duration limit = kLimit);
  ~Hooks();  // waits for the post under way, for up to its limit; drops the others

  // The hook, and whether it is new. Errors: invalid_argument (url: one that outgoing requests may
  // not go to; event), conflict (the url has a hook of another event), too_large (kMaxHooks),
  // io_error, storage_full.
  Result<std::pair<HookView, bool>> add(const std::string& url, const std::string& event,
                                        bool insecure_ssl);
  // Their URLs as without_password() shows them; so is that of add().
  std::vector<HookView> list() const;
  // Errors: not_found, io_error, storage_full.
  Result<void> remove(const std::string& id);
  // Posts in the background, one after the other, each to the hooks of its event. What came of the
  // last post stands in the hook: last_status "200" or "error", last_reason "OK" or what went
  // wrong, last_datetime, last_context the beginning of what was posted. In order, up to
  // kMaxWaiting events; beyond, the oldest is dropped with a warning in the log.
  void publish(const std::string& event, std::string_view json);
  // Waits until nothing is to be posted; for tests and the end.
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
