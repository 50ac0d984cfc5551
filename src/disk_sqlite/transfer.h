// The embedded store as source or target of a copy. A source may be open in a server; a target is
// written where no store exists.
#pragma once

#include <memory>
#include <string>

#include "store/transfer.h"

namespace mainspring {

// Opens the store in `directory`, also while another process has it open. With SourceGoesOn::yes
// the source is only read, and can be neither fenced nor marked. Errors: not_found (no store),
// conflict (another schema version), io_error.
Result<std::unique_ptr<TransferSource>> open_sqlite_source(const std::string& directory,
                                                           SourceGoesOn goes_on);
// Creates the directory if needed and locks it for this process. Errors: conflict (another process
// has it open, or another schema version), io_error, invalid_argument (not a directory).
Result<std::unique_ptr<TransferTarget>> open_sqlite_target(const std::string& directory);

}  // namespace mainspring
