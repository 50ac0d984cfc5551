// Access tokens. All tokens are in memory; readers use a snapshot. A batch that changes tokens
// takes a lock that serializes nodes, and then reloads the tokens.
#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "store/common_rules.h"
#include "store/ended_sessions.h"
#include "store_postgres/store_impl.h"

namespace mainspring::pg {
namespace {

PgError damaged(std::string message) {
  return PgError{"XX001", "the store is damaged: " + std::move(message), false};
}

Digest read_digest(std::string_view bytes) {
  Digest digest{};
  if (bytes.size() != digest.size()) throw damaged("a digest is not 32 bytes long");
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

Tokens read_tokens(const Rows& rows) {
  Tokens all;
  for (int i = 0; i < rows.size(); ++i) {
    TokenRecord token;
    token.name = rows.text(i, 0);
    token.digest = read_digest(rows.text(i, 1));
    if (!rows.text(i, 2).empty()) {
      auto scopes = Scopes::parse(rows.text(i, 2));
      if (!scopes) throw damaged(fmt::format("token {}: {}", token.name, scopes.error().message));
      token.scopes = std::move(*scopes);
    }
    token.rate = static_cast<int>(rows.integer(i, 3));
    token.created_at = WallTime::from_us(rows.integer(i, 4));
    token.created_by = rows.text(i, 5);
    token.expires_at = WallTime::from_us(rows.integer(i, 6));
    if (const auto revoked = rows.maybe(i, 7)) token.revoked_at = WallTime::from_us(*revoked);
    std::string name = token.name;
    all.emplace(std::move(name), std::move(token));
  }
  return all;
}

}  // namespace

OperationResult PostgresStore::operator()(const CreateToken& op) {
  const std::string& name = op.token.name;
  Tokens& tokens = loaded_tokens();
  if (is_ended_session(name) && !ends_all_sessions(name) && tokens.contains(name)) return Done{};
  MS_TRY_ASSIGN(const auto removed, tokens_to_remove(tokens, op.token, now_.wall));
  for (const std::string& gone : removed) {
    write(access_sql_.delete_token, params(gone));
    tokens.erase(gone);
  }
  TokenRecord& token = tokens[name];
  token = created_token(op, now_.wall);
  save_token(token);
  return Done{};
}

OperationResult PostgresStore::operator()(const RevokeToken& op) {
  Tokens& tokens = loaded_tokens();
  const auto found = tokens.find(op.name);
  if (found == tokens.end()) return no_token(op.name);
  if (found->second.revoked_at) return Done{};
  found->second.revoked_at = now_.wall;
  save_token(found->second);
  return Done{};
}

// The tokens of the database as this batch leaves them, under the lock.
Tokens& PostgresStore::loaded_tokens() {
  if (after_.all_tokens == nullptr) {
    tell(access_sql_.lock_tokens, Params());
    const Rows version = ask(access_sql_.tokens_version, Params());
    if (version.empty()) throw damaged("the version of the tokens is missing");
    after_.tokens_version = version.integer(0, 0);
    after_.all_tokens =
        std::make_shared<Tokens>(read_tokens(ask(access_sql_.select_tokens, Params())));
  }
  return *after_.all_tokens;
}

void PostgresStore::save_token(const TokenRecord& token) {
  const bool revoked = token.revoked_at && !MS_MUTANT(token_revoke_forgotten);
  Params p = params(token.name);
  p.bytes(bytes_of(token.digest)).add(token.scopes.text()).add(token.rate);
  p.add(token.created_at.us()).add(token.created_by).add(token.expires_at.us());
  p.add(revoked ? std::optional<std::int64_t>(token.revoked_at->us()) : std::nullopt);
  write(access_sql_.upsert_token, p);
  if (after_.tokens) return;
  write(sql_.raise_version, params("tokens"));
  ++after_.tokens_version;
  after_.tokens = true;
}

// Loads the tokens outside of a batch.
void PostgresStore::load_tokens() {
  publish_tokens(
      std::make_shared<const Tokens>(read_tokens(connection_->run(access_sql_.select_tokens))));
}

// Publish the snapshot before the number: a reader of the number then finds this snapshot or a
// newer one.
void PostgresStore::publish_tokens(std::shared_ptr<const Tokens> all) {
  {
    MutexLock lock(published_mutex_);
    if (published_tokens_ != nullptr && *published_tokens_ == *all) return;
    published_tokens_ = std::move(all);
  }
  tokens_version_.fetch_add(1, std::memory_order_release);
}

std::shared_ptr<const Tokens> PostgresStore::tokens() const {
  MutexLock lock(published_mutex_);
  return published_tokens_ != nullptr ? published_tokens_ : std::make_shared<const Tokens>();
}

// Publishes tokens and the audit after the batch is committed.
void PostgresStore::remember_access() {
  if (after_.tokens) {
    publish_tokens(after_.all_tokens);
    versions_["tokens"] = after_.tokens_version;
  }
  if (after_.audit_due) audit_due_ = *after_.audit_due;
  if (!after_.audit) return;
  MutexLock lock(published_mutex_);
  published_audit_ = *after_.audit;
}

}  // namespace mainspring::pg
