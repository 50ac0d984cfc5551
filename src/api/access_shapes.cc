// The shapes of tokens and of the audit.
#include "api/access_shapes.h"

#include <fmt/format.h>

#include "api/fields.h"
#include "model/job_token.h"
#include "store/ended_sessions.h"

namespace mainspring {
namespace {

using namespace std::chrono_literals;

bool read_scopes(JsonReader& in, Scopes& out) {
  std::vector<Scope> scopes;
  const bool read = in.array(kMaxScopes, [&](std::size_t) {
    std::string text;
    if (!in.string(text)) return false;
    auto scope = parse_scope(text);
    if (!scope) return in.fail(ErrorCode::invalid_argument, scope.error().message, in.path());
    scopes.push_back(std::move(*scope));
    return true;
  });
  if (read) out = Scopes(std::move(scopes));
  return read;
}

bool read_digest(JsonReader& in, Digest& out) {
  std::string text;
  if (!in.string(text)) return false;
  const auto digest = digest_from_hex(text);
  if (!digest) return in.fail_here("must be 64 hexadecimal digits");
  out = *digest;
  return true;
}

// JSON unchanged; null = "".
bool read_image(JsonReader& in, std::string& out) {
  return in.null() || in.raw(out);
}

struct CreateTokenBody {
  TokenRecord token;
  std::optional<Duration> expires_in;
  std::optional<WallTime> expires_at;
};
constexpr JsonField<CreateTokenBody> kCreateToken[] = {
    {"name", [](JsonReader& in, CreateTokenBody& b) { return in.string(b.token.name); }},
    {"scopes", [](JsonReader& in, CreateTokenBody& b) { return read_scopes(in, b.token.scopes); }},
    {"expires_in", &as_optional_duration<&CreateTokenBody::expires_in>},
    {"expires_at", &as_optional_time<&CreateTokenBody::expires_at>},
    {"rate",
     [](JsonReader& in, CreateTokenBody& b) { return in.integer(b.token.rate, 0, kMaxTokenRate); }},
};

constexpr JsonField<TokenRecord> kToken[] = {
    {"name", &as_string<&TokenRecord::name>},
    {"scopes", [](JsonReader& in, TokenRecord& t) { return read_scopes(in, t.scopes); }},
    {"rate", &as_integer<&TokenRecord::rate, 0, kMaxTokenRate>},
    {"created_at", &as_time<&TokenRecord::created_at>},
    {"created_by", &as_string<&TokenRecord::created_by>},
    {"expires_at",
     [](JsonReader& in, TokenRecord& t) { return in.null() || in.wall_time(t.expires_at); }},
    {"revoked_at", &as_optional_time<&TokenRecord::revoked_at>},
};
struct TokensAnswer {
  std::vector<TokenRecord> tokens;
};
constexpr JsonField<TokensAnswer> kTokens[] = {
    {"tokens",
     [](JsonReader& in, TokensAnswer& a) {
       return in.array(kMaxResponseEntries,
                       [&](std::size_t) { return in.object(kToken, a.tokens.emplace_back()); });
     }},
};
struct CreatedAnswer {
  std::string token;
};
constexpr JsonField<CreatedAnswer> kCreated[] = {{"token", &as_string<&CreatedAnswer::token>}};

constexpr JsonField<JobTokenRequest> kJobTokenRequest[] = {
    {"lifetime_ms",
     [](JsonReader& in, JobTokenRequest& r) {
       std::int64_t ms = 0;
       if (!in.integer(ms, kMinJobTokenLifetime / 1ms, kMaxJobTokenLifetime / 1ms)) return false;
       r.lifetime = std::chrono::milliseconds(ms);
       return true;
     }},
    {"folder",
     [](JsonReader& in, JobTokenRequest& r) {
       if (!in.string(r.folder)) return false;
       const bool plain = check_name("folder", r.folder) && r.folder.find('/') == std::string::npos;
       return plain || in.fail_value("must be the name of a job folder");
     }},
};
struct JobTokenText {
  std::string token;
  std::int64_t expires_in_ms = 0;
};
constexpr JsonField<JobTokenText> kJobToken[] = {
    {"token", &as_string<&JobTokenText::token>},
    {"expires_in_ms", &as_count<&JobTokenText::expires_in_ms>},
};

constexpr JsonField<AuditRecord> kRecord[] = {
    {"seq", &as_id<&AuditRecord::seq>},
    {"at", &as_time<&AuditRecord::at>},
    {"who", &as_string<&AuditRecord::who>},
    {"from", &as_string<&AuditRecord::from>},
    {"action", &as_string<&AuditRecord::action>},
    {"object", &as_string<&AuditRecord::object>},
    {"before", [](JsonReader& in, AuditRecord& r) { return read_image(in, r.before); }},
    {"after", [](JsonReader& in, AuditRecord& r) { return read_image(in, r.after); }},
    {"hash", [](JsonReader& in, AuditRecord& r) { return read_digest(in, r.hash); }},
};
constexpr JsonField<AuditPage> kAuditPage[] = {
    {"records",
     [](JsonReader& in, AuditPage& p) {
       return in.array(kMaxResponseEntries,
                       [&](std::size_t) { return in.object(kRecord, p.records.emplace_back()); });
     }},
    {"next",
     [](JsonReader& in, AuditPage& p) {
       return in.null() || in.integer(p.next.emplace(), std::int64_t{1}, INT64_MAX);
     }},
};
constexpr JsonField<AuditMark> kMark[] = {
    {"seq", &as_count<&AuditMark::seq>},
    {"hash", [](JsonReader& in, AuditMark& m) { return read_digest(in, m.hash); }},
};
constexpr JsonField<AuditState> kAuditState[] = {
    {"base", [](JsonReader& in, AuditState& s) { return in.object(kMark, s.base); }},
    {"head", [](JsonReader& in, AuditState& s) { return in.object(kMark, s.head); }},
    {"records", &as_count<&AuditState::records>},
};

void write_scopes(JsonWriter& w, const Scopes& scopes) {
  w.key("scopes").begin_array();
  for (const Scope& scope : scopes.list()) w.string(to_string(scope));
  w.end_array();
}

void write_expiry(JsonWriter& w, const TokenRecord& token) {
  w.key("expires_at");
  token.expires_at == WallTime::never() ? w.null() : w.time(token.expires_at);
}

void write_token(JsonWriter& w, const TokenRecord& token, WallTime now) {
  w.key("name").string(token.name);
  write_scopes(w, token.scopes);
  w.key("rate").number(token.rate).key("created_at").time(token.created_at);
  w.key("created_by").string(token.created_by);
  write_expiry(w, token);
  if (token.revoked_at) w.key("revoked_at").time(*token.revoked_at);
  w.key("usable").boolean(token.usable(now));
}

void write_mark(JsonWriter& w, const AuditMark& mark) {
  w.begin_object().key("seq").number(mark.seq).key("hash").string(to_hex(mark.hash)).end_object();
}

// Images from outside the store should be JSON; an invalid one must not break the answer.
void write_image(JsonWriter& w, std::string_view key, const std::string& image) {
  w.key(key);
  if (image.empty()) {
    w.null();
  } else if (check_json(key, image)) {
    w.raw(image);
  } else {
    w.string(image);
  }
}

void write_record(JsonWriter& w, const AuditRecord& record) {
  w.begin_object().key("seq").number(record.seq).key("at").time(record.at);
  w.key("who").string(record.who).key("from").string(record.from);
  w.key("action").string(record.action).key("object").string(record.object);
  write_image(w, "before", record.before);
  write_image(w, "after", record.after);
  w.key("hash").string(to_hex(record.hash)).end_object();
}

}  // namespace

Result<void> validate(const TokenRecord& token) {
  MS_TRY(check_name("name", token.name));
  if (token.name == kLocalCaller) {
    return invalid("name", fmt::format("name: must not be \"{}\": the audit uses it for callers "
                                       "without a token",
                                       kLocalCaller));
  }
  const std::size_t scopes = token.scopes.list().size();
  if (scopes == 0) return invalid("scopes", "scopes: must name at least one");
  if (scopes > kMaxScopes)
    return invalid("scopes", fmt::format("scopes: must be at most {}", kMaxScopes));
  if (token.rate < 0 || token.rate > kMaxTokenRate)
    return invalid("rate", fmt::format("rate {}: must be 0 to {}", token.rate, kMaxTokenRate));
  return {};
}

Result<TokenRecord> decode_create_token(std::string_view body, WallTime now) {
  MS_TRY_ASSIGN(CreateTokenBody request, decode_request(body, kCreateToken));
  TokenRecord& token = request.token;
  if (request.expires_in && request.expires_at)
    return invalid("expires_at", "expires_at: must not be given together with expires_in");
  if (request.expires_in) {
    if (request.expires_in->count() <= 0)
      return invalid("expires_in", "expires_in: must be more than 0");
    token.expires_at = now + *request.expires_in;
  }
  if (request.expires_at) {
    if (*request.expires_at <= now) return invalid("expires_at", "expires_at: must not be past");
    token.expires_at = *request.expires_at;
  }
  MS_TRY(validate(token));
  return std::move(token);
}

void encode_create_token(const TokenRecord& token, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("name").string(token.name);
  write_scopes(w, token.scopes);
  if (token.expires_at != WallTime::never()) w.key("expires_at").time(token.expires_at);
  if (token.rate != 0) w.key("rate").number(token.rate);
  w.end_object();
}

void encode_created_token(const TokenRecord& token, const Secret& text, WallTime now,
                          std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("token").string(text.reveal());
  write_token(w, token, now);
  w.end_object();
}

Result<Secret> decode_created_token(std::string_view body) {
  MS_TRY_ASSIGN(CreatedAnswer answer, decode_response(body, kCreated));
  if (answer.token.empty()) return bad_response(invalid("token", "token: must be given"));
  return Secret(std::move(answer.token));
}

Result<JobTokenRequest> decode_job_token_request(std::string_view body) {
  JobTokenRequest request;
  JsonReader in(body, JsonReader::Unknown::refuse);
  if (!in.object(kJobTokenRequest, request) || !in.end()) return in.error();
  return request;
}

void encode_job_token_request(const JobTokenRequest& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("lifetime_ms").milliseconds(request.lifetime);
  if (!request.folder.empty()) w.key("folder").string(request.folder);
  w.end_object();
}

void encode_job_token(const Secret& text, WallTime expires_at, WallTime now, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("token").string(text.reveal()).key("expires_at").time(expires_at);
  w.key("expires_in_ms").milliseconds(std::max(Duration(0), Duration(expires_at - now)));
  w.end_object();
}

Result<JobTokenAnswer> decode_job_token(std::string_view body) {
  MS_TRY_ASSIGN(JobTokenText answer, decode_response(body, kJobToken));
  if (answer.token.empty()) return bad_response(invalid("token", "token: must be given"));
  return JobTokenAnswer{Secret(std::move(answer.token)),
                        std::chrono::milliseconds(answer.expires_in_ms)};
}

void encode_token_list(const Tokens& tokens, WallTime now, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("tokens").begin_array();
  for (const auto& [name, token] : tokens) {
    if (is_ended_session(name)) continue;
    w.begin_object();
    write_token(w, token, now);
    w.end_object();
  }
  w.end_array().end_object();
}

Result<std::vector<TokenRecord>> decode_token_list(std::string_view body) {
  MS_TRY_ASSIGN(TokensAnswer answer, decode_response(body, kTokens));
  return std::move(answer.tokens);
}

void encode_token(const TokenRecord& token, WallTime now, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  write_token(w, token, now);
  w.end_object();
}

void encode_token_revoked(std::string_view name, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("name").string(name).key("revoked").boolean(true).end_object();
}

void encode_audit_record(const AuditRecord& record, std::string& out) {
  JsonWriter w(out);
  write_record(w, record);
}

void encode_audit_page(const AuditPage& page, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("records").begin_array();
  for (const AuditRecord& record : page.records) write_record(w, record);
  w.end_array().key("next");
  page.next ? w.number(*page.next) : w.null();
  w.end_object();
}

Result<AuditPage> decode_audit_page(std::string_view body) {
  return decode_response(body, kAuditPage);
}

void encode_audit_state(const AuditState& state, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("base");
  write_mark(w, state.base);
  w.key("head");
  write_mark(w, state.head);
  w.key("records").number(state.records).end_object();
}

Result<AuditState> decode_audit_state(std::string_view body) {
  return decode_response(body, kAuditState);
}

std::vector<std::string_view> access_request_fields(std::string_view schema) {
  if (schema == "CreateTokenRequest") return field_names(kCreateToken);
  return {};
}

}  // namespace mainspring
