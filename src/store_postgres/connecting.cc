// Connects to the hosts of a URL in parallel, each a little later than the one before.
#include "store_postgres/connecting.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <set>
#include <utility>

namespace mainspring::pg {
namespace {

struct Option {
  std::string keyword, value;
};
using HostOptions = std::vector<Option>;  // all options of one host

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// The URL's options, once per host. A host, address or port that is omitted in the URL is omitted
// here: libpq's default applies. Lists of different lengths stay lists, and text that cannot be
// parsed is passed as "dbname": libpq refuses both with its own message.
std::vector<HostOptions> hosts_of(const std::string& url) {
  std::vector<Option> lists, others;
  std::size_t hosts = 1;
  PQconninfoOption* const all = PQconninfoParse(url.c_str(), nullptr);
  if (all == nullptr) return {{{"dbname", url}}};
  for (const PQconninfoOption* o = all; o->keyword != nullptr; ++o) {
    if (o->val == nullptr) continue;
    const std::string_view keyword = o->keyword;
    const bool is_list = keyword == "host" || keyword == "hostaddr" || keyword == "port";
    (is_list ? lists : others).push_back({o->keyword, o->val});
    if (is_list && keyword != "port") hosts = std::max(hosts, split(o->val).size());
  }
  PQconninfoFree(all);
  std::vector<HostOptions> found(hosts, others);
  for (const Option& list : lists) {
    const std::vector<std::string> parts = split(list.value);
    for (std::size_t i = 0; i < hosts; ++i) {
      const bool fits = parts.size() == hosts || (list.keyword == "port" && parts.size() == 1);
      const std::string& one = !fits ? list.value : parts.size() == 1 ? parts[0] : parts[i];
      if (!one.empty()) found[i].push_back({list.keyword, one});
    }
  }
  return found;
}

// A connection attempt to one host.
class Attempt {
 public:
  Attempt(const ConnectionOptions& options, const HostOptions& host, Instant deadline);
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  Attempt(Attempt&& other) noexcept
      : deadline_(other.deadline_),
        connection_(std::exchange(other.connection_, nullptr)),
        status_(other.status_) {}
  ~Attempt() {
    if (connection_ != nullptr) PQfinish(connection_);
  }

  pollfd waits_for() const {
    const short events = status_ == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    return {.fd = PQsocket(connection_), .events = events, .revents = 0};
  }
  Instant deadline() const { return deadline_; }
  // Call when the socket is ready or the deadline has passed. True = connected. Throws PgError on
  // failure.
  bool go_on(const ConnectionOptions& options, bool ready, Instant now);
  PGconn* release() { return std::exchange(connection_, nullptr); }

 private:
  [[noreturn]] void fail() const;

  Instant deadline_;
  PGconn* connection_;
  PostgresPollingStatusType status_ = PGRES_POLLING_WRITING;
};

Attempt::Attempt(const ConnectionOptions& options, const HostOptions& host, Instant deadline)
    : deadline_(deadline) {
  const std::string unheard =
      fmt::to_string(std::max<std::int64_t>(1000, options.timeout.count() / 1000));
  // Later entries win: the URL overrides the defaults, but not the required options.
  std::vector<const char*> keys = {"tcp_user_timeout", "keepalives_idle",
                                   "fallback_application_name"};
  std::vector<const char*> values = {unheard.c_str(), "10", options.name.c_str()};
  for (const Option& option : host) {
    keys.push_back(option.keyword.c_str());
    values.push_back(option.value.c_str());
  }
  keys.insert(keys.end(), {"client_encoding", nullptr});
  values.insert(values.end(), {"UTF8", nullptr});
  connection_ = PQconnectStartParams(keys.data(), values.data(), 1);
  if (connection_ == nullptr) throw PgError{"", "no memory for a connection", true};
}

void Attempt::fail() const {
  std::string why = PQerrorMessage(connection_);
  why.erase(why.find_last_not_of("\n ") + 1);
  std::erase(why, '\t');
  for (auto at = why.find('\n'); at != why.npos; at = why.find('\n', at)) why.replace(at, 1, "; ");
  const bool denied = PQconnectionNeedsPassword(connection_) != 0 ||
                      why.find("authentication failed") != std::string::npos;
  throw PgError{denied ? "28P01" : "", "connecting: " + why, true};
}

bool Attempt::go_on(const ConnectionOptions& options, bool ready, Instant now) {
  if (PQstatus(connection_) == CONNECTION_BAD) fail();
  if (ready) status_ = PQconnectPoll(connection_);
  if (status_ == PGRES_POLLING_FAILED) fail();
  if (status_ != PGRES_POLLING_OK) {
    if (now < deadline_) return false;
    const char* host = PQhost(connection_);
    throw PgError{"", fmt::format("no answer in time of \"{}\"", host == nullptr ? "" : host),
                  true};
  }
  const char* standby = PQparameterStatus(connection_, "in_hot_standby");
  if (options.writable && standby != nullptr && std::string_view(standby) == "on")
    throw PgError{"25006", "the server is a standby: it accepts no writes", true};
  return true;
}

// Tries the hosts of a URL until one is connected.
class Race {
 public:
  Race(const ConnectionOptions& options, const Clock& clock)
      : options_(options), clock_(clock), hosts_(hosts_of(options.url.reveal())) {}
  PGconn* run();

