// The io thread: handles mail, keeps the slots, checks deadlines.
#include "http/shard.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>

#include "base/assert.h"
#include "cluster/leader.h"
#include "http/connection.h"
#include "http/links.h"
#include "tls/tls.h"

namespace mainspring::http {
namespace {

namespace asio = boost::asio;

// How often deadlines are checked: they are seconds, so one timer is enough for all connections.
constexpr auto kTick = std::chrono::milliseconds(250);

}  // namespace

void Shared::certificate_refused(const std::string& peer, const std::string& which) {
  if (which.empty()) return;
  const std::int64_t now = services.clock.now().instant.ms();
  if (now < refusal_logged_ms.load() || refusal_logged_ms.exchange(now + 1000) > now) return;
  log.warn("a client's certificate was refused", {{"peer", peer}, {"certificate", which}});
}

Shard::Shard(Shared& shared)
    : shared_(shared),
      work_(asio::make_work_guard(io_)),
      tick_(io_),
      scratch_(std::make_unique<std::array<char, 64 << 10>>()),
      metrics_(routes().size() + shared.more_routes.routes.size() + 1),
      mailbox_(std::make_shared<Mailbox>([this] { asio::post(io_, [this] { on_mail(); }); })) {
  for (std::size_t i = 0; i < metrics_.size(); ++i) {
    const std::span<const Route> more = shared_.more_routes.routes;
    std::string_view id = "none";
    if (i < routes().size())
      id = routes()[i].id;
    else if (i + 1 < metrics_.size())
      id = more[i - routes().size()].id;
    metrics_[i].seconds = &shared_.services.registry.histogram(
        "mainspring_http_request_seconds",
        "Time from the head of a request to its reply, without parked "
        "requests.",
        duration_buckets(), {{"route", std::string(id)}});
    // At 0: an alert on an increase does not see the increase that creates a series.
    if (id != "enqueue") continue;
    for (const int refused : {429, 507})
      metrics_[i].by_status.emplace_back(refused, &requests_of(id, refused));
  }
}

Shard::~Shard() {
  stop();
}

void Shard::start() {
  if (Leadership* const leadership = shared_.services.options.leadership) {
    links_ = std::make_unique<Links>(*this, *leadership);
    leader_watch_ =
        leadership->watch([this] { asio::post(io_, [this] { links_->leader_changed(); }); });
    asio::post(io_, [this] { links_->leader_changed(); });
    arm_tick();
  }
  thread_ = std::jthread([this] { io_.run(); });
}

void Shard::begin_stop() {
  // Set at once, not when the io thread runs: mail that is already on its way may answer a claim,
  // and that reply must announce that the connection closes.
  stopping_ = true;
  asio::post(io_, [this] {
    arm_tick();
    // By index: the slots may change while the connections are called.
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (auto connection = slots_[i].connection) connection->begin_stop();
    }
    check_drained();
  });
}

void Shard::stop() {
  if (!thread_.joinable()) return;
  leader_watch_.reset();
  asio::post(io_, [this] {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (auto connection = slots_[i].connection) connection->close();
    }
    tick_.cancel();
    work_.reset();
    io_.stop();
  });
  thread_.join();
  mailbox_->close(mailbox_);
}

void Shard::adopt(Socket socket) {
  std::uint32_t slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  ++live_;
  const TlsServer* const tls = shared_.services.options.tls;
  auto connection = std::make_shared<Connection>(*this, std::move(socket),
                                                 tls == nullptr ? nullptr : tls->context(), slot);
  slots_[slot].connection = connection;
  arm_tick();
  connection->start();
  if (stopping_) connection->begin_stop();
}

Ticket Shard::new_ticket(std::uint32_t slot) {
  const std::uint32_t generation = ++slots_[slot].generation;
  return static_cast<Ticket>(generation) << 32 | slot;
}

void Shard::remove(std::uint32_t slot) {
  MS_ASSERT(slots_[slot].connection != nullptr, "a connection is removed once");
  ++slots_[slot].generation;
  slots_[slot].connection.reset();
  free_slots_.push_back(slot);
  --live_;
  shared_.connections->fetch_sub(1, std::memory_order_relaxed);
  check_drained();
}

void Shard::check_drained() {
  if (!stopping_ || live_ != 0 || drain_reported_) return;
  drain_reported_ = true;
  shared_.drained();
}

