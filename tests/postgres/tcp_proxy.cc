// TcpProxy: a poll loop over pairs of sockets, with buffers between them.
#include "postgres/tcp_proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <list>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "env/clock.h"
#include "env/fd.h"

namespace mainspring::pg_testing {
namespace {

constexpr std::size_t kChunk = 64 << 10;

struct Chunk {
  Instant due;
  std::string data;
};

// One direction of a connection.
struct Way {
  std::deque<Chunk> chunks;
  std::size_t bytes = 0;
  bool ended = false;  // no more data
};

struct Link {
  Fd client, server;
  Way up, down;  // requests, answers
  bool lost = false;
  bool stalled = false, was_stalled = false;
  bool dead = false;
};

Fd connect_to(const std::string& path) {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return {};
  std::memcpy(address.sun_path, path.c_str(), path.size());
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
  fcntl(fd.get(), F_SETFL, O_NONBLOCK);
  return fd;
}

void reset(const Fd& fd) {
  const linger now{1, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

}  // namespace

struct TcpProxy::State {
  std::string target;
  int port = 0;
  Fd listener, wake;
  SystemClock clock;
  mutable Mutex mutex;
  mutable CondVar turned;
  Mode mode MS_GUARDED_BY(mutex) = Mode::pass;
  Duration late MS_GUARDED_BY(mutex){0};
  std::list<Link> links MS_GUARDED_BY(mutex);
  std::int64_t accepted MS_GUARDED_BY(mutex) = 0;
  std::int64_t lost MS_GUARDED_BY(mutex) = 0;
  bool stopping MS_GUARDED_BY(mutex) = false;
  std::thread thread;

  void run();
  Duration prepare(std::vector<pollfd>& fds) MS_REQUIRES(mutex);
  void handle(const std::vector<pollfd>& fds) MS_REQUIRES(mutex);
  void accept_one() MS_REQUIRES(mutex);
  void read_from(Link& link, Way& way) MS_REQUIRES(mutex);
  void write_to(Link& link, Way& way) MS_REQUIRES(mutex);
  void wake_up() const {
    const std::uint64_t one = 1;
    (void)!write(wake.get(), &one, sizeof one);
  }
};

// Fills in the events to wait for; returns the longest wait.
Duration TcpProxy::State::prepare(std::vector<pollfd>& fds) {
  fds.clear();
  fds.push_back({wake.get(), POLLIN, 0});
  const bool hold = mode == Mode::hold;
  const bool room = links.size() < kMaxConnections;
  fds.push_back({hold || !room ? -1 : listener.get(), POLLIN, 0});
  Duration limit = std::chrono::hours(1);
  const Instant now = clock.now().instant;
  const auto side = [&](const Link& link, const Fd& fd, const Way& in, const Way& out) {
    short events = 0;
    if (!in.ended && in.bytes < kMaxBuffered) events |= POLLIN;
    if (!out.chunks.empty()) {
      const Duration left = out.chunks.front().due - now;
      if (left <= Duration(0)) {
        events |= POLLOUT;
      } else {
        limit = std::min(limit, left);
      }
    }
    // A socket without requested events would still report its hang-up repeatedly.
    fds.push_back({hold || link.stalled || events == 0 ? -1 : fd.get(), events, 0});
  };
  for (const Link& link : links) {
    side(link, link.client, link.up, link.down);
    side(link, link.server, link.down, link.up);
  }
  return limit;
}

void TcpProxy::State::accept_one() {
  Fd client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client) return;
  ++accepted;
  Fd server = mode == Mode::refuse ? Fd() : connect_to(target);
  if (!server) return reset(client);
  Link& link = links.emplace_back();
  link.client = std::move(client);
  link.server = std::move(server);
}

void TcpProxy::State::read_from(Link& link, Way& way) {
  std::string data(kChunk, '\0');
  const ssize_t n =
      recv((&way == &link.up ? link.client : link.server).get(), data.data(), data.size(), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    way.ended = true;
    return;
  }
  if (mode == Mode::deaf && &way == &link.down) {
    lost += n;
    link.lost = true;
    return;
  }
  data.resize(static_cast<std::size_t>(n));
  way.bytes += data.size();
  way.chunks.push_back({clock.now().instant + late, std::move(data)});
}

void TcpProxy::State::write_to(Link& link, Way& way) {
  if (way.chunks.empty() || way.chunks.front().due > clock.now().instant) return;
  std::string& data = way.chunks.front().data;
  const ssize_t n = ::send((&way == &link.up ? link.server : link.client).get(), data.data(),
                           data.size(), MSG_NOSIGNAL);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n < 0) {
    link.dead = true;
    return;
  }
  way.bytes -= static_cast<std::size_t>(n);
  data.erase(0, static_cast<std::size_t>(n));
  if (data.empty()) way.chunks.pop_front();
}

void TcpProxy::State::handle(const std::vector<pollfd>& fds) {
  std::size_t at = 2;
  for (Link& link : links) {
    if (at + 1 >= fds.size()) break;
    const short client = fds[at++].revents;
    const short server = fds[at++].revents;
    if ((client & (POLLIN | POLLHUP | POLLERR)) != 0) read_from(link, link.up);
    if ((server & (POLLIN | POLLHUP | POLLERR)) != 0) read_from(link, link.down);
    if ((client & POLLOUT) != 0) write_to(link, link.down);
    if ((server & POLLOUT) != 0) write_to(link, link.up);
    // Neither side of this protocol continues alone.
    for (const Way* way : {&link.up, &link.down}) {
      if (way->ended && way->chunks.empty()) link.dead = true;
    }
  }
  links.remove_if([](const Link& link) { return link.dead; });
  if ((fds[1].revents & POLLIN) != 0) accept_one();
}

void TcpProxy::State::run() {
  std::vector<pollfd> fds;
  for (;;) {
    Duration limit{0};
    {
      MutexLock lock(mutex);
      if (stopping) return;
      limit = prepare(fds);
    }
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count() + 1;
    poll(fds.data(), fds.size(), static_cast<int>(ms));
    MutexLock lock(mutex);
    if (fds[0].revents != 0) {
      // A method changed the state: the results of poll() may refer to closed connections.
      std::uint64_t count = 0;
      (void)!read(wake.get(), &count, sizeof count);
      continue;
    }
    handle(fds);
    turned.notify_all();
  }
}

TcpProxy::TcpProxy() : state_(std::make_unique<State>()) {}

Result<std::unique_ptr<TcpProxy>> TcpProxy::make(const std::string& target) {
  std::unique_ptr<TcpProxy> proxy(new TcpProxy());
  State& s = *proxy->state_;
  s.target = target;
  s.wake = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  s.listener = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  socklen_t size = sizeof address;
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(s.listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(s.listener.get(), 64) != 0 ||
      getsockname(s.listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return Error{ErrorCode::internal, "listening on 127.0.0.1: " + std::string(strerror(errno))};
  }
  s.port = ntohs(address.sin_port);
  s.thread = std::thread([&s] { s.run(); });
  return proxy;
}

TcpProxy::~TcpProxy() {
  {
    MutexLock lock(state_->mutex);
    state_->stopping = true;
    state_->wake_up();
  }
  if (state_->thread.joinable()) state_->thread.join();
}

int TcpProxy::port() const {
  return state_->port;
}

void TcpProxy::set(Mode mode) {
  MutexLock lock(state_->mutex);
  state_->mode = mode;
  for (Link& link : state_->links) {
    link.stalled = mode == Mode::stall;
    link.was_stalled |= link.stalled;
  }
  if (mode != Mode::deaf) {
    state_->links.remove_if([](const Link& link) {
      if (link.lost) reset(link.client);
      return link.lost;
    });
  }
  state_->wake_up();
}

void TcpProxy::delay(Duration late) {
  MutexLock lock(state_->mutex);
  state_->late = late;
  state_->wake_up();
}

void TcpProxy::cut() {
  MutexLock lock(state_->mutex);
  for (const Link& link : state_->links) reset(link.client);
  state_->links.clear();
  state_->wake_up();
}

int TcpProxy::connections() const {
  MutexLock lock(state_->mutex);
  return static_cast<int>(state_->links.size());
}

std::int64_t TcpProxy::accepted() const {
  MutexLock lock(state_->mutex);
  return state_->accepted;
}

std::int64_t TcpProxy::bytes_lost() const {
  MutexLock lock(state_->mutex);
  return state_->lost;
}

bool TcpProxy::await_gone(Duration limit) const {
  MutexLock lock(state_->mutex);
  const Instant end = state_->clock.now().instant + limit;
  const auto busy = [](const Link& link) { return link.was_stalled; };
  while (std::any_of(state_->links.begin(), state_->links.end(), busy)) {
    const Duration left = end - state_->clock.now().instant;
    if (left <= Duration(0)) return false;
    state_->turned.wait_for(state_->mutex, left);
  }
  return true;
}

bool TcpProxy::await_lost(std::int64_t bytes, Duration limit) const {
  MutexLock lock(state_->mutex);
  const Instant end = state_->clock.now().instant + limit;
  while (state_->lost < bytes) {
    const Duration left = end - state_->clock.now().instant;
    if (left <= Duration(0)) return false;
    state_->turned.wait_for(state_->mutex, left);
  }
  return true;
}

}  // namespace mainspring::pg_testing
