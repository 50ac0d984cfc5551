// The plans that enqueue, read and run jobs.
#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "api/callback_shapes.h"
#include "api/json.h"
#include "api/search_shapes.h"
#include "base/mutant.h"
#include "broker/explain.h"
#include "broker/search.h"
#include "http/plans.h"
#include "model/callback.h"
#include "model/fingerprint.h"
#include "model/queue_pattern.h"

namespace mainspring::http {
namespace {

constexpr int kDefaultPage = 100;
constexpr int kMaxPage = 1000;

// 128 bits of SHA-256, in hex.
std::string digest(std::string_view body) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int size = 0;
  EVP_Digest(body.data(), body.size(), hash.data(), &size, EVP_sha256(), nullptr);
  std::string out;
  for (std::size_t i = 0; i < 16; ++i) {
    out += kHex[hash[i] >> 4];
    out += kHex[hash[i] & 15];
  }
  return out;
}

Result<void> check_idempotency_key(std::string_view key) {
  if (key.size() > kMaxKeyBytes) {
    return Error{.code = ErrorCode::too_large,
                 .message = fmt::format("Idempotency-Key has {} bytes: must be at most {}",
                                        key.size(), kMaxKeyBytes),
                 .field = "Idempotency-Key"};
  }
  const bool visible =
      std::all_of(key.begin(), key.end(), [](char c) { return c >= ' ' && c < 0x7f; });
  if (visible) return {};
  return invalid("Idempotency-Key", "Idempotency-Key: must be visible ASCII");
}

}  // namespace

Reply enqueue_reply(const EnqueueResult& result, bool single) {
  const bool all_old = std::all_of(result.jobs.begin(), result.jobs.end(),
                                   [](const EnqueuedJob& job) { return job.duplicate; });
  Reply reply{.status = all_old || result.replayed ? 200 : 201};
  encode_enqueue_response(result, single, reply.body);
  return reply;
}

Result<std::int64_t> parse_id(std::string_view text) {
  std::int64_t id = 0;
  const char* const end = text.data() + text.size();
  const auto [last, problem] = std::from_chars(text.data(), end, id);
  const bool ok = problem == std::errc() && last == end && id >= 1 && text.front() != '0';
  if (ok) return id;
  return invalid("id", fmt::format("id \"{}\": must be a whole number from 1", cut_text(text, 64)));
}

Result<Duration> parse_wait(const Request& request) {
  const std::string* text = query_value(request, "wait");
  if (text == nullptr) return Duration(0);
  auto wait = parse_duration(*text);
  if (!wait) return invalid("wait", "wait: " + wait.error().message);
  if (*wait > kMaxClaimWait) {
    return invalid(
        "wait", fmt::format("wait {}: must be at most {}", *text, format_duration(kMaxClaimWait)));
  }
  return *wait;
}

const std::string* query_value(const Request& request, std::string_view name) {
  for (const auto& [key, value] : request.query) {
    if (key == name) return &value;
  }
  return nullptr;
}

Result<bool> query_flag(const Request& request, std::string_view name, bool fallback) {
  const std::string* text = query_value(request, name);
  if (text == nullptr) return fallback;
  if (*text == "true") return true;
  if (*text == "false") return false;
  return invalid(std::string(name),
                 fmt::format("{} \"{}\": must be true or false", name, cut_text(*text, 64)));
}

Result<JobFilter> parse_filter(const Request& request) {
  JobFilter filter;
  if (const auto* queue = query_value(request, "queue")) {
    MS_TRY(check_name("queue", *queue));
    filter.queue = *queue;
  }
  if (const auto* kind = query_value(request, "kind")) {
    MS_TRY(check_name("kind", *kind));
    filter.kind = *kind;
  }
  if (const auto* tag = query_value(request, "tag")) filter.tag = *tag;
  return filter;
}

