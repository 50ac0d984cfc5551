// One exchange as values: the request, the plan to run, the reply. Independent of sockets, so that
// tests can call every route directly.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "api/lease_shapes.h"
#include "api/shapes.h"
#include "base/mutex.h"
#include "env/random.h"
#include "http/caller.h"
#include "http/health.h"
#include "http/hook_gate.h"
#include "http/room.h"
#include "http/server.h"
#include "http/store_report.h"
#include "model/trace_context.h"
#include "scale/scaler.h"

namespace mainspring::http {

inline constexpr std::string_view kJson = "application/json";

struct Reply {
  int status = 200;
  std::string body;
  std::string_view content_type = kJson;  // of static lifetime
  std::string allow = {};                 // the methods, for a 405
  int retry_after_s = 0;                  // 0 = no header
  std::string headers = {};               // further lines, see add_header()
  std::shared_ptr<HeldRoom> room = {};    // of a large body, until it is written
};
// Takes room for the body of `reply`. Returns false, and replaces it with a refusal, if there is
// none.
bool hold_room(Reply& reply, const std::shared_ptr<Room>& room, const Room::Payer& payer);
Reply error_reply(const Error& error);
// Control characters in `value` become spaces, so that it stays one line.
void add_header(Reply& reply, std::string_view name, std::string_view value);

// The value of a Set-Cookie header that opens a dashboard session; session "" ends it. `secure`:
// restricts the cookie to TLS.
std::string session_cookie(std::string_view session, bool secure);

using HeaderFields = std::vector<std::pair<std::string, std::string>>;
// The first value of a header; "" = not present.
std::string_view header_value(const HeaderFields& headers, std::string_view name);

// A body of any type, passed on whole. Its bytes count as buffered while it has an owner.
struct Upload {
  const std::string bytes;
  const std::shared_ptr<HeldRoom> room;  // nullptr: it arrived with its head
};

// A request that has been matched to a route.
struct Request {
  std::string param;  // of the path: an id or a name, decoded; "" if the route has none
  std::vector<std::string> more_params;  // after the first; a {rest*} is not decoded
  std::vector<std::pair<std::string, std::string>> query;
  std::string_view body;
  std::string_view idempotency_key;
  std::shared_ptr<const TraceHeaders> trace;  // for the jobs that it creates; nullptr = none
  std::shared_ptr<const Caller> caller;       // never nullptr when a plan is made
  std::string_view action;                    // the route's id
  // -- only for routes that ask for them, else empty
  HeaderFields headers;
  std::shared_ptr<const Upload> upload;
  std::string method;     // for routes that take every method
  std::string raw_query;  // for routes that take any query
  Secret presented;       // the Authorization, for routes that ask for it
  bool secure = false;    // over TLS, here or at the proxy in front of this server
};

// -- what is to be done

// Reader threads: for the store, or for job folders, whose files may be slow.
enum class Pool { store, host };
// A read, on a reader thread.
struct DoRead {
  std::function<Reply()> read;
  Pool pool = Pool::store;
};
// A change, through the broker.
struct DoWrite {
  using Answer = std::variant<Reply, DoRead>;  // now, or after a read of the store
  Operation operation;
  std::function<Answer(OperationResult& result)> answer;  // not called with an Error
  std::optional<Audit> audit = {};
  // What depends on stored state and must hold first; on a reader thread.
  std::function<Result<void>()> check = {};
};
// An enqueue of one job that waits for the job's end.
struct DoEnqueueAndWait {
  Enqueue operation;
  Duration wait{0};
  std::optional<Audit> audit = {};
};
struct DoClaim {
  enum class Answer : std::uint8_t {
    jobs,
    session,  // the accepted session and its job
  };
  ClaimRequest request;
  std::optional<Audit> audit = {};
  Answer answer = Answer::jobs;
};
struct DoFinish {
  FinishRequest request;
  std::optional<Audit> audit = {};
  std::optional<Audit> claim_audit = {};
};
// An acquire of a lease, which may wait for it.
struct DoAcquire {
  AcquireRequest request;
};
// A GET of a job that waits until the job is terminal.
struct DoWait {
  JobId id = 0;
  Duration wait{0};
};
// The next part of a stream.
struct StreamPiece {
  std::optional<Reply> reply;  // instead of a piece: a complete reply, or the error that ends it
  std::string bytes;           // "" = nothing yet
  bool ended = false;          // nothing comes after `bytes`
};
// A reply that is sent in pieces, or waited for. One piece is in progress at a time; no thread is
// occupied between pieces.
struct DoStream {
  // Returns the next piece. On a reader thread, one call at a time. `last`: the wait is over, so it
  // must return a reply even if there is nothing yet.
  std::function<StreamPiece(bool last)> next;
  // Called after an empty piece, on the same thread: calls `ready` once when there may be more.
  // Destroying the result ends the watch.
  std::function<Result<std::shared_ptr<void>>(std::function<void()> ready)> watch;
  // Absent: a stream of pieces. Set: one reply, as soon as next() has one or after this time.
  std::optional<Duration> wait;
  std::string_view content_type = "text/plain; charset=utf-8";
  Pool pool = Pool::host;
  // For a stream of pieces: the interval at which next() is called with `last` even if there is
  // nothing new, for a heartbeat.
  std::optional<Duration> beat = {};
};
// A request that is passed on to a program on this machine.
struct DoProxy {
  std::function<Result<int>()> port;  // on a reader thread
  std::string method, target;
  HeaderFields headers;
  std::shared_ptr<const Upload> body;
  Reply (*refusal)(int status, std::string_view message) = nullptr;  // if it cannot be passed on
};
using Plan = std::variant<Reply, DoWrite, DoEnqueueAndWait, DoClaim, DoFinish, DoAcquire, DoRead,
                          DoWait, DoStream, DoProxy>;

// The objects that plans and reads use. All are thread-safe.
struct Services {
  Broker& broker;
  const Store& store;
  const Clock& clock;
  Registry& registry;
  const HttpOptions& options;
  std::string openapi;
  std::atomic<bool> verifying{false};  // one verification at a time
  HostControl* host = nullptr;         // set before the start; nullptr = no job folders
  HostRoutes host_routes = {};
  TestControl* test = nullptr;  // set before the start; nullptr = not a test server
  std::int64_t host_epoch = 0;  // of this start: the host's versions restart with it
  SystemRandom random = {};
  const Secret own_key{random.hex128()};  // of this process, if the store has no key
  HookGate hooks{options.free_failures};
  std::atomic<int> proxied{0};  // requests that are being passed on
  Health health{broker, store, clock, options.health_parts};
  StoreReport store_report{broker, clock, options.store_size};
  Scaler scaler{broker, clock, registry, options.scale_pools};

  const Secret& key() const {
    return options.job_token_key.empty() ? own_key : options.job_token_key;
  }
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
