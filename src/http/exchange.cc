// Runs plans: sends requests to the broker and the readers, and turns their answers into replies.
#include <fmt/format.h>

#include <algorithm>

#include "api/session_shapes.h"
#include "base/assert.h"
#include "base/mutant.h"
#include "broker/broker.h"
#include "http/connection.h"
#include "http/plans.h"
#include "http/test_routes.h"
#include "test_server/test_control.h"

namespace mainspring::http {

void Connection::execute(Plan plan) {
  TestControl* const test = shard_.shared().services.test;
  test == nullptr ? carry_out(std::move(plan)) : execute_with_faults(*test, std::move(plan));
}

// Injects faults: a finish or its answer may be lost; every answer may be late. The routes below
// /v1/test are exempt.
void Connection::execute_with_faults(TestControl& test, Plan plan) {
  if (route_ == nullptr || is_test_route(*route_)) return carry_out(std::move(plan));
  if (auto* finish = std::get_if<DoFinish>(&plan)) {
    const TestControl::FinishFault fault = test.meet(finish->request.operation);
    if (fault.lose_request) return close();
    lose_answer_ = fault.lose_answer;
    // Claimed jobs would be lost with the answer until their leases end.
    if (lose_answer_) finish->request.claim.reset();
  } else if (const auto* write = std::get_if<DoWrite>(&plan)) {
    if (const auto* renew = std::get_if<Renew>(&write->operation)) test.meet(*renew);
  }
  const Duration delay = test.delay_of(route_->id);
  if (delay == Duration(0)) return carry_out(std::move(plan));
  auto timer = std::make_shared<boost::asio::steady_timer>(shard_.io());
  timer->expires_after(delay);
  timer->async_wait(
      [self = shared_from_this(), ticket = ticket_, timer,
       held = std::make_shared<Plan>(std::move(plan))](const boost::system::error_code& cancelled) {
        if (cancelled || self->ticket_ != ticket || self->state_ != State::busy) return;
        self->carry_out(std::move(*held));
      });
}

void Connection::carry_out(Plan plan) {
  struct Visitor {
    Connection& c;
    void operator()(Reply& reply) { c.reply(std::move(reply)); }
    void operator()(DoWrite& write) { c.do_write(std::move(write)); }
    void operator()(DoEnqueueAndWait& enqueue) { c.do_enqueue_and_wait(std::move(enqueue)); }
    void operator()(DoClaim& claim) { c.do_claim(std::move(claim)); }
    void operator()(DoFinish& finish) { c.do_finish(std::move(finish)); }
    void operator()(DoAcquire& acquire) { c.do_acquire(std::move(acquire)); }
    void operator()(DoRead& read) { c.do_read(std::move(read)); }
    void operator()(DoWait& wait) { c.start_wait(wait.id, wait.wait, 200, nullptr); }
    void operator()(DoStream& stream) { c.do_stream(std::move(stream)); }
    void operator()(DoProxy& proxy) { c.do_proxy(std::move(proxy)); }
  };
  std::visit(Visitor{*this}, plan);
}

bool Connection::welcome() {
  if (MS_MUTANT(revoked_waits_on)) return true;
  return shard_.shared().authenticator.still_good(pass_, shard_.shared().services.clock.now().wall);
}

// The token was revoked or has expired while its request waits. Completed changes stay.
void Connection::end_unwelcome() {
  keep_alive_ = false;
  const Error no_more{ErrorCode::unauthenticated, "the token was revoked, or has expired"};
  if (stream_ != nullptr) {
    // Headers are already sent; truncate the body so that the client detects the failure.
    if (stream_->started) return close();
    drop_stream();
    return reply(error_reply(no_more));
  }
  if (wait_ != nullptr && wait_->id != 0) {
    end_wait();
    return reply(error_reply(no_more));
  }
  // The claim is answered empty, unless its answer is on its way.
  if (park_id_ != 0) shard_.shared().services.broker.abandon(park_id_);
}

void Connection::on_mail(Mail mail) {
  if (state_ != State::busy) return;
  struct Visitor {
    Connection& c;
    void operator()(OperationResult& result) { c.on_operation_result(std::move(result)); }
    void operator()(ClaimAnswer& answer) { c.on_claim_answer(std::move(answer.result)); }
    void operator()(Reply& reply) { c.reply(std::move(reply)); }
    void operator()(Plan& plan) { c.execute(std::move(plan)); }
    void operator()(Result<Job>& job) { c.on_waited_job(std::move(job)); }
    void operator()(WatchFired&) { c.on_watch_fired(); }
    void operator()(WatchedEnqueue& enqueue) { c.on_watched_enqueue(std::move(enqueue)); }
    void operator()(StreamReady&) { c.on_stream_ready(); }
    void operator()(StreamRead& read) { c.on_piece(std::move(read)); }
  };
  std::visit(Visitor{*this}, mail.content);
}

// -- changes

// The pointer and the ticket fit into a std::function without an allocation.
void Connection::submit(Operation operation, std::optional<Audit> audit) {
  Mailbox* const box = shard_.mailbox().get();
  box->expect();
  shard_.shared().services.broker.submit(
      std::move(operation),
      [box, ticket = ticket_](OperationResult result) {
        box->deliver({ticket, std::move(result)});
      },
      std::move(audit));
}

std::uint64_t Connection::submit_claim(ClaimRequest request, std::optional<Audit> audit,
                                       std::optional<Change> before) {
  Mailbox* const box = shard_.mailbox().get();
  std::optional<Broker::Submission> first;
  if (before) {
    box->expect();
    first = {.operation = std::move(before->operation),
             .answer =
                 [box, ticket = ticket_](OperationResult result) {
                   box->deliver({ticket, std::move(result)});
                 },
             .audit = std::move(before->audit)};
  }
  box->expect();
  return shard_.shared().services.broker.submit_with_claim(
      std::move(first), std::move(request.operation), request.wait,
      {.answer =
           [box, ticket = ticket_](OperationResult result) {
             box->deliver({ticket, ClaimAnswer{std::move(result)}});
           },
       .audit = std::move(audit)});
}

namespace {

constexpr std::size_t kLargeAnswer = 16 << 10;  // smaller ones do not count as buffered

Reply overloaded_answers() {
  return error_reply({.code = ErrorCode::overloaded,
                      .message = "too many bytes of answers are being sent already",
                      .retry_after_ms = 1000});
}

// Calls back at every end of the job until the result is destroyed.
std::shared_ptr<void> watch_job(Broker& broker, JobId id, std::shared_ptr<Mailbox> box,
                                Ticket ticket) {
  const Broker::WatchId watch = broker.watch(id, [box = std::move(box), ticket] {
    box->deliver_unexpected({ticket, WatchFired{}});
  });
  return {nullptr, [&broker, watch](void*) { broker.unwatch(watch); }};
}

}  // namespace

bool hold_room(Reply& reply, const std::shared_ptr<Room>& room, const Room::Payer& payer) {
  const std::size_t bytes = reply.body.size();
  if (bytes < kLargeAnswer || reply.room != nullptr) return true;
  auto held = std::make_shared<HeldRoom>(room, payer);
  const bool taken = held->grow_to(bytes);
  if (taken) {
    reply.room = std::move(held);
  } else {
    reply = overloaded_answers();
  }
  return taken;
}

void Connection::do_write(DoWrite write) {
  if (write.check) {
    const bool taken =
        shard_.shared().readers.submit([box = shard_.mailbox(), ticket = ticket_,
                                        held = std::make_shared<DoWrite>(std::move(write))] {
          const auto good = std::exchange(held->check, {})();
          box->deliver_unexpected(
              {ticket, good ? Plan(std::move(*held)) : Plan(error_reply(good.error()))});
        });
    if (!taken) overloaded_reads();
    return;
  }
  answer_ = std::move(write.answer);
  submit(std::move(write.operation), std::move(write.audit));
}

// The watch starts with the commit of the enqueue, before a later commit can end the job.
void Connection::do_enqueue_and_wait(DoEnqueueAndWait enqueue) {
  answer_ = nullptr;
  wait_ = std::make_unique<Wait>();
  wait_->limit = enqueue.wait;
  wait_->own = true;
  const auto box = shard_.mailbox();
  box->expect();
  Broker& broker = shard_.shared().services.broker;
  broker.submit(
      std::move(enqueue.operation),
      [box, &broker, ticket = ticket_](OperationResult result) {
        std::shared_ptr<void> watch;
        if (const auto* enqueued = std::get_if<EnqueueResult>(&result))
          watch = watch_job(broker, enqueued->jobs.front().id, box, ticket);
        box->deliver({ticket, WatchedEnqueue{std::move(result), std::move(watch)}});
      },
      std::move(enqueue.audit));
}

void Connection::on_watched_enqueue(WatchedEnqueue enqueue) {
  if (auto* error = std::get_if<Error>(&enqueue.result)) {
    wait_.reset();
    return reply(error_reply(*error));
  }
  auto& enqueued = std::get<EnqueueResult>(enqueue.result);
  const EnqueuedJob job = enqueued.jobs.front();
  start_wait(job.id, wait_->limit, job.duplicate ? 200 : 201, std::move(enqueue.watch));
  if (wait_ != nullptr && is_terminal(job.state)) wait_->ended = std::move(enqueued);
}

void Connection::on_watch_fired() {
  if (wait_ == nullptr) return;
  wait_->fired = true;
  if (wait_->id == 0) return;  // the answer to the enqueue is on its way
  wait_->last = true;
  if (!wait_->reading) read_waited_job();
}

void Connection::on_operation_result(OperationResult result) {
  if (finishing_ != nullptr) {
    if (auto* error = std::get_if<Error>(&result)) {
      finishing_->error = std::move(*error);
    } else {
      finishing_->result = std::get<FinishResult>(std::move(result));
    }
    return reply_to_finish();
  }
  park_id_ = 0;  // of an acquire
  if (auto* error = std::get_if<Error>(&result)) return reply(error_reply(*error));
  DoWrite::Answer answer = answer_(result);
  if (auto* read = std::get_if<DoRead>(&answer)) return do_read(std::move(*read));
  reply(std::get<Reply>(std::move(answer)));
}

// -- claims

void Connection::do_claim(DoClaim claim) {
  if (!shard_.shared().room->fits(payer(), 0, kPageBytes)) return reply(overloaded_answers());
  finishing_.reset();
  claim_answer_ = claim.answer;
  claim_worker_ = claim.request.operation.worker;
  const bool may_park = claim.request.wait.count() > 0;
  waited_ = may_park;
  park_id_ = submit_claim(std::move(claim.request), std::move(claim.audit));
  if (may_park) arm_read();  // to notice a disconnect
}

void Connection::do_finish(DoFinish finish) {
  finishing_ = std::make_unique<Finishing>();
  FinishRequest& request = finish.request;
  finishing_->ids.reserve(request.operation.results.size());
  for (const JobOutcome& result : request.operation.results) finishing_->ids.push_back(result.id);
  finishing_->refused = std::move(request.refused);
  std::optional<ClaimRequest> claim = std::move(request.claim);
  if (!claim) return submit(std::move(request.operation), std::move(finish.audit));
  finishing_->claim_asked = finishing_->claim_pending = true;
  claim_worker_ = claim->operation.worker;
  const bool may_park = claim->wait.count() > 0;
  waited_ = may_park;
  park_id_ = submit_claim(std::move(*claim), std::move(finish.claim_audit),
                          Change{std::move(request.operation), std::move(finish.audit)});
  if (may_park) arm_read();
}

// Jobs that cannot be delivered to the caller become available again at once, and the session that
// came with them is released.
void give_back(Broker& broker, std::string worker, const ClaimResult& claimed) {
  const auto ignore = [](const OperationResult&) {};
  Finish back{.worker = std::move(worker), .results = {}};
  for (const ClaimedJob& job : claimed.jobs)
    back.results.push_back({job.id, job.token, given_back(job)});
  if (!back.results.empty()) broker.submit(std::move(back), ignore);
  if (!claimed.session) return;
  broker.submit(ReleaseSession{claimed.session->session, claimed.session->token}, ignore);
}

void Connection::give_back(const ClaimResult& claimed) {
  http::give_back(shard_.shared().services.broker, claim_worker_, claimed);
}

void Connection::on_claim_answer(OperationResult result) {
  park_id_ = 0;
  auto* error = std::get_if<Error>(&result);
  if (error == nullptr && !welcome()) {
    keep_alive_ = false;
    give_back(std::get<ClaimResult>(result));
    result = ClaimResult{};
  }
  if (finishing_ != nullptr) {
    finishing_->claim_pending = false;
    // The results are reported in any case; a refused claim counts as empty.
    finishing_->claim = error == nullptr ? std::get<ClaimResult>(std::move(result)) : ClaimResult{};
    return reply_to_finish();
  }
  if (error != nullptr) return reply(error_reply(*error));
  Reply out;
  const ClaimResult& claimed = std::get<ClaimResult>(result);
  claim_answer_ == DoClaim::Answer::session ? encode_accept_response(claimed, out.body)
                                            : encode_claim_response(claimed, out.body);
  if (!hold_room(out, shard_.shared().room, payer())) give_back(claimed);
  reply(std::move(out));
}

void Connection::reply_to_finish() {
  Finishing& f = *finishing_;
  if (f.error && f.claim_pending) shard_.shared().services.broker.abandon(park_id_);
  if ((!f.result && !f.error) || f.claim_pending) return;
  const std::unique_ptr<Finishing> done = std::move(finishing_);
  if (done->error) {
    // The results could not be stored, so the caller gets an error and its claimed jobs are
    // returned.
    if (done->claim) give_back(*done->claim);
    return reply(error_reply(*done->error));
  }
  Reply out;
  const ClaimResult* const claim = done->claim_asked ? &*done->claim : nullptr;
  add_refused(done->refused, done->ids, *done->result);
  encode_finish_response(done->ids, *done->result, claim, out.body);
  if (claim != nullptr && !hold_room(out, shard_.shared().room, payer())) {
    give_back(*claim);  // a refused claim counts as empty
    const ClaimResult none;
    out = Reply();
    encode_finish_response(done->ids, *done->result, &none, out.body);
  }
  reply(std::move(out));
}

// -- acquires

// A caller that disconnects while it waits is forgotten. A lease that it was granted at the same
// moment ends when it is not renewed. Releasing the lease could take it away from the caller's next
// try, which finds that it holds the lease already.
void Connection::do_acquire(DoAcquire acquire) {
  AcquireRequest& request = acquire.request;
  answer_ = [name = request.operation.name](OperationResult& result) -> DoWrite::Answer {
    Reply out;
    encode_lease_grant(name, std::get<LeaseGrant>(result), out.body);
    return out;
  };
  claim_worker_.clear();
  const bool may_park = request.wait.count() > 0;
  waited_ = may_park;
  Mailbox* const box = shard_.mailbox().get();
  box->expect();
  park_id_ = shard_.shared().services.broker.submit_acquire(
      std::move(request.operation), request.wait, [box, ticket = ticket_](OperationResult result) {
        box->deliver({ticket, std::move(result)});
      });
  if (may_park) arm_read();
}

// -- reads

void Connection::overloaded_reads() {
  reply(error_reply({.code = ErrorCode::overloaded,
                     .message = fmt::format("{} reads are waiting already",
                                            shard_.shared().services.options.max_waiting_reads),
                     .retry_after_ms = 1000}));
}

void Connection::do_read(DoRead read) {
  Shared& shared = shard_.shared();
  ReaderPool& pool = read.pool == Pool::host ? shared.host_readers : shared.readers;
  const bool taken =
      pool.submit([box = shard_.mailbox(), ticket = ticket_, read = std::move(read.read),
                   room = shared.room, payer = payer()]() mutable {
        Reply reply = read();
        hold_room(reply, room, payer);
        read = nullptr;  // frees a body that it owns before the client gets the reply
        box->deliver_unexpected({ticket, std::move(reply)});
      });
  if (!taken) overloaded_reads();
}

void Connection::reply_if_room(Reply out) {
  hold_room(out, shard_.shared().room, payer());
  reply(std::move(out));
}

// Watches first and reads then, so that an end between the two is not missed.
void Connection::start_wait(JobId id, Duration limit, int status, std::shared_ptr<void> watch) {
  waited_ = true;
  const bool own = wait_ != nullptr && wait_->own;
  const bool fired = wait_ != nullptr && wait_->fired;
  wait_ = std::make_unique<Wait>();
  wait_->own = own;
  wait_->id = id;
  wait_->status = status;
  wait_->limit = limit;
  wait_->last = fired || shard_.stopping();
  if (watch == nullptr)
    watch = watch_job(shard_.shared().services.broker, id, shard_.mailbox(), ticket_);
  wait_->watch = std::move(watch);
  wait_->timer = std::make_unique<boost::asio::steady_timer>(shard_.io());
  wait_->timer->expires_after(limit);
  wait_->timer->async_wait(
      [self = shared_from_this(), ticket = ticket_](const boost::system::error_code& cancelled) {
        if (cancelled || self->ticket_ != ticket || self->wait_ == nullptr) return;
        self->wait_->last = true;
        if (!self->wait_->reading) self->read_waited_job();
      });
  arm_read();
  read_waited_job();
}

void Connection::read_waited_job() {
  wait_->reading = true;
  Broker& broker = shard_.shared().services.broker;
  wait_->read_is_last = wait_->last;
  const bool taken = shard_.shared().readers.submit(
      [&broker, box = shard_.mailbox(), ticket = ticket_, id = wait_->id] {
        box->deliver_unexpected({ticket, broker.get_watched(id)});
      });
  if (taken) return;
  end_wait();
  overloaded_reads();
}

void Connection::on_waited_job(Result<Job> job) {
  if (wait_ == nullptr) return;
  wait_->reading = false;
  if (!welcome()) return end_unwelcome();
  // Do not reveal a job's existence to callers who may not read it.
  const Caller& caller = *pass_.caller;
  const bool own = wait_->own;
  const bool there =
      job && (own || caller.may(Verb::read, job->queue) || caller.may(Verb::result, job->queue));
  if (there && !is_terminal(job->state)) {
    if (!wait_->last) return;
    if (!wait_->read_is_last) return read_waited_job();
  }
  const int status = wait_->status;
  const JobId id = wait_->id;
  const auto ended = std::move(wait_->ended);
  end_wait();
  // A duplicate of a pruned job: only its final state is known.
  const bool gone = !job && job.error().code == ErrorCode::expired;
  if (gone && ended) return reply(enqueue_reply(*ended, true));
  if (!job) return reply(error_reply(job.error()));
  auto shown = job_reply(*job, status, *pass_.caller, own);
  reply_if_room(shown ? std::move(*shown) : no_job(id));
}

void Connection::end_wait() {
  if (wait_->timer != nullptr) wait_->timer->cancel();
  wait_.reset();
}

}  // namespace mainspring::http
