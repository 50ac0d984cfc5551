// Reading zips that come from the network: the whole directory is checked before a byte is
// unpacked.
//
// The central directory is the one authority; what a local header says otherwise is refused, as are
// gaps and overlaps, so that no two readers can see two different zips here. Of the methods those
// that everybody writes: stored and deflated. Source: APPNOTE.TXT 6.3.10 of PKWARE.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "host/deploy.h"
#include "mainspring/result.h"

namespace mainspring {

struct ZipEntry {
  std::string path;        // "lib/a.py": relative, of plain parts, without a '/' at its end
  bool directory = false;  // files' folders need no entries of their own
  unsigned mode = 0;       // permission bits; 0 = the zip has none
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
  bool deflated = false;
  std::string_view packed;  // in the zip
};

// All of them, each path once, within `limits`. Errors: invalid_argument with field "zip" (what
// breaks a rule, and which), too_large.
Result<std::vector<ZipEntry>> read_zip(std::string_view zip, const DeployLimits& limits);

// Gives a file's bytes to `take`, piece by piece, never more than `bytes`. Errors: those of `take`;
// invalid_argument (the size or the checksum is another, damaged).
Result<void> unpack(const ZipEntry& entry,
                    const std::function<Result<void>(std::string_view piece)>& take);

}  // namespace mainspring