Result<void> check_payload_terms(const Caller& caller, const JobFilter& filter) {
  const JobTerm* term = filter.query ? filter.query->payload_term() : nullptr;
  if (term == nullptr || MS_MUTANT(payload_search_for_all)) return {};
  auto may = filter.queue.empty() ? check_may_all(caller, Verb::read_payload)
                                  : check_may(caller, Verb::read_payload, filter.queue);
  if (may) return may;
  Error error = may.error();
  error.message = fmt::format("q: \"{}\" looks into args, results or errors: {}",
                              cut_text(term->word, 64), error.message);
  error.field = "q";
  return error;
}

namespace {

// Also the parameters that only GET /v1/jobs has.
Result<JobFilter> parse_search(const Request& request, WallTime now) {
  JobSearch search;
  const auto word = [&](std::string_view name, std::string& to) {
    if (const auto* text = query_value(request, name)) to = *text;
  };
  word("queue", search.queue);
  word("kind", search.kind);
  word("tag", search.tag);
  word("q", search.q);
  if (const auto* states = query_value(request, "state")) {
    MS_TRY_ASSIGN(search.states, parse_states(*states));
  }
  MS_TRY_ASSIGN(search.from, query_time(request, "from"));
  MS_TRY_ASSIGN(search.to, query_time(request, "to"));
  if (const auto* ids = query_value(request, "ids")) {
    MS_TRY_ASSIGN(search.ids, parse_search_ids(*ids));
  }
  return job_filter_of(search, now);
}

}  // namespace

Result<std::optional<WallTime>> query_time(const Request& request, std::string_view name) {
  const auto* text = query_value(request, name);
  if (text == nullptr) return std::optional<WallTime>();
  if (const auto time = parse_wall_time(*text)) return std::optional(*time);
  return invalid(std::string(name),
                 fmt::format("{} \"{}\": must be a time such as 2026-01-31T09:00:00Z", name,
                             cut_text(*text, 64)));
}

Result<int> query_integer(const Request& request, std::string_view name, int fallback, int max) {
  const auto* text = query_value(request, name);
  if (text == nullptr) return fallback;
  int value = 0;
  const char* const end = text->data() + text->size();
  const auto [last, problem] = std::from_chars(text->data(), end, value);
  if (problem == std::errc() && last == end && value >= 1 && value <= max) return value;
  return invalid(std::string(name),
                 fmt::format("{} \"{}\": must be 1 to {}", name, cut_text(*text, 64), max));
}

Result<int> parse_limit(const Request& request) {
  return query_integer(request, "limit", kDefaultPage, kMaxPage);
}

std::size_t payload_bytes(const NewJob& job) {
  std::size_t bytes = job.args.size() + job.headers.size();
  for (const FollowUp& follow_up : job.follow_ups) bytes += follow_up.data.size();
  return bytes;
}

Plan plan_page(const Request& request, Services& services, JobFilter filter,
               std::string fingerprint) {
  const auto limit = parse_limit(request);
  if (!limit) return error_reply(limit.error());
  JobId before = 0;
  if (const auto* cursor = query_value(request, "cursor")) {
    auto parsed = decode_cursor(*cursor);
    if (!parsed) return error_reply(parsed.error());
    before = *parsed;
  }
  if (const auto* whole = query_value(request, "whole_args")) {
    if (*whole != "true") {
      return error_reply(invalid(
          "whole_args", fmt::format("whole_args \"{}\": must be true", cut_text(*whole, 64))));
    }
    filter.whole_args = true;
  }
  filter.within = request.caller->within(Verb::read);
  return DoRead{[&services, filter = std::move(filter), limit = *limit, before,
                 fingerprint = std::move(fingerprint),
                 payloads = request.caller->within(Verb::read_payload)] {
    auto page = search_jobs(services.store, filter, limit, before);
    if (!page) return error_reply(page.error());
    if (!fingerprint.empty()) {
      std::erase_if(page->jobs, [&](const Job& job) { return fingerprint_of(job) != fingerprint; });
    }
    Reply reply;
    encode_job_page(*page, reply.body, payloads);
    return reply;
  }};
}

