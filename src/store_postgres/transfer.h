// The shared store as an end of a copy. `place` is what people call it: without a password.
#pragma once

#include <memory>
#include <string>

#include "store/transfer.h"
#include "store_postgres/postgres_store.h"

namespace mainspring {

// Opens the store beside its nodes, without joining them. With SourceGoesOn::yes it is only read,
// and can be neither fenced nor marked. Errors: as open_postgres_store(); not_found (there is
// none); forbidden (the role cannot mark it).
Result<std::unique_ptr<TransferSource>> open_postgres_source(const PostgresOptions& options,
                                                             const std::string& place,
                                                             SourceGoesOn goes_on);
// Makes the schema if need be. Errors: as open_postgres_store().
Result<std::unique_ptr<TransferTarget>> open_postgres_target(const PostgresOptions& options,
                                                             const std::string& place);

}  // namespace mainspring