 private:
  struct Runner {
    std::size_t host = 0;
    bool again = false;
    Attempt attempt;
  };

  bool is_asked(std::size_t host) const;
  bool first_round_runs() const;
  void begin(std::size_t host, bool again, Instant now);
  void begin_more(Instant now);
  PGconn* step(const std::vector<pollfd>& sockets);
  void note(std::size_t host, const PgError& error);

  const ConnectionOptions& options_;
  const Clock& clock_;
  const std::vector<HostOptions> hosts_;
  std::size_t started_hosts_ = 0;  // of hosts_, first attempts
  Instant next_at_;        // when to try the next host
  std::set<std::size_t> denied_;
  std::vector<Runner> runners_;
  PgError failed_{"", "", true};
};

bool Race::is_asked(std::size_t host) const {
  return std::any_of(runners_.begin(), runners_.end(),
                     [&](const Runner& runner) { return runner.host == host; });
}

bool Race::first_round_runs() const {
  return started_hosts_ < hosts_.size() ||
         std::any_of(runners_.begin(), runners_.end(),
                     [](const Runner& runner) { return !runner.again; });
}

void Race::note(std::size_t host, const PgError& error) {
  constexpr std::size_t kMaxText = 2000;
  if (started_hosts_ < hosts_.size()) next_at_ = Instant();
  if (error.is("28P01")) denied_.insert(host);
  if (error.is("28P01") || failed_.sqlstate.empty()) failed_.sqlstate = error.sqlstate;
  if (failed_.message.find(error.message) != std::string::npos) return;
  if (failed_.message.size() > kMaxText) return;
  failed_.message += (failed_.message.empty() ? "" : "; ") + error.message;
}

void Race::begin(std::size_t host, bool again, Instant now) {
  next_at_ = now + kNextHostAfter;
  try {
    Attempt attempt(options_, hosts_[host], now + options_.connect_timeout);
    attempt.go_on(options_, false, now);  // detect an immediate refusal
    runners_.push_back({host, again, std::move(attempt)});
  } catch (const PgError& error) {
    note(host, error);
  }
}

// Starts the next host. When all were tried and one has not answered, retries those that refused:
// one of them may become the primary before the silent host times out.
void Race::begin_more(Instant now) {
  while (started_hosts_ < hosts_.size() && (runners_.empty() || now >= next_at_)) {
    const std::size_t host = started_hosts_++;
    begin(host, false, now);
  }
  if (runners_.empty() || now < next_at_ || !first_round_runs()) return;
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    if (!is_asked(host) && !denied_.contains(host)) begin(host, true, now);
  }
  next_at_ = now + kNextHostAfter;
}

PGconn* Race::step(const std::vector<pollfd>& sockets) {
  const Instant now = clock_.now().instant;
  std::vector<Runner> left;
  for (std::size_t i = 0; i < runners_.size(); ++i) {
    Attempt& attempt = runners_[i].attempt;
    try {
      if (attempt.go_on(options_, sockets[i].revents != 0, now)) return attempt.release();
      left.push_back(std::move(runners_[i]));
    } catch (const PgError& error) {
      note(runners_[i].host, error);
    }
  }
  runners_ = std::move(left);
  return nullptr;
}

PGconn* Race::run() {
  for (;;) {
    const Instant now = clock_.now().instant;
    begin_more(now);
    if (runners_.empty()) throw failed_;
    Instant wake = first_round_runs() ? next_at_ : Instant::never();
    std::vector<pollfd> sockets;
    for (const Runner& runner : runners_) {
      sockets.push_back(runner.attempt.waits_for());
      wake = std::min(wake, runner.attempt.deadline());
    }
    const std::int64_t left_us = std::max<std::int64_t>(0, (wake - now).count());
    (void)poll(sockets.data(), sockets.size(), static_cast<int>(left_us / 1000 + 1));
    if (PGconn* const connected = step(sockets)) return connected;
  }
}

}  // namespace

PGconn* connect_to_any(const ConnectionOptions& options, const Clock& clock) {
  return Race(options, clock).run();
}

}  // namespace mainspring::pg
