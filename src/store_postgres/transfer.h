// The shared store as source or target of a copy. `place` is its name for people, without a
// password.
#pragma once

#include <memory>
#include <string>

#include "store/transfer.h"
#include "store_postgres/postgres_store.h"

namespace mainspring {

// Opens the store without joining its nodes. With SourceGoesOn::yes it is only read, and can be
// neither fenced nor marked. Errors: as open_postgres_store(); not_found (no store); forbidden (the
// role cannot mark it).
Result<std::unique_ptr<TransferSource>> open_postgres_source(const PostgresOptions& options,
                                                             const std::string& place,
                                                             SourceGoesOn goes_on);
// Creates the schema if needed. Errors: as open_postgres_store().
Result<std::unique_ptr<TransferTarget>> open_postgres_target(const PostgresOptions& options,
                                                             const std::string& place);

}  // namespace mainspring