Plan plan_enqueue(const Request& request, Services& services) {
  auto decoded = decode_enqueue_request(request.body);
  if (!decoded) return error_reply(decoded.error());
  auto wait = parse_wait(request);
  if (!wait) return error_reply(wait.error());
  const bool single = decoded->single;
  const WallTime now = services.clock.now().wall;
  // The answer reveals whether the lock has this token.
  if (const std::string& lock = decoded->operation.fence.lease; !lock.empty()) {
    auto may = check_may(*request.caller, Verb::lease, lock);
    if (!may && !MS_MUTANT(fence_of_any_lock)) return error_reply(may.error());
  }
  for (std::size_t i = 0; i < decoded->operation.jobs.size(); ++i) {
    const NewJob& job = decoded->operation.jobs[i];
    const std::string prefix = single ? "" : fmt::format("jobs[{}].", i);
    auto may = check_may_make(*request.caller, Verb::enqueue, job);
    if (may) may = check_callback(services, job, prefix);
    if (may) may = check_starts(job, now, prefix);
    if (!may) return error_reply(may.error());
  }
  if (!single && query_value(request, "wait") != nullptr) {
    return error_reply(invalid("wait", "wait: needs a single job, not a batch"));
  }
  if (!request.idempotency_key.empty()) {
    auto key = check_idempotency_key(request.idempotency_key);
    if (!key) return error_reply(key.error());
    decoded->operation.idempotency_key = request.idempotency_key;
    decoded->operation.fingerprint = digest(request.body);
  }
  if (request.trace) {
    for (NewJob& job : decoded->operation.jobs) request.trace->add_to(job.headers);
  }
  auto audit = audit_of_enqueue(request, services, decoded->operation);
  if (wait->count() > 0) {
    return DoEnqueueAndWait{std::move(decoded->operation), *wait, std::move(audit)};
  }
  return DoWrite{std::move(decoded->operation),
                 [single](OperationResult& result) {
                   return enqueue_reply(std::get<EnqueueResult>(result), single);
                 },
                 std::move(audit)};
}

Plan plan_get_job(const Request& request, Services& services) {
  auto id = parse_id(request.param);
  if (!id) return error_reply(id.error());
  auto wait = parse_wait(request);
  if (!wait) return error_reply(wait.error());
  if (wait->count() > 0) return DoWait{*id, *wait};
  return DoRead{[&services, id = *id, caller = request.caller] {
    auto job = services.store.get(id);
    if (!job) return error_reply(job.error());
    auto reply = job_reply(*job, 200, *caller);
    return reply ? std::move(*reply) : no_job(id);
  }};
}

Plan plan_list_memos(const Request& request, Services& services) {
  auto id = parse_id(request.param);
  if (!id) return error_reply(id.error());
  auto limit = parse_limit(request);
  if (!limit) return error_reply(limit.error());
  std::string from;
  if (const auto* text = query_value(request, "from")) {
    if (auto good = check_memo_name("from", *text); !good) return error_reply(good.error());
    from = *text;
  }
  return DoRead{[&services, id = *id, limit = *limit, from, caller = request.caller] {
    auto job = services.store.get(id);
    if (!job) return error_reply(job.error());
    const bool may =
        caller->may(Verb::work, job->queue) || caller->may(Verb::read_payload, job->queue);
    if (!may) return no_job(id);
    auto page = services.store.memos(id, from, limit);
    if (!page) return error_reply(page.error());
    Reply reply;
    encode_memo_page(*page, reply.body);
    return reply;
  }};
}

Plan plan_why(const Request& request, Services& services) {
  auto id = parse_id(request.param);
  if (!id) return error_reply(id.error());
  return DoRead{[&services, id = *id, caller = request.caller] {
    auto job = services.store.get(id);
    if (!job) return error_reply(job.error());
    if (!caller->may(Verb::read, job->queue)) return no_job(id);
    if (payload_for(*caller, job->queue) == Payload::masked) {
      job->errors.clear();
      job->description.clear();
    }
    const auto why = explain(*job, services.store, services.broker, services.clock);
    if (!why) return error_reply(why.error());
    Reply reply;
    encode_why({.id = id,
                .state = std::string(to_string(job->state)),
                .gate = std::string(to_string(why->gate)),
                .why = why->text,
                .until = why->until,
                .ahead = why->ahead,
                .estimated_start = why->estimated_start},
               reply.body);
    return reply;
  }};
}

