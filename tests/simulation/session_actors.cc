// The actions of session holders.
#include "simulation/session_actors.h"

#include <fmt/format.h>

#include <algorithm>

namespace mainspring::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kHold = seconds(15);
constexpr Duration kSessionJobLease = seconds(12);

}  // namespace

void SessionHolder::start() {
  token_ = 0;
  SimWorker::start();
}

void SessionHolder::claim() {
  const auto again = [this](Duration in) { later(in, [this] { claim(); }); };
  if (!held_.empty()) return again(world_.between(milliseconds(20), seconds(1)));
  if (token_ != 0 && (stopped_ || world_.chance(10))) release();
  if (stopped_) return again(seconds(30));
  const std::string& queue = queues_[world_.below(queues_.size())];
  const Duration wait =
      world_.chance(3) ? Duration(0) : world_.between(milliseconds(1), seconds(15));
  if (token_ == 0 && world_.chance(2))
    return accept({queue, fmt::format("s{}", world_.below(kSessions))});
  if (token_ == 0) {
    return send_claim({.worker = id_, .queues = {accept_queue(queue)}, .kinds = {}, .lease = kHold},
                      wait);
  }
  if (world_.chance(3)) put_state();
  send_claim({.worker = id_,
              .queues = {session_queue(session_)},
              .kinds = {},
              .lease = kSessionJobLease,
              .session_token = token_},
             wait);
}

void SessionHolder::answered(const OperationResult& result, Duration sent, const Claim& claim) {
  if (const auto* got = std::get_if<ClaimResult>(&result)) {
    if (got->session) keep(*got->session, sent);
  } else if (std::get<Error>(result).code == ErrorCode::lease_lost &&
             claim.session_token == token_) {
    lose();
  }
}

void SessionHolder::lose() {
  world_.met.sessions_lost += token_ != 0 ? 1 : 0;
  token_ = 0;
}

void SessionHolder::accept(SessionKey session) {
  const Duration sent = world_.now();
  world_.call(AcceptSession{.worker = id_, .session = std::move(session), .lease = kHold},
              World::Delivery::repeatable, Duration(0),
              [this, life = life_, sent](const std::optional<OperationResult>& result) {
                if (life != life_) return;
                const auto* grant = result ? std::get_if<SessionGrant>(&*result) : nullptr;
                if (grant != nullptr) keep(*grant, sent);
                later(world_.between(milliseconds(1), seconds(1)), [this] { claim(); });
              });
}

void SessionHolder::keep(const SessionGrant& grant, Duration sent) {
  ++world_.met.sessions_held;
  session_ = grant.session;
  token_ = grant.token;
  const Duration until = given_up_.contains(token_) ? Duration(0) : sent + grant.lease;
  hold_ = world_.history.session_holds.size();
  world_.history.session_holds.push_back({.granted = world_.now().count(),
                                          .queue = session_.queue,
                                          .session = session_.key,
                                          .token = token_,
                                          .valid_until = until.count()});
}

void SessionHolder::beat() {
  SimWorker::beat();
  if (token_ != 0) renew();
}

void SessionHolder::renew() {
  const Duration sent = world_.now();
  world_.call(RenewSession{.session = session_, .token = token_}, World::Delivery::repeatable,
              Duration(0),
              [this, life = life_, sent, token = token_,
               at = hold_](const std::optional<OperationResult>& result) {
                if (!result || life != life_ || token != token_) return;
                if (const auto* grant = std::get_if<SessionGrant>(&*result)) {
                  auto& until = world_.history.session_holds[at].valid_until;
                  if (!given_up_.contains(token))
                    until = std::max(until, (sent + grant->lease).count());
                } else if (std::get<Error>(*result).code == ErrorCode::lease_lost) {
                  lose();
                }
              });
}

// Never late: a delayed state would overwrite a later one.
void SessionHolder::put_state() {
  const std::string state = fmt::format("[{},{}]", token_, ++states_);
  auto& writes = world_.history.session_writes;
  const std::size_t at = writes.size();
  writes.push_back({.queue = session_.queue,
                    .session = session_.key,
                    .state = state,
                    .invoke = world_.now().count()});
  world_.call(PutSessionState{.session = session_, .token = token_, .state = state},
              World::Delivery::prompt, Duration(0),
              [this, at](const std::optional<OperationResult>& result) {
                if (result && std::holds_alternative<mainspring::Done>(*result))
                  world_.history.session_writes[at].acked = world_.now().count();
              });
}

void SessionHolder::release() {
  auto& until = world_.history.session_holds[hold_].valid_until;
  until = std::min(until, world_.now().count());
  given_up_.insert(token_);
  world_.call(ReleaseSession{.session = session_, .token = token_}, World::Delivery::repeatable,
              Duration(0), [](const std::optional<OperationResult>&) {});
  token_ = 0;
}

}  // namespace mainspring::simulation
