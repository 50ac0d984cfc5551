// One exchange as values: what a request asks, what is to be done for it, what is replied. Free of
// sockets, so that every route can be tested by a call.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "api/lease_shapes.h"
#include "api/shapes.h"
#include "base/mutex.h"
#include "http/server.h"

namespace mainspring::http {

inline constexpr std::string_view kJson = "application/json";

struct Reply {
  int status = 200;
  std::string body;
  std::string_view content_type = kJson;  // of static lifetime
  std::string allow = {};                 // of a 405: the methods
  int retry_after_s = 0;                  // 0 = no header
};
Reply error_reply(const Error& error);

// A request that has been matched to a route.
struct Request {
  std::string param;  // of the path: an id or a name, decoded; "" if the route has none
  std::vector<std::pair<std::string, std::string>> query;
  std::string_view body;
  std::string_view idempotency_key;
};

// -- what is to be done

// A read, on a reader thread.
struct DoRead {
  std::function<Reply()> read;
};
// A change, through the broker.
struct DoWrite {
  using Answer = std::variant<Reply, DoRead>;  // now, or from what the store says then
  Operation operation;
  std::function<Answer(OperationResult& result)> answer;  // not called with an Error
};
// An enqueue of one job whose end is waited for.
struct DoEnqueueAndWait {
  Enqueue operation;
  Duration wait{0};
};
struct DoClaim {
  ClaimRequest request;
};
struct DoFinish {
  FinishRequest request;
};
// An acquire of a lease, which may wait for it.
struct DoAcquire {
  AcquireRequest request;
};
// GET of a job once it is terminal.
struct DoWait {
  JobId id = 0;
  Duration wait{0};
};
using Plan =
    std::variant<Reply, DoWrite, DoEnqueueAndWait, DoClaim, DoFinish, DoAcquire, DoRead, DoWait>;

// What plans are made with and reads read. Everything in it may be used from every thread.
struct Services {
  Broker& broker;
  const Store& store;
  const Clock& clock;
  Registry& registry;
  const HttpOptions& options;
  std::string openapi;
  std::atomic<bool> verifying{false};  // one verification at a time

  std::string not_ready() const MS_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    return why_not_ready;
  }
  void set_not_ready(std::string why) MS_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    if (why_not_ready.empty()) why_not_ready = std::move(why);
  }
  mutable Mutex mutex;
  std::string why_not_ready MS_GUARDED_BY(mutex);  // "" = ready
};

}  // namespace mainspring::http
