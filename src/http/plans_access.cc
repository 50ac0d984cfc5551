// The plans of tokens and of the audit, and the audit records of other plans.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <future>

#include "api/access_shapes.h"
#include "api/json.h"
#include "base/mutant.h"
#include "broker/broker.h"
#include "http/plans.h"
#include "model/job_token.h"
#include "model/token_text.h"

namespace mainspring::http {
namespace {

constexpr std::size_t kMaxShown = 100;  // ids and queues in a record

std::string list_text(std::string_view key, const std::vector<std::string>& texts) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key(key).begin_array();
  for (std::size_t i = 0; i < std::min(texts.size(), kMaxShown); ++i) w.string(texts[i]);
  w.end_array();
  return out;  // not closed: the caller adds more
}

Result<AuditOrder> order_of(const Request& request) {
  const std::string* text = query_value(request, "order");
  if (text == nullptr || *text == "newest_first") return AuditOrder::newest_first;
  if (*text == "oldest_first") return AuditOrder::oldest_first;
  return invalid("order", fmt::format("order \"{}\": must be newest_first or oldest_first",
                                      cut_text(*text, 64)));
}

Result<std::int64_t> from_of(const Request& request) {
  const std::string* text = query_value(request, "from");
  if (text == nullptr) return 0;
  std::int64_t from = 0;
  const char* const end = text->data() + text->size();
  const auto [last, problem] = std::from_chars(text->data(), end, from);
  if (problem == std::errc() && last == end && from >= 0) return from;
  return invalid(
      "from", fmt::format("from \"{}\": must be a number of a record, or 0", cut_text(*text, 64)));
}

std::string text_of(const Request& request, std::string_view name) {
  const std::string* text = query_value(request, name);
  return text == nullptr ? std::string() : *text;
}

}  // namespace

// -- records

Audit audit_of(const Request& request, std::string object) {
  return {.who = request.caller->who,
          .from = request.caller->from,
          .action = std::string(request.action),
          .object = std::move(object)};
}

Audit audit_of_request(const Request& request, std::string object, std::string after) {
  Audit audit = audit_of(request, std::move(object));
  audit.after = std::move(after);
  audit.always = true;
  return audit;
}

std::optional<Audit> audit_of_enqueue(const Request& request, const Services& services,
                                      const Enqueue& enqueue) {
  if (!services.options.audit_all) return std::nullopt;
  std::vector<std::string> queues;
  for (const NewJob& job : enqueue.jobs) {
    if (queues.size() == kMaxShown) break;
    if (std::find(queues.begin(), queues.end(), job.queue) == queues.end()) {
      queues.push_back(job.queue);
    }
  }
  return audit_of_request(
      request, "",
      fmt::format("{},\"jobs\":{}}}", list_text("queues", queues), enqueue.jobs.size()));
}

std::optional<Audit> audit_of_claim(const Request& request, const Services& services,
                                    const Claim& claim) {
  if (!services.options.audit_all) return std::nullopt;
  std::string worker;
  JsonWriter(worker).string(claim.worker);
  std::vector<std::string> queues;
  for (const std::string& line : claim.queues) queues.emplace_back(base_queue_of(line));
  return audit_of_request(request, "",
                          fmt::format("{},\"worker\":{}}}", list_text("queues", queues), worker));
}

std::optional<Audit> audit_of_finish(const Request& request, const Services& services,
                                     const Finish& finish) {
  if (!services.options.audit_all || finish.results.empty()) return std::nullopt;
  std::string after;
  JsonWriter w(after);
  w.begin_object().key("worker").string(finish.worker).key("jobs").begin_array();
  for (std::size_t i = 0; i < std::min(finish.results.size(), kMaxShown); ++i) {
    w.number(finish.results[i].id);
  }
  w.end_array().key("count").number(static_cast<std::int64_t>(finish.results.size()));
  w.end_object();
  return audit_of_request(request, "", std::move(after));
}

Result<void> append_record(Services& services, Audit audit) {
  audit.alone = true;
  auto answered = std::make_shared<std::promise<std::optional<Error>>>();
  auto answer = answered->get_future();
  services.broker.submit(std::move(audit), [answered](OperationResult result) {
    auto* error = std::get_if<Error>(&result);
    answered->set_value(error == nullptr ? std::nullopt : std::optional(std::move(*error)));
  });
  if (auto error = answer.get()) {
    error->message =
        "the change was made, but could not be recorded in the audit: " + error->message;
    return std::move(*error);
  }
  return {};
}

// -- tokens

namespace {

// The first scope of `wanted` that `own` does not cover.
std::string first_lacking(const Scopes& own, const Scopes& wanted) {
  for (const Scope& scope : wanted.list()) {
    if (!own.covers(Scopes({scope}))) return to_string(scope);
  }
  return "";
}

}  // namespace