Reply no_job(JobId id) {
  return error_reply({ErrorCode::not_found, fmt::format("job {}: there is no such job", id)});
}

Payload payload_for(const Caller& caller, std::string_view queue) {
  return caller.may(Verb::read_payload, queue) ? Payload::shown : Payload::masked;
}

std::optional<Reply> job_reply(const Job& job, int status, const Caller& caller, bool own) {
  Reply reply{.status = status};
  if (caller.may(Verb::read, job.queue)) {
    const bool result = caller.may(Verb::result, job.queue);
    encode_job(job, result ? JobDetail::full_with_result : JobDetail::full, reply.body,
               payload_for(caller, job.queue));
  } else if (caller.may(Verb::result, job.queue)) {
    encode_job(job, JobDetail::outcome, reply.body);
  } else if (own || MS_MUTANT(foreign_job_shown)) {
    encode_job(job, JobDetail::state, reply.body);
  } else {
    return std::nullopt;
  }
  return reply;
}

Result<void> check_callback(const Services& services, const NewJob& job,
                            const std::string& prefix) {
  if (!services.options.check_callback) return {};
  for (const FollowUp& follow_up : job.follow_ups) {
    if (!is_callback(follow_up)) continue;
    auto good = services.options.check_callback(callback_url(follow_up));
    if (good) continue;
    Error error = good.error();
    error.field = prefix + "callback.url";
    if (error.message.starts_with("url")) error.message = error.field + error.message.substr(3);
    return error;
  }
  return {};
}

Result<void> check_worker(const Caller& caller, const Services& services,
                          const std::string& worker) {
  if (services.broker.takes_worker_name(worker, caller.who, caller.within(Verb::work))) return {};
  return Error{.code = ErrorCode::forbidden,
               .message = fmt::format("worker \"{}\": a caller with other queues uses this name: "
                                      "choose another",
                                      cut_text(worker, 128)),
               .field = "worker"};
}

// Limits patterns to the queues that the caller may work on.
Result<void> check_claim(const Caller& caller, const Services& services, Claim& claim) {
  if (MS_MUTANT(scope_not_checked_on_claim)) return {};
  std::vector<std::string> allowed;
  for (const std::string& line : claim.queues) {
    auto part = is_pattern(line) ? allowed_part(line, caller.within(Verb::work))
                                 : std::vector<std::string>();
    if (part.empty()) {
      MS_TRY(check_may(caller, Verb::work, base_queue_of(line)));
      part.push_back(line);
    }
    allowed.insert(allowed.end(), part.begin(), part.end());
  }
  std::sort(allowed.begin(), allowed.end());
  allowed.erase(std::unique(allowed.begin(), allowed.end()), allowed.end());
  claim.queues = std::move(allowed);
  return check_worker(caller, services, claim.worker);
}

Plan plan_list_jobs(const Request& request, Services& services) {
  auto filter = parse_search(request, services.clock.now().wall);
  if (!filter) return error_reply(filter.error());
  if (auto may = check_payload_terms(*request.caller, *filter); !may)
    return error_reply(may.error());
  if (const auto* quarantined = query_value(request, "quarantined")) {
    if (*quarantined != "true") {
      return error_reply(invalid("quarantined", fmt::format("quarantined \"{}\": must be true",
                                                            cut_text(*quarantined, 64))));
    }
    filter->quarantined = true;
  }
  return plan_page(request, services, std::move(*filter));
}

Plan plan_cancel_job(const Request& request, Services&) {
  auto id = parse_id(request.param);
  if (!id) return error_reply(id.error());
  auto cancel = decode_cancel_request(*id, request.body);
  if (!cancel) return error_reply(cancel.error());
  cancel->within = request.caller->within(Verb::admin);
  return DoWrite{std::move(*cancel),
                 [id = *id](OperationResult& result) {
                   Reply reply;
                   encode_cancel_response(id, std::get<CancelResult>(result), reply.body);
                   return reply;
                 },
                 audit_of(request, fmt::format("job/{}", *id))};
}

