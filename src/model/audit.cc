// The hash chain of audit records.
#include "model/audit.h"

#include <fmt/format.h>

namespace mainspring {
namespace {

void add_number(std::string& out, std::int64_t value) {
  for (int shift = 0; shift < 64; shift += 8) {
    out += static_cast<char>(static_cast<std::uint64_t>(value) >> shift & 0xff);
  }
}

// Adds the length too, so that different records never have the same bytes.
void add_text(std::string& out, std::string_view text) {
  add_number(out, static_cast<std::int64_t>(text.size()));
  out += text;
}

}  // namespace

Digest chain_hash(const Digest& previous, const AuditRecord& record) {
  std::string bytes(bytes_of(previous));
  add_number(bytes, record.seq);
  add_number(bytes, record.at.us());
  for (const std::string* text :
       {&record.who, &record.from, &record.action, &record.object, &record.before, &record.after}) {
    add_text(bytes, *text);
  }
  return sha256(bytes);
}

std::optional<std::string> follow_chain(AuditMark& mark, const std::vector<AuditRecord>& records) {
  for (const AuditRecord& record : records) {
    if (record.seq != mark.seq + 1) {
      return fmt::format("audit record {} follows {}: records are missing", record.seq, mark.seq);
    }
    if (record.hash != chain_hash(mark.hash, record)) {
      return fmt::format("audit record {}: it, or the one before it, was altered", record.seq);
    }
    mark = {record.seq, record.hash};
  }
  return std::nullopt;
}

}  // namespace mainspring