Plan plan_create_token(const Request& request, Services& services) {
  auto token = decode_create_token(request.body, services.clock.now().wall);
  if (!token) return error_reply(token.error());
  const Caller& caller = *request.caller;
  if (caller.scopes != nullptr && !caller.scopes->covers(token->scopes) &&
      !MS_MUTANT(scopes_given_freely)) {
    return error_reply({.code = ErrorCode::forbidden,
                        .message = fmt::format(
                            "scope {}: \"{}\" lacks it: a token can only grant scopes that it has",
                            first_lacking(*caller.scopes, token->scopes), caller.who),
                        .field = "scopes"});
  }
  if (token->expires_at > caller.expires_at) {
    return error_reply(
        {.code = ErrorCode::forbidden,
         .message = fmt::format("\"{}\" expires at {} and cannot create a token that expires later",
                                caller.who, format_wall_time(caller.expires_at)),
         .field = "expires_in"});
  }
  const auto text = std::make_shared<const Secret>(make_token_text(services.random));
  token->digest = *digest_of_token(text->reveal());
  token->created_by = caller.who;
  token->created_at = services.clock.now().wall;
  return DoWrite{.operation = CreateToken{*token},
                 .answer = [&services, token = *token, text](OperationResult&) -> DoWrite::Answer {
                   Reply reply{.status = 201};
                   encode_created_token(token, *text, services.clock.now().wall, reply.body);
                   add_header(reply, "Cache-Control", "no-store");
                   return reply;
                 },
                 .audit = audit_of(request, "token/" + token->name)};
}

Plan plan_list_tokens(const Request&, Services& services) {
  return DoRead{[&services] {
    Reply reply;
    encode_token_list(*services.store.tokens(), services.clock.now().wall, reply.body);
    return reply;
  }};
}

Plan plan_revoke_token(const Request& request, Services&) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  return DoWrite{.operation = RevokeToken{request.param},
                 .answer = [name = request.param](OperationResult&) -> DoWrite::Answer {
                   Reply reply;
                   encode_token_revoked(name, reply.body);
                   return reply;
                 },
                 .audit = audit_of(request, "token/" + request.param)};
}

// Signed and not stored: a worker requests one whenever it starts a program.
Plan plan_create_job_token(const Request& request, Services& services) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  auto wanted = decode_job_token_request(request.body);
  if (!wanted) return error_reply(wanted.error());
  if (services.options.job_token_key.empty()) {
    return error_reply({.code = ErrorCode::unavailable,
                        .message = "this server has no key for job tokens; see its log"});
  }
  if (!wanted->folder.empty() && request.param != kFolderQueue) {
    return error_reply(invalid(
        "folder", fmt::format("folder: can be given for the queue \"{}\" only", kFolderQueue)));
  }
  const Caller& caller = *request.caller;
  if (!wanted->folder.empty()) {  // it can start runs of the folder
    auto may = check_may(caller, Verb::define_exec, folder_scope(wanted->folder));
    if (!may) return error_reply(may.error());
  }
  const WallTime now = services.clock.now().wall;
  const JobToken token{.queue = request.param,
                       .folder = wanted->folder,
                       .issuer = caller.token_id,
                       .expires_at = std::min(now + wanted->lifetime, caller.expires_at)};
  const auto text = sign_job_token(token, services.options.job_token_key);
  if (!text) return error_reply(text.error());
  Reply reply{.status = 201};
  encode_job_token(*text, token.expires_at, now, reply.body);
  add_header(reply, "Cache-Control", "no-store");
  return reply;
}

// -- the audit

namespace {

// Reads up to `limit`, or to the record that reaches kPageBytes. The store examines a bounded
// number of records in each part, so an empty part ends the page too.
Result<AuditPage> read_audit_page(const Store& store, const AuditFilter& filter, AuditOrder order,
                                  int limit, std::int64_t from) {
  AuditPage out;
  std::size_t bytes = 0;
  for (;;) {
    const int left = limit - static_cast<int>(out.records.size());
    const int asked = std::min(left, kReadAtOnce);
    MS_TRY_ASSIGN(AuditPage part, store.audit(filter, order, asked, from));
    const bool whole = std::ssize(part.records) == asked;
    for (AuditRecord& record : part.records) {
      bytes += record.before.size() + record.after.size();
      out.records.push_back(std::move(record));
    }
    out.next = part.next;
    if (!whole || !part.next || bytes >= kPageBytes || std::ssize(out.records) >= limit) return out;
    from = *part.next;
  }
}

}  // namespace

Plan plan_audit(const Request& request, Services& services) {
  const auto limit = parse_limit(request);
  if (!limit) return error_reply(limit.error());
  const auto order = order_of(request);
  if (!order) return error_reply(order.error());
  const auto from = from_of(request);
  if (!from) return error_reply(from.error());
  return DoRead{[&services, limit = *limit, order = *order, from = *from,
                 filter = AuditFilter{text_of(request, "who"), text_of(request, "action"),
                                      text_of(request, "object")}] {
    auto page = read_audit_page(services.store, filter, order, limit, from);
    if (!page) return error_reply(page.error());
    Reply reply;
    encode_audit_page(*page, reply.body);
    return reply;
  }};
}

Plan plan_audit_head(const Request&, Services& services) {
  return DoRead{[&services] {
    Reply reply;
    encode_audit_state(services.store.audit_state(), reply.body);
    return reply;
  }};
}

}  // namespace mainspring::http
