// Shared by the files of Client: how a call becomes requests, and when it is repeated.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "api/name_page.h"
#include "base/mutex.h"
#include "client/client.h"
#include "client/connection.h"
#include "env/clock.h"
#include "tls/tls.h"

namespace mainspring {

// Escapes all but unreserved characters as %XX, for a path or a query. Source: RFC 3986, 2.3.
std::string percent_encode(std::string_view text);

// How long a stopped claim or acquire still waits for an answer that may already be on its way.
inline constexpr Duration kAfterStop = std::chrono::milliseconds(250);
inline constexpr Duration kWaitSlice = std::chrono::seconds(30);  // of a longer wait

std::string list_path(std::string_view path, const std::string& after, int limit);

// The first `limit` entries after `after` of a list by name. A page of the server may be short and
// not be the last, so its `next` decides. `ask(after, limit)` returns the body of one page.
template <class T, class Ask, class Decode>
Result<std::vector<T>> read_named(std::string after, int limit, Ask ask, Decode decode) {
  std::vector<T> out;
  for (;;) {
    MS_TRY_ASSIGN(const std::string body, ask(after, limit - static_cast<int>(out.size())));
    MS_TRY_ASSIGN(NamePage<T> page, decode(body));
    std::move(page.items.begin(), page.items.end(), std::back_inserter(out));
    if (page.next.empty() || page.next == after || std::ssize(out) >= limit) return out;
    after = std::move(page.next);
  }
}

struct Client::Impl {
  enum class Repeat {
    no,
    unseen,  // only if the server has not received it, or said that it did nothing
    yes,
  };
  struct Call {
    std::string_view method;
    std::string target;
    std::string body;
    std::string idempotency_key;
    Repeat repeat = Repeat::yes;
    Duration answer_within{0};  // 0 = read_timeout; more: the server may wait that much longer
    Duration after_stop{0};
    std::stop_token stop;
    std::string_view content_type = "application/json";
    std::string_view file_name = "";
    const std::function<bool(std::string_view)>* sink = nullptr;
    const std::function<bool()>* ask_to_end = nullptr;
  };

  Impl(ClientOptions options_, std::vector<HttpUrl> urls_, std::unique_ptr<TlsClient> tls_,
       Random& random_)
      : options(std::move(options_)),
        urls(std::move(urls_)),
        tls(std::move(tls_)),
        random(random_),
        idle(urls.size()) {}

  Result<std::string> run(const Call& call) MS_EXCLUDES(mutex);
  ExchangeResult once(const Call& call) MS_EXCLUDES(mutex);
  ExchangeResult at(std::size_t server, const Call& call) MS_EXCLUDES(mutex);
  void look_at_certificate() MS_EXCLUDES(mutex);
  void pause(Duration length, const std::stop_token& stop) MS_EXCLUDES(mutex);

  std::unique_ptr<Connection> take(std::size_t server) MS_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    std::vector<std::unique_ptr<Connection>>& kept = idle[server];
    while (!kept.empty()) {
      std::unique_ptr<Connection> connection = std::move(kept.back());
      kept.pop_back();
      if (connection->usable()) return connection;
    }
    return nullptr;
  }
  void give_back(std::size_t server, std::unique_ptr<Connection> connection) MS_EXCLUDES(mutex) {
    if (!connection->usable()) return;
    MutexLock lock(mutex);
    if (idle[server].size() < options.max_idle_connections) {
      idle[server].push_back(std::move(connection));
    }
  }

  const ClientOptions options;
  const std::vector<HttpUrl> urls;
  std::atomic<std::size_t> current{0};   // the server that calls go to, in `urls`
  const std::unique_ptr<TlsClient> tls;  // nullptr = no https
  Random& random;
  const SystemClock clock;  // time limits of sockets use real time in any case
  Mutex mutex;
  CondVar paused;
  Instant look_at MS_GUARDED_BY(mutex);  // the certificate
  std::vector<std::vector<std::unique_ptr<Connection>>> idle MS_GUARDED_BY(mutex);  // per server
  std::atomic<std::int64_t> made{0};
};

}  // namespace mainspring
