// Reading zips that come from the network: everything is checked before a byte is unpacked.
//
// libarchive reads them; what it says of an entry is the one authority here, so that what was
// checked is what is written. Its reader by the directory at the end, not the one of streams: a zip
// has one list of what is in it. Of the methods those that everybody writes: stored and deflated.
// Source: libarchive's archive_read(3), archive_read_format(3).
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
  bool directory = false;  // files' folders need no entries of their own
  unsigned mode = 0;       // permission bits; what libarchive makes up where the zip has none
  std::uint64_t bytes = 0;
};

// Gives the file's bytes to `take`, piece by piece, never more than the entry's. Errors: those of
// `take`; invalid_argument (damaged: another size or checksum).
using TakePiece = std::function<Result<void>(std::string_view piece)>;
using UnpackEntry = std::function<Result<void>(const TakePiece& take)>;
using VisitEntry = std::function<Result<void>(const ZipEntry& entry, const UnpackEntry& unpack)>;

// Calls `visit` for each entry, each path once, after all of them were found to be within `limits`.
// It calls `unpack` at most once, and only for files. What macOS adds ("__MACOSX/", ".DS_Store") is
// checked like the rest, and not visited. Errors: invalid_argument with field "zip" (what breaks a
// rule, and which), too_large; those of `visit`; io_error (libarchive cannot be started).
Result<void> unpack_zip(std::string_view zip, const DeployLimits& limits, const VisitEntry& visit);

}  // namespace mainspring
