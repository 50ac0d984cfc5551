// Connection: one socket and its exchanges, one after another.
//
//   handshake ─▶                                                 (TLS)
//   idle ─▶ head ─▶ body ─▶ busy ─▶ writing ─▶ idle …            (keep-alive, pipelining)
//                                     └───────▶ draining ─▶ closed (the last reply, or an error)
//
// A connection waits until the socket is readable and then reads into the shard's scratch buffer:
// an idle or parked connection owns no buffer. It keeps only incomplete input.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>

#include "http/parser.h"
#include "http/shard.h"
#include "http/transport.h"

namespace mainspring::http {

class Relay;
struct Link;

// Sends the refusal to a connection over the limit.
void turn_away(Socket& socket);

// Returns claimed jobs to the broker for a caller that has disconnected.
void give_back(Broker& broker, std::string worker, const ClaimResult& claimed);

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Shard& shard, Socket socket, std::shared_ptr<SSL_CTX> tls, std::uint32_t slot);

  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start();
  void on_mail(Mail mail);
  void on_tick(Instant now);
  // Ends soon: at once if idle, else after the running exchange; waits are cut short.
  void begin_stop();
  void close();
  // -- for the shard's links
  // See Relay::on_link().
  bool on_link(std::unique_ptr<Link>& link);
  // The leader that this request was relayed to is lost.
  void end_relay();
  // This node does not lead any more.
  void end_local_wait();

 private:
  friend class Relay;

  enum class State { handshake, idle, head, body, busy, writing, draining, closed };

  // A wait for the end of a job (?wait=).
  struct Wait {
    JobId id = 0;
    int status = 200;
    Duration limit{0};
    std::shared_ptr<void> watch;
    bool fired = false;                    // before the answer to the enqueue arrived
    bool own = false;                      // the caller enqueued the job,
    std::optional<EnqueueResult> ended{};  // and the job had ended before
    bool reading = false;
    bool last = false;  // the next read is answered whatever its result
    bool read_is_last = false;
    std::unique_ptr<boost::asio::steady_timer> timer;
  };
  struct Finishing {
    std::vector<JobId> ids;
    std::vector<FinishRequest::Refused> refused;
    std::optional<FinishResult> result;
    std::optional<Error> error;
    std::optional<ClaimResult> claim;
    bool claim_pending = false;
    bool claim_asked = false;
  };

  // A reply that is sent in pieces.
  struct Stream {
    std::shared_ptr<DoStream> plan;
    bool started = false;  // the head has been sent
    bool reading = false;  // a piece is being read
    bool ready = false;    // the watch has fired
    bool retry = false;    // the reader queue was full
    bool last = false;     // the wait is over
    bool beat = false;     // a heartbeat is due
    bool ended = false;    // the end is being written
    std::shared_ptr<void> watch;
    std::unique_ptr<boost::asio::steady_timer> timer;
  };

  // -- input
  void arm_read();
  void on_readable();
  void shake_hands();
  void refuse_plain();
  void wait_to_read();
  bool receive(std::string_view& data);
  void on_peer_in_busy();
  void drain();
  void discard_input();
  void process(std::string_view window, bool owned);
  void begin_request(Head head, std::string_view& rest);
  Result<void> check_request(const Head& head, Match& match);
  Result<void> admit(const Head& head, Match& match);
  Result<void> check_host(std::string_view host) const;
  static Result<void> check_cookie_use(const Head& head);
  Result<void> check_origin(const Head& head) const;
  void begin_body(Head head, std::string_view& rest);
  void feed_body(std::string_view& rest);
  void end_body();
  void free_body();
  // The body of a request that did not arrive with its head.
  struct Body {
    std::string text;
    std::shared_ptr<HeldRoom> room;
  };
  void run_plan(const Route& route, Request request, Body* owned_body);
  void refuse_early(const Error& error);
  void name_peer();
  Result<void> check_site(const Head& head) const;
  // -- links: see cluster/link.h
  bool hear_greeting();
  void link_opened();
  bool read_caller(std::string_view& window);
  bool is_relayed() const;
  void begin_relay(const Head& head, std::string_view& rest);
  Relay* relay_of(Ticket ticket);
  void after_relay();
  void refuse_relay();
  void unread(std::string request);
  std::string frame_of(std::size_t bytes) const;
  void become_idle();
  // The server stops. The client of a relayed request keeps its connection to the other node.
  bool must_end() const { return shard_.stopping() && !is_link_; }
  // Returns whether the connection takes another request after this one.
  bool continues() const;
  std::size_t body_limit(const Route& route) const;
  Room::Payer payer();

  // -- exchange
  // Returns whether the token of this exchange is still valid. A wait ends when it is not.
  bool welcome();
  void end_unwelcome();
  void give_back(const ClaimResult& claimed);
  void execute(Plan plan);
  void carry_out(Plan plan);
  // On a test server: with injected faults.
  void execute_with_faults(TestControl& test, Plan plan);
  void do_write(DoWrite write);
  void do_enqueue_and_wait(DoEnqueueAndWait enqueue);
  void do_claim(DoClaim claim);
  void do_finish(DoFinish finish);
  void do_acquire(DoAcquire acquire);
  void do_read(DoRead read);
  void start_wait(JobId id, Duration limit, int status, std::shared_ptr<void> watch);
  void on_watched_enqueue(WatchedEnqueue enqueue);
  void on_watch_fired();
  void read_waited_job();
  void on_waited_job(Result<Job> job);
  void end_wait();
  void on_operation_result(OperationResult result);
  void on_claim_answer(OperationResult result);
  void reply_to_finish();
  void overloaded_reads();
  void reply_if_room(Reply reply);
  void do_proxy(DoProxy proxy);
  // -- streams
  void do_stream(DoStream stream);
  void arm_beat();
  void read_piece();
  void on_piece(StreamRead read);
  void on_stream_ready();
  void write_piece(std::string_view bytes, bool ended);
  void after_piece();
  void retry_stream();
  void end_stream_early();
  void drop_stream();
  // Calls the broker with an answer that comes back as mail.
  void submit(Operation operation, std::optional<Audit> audit);
  // `before` is submitted with the claim: see Broker::submit_with_claim().
  struct Change {
    Operation operation;
    std::optional<Audit> audit;
  };
  std::uint64_t submit_claim(ClaimRequest request, std::optional<Audit> audit,
                             std::optional<Change> before = std::nullopt);

  // -- output
  void reply(Reply reply);
  void hide_removed(Reply& reply) const;
  void write(std::string_view head, std::string body);
  void on_writable();
  void wait_to_write(Transport::Next next);
  void after_write();
  void begin_progress();
  void note_progress(std::size_t bytes);
  void note_read_by_peer();
  void set_deadline(Duration from_now) { deadline_ = shard_.now() + from_now; }

  Shard& shard_;
  Transport transport_;
  bool counted_ = false;  // in the AddressBook
  const std::uint32_t slot_;
  PeerName peer_;  // set at the first request
  Pass pass_;      // of the latest admitted request
  State state_ = State::handshake;
  bool armed_ = false;       // waits until the socket is readable
  bool in_process_ = false;  // process() is on the stack
  bool keep_alive_ = true;
  bool head_only_ = false;
  bool waited_ = false;  // the exchange parked: its duration does not measure the server
  bool chunked_ = false;
  bool http10_ = false;
  bool greets_ = false;        // the first bytes may be a link's greeting
  bool is_link_ = false;       // another node relays requests here
  bool caller_known_ = false;  // on a link: the caller line of the request has been read
  bool secure_ = false;        // the caller uses TLS
  bool read_whole_ = true;     // the request, with its body
  Instant deadline_ = Instant::never();

  std::string in_;              // input that was read too early, or an incomplete head
  std::unique_ptr<Head> head_;  // while the body arrives
  std::string body_;
  std::size_t body_bytes_ = 0;  // Content-Length
  std::shared_ptr<HeldRoom> body_room_;
  std::unique_ptr<ChunkedReader> chunks_;

  Ticket ticket_ = 0;
  const Route* route_ = nullptr;
  Instant started_;
  std::function<DoWrite::Answer(OperationResult&)> answer_;
  std::uint64_t park_id_ = 0;  // of a claim or an acquire
  std::string claim_worker_;   // of the current claim; "" = an acquire
  bool lose_answer_ = false;   // an injected fault: the connection ends instead
  DoClaim::Answer claim_answer_ = DoClaim::Answer::jobs;
  std::unique_ptr<Finishing> finishing_;
  std::unique_ptr<Wait> wait_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Relay> relay_;

  std::string out_;  // bytes that the socket did not take yet
  std::size_t out_at_ = 0;
  std::shared_ptr<HeldRoom> out_room_;
  std::int64_t read_by_peer_ = 0;  // see Transport::received_by_peer()
  std::size_t moved_ = 0;          // bytes of the current progress window
};

}  // namespace mainspring::http
