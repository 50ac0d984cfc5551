// The statements of tokens and of the audit.
#pragma once

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct AccessStatements {
  explicit AccessStatements(std::string_view schema);
  // Whoever changes tokens holds the row of their version, whoever appends to the audit that of its
  // newest record: so nodes take turns.
  Statement lock_tokens, select_tokens, tokens_version, upsert_token, delete_token;
  Statement lock_chain, chain_ends, insert_audit, update_mark, first_audit, prune_audit;
  // images
  Statement queue_image, schedule_image;
};

}  // namespace mainspring::pg