namespace {

Plan plan_retry(const Request& request, bool take_back) {
  auto id = parse_id(request.param);
  if (!id) return error_reply(id.error());
  RetryJob retry{.id = *id, .within = request.caller->within(Verb::admin), .take_back = take_back};
  return DoWrite{retry,
                 [id = *id](OperationResult& result) {
                   Reply reply;
                   encode_retry_response(id, std::get<RetryResult>(result), reply.body);
                   return reply;
                 },
                 audit_of(request, fmt::format("job/{}", *id))};
}

}  // namespace

Plan plan_retry_job(const Request& request, Services&) {
  return plan_retry(request, false);
}

Plan plan_take_back_job(const Request& request, Services&) {
  return plan_retry(request, true);
}

Plan plan_claim(const Request& request, Services& services) {
  auto claim = decode_claim_request(request.body);
  if (!claim) return error_reply(claim.error());
  auto may = check_claim(*request.caller, services, claim->operation);
  if (!may) return error_reply(may.error());
  auto audit = audit_of_claim(request, services, claim->operation);
  return DoClaim{std::move(*claim), std::move(audit)};
}

// The jobs of a completion need the caller's permission to enqueue: a job must not give a worker
// access to queues that it may not use.
Result<void> check_next(const Request& request, const Services& services, const Finish& finish) {
  if (MS_MUTANT(scope_not_checked_on_next)) return {};
  for (std::size_t i = 0; i < finish.results.size(); ++i) {
    const auto* complete = std::get_if<Complete>(&finish.results[i].outcome);
    if (complete == nullptr) continue;
    for (std::size_t j = 0; j < complete->next.size(); ++j) {
      MS_TRY(check_may_make(*request.caller, Verb::enqueue, complete->next[j]));
      MS_TRY(
          check_callback(services, complete->next[j], fmt::format("results[{}].next[{}].", i, j)));
    }
  }
  return {};
}

Plan plan_finish(const Request& request, Services& services) {
  auto finish = decode_finish_request(request.body);
  if (!finish) return error_reply(finish.error());
  if (auto may = check_next(request, services, finish->operation); !may)
    return error_reply(may.error());
  if (finish->claim) {
    auto may = check_claim(*request.caller, services, finish->claim->operation);
    if (!may) return error_reply(may.error());
  }
  finish->operation.within = request.caller->within(Verb::work);
  auto audit = audit_of_finish(request, services, finish->operation);
  auto claim_audit = finish->claim ? audit_of_claim(request, services, finish->claim->operation)
                                   : std::optional<Audit>();
  return DoFinish{std::move(*finish), std::move(audit), std::move(claim_audit)};
}

Plan plan_end_claims(const Request& request, Services& services) {
  auto end = decode_end_claims_request(request.body);
  if (!end) return error_reply(end.error());
  Reply reply;
  encode_end_claims_response(
      services.broker.end_claims(end->worker, request.caller->within(Verb::work)), reply.body);
  return reply;
}

Plan plan_renew(const Request& request, Services& services) {
  auto renew = decode_renew_request(request.body);
  if (!renew) return error_reply(renew.error());
  renew->within = request.caller->within(Verb::work);
  // Never refuse a renewal because of its name: the tokens of the leases are enough. But a command
  // is for the caller that has the name.
  const bool named =
      services.broker.takes_worker_name(renew->worker, request.caller->who, renew->within);
  if (!named) {
    renew->stuck.reset();
    if (renew->leases.empty()) {
      Reply reply;
      encode_renew_response(RenewResult(), reply.body);
      return reply;
    }
  }
  auto refused = std::move(renew->refused);
  return DoWrite{Renew(std::move(*renew)),
                 [refused = std::move(refused), named](OperationResult& result) {
                   auto& renewed = std::get<RenewResult>(result);
                   renewed.refused = refused;
                   if (!named) renewed.command = WorkerCommand::none;
                   Reply reply;
                   encode_renew_response(renewed, reply.body);
                   return reply;
                 }};
}

}  // namespace mainspring::http
