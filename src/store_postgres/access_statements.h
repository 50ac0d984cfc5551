// Statements on tokens and the audit.
#pragma once

#include "store_postgres/connection.h"

namespace mainspring::pg {

struct AccessStatements {
  explicit AccessStatements(std::string_view schema);
  // A change of tokens locks the row of their version. An append to the audit locks the row of the
  // newest record. So nodes make such changes one after another.
  Statement lock_tokens, select_tokens, tokens_version, upsert_token, delete_token;
  Statement lock_chain, chain_ends, insert_audit, update_mark, first_audit, prune_audit;
  // images
  Statement queue_image, schedule_image, edited_body;
};

}  // namespace mainspring::pg
