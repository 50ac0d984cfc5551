// Measurements over HTTP, and their raw client.
#include "cli/bench_http.h"
#include "broker/broker.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace mainspring::cli::bench {
namespace {

constexpr double kAloneHttpTarget = 1.8;     // times the disk, p50
constexpr double kLifecycleTarget = 60'000;  // 16 clients, batch 100
constexpr double kEnqueueTarget = 20'000;    // 256 connections, single jobs

Error socket_error(std::string_view what) {
  return Error{.code = ErrorCode::io_error,
               .message = fmt::format("bench: {}: {}", what, std::strerror(errno))};
}

// Finds the end of the answer at the start of `in`: head and body bytes. False = incomplete.
bool is_complete(std::string_view in, std::size_t& head, std::size_t& body) {
  const std::size_t blank = in.find("\r\n\r\n");
  if (blank == std::string_view::npos) return false;
  head = blank + 4;
  body = 0;
  constexpr std::string_view kLength = "content-length:";
  for (std::size_t at = 0; at < blank;) {
    const std::size_t end = in.find("\r\n", at);
    const std::string_view line = in.substr(at, end - at);
    if (line.size() > kLength.size() &&
        strncasecmp(line.data(), kLength.data(), kLength.size()) == 0) {
      std::string_view digits = line.substr(kLength.size());
      while (digits.starts_with(' ')) digits.remove_prefix(1);
      (void)std::from_chars(digits.data(), digits.data() + digits.size(), body);
    }
    at = end + 2;
  }
  return in.size() >= head + body;
}

int status_of(std::string_view head) {
  int status = 0;
  if (head.size() > 12) (void)std::from_chars(head.data() + 9, head.data() + 12, status);
  return status;
}

// Converts the jobs of a claim's answer to results of a finish.
int append_results(std::string_view jobs, std::string& out) {
  constexpr std::string_view kId = R"("id":)";
  constexpr std::string_view kToken = R"("token":)";
  int count = 0;
  const char* at = jobs.data();
  const char* const end = at + jobs.size();
  const auto seek = [&](std::string_view what) {
    at = static_cast<const char*>(
        memmem(at, static_cast<std::size_t>(end - at), what.data(), what.size()));
    if (at != nullptr) at += what.size();
    return at != nullptr;
  };
  const auto digits = [&] {
    const char* const begin = at;
    while (at < end && *at >= '0' && *at <= '9') ++at;
    return std::string_view(begin, static_cast<std::size_t>(at - begin));
  };
  while (seek(kId)) {
    const std::string_view id = digits();
    if (!seek(kToken)) break;
    if (count++ > 0) out += ',';
    out += R"({"id":)";
    out += id;
    out += R"(,"token":)";
    out += digits();
    out += R"(,"outcome":"complete"})";
  }
  return count;
}

}  // namespace

Result<std::unique_ptr<LocalServer>> LocalServer::open(const Plan& plan, const std::string& name) {
  std::unique_ptr<LocalServer> out(new LocalServer());
  MS_TRY_ASSIGN(out->node_, LocalNode::open(plan, name));
  HttpOptions options;
  options.port = 0;
  out->server_ =
      std::make_unique<HttpServer>(options, out->node_->broker(), out->node_->node().store(),
                                   out->clock_, out->log_, out->node_->registry());
  MS_TRY(out->server_->start());
  return out;
}

LocalServer::~LocalServer() {
  if (server_ != nullptr) server_->stop(1s);
  if (node_ != nullptr) node_->node().stop();  // answers requests that the server still waits for
  server_.reset();
}

Result<int> connect_loopback(std::uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return socket_error("socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(fd);
    return socket_error("connect");
  }
  return fd;
}

std::string http_request(std::string_view method, std::string_view path, std::string_view body) {
  return fmt::format(
      "{} {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "
      "{}\r\n\r\n{}",
      method, path, body.size(), body);
}

Result<int> exchange(int fd, std::string_view request, std::string& buffer) {
  while (!request.empty()) {
    const ssize_t sent = send(fd, request.data(), request.size(), MSG_NOSIGNAL);
    if (sent < 0) return socket_error("send");
    request.remove_prefix(static_cast<std::size_t>(sent));
  }
  buffer.clear();
  char chunk[16 << 10];
  std::size_t head = 0;
  std::size_t body = 0;
  while (!is_complete(buffer, head, body)) {
    const ssize_t got = recv(fd, chunk, sizeof chunk, 0);
    if (got <= 0) return socket_error("receive");
    buffer.append(chunk, static_cast<std::size_t>(got));
  }
  return status_of(buffer);
}

