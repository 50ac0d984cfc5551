// Access tokens. All tokens are in memory; readers use a snapshot.
#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/store_impl.h"
#include "store/common_rules.h"
#include "store/ended_sessions.h"

namespace mainspring::sql {
namespace {

Digest read_digest(std::string_view bytes) {
  Digest digest{};
  if (bytes.size() != digest.size())
    throw damaged("the store is damaged: a digest is not 32 bytes long");
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

TokenRecord read_token(const Statement& row) {
  TokenRecord token;
  token.name = row.text(0);
  token.digest = read_digest(row.text(1));
  if (!row.text(2).empty()) {
    auto scopes = Scopes::parse(row.text(2));
    if (!scopes) {
      throw damaged(
          fmt::format("the store is damaged: token {}: {}", token.name, scopes.error().message));
    }
    token.scopes = std::move(*scopes);
  }
  token.rate = static_cast<int>(row.integer(3));
  token.created_at = WallTime::from_us(row.integer(4));
  token.created_by = row.text(5);
  token.expires_at = WallTime::from_us(row.integer(6));
  if (!row.is_null(7)) token.revoked_at = WallTime::from_us(row.integer(7));
  return token;
}

}  // namespace

OperationResult SqlStore::operator()(const CreateToken& op) {
  const std::string& name = op.token.name;
  if (is_ended_session(name) && !ends_all_sessions(name) && tokens_.contains(name)) return Done{};
  MS_TRY_ASSIGN(const auto removed, tokens_to_remove(tokens_, op.token, now_.wall));
  for (const std::string& gone : removed) {
    begin_write();
    access_sql_->delete_token.bind(gone).run();
    tokens_.erase(gone);
  }
  TokenRecord& token = tokens_[name];
  token = created_token(op, now_.wall);
  save_token(token);
  return Done{};
}

OperationResult SqlStore::operator()(const RevokeToken& op) {
  const auto found = tokens_.find(op.name);
  if (found == tokens_.end()) return no_token(op.name);
  if (found->second.revoked_at) return Done{};
  found->second.revoked_at = now_.wall;
  save_token(found->second);
  return Done{};
}

void SqlStore::save_token(const TokenRecord& token) {
  begin_write();
  tokens_touched_ = true;
  const bool revoked = token.revoked_at && !MS_MUTANT(token_revoke_forgotten);
  const auto revoked_at =
      revoked ? std::optional<std::int64_t>(token.revoked_at->us()) : std::nullopt;
  const std::string scopes = token.scopes.text();
  access_sql_->upsert_token
      .bind(token.name, Statement::blob(bytes_of(token.digest)), scopes, token.rate,
            token.created_at.us(), token.created_by, token.expires_at.us(), revoked_at)
      .run();
}

void SqlStore::load_tokens() {
  tokens_.clear();
  tokens_touched_ = true;
  Statement rows(db_, queries::access::load_tokens);
  while (rows.step()) {
    TokenRecord token = read_token(rows);
    std::string name = token.name;
    tokens_.emplace(std::move(name), std::move(token));
  }
}

// Publish the snapshot before the number: a reader of the number then finds this snapshot or a
// newer one.
void SqlStore::publish_tokens() {
  if (!tokens_touched_) return;
  published_tokens_ = std::make_shared<const Tokens>(tokens_);
  tokens_version_.fetch_add(1, std::memory_order_release);
  tokens_touched_ = false;
}

std::shared_ptr<const Tokens> SqlStore::tokens() const {
  MutexLock lock(published_mutex_);
  return published_tokens_;
}

}  // namespace mainspring::sql
