// Reads zips from the network: everything is checked before a byte is unpacked.
//
// libarchive reads them, and its view of an entry is the only one used here, so that what was
// checked is what is written. It reads by the directory at the end, not as a stream, so that a zip
// has a single list of entries. Only the common methods are allowed: stored and deflated. Source:
// libarchive's archive_read(3), archive_read_format(3).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "host/deploy.h"
#include "mainspring/result.h"

namespace mainspring {

struct ZipEntry {
  std::string path;        // "lib/a.py": relative, of plain parts, without a '/' at its end
  bool directory = false;  // parents of files need no entries of their own
  unsigned mode = 0;       // permission bits; libarchive's default if the zip has none
  std::uint64_t bytes = 0;
};

// Passes the file's bytes to `take` in pieces, never more than the entry's size. Errors: those of
// `take`; invalid_argument (damaged: another size or checksum).
using TakePiece = std::function<Result<void>(std::string_view piece)>;
using UnpackEntry = std::function<Result<void>(const TakePiece& take)>;
using VisitEntry = std::function<Result<void>(const ZipEntry& entry, const UnpackEntry& unpack)>;

// Calls `visit` for each entry, each path once, after all of them were found to be within `limits`.
// `visit` calls `unpack` at most once, and only for files. Files that macOS adds ("__MACOSX/",
// ".DS_Store") are checked but not visited. Errors: invalid_argument with field "zip" (the broken
// rule), too_large; those of `visit`; io_error (libarchive cannot be started).
Result<void> unpack_zip(std::string_view zip, const DeployLimits& limits, const VisitEntry& visit);

}  // namespace mainspring