HttpLoad::HttpLoad(std::uint16_t port, const LoadOptions& options)
    : port_(port), options_(options) {
  const std::string job =
      fmt::format(R"({{"queue":"bench","kind":"bench","args":{}}})", payload_of(options.payload));
  std::string body = job;
  if (options.batch > 1) {
    body = R"({"jobs":[)";
    for (int i = 0; i < options.batch; ++i) body += (i == 0 ? "" : ",") + job;
    body += "]}";
  }
  enqueue_ = http_request("POST", "/v1/jobs", body);
}

HttpLoad::~HttpLoad() {
  (void)stop();
  for (const Connection& connection : connections_) close(connection.fd);
  if (epoll_ >= 0) close(epoll_);
}

Result<void> HttpLoad::start() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) return socket_error("epoll");
  connections_.resize(static_cast<std::size_t>(options_.clients));
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    Connection& connection = connections_[i];
    MS_TRY_ASSIGN(connection.fd, connect_loopback(port_));
    connection.worker = fmt::format("bench-{}", i);
    epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, connection.fd, &event) != 0) return socket_error("epoll");
  }
  thread_ = std::thread([this] { run(); });
  return {};
}

Result<void> HttpLoad::stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
  if (!failed_.empty()) {
    return Error{.code = ErrorCode::io_error, .message = "bench: " + failed_};
  }
  return {};
}

bool HttpLoad::fail(std::string message) {
  if (failed_.empty()) failed_ = std::move(message);
  stopping_ = true;
  return false;
}

void HttpLoad::run() {
  for (Connection& connection : connections_) {
    next_request(connection);
    if (!flush(connection)) return;
  }
  epoll_event events[256];
  while (!stopping_) {
    const int count = epoll_wait(epoll_, events, 256, 100);
    for (int i = 0; i < count; ++i) {
      Connection& connection = connections_[events[i].data.u64];
      const bool ok = (events[i].events & EPOLLIN) != 0 ? receive(connection) : flush(connection);
      if (!ok) return;
    }
  }
}

void HttpLoad::next_request(Connection& connection) {
  connection.sent = 0;
  connection.enqueued = !options_.lifecycle || !connection.enqueued;
  if (connection.enqueued) {
    connection.out = enqueue_;
    return;
  }
  const std::string claim = fmt::format(R"("queues":["bench"],"max":{})", options_.batch);
  if (connection.finish.empty()) {
    connection.out = http_request("POST", "/v1/claim",
                                  fmt::format(R"({{"worker":"{}",{}}})", connection.worker, claim));
    return;
  }
  connection.out = http_request("POST", "/v1/finish",
                                fmt::format(R"({{"worker":"{}","results":[{}],"claim":{{{}}}}})",
                                            connection.worker, connection.finish, claim));
}

void HttpLoad::watch(Connection& connection, bool for_room) {
  if (connection.waits_for_room == for_room) return;
  connection.waits_for_room = for_room;
  epoll_event event{};
  event.events = EPOLLIN;
  if (for_room) event.events |= EPOLLOUT;
  event.data.u64 = static_cast<std::uint64_t>(&connection - &connections_[0]);
  (void)epoll_ctl(epoll_, EPOLL_CTL_MOD, connection.fd, &event);
}

bool HttpLoad::flush(Connection& connection) {
  while (connection.sent < connection.out.size()) {
    const ssize_t sent = send(connection.fd, connection.out.data() + connection.sent,
                              connection.out.size() - connection.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EAGAIN) {
      watch(connection, true);
      return true;
    }
    if (sent < 0) return fail(fmt::format("send: {}", std::strerror(errno)));
    connection.sent += static_cast<std::size_t>(sent);
  }
  watch(connection, false);
  return true;
}

