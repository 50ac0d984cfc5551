// Shard: one io thread with its sockets. A connection stays on its shard's thread.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "http/authenticator.h"
#include "http/mailbox.h"
#include "http/readers.h"
#include "http/routes.h"
#include "http/transport.h"

namespace mainspring::http {

class Connection;
class Links;

// Shared by all shards of a server.
struct Shared {
  Services services;
  Log& log;
  ReaderPool readers;
  ReaderPool host_readers;  // job folders may be slow; reads of the store do not wait for them
  Authenticator authenticator;
  AddressBook addresses;
  std::shared_ptr<Room> room;  // a body may outlive its connection
  Counter& refused;            // connections
  std::vector<std::string> host_names;
  MoreRoutes more_routes = {};
  std::shared_ptr<std::atomic<std::int64_t>> connections =
      std::make_shared<std::atomic<std::int64_t>>(0);
  std::function<void()> drained;  // a stopping shard has no connection left

  // Logs it, at most once a second: anyone can connect.
  void certificate_refused(const std::string& peer, const std::string& which);
  std::atomic<std::int64_t> refusal_logged_ms{0};

  ReaderPool& pool(Pool which) { return which == Pool::host ? host_readers : readers; }
};

class Shard {
 public:
  explicit Shard(Shared& shared);
  ~Shard();

  void start();  // the thread
  // Thread-safe: ends connections as they become idle; calls Shared::drained when none is left.
  void begin_stop();
  // Closes all and joins. May be called twice, and before start.
  void stop();

  boost::asio::io_context& io() { return io_; }

  // -- on the shard's thread

  void adopt(Socket socket);

  // -- for connections, on the shard's thread

  Shared& shared() { return shared_; }
  Instant now() const { return shared_.services.clock.now().instant; }
  bool stopping() const { return stopping_.load(); }
  // The ticket of a new exchange of the connection in `slot`; earlier ones become invalid.
  Ticket new_ticket(std::uint32_t slot);
  void remove(std::uint32_t slot);
  // The peer of the current claim has disconnected: jobs that it still gets are returned.
  void note_abandoned(Ticket ticket, std::string worker);
  void count(const Route* route, int status, Duration took, bool waited, const Caller* caller);
  std::shared_ptr<Mailbox>& mailbox() { return mailbox_; }
  // The read buffer of connections without unread input. Valid until the next read of any of them.
  std::array<char, 64 << 10>& scratch() { return *scratch_; }
  // nullptr = the server stands alone.
  Links* links() { return links_.get(); }
  // Ends the requests that are being relayed to a leader that is lost.
  void end_relays();
  // Ends the waits of callers at a node that led until now: they wait at the new leader.
  void end_waits();
  // Buffer for the head of a reply; reused.
  std::string& reply_head() { return reply_head_; }
  std::string_view date();

 private:
  struct Slot {
    std::shared_ptr<Connection> connection;
    std::uint32_t generation = 1;
  };
  struct RouteMetrics {
    Histogram* seconds = nullptr;
    std::vector<std::pair<int, Counter*>> by_status;
  };

  Counter& requests_of(std::string_view route, int status);
  std::size_t metrics_index(const Route* route) const;
  void on_mail();
  void return_jobs(Mail& mail);
  void arm_tick();
  void on_tick();
  void check_drained();

  Shared& shared_;
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  boost::asio::steady_timer tick_;
  bool tick_armed_ = false;
  std::atomic<bool> stopping_{false};
  bool drain_reported_ = false;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::size_t live_ = 0;
  std::unordered_map<Ticket, std::string> abandoned_;
  std::unique_ptr<std::array<char, 64 << 10>> scratch_;
  std::string reply_head_;
  std::string date_;
  std::int64_t date_second_ = -1;
  std::vector<RouteMetrics> metrics_;  // by index in routes(); the last is for unmatched requests
  std::vector<Mail> mails_;
  std::shared_ptr<Mailbox> mailbox_;
  std::unique_ptr<Links> links_;
  std::shared_ptr<void> leader_watch_;
  std::jthread thread_;
};

}  // namespace mainspring::http
