// Tokens and audit of the model: a map and a list, each read as a whole.
#include "conformance/model_access.h"

#include <algorithm>

#include "api/audit_images.h"
#include "store/ended_sessions.h"

namespace mainspring {

std::string ModelAccess::image(const std::string& text) const {
  using Kind = AuditObject::Kind;
  const AuditObject object = parse_audit_object(text);
  if (object.kind == Kind::queue) {
    const auto found = disk_.queues.find(object.name);
    if (found == disk_.queues.end()) return "";
    const QueueStats& q = found->second;
    return queue_image(q.paused, q.retention_completed, q.retention_dead, q.limits, q.pause);
  }
  if (object.kind == Kind::job) {
    const auto found = disk_.jobs.find(object.id);
    if (found == disk_.jobs.end()) return "";
    return job_image(found->second.job);
  }
  if (object.kind == Kind::schedule) {
    const auto found = disk_.schedules.find(object.name);
    return found == disk_.schedules.end() ? "" : schedule_image(found->second.info);
  }
  const auto found = disk_.tokens.find(object.name);
  return found == disk_.tokens.end() ? "" : token_image(found->second);
}

void ModelAccess::look_before(std::span<const Operation> batch, std::size_t at) {
  if (at == 0) about_.reset();
  const auto* next = at + 1 < batch.size() ? std::get_if<Audit>(&batch[at + 1]) : nullptr;
  if (next != nullptr && !std::holds_alternative<Audit>(batch[at])) before_ = image(next->object);
}

void ModelAccess::look_after(const Operation& operation, const OperationResult& result) {
  about_.reset();
  if (!std::holds_alternative<Audit>(operation)) about_ = result;
}

OperationResult ModelAccess::run(const CreateToken& op, Now now) {
  const auto old = disk_.tokens.find(op.token.name);
  const bool exists = old != disk_.tokens.end();
  const bool session = is_ended_session(op.token.name);
  if (session && exists && !ends_all_sessions(op.token.name)) return Done{};
  const bool known =
      !session && std::any_of(disk_.tokens.begin(), disk_.tokens.end(), [&](const auto& entry) {
        return entry.second.digest == op.token.digest;
      });
  if (known || (exists && !session && old->second.usable(now.wall)))
    return Error{.code = ErrorCode::conflict, .message = "there is such a token"};
  if (!exists && !session &&
      disk_.tokens.size() - count_ended_sessions(disk_.tokens) >= kMaxTokens) {
    const TokenRecord* oldest = nullptr;
    for (const auto& [name, token] : disk_.tokens) {
      if (!is_ended_session(name) && !token.usable(now.wall) &&
          (oldest == nullptr || token.created_at < oldest->created_at))
        oldest = &token;
    }
    if (oldest == nullptr)
      return Error{.code = ErrorCode::overloaded, .message = "too many tokens"};
    disk_.tokens.erase(std::string(oldest->name));
  }
  if (session) {
    for (const std::string& name : useless_sessions(disk_.tokens, op.token, now.wall))
      disk_.tokens.erase(name);
  }
  TokenRecord token = op.token;
  token.created_at = now.wall;
  token.revoked_at = session ? std::optional(now.wall) : std::nullopt;
  disk_.tokens[token.name] = token;
  wrote_ = true;
  ++tokens_version_;
  return Done{};
}

OperationResult ModelAccess::run(const RevokeToken& op, Now now) {
  const auto found = disk_.tokens.find(op.name);
  if (found == disk_.tokens.end())
    return Error{.code = ErrorCode::not_found, .message = "there is no such token"};
  if (found->second.revoked_at) return Done{};
  found->second.revoked_at = now.wall;
  wrote_ = true;
  ++tokens_version_;
  return Done{};
}

OperationResult ModelAccess::run(const Audit& op, Now now) {
  const bool theirs = parse_audit_object(op.object).kind == AuditObject::Kind::other;
  const bool given = op.alone || theirs;
  const std::string before = given ? op.before : before_;
  const std::string after = given ? op.after : image(op.object);
  if (!op.alone) {
    if (!about_)
      return Error{.code = ErrorCode::invalid_argument, .message = "it is about nothing"};
    if (!worth_a_record(*about_) || (before == after && !op.always)) return Done{};
  }
  AuditRecord record = audit_record(op, before, after, now.wall);
  const AuditMark head = state().head;
  record.seq = head.seq + 1;
  record.hash = chain_hash(head.hash, record);
  disk_.audit.push_back(std::move(record));
  wrote_ = true;
  return Done{};
}

bool ModelAccess::prune(int limit, Duration retention, Now now) {
  for (int i = 0; i < limit; ++i) {
    if (disk_.audit.empty()) return false;
    const AuditRecord& oldest = disk_.audit.front();
    if (oldest.at + retention > now.wall) return false;
    disk_.audit_base = {oldest.seq, oldest.hash};
    disk_.audit.erase(disk_.audit.begin());
    wrote_ = true;
  }
  return true;
}

AuditState ModelAccess::state() const {
  const std::vector<AuditRecord>& all = disk_.audit;
  return {.base = disk_.audit_base,
          .head = all.empty() ? disk_.audit_base : AuditMark{all.back().seq, all.back().hash},
          .records = static_cast<std::int64_t>(all.size())};
}

AuditPage ModelAccess::page(const AuditFilter& filter, AuditOrder order, int limit,
                            std::int64_t from) const {
  std::vector<AuditRecord> all = disk_.audit;
  const bool rising = order == AuditOrder::oldest_first;
  if (!rising) std::reverse(all.begin(), all.end());
  AuditPage page;
  for (AuditRecord& record : all) {
    const bool reached = rising ? record.seq >= from : from == 0 || record.seq <= from;
    if (!reached || (!filter.who.empty() && filter.who != record.who) ||
        (!filter.action.empty() && filter.action != record.action) ||
        (!filter.object.empty() && filter.object != record.object))
      continue;
    if (static_cast<int>(page.records.size()) == limit) {
      page.next = record.seq;
      break;
    }
    page.records.push_back(std::move(record));
  }
  return page;
}

}  // namespace mainspring