bool HttpLoad::receive(Connection& connection) {
  char chunk[64 << 10];
  while (true) {
    const ssize_t got = recv(connection.fd, chunk, sizeof chunk, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return flush(connection);
    if (got <= 0) return fail("the server closed a connection");
    connection.in.append(chunk, static_cast<std::size_t>(got));
    std::size_t head = 0;
    std::size_t body = 0;
    if (!is_complete(connection.in, head, body)) continue;
    const std::string_view in(connection.in);
    if (!answered(connection, in.substr(0, head), in.substr(head, body))) return false;
    connection.in.clear();
    next_request(connection);
    if (!flush(connection)) return false;
  }
}

bool HttpLoad::answered(Connection& connection, std::string_view head, std::string_view body) {
  const int status = status_of(head);
  if (status / 100 != 2) {
    return fail(fmt::format("the server answered {}: {}", status, body.substr(0, 300)));
  }
  if (connection.enqueued) {
    if (!options_.lifecycle) done_.fetch_add(options_.batch, std::memory_order_relaxed);
    return true;
  }
  done_.fetch_add(connection.claimed, std::memory_order_relaxed);
  const std::size_t jobs = body.find(R"("jobs":[)");
  connection.finish.clear();
  connection.claimed =
      jobs == std::string_view::npos ? 0 : append_results(body.substr(jobs), connection.finish);
  return true;
}

namespace {

Result<void> measure_http_grid(Context& context, bool lifecycle) {
  const Plan& plan = context.plan;
  for (const int payload : plan.payloads) {
    for (const int clients : plan.clients) {
      for (const int batch : plan.batches) {
        if (too_heavy(clients, batch, payload)) continue;
        const std::string setup = combination("over HTTP", clients, batch, payload);
        context.report.doing(setup);
        MS_TRY_ASSIGN(const auto server, LocalServer::open(plan, "http"));
        HttpLoad load(
            server->port(),
            {.clients = clients, .batch = batch, .payload = payload, .lifecycle = lifecycle});
        MS_TRY(load.start());
        const Rate rate = rate_of(plan, server->node().node().store(), [&] { return load.done(); });
        MS_TRY(load.stop());
        MS_TRY_ASSIGN(
            Figure figure,
            rate_figure(context.disk, lifecycle ? "http-lifecycle" : "http-enqueue", setup, rate));
        if (payload == 200 && lifecycle && clients == 16 && batch == 100) {
          set_target(figure, kLifecycleTarget);
        }
        if (payload == 200 && !lifecycle && clients == 256 && batch == 1) {
          set_target(figure, kEnqueueTarget);
        }
        figure.clients = clients;
        figure.batch = batch;
        figure.payload = payload;
        context.report.add(std::move(figure));
      }
    }
  }
  return {};
}

}  // namespace

Result<void> measure_http_alone(Context& context) {
  MS_TRY_ASSIGN(const auto server, LocalServer::open(context.plan, "http-alone"));
  const SystemClock clock;
  MS_TRY_ASSIGN(const int fd, connect_loopback(server->port()));
  // Until the store's log wraps around. Before that every commit extends the file, which costs the
  // disk more; a store is in that state only for about its first thousand commits.
  constexpr int kWarmUp = 1500;
  Result<void> done;
  for (const int payload : context.plan.payloads) {
    context.report.doing("one job at a time over HTTP");
    const std::string request =
        http_request("POST", "/v1/jobs",
                     fmt::format(R"({{"queue":"b","kind":"b","args":{}}})", payload_of(payload)));
    std::vector<double> times;
    std::string buffer;
    std::int64_t bytes = 0;
    for (int i = 0; done && i < context.plan.samples + kWarmUp; ++i) {
      if (i == kWarmUp) bytes = bytes_written();
      const Instant before = clock.now().instant;
      const auto status = exchange(fd, request, buffer);
      if (i >= kWarmUp) times.push_back(microseconds(clock.now().instant - before));
      if (!status) {
        done = status.error();
      } else if (*status != 201) {
        done = Error{.code = ErrorCode::io_error, .message = "bench: " + buffer};
      }
    }
    if (!done) break;
    auto figure = alone_figure(context, combination("over HTTP", 1, 1, payload), times,
                               bytes_written() - bytes);
    if (!figure) {
      done = figure.error();
      break;
    }
    figure->name = "http-alone";
    figure->target = fmt::format("within {}x of the disk", kAloneHttpTarget);
    figure->met = figure->disk <= kAloneHttpTarget;
    context.report.add(std::move(*figure));
  }
  close(fd);
  return done;
}

Result<void> measure_http_enqueue(Context& context) {
  return measure_http_grid(context, false);
}

Result<void> measure_http_lifecycle(Context& context) {
  return measure_http_grid(context, true);
}

}  // namespace mainspring::cli::bench