void Shard::on_mail() {
  mailbox_->take(mails_);
  for (Mail& mail : mails_) {
    const auto slot = static_cast<std::uint32_t>(mail.ticket);
    const auto generation = static_cast<std::uint32_t>(mail.ticket >> 32);
    auto connection = slots_[slot].generation == generation ? slots_[slot].connection : nullptr;
    if (connection != nullptr) {
      connection->on_mail(std::move(mail));
    } else if (auto* read = std::get_if<StreamRead>(&mail.content)) {
      // Ending a watch may block on a file.
      shared_.pool(read->pool).submit([watch = std::move(read->watch)] {});
    } else {
      return_jobs(mail);
    }
  }
  mails_.clear();
}

void Shard::note_abandoned(Ticket ticket, std::string worker) {
  abandoned_.emplace(ticket, std::move(worker));
}

// Jobs that were claimed for a disconnected peer become available at once, not when their lease
// expires, and without counting the attempt.
void Shard::return_jobs(Mail& mail) {
  auto* answer = std::get_if<ClaimAnswer>(&mail.content);
  if (answer == nullptr) return;
  const auto found = abandoned_.find(mail.ticket);
  std::string worker;
  if (found != abandoned_.end()) {
    worker = std::move(found->second);
    abandoned_.erase(found);
  }
  if (const auto* claimed = std::get_if<ClaimResult>(&answer->result))
    give_back(shared_.services.broker, std::move(worker), *claimed);
}

// First the routes of the table, then the additional ones; the last index is for unmatched
// requests.
std::size_t Shard::metrics_index(const Route* route) const {
  if (route == nullptr) return metrics_.size() - 1;
  const std::span<const Route> table = routes();
  const std::span<const Route> more = shared_.more_routes.routes;
  const bool in_more =
      std::greater_equal<>()(route, more.data()) && std::less<>()(route, more.data() + more.size());
  return in_more ? table.size() + static_cast<std::size_t>(route - more.data())
                 : static_cast<std::size_t>(route - table.data());
}

Counter& Shard::requests_of(std::string_view route, int status) {
  return shared_.services.registry.counter(
      "mainspring_http_requests_total", "Requests by route and status.",
      {{"route", std::string(route)}, {"status", fmt::to_string(status)}});
}

void Shard::count(const Route* route, int status, Duration took, bool waited,
                  const Caller* caller) {
  if (shared_.services.options.log_requests) {
    shared_.log.debug("request", {{"route", std::string(route == nullptr ? "none" : route->id)},
                                  {"status", fmt::to_string(status)},
                                  {"took", format_duration(took)},
                                  {"who", caller == nullptr ? std::string() : caller->who}});
  }
  const std::size_t index = metrics_index(route);
  RouteMetrics& metrics = metrics_[index];
  if (!waited) metrics.seconds->observe(static_cast<double>(took.count()) / 1e6);
  for (const auto& [known, counter] : metrics.by_status) {
    if (known == status) return counter->add();
  }
  Counter& counter = requests_of(route == nullptr ? "none" : route->id, status);
  metrics.by_status.emplace_back(status, &counter);
  counter.add();
}

std::string_view Shard::date() {
  using namespace std::chrono;
  static constexpr std::string_view kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::string_view kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                 "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::int64_t second = shared_.services.clock.now().wall.us() / 1'000'000;
  if (second == date_second_) return date_;
  date_second_ = second;
  const sys_seconds point{seconds(second)};
  const auto midnight = floor<days>(point);
  const year_month_day date{midnight};
  const hh_mm_ss<seconds> clock{point - midnight};
  date_ =
      fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[weekday(midnight).c_encoding()],
                  static_cast<unsigned>(date.day()),
                  kMonths[static_cast<unsigned>(date.month()) - 1], static_cast<int>(date.year()),
                  clock.hours().count(), clock.minutes().count(), clock.seconds().count());
  return date_;
}

void Shard::arm_tick() {
  if (tick_armed_) return;
  tick_armed_ = true;
  tick_.expires_after(kTick);
  tick_.async_wait([this](const boost::system::error_code& problem) {
    tick_armed_ = false;
    if (!problem) on_tick();
  });
}

void Shard::on_tick() {
  const Instant time = now();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (auto connection = slots_[i].connection) connection->on_tick(time);
  }
  if (links_ != nullptr) links_->on_tick(time);
  if (live_ != 0 || links_ != nullptr) arm_tick();
}

void Shard::end_relays() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (auto connection = slots_[i].connection) connection->end_relay();
  }
}

void Shard::end_waits() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (auto connection = slots_[i].connection) connection->end_local_wait();
  }
}

}  // namespace mainspring::http
