// The embedded store as an end of a copy: read beside the server that has it open, or written where
// there was none.
#pragma once

#include <memory>
#include <string>

#include "store/transfer.h"

namespace mainspring {

// Opens the store in `directory` beside whoever has it open. With SourceGoesOn::yes it is only
// read, and can be neither fenced nor marked. Errors: not_found (there is no store), conflict (its
// schema is not this program's), io_error.
Result<std::unique_ptr<TransferSource>> open_sqlite_source(const std::string& directory,
                                                           SourceGoesOn goes_on);
// Makes the directory if need be, and holds it for this process. Errors: conflict (another process
// has it open, or its schema is not this program's), io_error, invalid_argument (no directory).
Result<std::unique_ptr<TransferTarget>> open_sqlite_target(const std::string& directory);

}  // namespace mainspring
