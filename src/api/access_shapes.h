// Shapes of tokens and of the audit. See shapes.h for the contract of encode_… and decode_…. No
// shape shows a digest of a token.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/secret.h"
#include "store/access_operations.h"

namespace mainspring {

// The name of a caller without a token in audit records: no token may have this name.
inline constexpr std::string_view kLocalCaller = "local";

// Checks every rule of a token that needs no store. Errors: invalid_argument with the field.
Result<void> validate(const TokenRecord& token);

// POST /v1/tokens: {"name", "scopes": ["enqueue=photos", …], "expires_in"?: "30d" | "expires_at"?,
// "rate"?: 100}. Without either the token does not expire. Has passed validate(), and ends after
// `now`. Digest and created_by are for the caller to fill in.
Result<TokenRecord> decode_create_token(std::string_view body, WallTime now);
void encode_create_token(const TokenRecord& token, std::string& out);
// {"token": text} and the fields of encode_token_list: the only answer that contains the text.
void encode_created_token(const TokenRecord& token, const Secret& text, WallTime now,
                          std::string& out);
Result<Secret> decode_created_token(std::string_view body);

// {"tokens": [{"name", "scopes": […], "rate", "created_at", "created_by", "expires_at": … | null,
// "revoked_at"?, "usable"}]}
void encode_token_list(const Tokens& tokens, WallTime now, std::string& out);
Result<std::vector<TokenRecord>> decode_token_list(std::string_view body);
void encode_token(const TokenRecord& token, WallTime now, std::string& out);  // one of the list
// {"name", "revoked": true}
void encode_token_revoked(std::string_view name, std::string& out);

// POST /v1/queues/{name}/job_token: {"lifetime_ms"?, "folder"?: the folder of the run}.
struct JobTokenRequest {
  Duration lifetime = std::chrono::hours(1);
  std::string folder;
};
// Errors: invalid_argument.
Result<JobTokenRequest> decode_job_token_request(std::string_view body);
void encode_job_token_request(const JobTokenRequest& request, std::string& out);
// {"token": text, "expires_at", "expires_in_ms"}
void encode_job_token(const Secret& text, WallTime expires_at, WallTime now, std::string& out);
struct JobTokenAnswer {
  Secret token;
  Duration expires_in{0};
};
Result<JobTokenAnswer> decode_job_token(std::string_view body);

// {"records": [{"seq", "at", "who", "from", "action", "object", "before", "after", "hash"}],
// "next": seq | null}; before and after are JSON, null = the object did not exist.
void encode_audit_page(const AuditPage& page, std::string& out);
void encode_audit_record(const AuditRecord& record, std::string& out);  // one of the page
Result<AuditPage> decode_audit_page(std::string_view body);
// {"base": {"seq", "hash"}, "head": {"seq", "hash"}, "records"}
void encode_audit_state(const AuditState& state, std::string& out);
Result<AuditState> decode_audit_state(std::string_view body);

}  // namespace mainspring
