// Zips by libarchive: once through the headers, then once more for the data.
#include "host/zip.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <locale.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace mainspring {
namespace {

constexpr std::size_t kMaxPathPartBytes = 255;  // of a part of a path
constexpr std::size_t kMaxParts = 64;
constexpr std::uint64_t kSmallBytes = 10 << 20;  // below this the ratio is not checked
constexpr std::size_t kShownPathBytes = 200;
// libarchive keeps about 150 bytes per record of the directory before it returns the first entry,
// far more than a record needs in a zip. Zips stored inside the zip count too.
constexpr std::size_t kMaxRecords = 500'000;
constexpr std::string_view kRecordBegin = "PK\x01\x02";
constexpr std::string_view kEndBegin = "PK\x05\x06";  // of the end of the directory

Error bad(std::string what) {
  return invalid("zip", "zip: " + std::move(what));
}

// For messages: paths of a zip may contain any bytes.
std::string shown_path(std::string_view path) {
  std::string out(path.substr(0, kShownPathBytes));
  for (char& c : out) c = static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return out;
}

Error bad(std::string_view path, std::string_view why) {
  return bad(fmt::format("\"{}\": {}", shown_path(path), why));
}

Error too_large(std::string what) {
  return Error{ErrorCode::too_large, "zip: " + std::move(what), "zip"};
}

// The path without the '/' at a directory's end.
Result<std::string> check_path(std::string_view path, std::size_t max_bytes) {
  const std::string_view whole = path;
  if (path.size() > max_bytes) {
    return bad(whole, fmt::format("a path must have at most {} bytes", max_bytes));
  }
  if (std::any_of(path.begin(), path.end(),
                  [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; })) {
    return bad(whole, "a path must not hold control characters");
  }
  if (path.find('\\') != std::string_view::npos) {
    return bad(whole, "a path must not hold '\\'; folders are divided by '/'");
  }
  if (path.ends_with('/')) path.remove_suffix(1);
  const std::string out(path);
  for (std::size_t parts = 1;; ++parts) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") {
      return bad(whole,
                 "a path must stay in the folder: no '/' at its beginning, no '.', '..' or "
                 "empty parts");
    }
    if (part.size() > kMaxPathPartBytes) {
      return bad(whole, fmt::format("a name must have at most {} bytes", kMaxPathPartBytes));
    }
    if (slash == std::string_view::npos) return out;
    if (parts == kMaxParts) return bad(whole, fmt::format("more than {} folders deep", kMaxParts));
    path.remove_prefix(slash + 1);
  }
}

// libarchive converts names to the encoding of the thread's locale, which is "C" in a server: it
// would lose non-ASCII characters.
class Utf8Names {
 public:
  Utf8Names()
      : utf8_(::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)),
        before_(utf8_ != nullptr ? ::uselocale(utf8_) : nullptr) {}
  Utf8Names(const Utf8Names&) = delete;
  Utf8Names& operator=(const Utf8Names&) = delete;
  ~Utf8Names() {
    if (utf8_ == nullptr) return;
    ::uselocale(before_);
    ::freelocale(utf8_);
  }
  bool ready() const { return utf8_ != nullptr; }

 private:
  locale_t utf8_, before_;
};

// One pass through a zip, from its first entry to its last.
class Reader {
 public:
  Reader(std::string_view zip, const DeployLimits& limits) : zip_(zip), limits_(limits) {}

  Result<void> open() {
    archive_.reset(::archive_read_new());
    if (!names_.ready() || archive_ == nullptr ||
        ::archive_read_support_format_zip_seekable(archive_.get()) != ARCHIVE_OK) {
      return Error{ErrorCode::io_error, "libarchive cannot be started, or has no C.UTF-8 locale"};
    }
    // libarchive does not recognise a directory without entries.
    if (zip_.starts_with(kEndBegin)) return bad("has no files in it");
    if (::archive_read_open_memory(archive_.get(), zip_.data(), zip_.size()) != ARCHIVE_OK) {
      return bad("this is not a zip, or its end is cut off: " + problem());
    }
    return {};
  }

  // The next entry, which is valid by itself; nullopt after the last one.
  Result<std::optional<ZipEntry>> next() {
    archive_entry* header = nullptr;
    const int state = ::archive_read_next_header(archive_.get(), &header);
    if (state == ARCHIVE_EOF) return std::optional<ZipEntry>();
    const char* path = header != nullptr ? ::archive_entry_pathname(header) : nullptr;
    // Also refuses warnings: names that are not UTF-8, and headers that disagree about sizes.
    if (state != ARCHIVE_OK) return bad(path != nullptr ? path : "", "is damaged: " + problem());
    if (path == nullptr) return bad("a file has no name");
    ZipEntry entry;
    MS_TRY_ASSIGN(entry.path, check_path(path, limits_.max_path_bytes));
    MS_TRY(check_kind(header, path));
    entry.directory = ::archive_entry_filetype(header) == AE_IFDIR;
    entry.mode = static_cast<unsigned>(::archive_entry_perm(header)) & 0777u;
    const std::int64_t bytes = ::archive_entry_size(header);
    if (!::archive_entry_size_is_set(header) || bytes < 0) return bad(path, "its size is unknown");
    if (entry.directory && bytes != 0) return bad(path, "is a folder with content");
    if (bytes > limits_.max_file_bytes) {
      return too_large(fmt::format("\"{}\" has {} bytes, more than {}", shown_path(path), bytes,
                                   limits_.max_file_bytes));
    }
    entry.bytes = static_cast<std::uint64_t>(bytes);
    return std::optional(std::move(entry));
  }

  // Unpacks the entry that `next` returned last.
  Result<void> unpack(const ZipEntry& entry, const TakePiece& take) {
    std::uint64_t made = 0;
    for (;;) {
      const void* piece = nullptr;
      std::size_t size = 0;
      la_int64_t at = 0;
      const int state = ::archive_read_data_block(archive_.get(), &piece, &size, &at);
      if (state == ARCHIVE_EOF) break;
      // A wrong checksum is only a warning, and comes with the last piece.
      if (state != ARCHIVE_OK) return bad(entry.path, "is damaged: " + problem());
      if (at < 0 || static_cast<std::uint64_t>(at) != made) return bad(entry.path, "has holes");
      // The sum of the sizes was checked before; this checks the data against the sizes.
      if (size > entry.bytes - made) return bad(entry.path, "is longer than its size");
      made += size;
      if (size != 0) MS_TRY(take({static_cast<const char*>(piece), size}));
    }
    if (made != entry.bytes) return bad(entry.path, "is shorter than its size");
    return {};
  }

 private:
  struct Free {
    void operator()(archive* archive) const { ::archive_read_free(archive); }
  };

  std::string problem() const {
    const char* text = ::archive_error_string(archive_.get());
    return text != nullptr ? shown_path(text) : "unknown";
  }

  Result<void> check_kind(archive_entry* header, std::string_view path) const {
    if (::archive_entry_is_encrypted(header)) return bad(path, "is encrypted");
    const auto type = ::archive_entry_filetype(header);
    if (type == AE_IFLNK || ::archive_entry_hardlink(header) != nullptr) {
      return bad(path, "is a link");
    }
    if (type != AE_IFREG && type != AE_IFDIR) return bad(path, "is neither a file nor a folder");
    // "ZIP 2.0 (deflation)" is the format of this entry. Without this check, every decoder in
    // libarchive would read untrusted data.
    const char* name = ::archive_format_name(archive_.get());
    const std::string_view format = name != nullptr ? name : "";
    if (!format.ends_with("(uncompressed)") && !format.ends_with("(deflation)")) {
      return bad(path, fmt::format("{}: must be stored or deflated", shown_path(format)));
    }
    return {};
  }

  std::string_view zip_;
  const DeployLimits& limits_;
  Utf8Names names_;  // outlives the archive, which uses the locale
  std::unique_ptr<archive, Free> archive_;
};

Result<void> check_records(std::string_view zip) {
  std::size_t records = 0;
  for (std::size_t at = zip.find(kRecordBegin); at != std::string_view::npos;
       at = zip.find(kRecordBegin, at + kRecordBegin.size())) {
    if (++records > kMaxRecords) {
      return too_large(fmt::format("more than {} records of files in it", kMaxRecords));
    }
  }
  return {};
}

// Each path is unique: no file twice, and none that is also a folder.
Result<void> check_paths(const std::vector<ZipEntry>& entries) {
  std::map<std::string_view, bool> directories;  // path: whether it is a directory
  for (const ZipEntry& entry : entries) {
    const std::string_view path = entry.path;
    for (std::size_t at = path.find('/'); at != std::string_view::npos;
         at = path.find('/', at + 1)) {
      if (!directories.emplace(path.substr(0, at), true).first->second) {
        return bad(path, "is in a folder that is a file too");
      }
    }
    const auto [known, added] = directories.emplace(path, entry.directory);
    if (!added && !(known->second && entry.directory)) return bad(path, "occurs twice");
  }
  return {};
}

Result<void> check_sizes(std::string_view zip, const std::vector<ZipEntry>& entries,
                         const DeployLimits& limits) {
  std::uint64_t bytes = 0;  // cannot overflow: the number and sizes of entries are bounded
  for (const ZipEntry& entry : entries) bytes += entry.bytes;
  if (bytes > static_cast<std::uint64_t>(limits.max_total_bytes)) {
    return too_large(
        fmt::format("unpacks to {} bytes, more than {}", bytes, limits.max_total_bytes));
  }
  if (bytes > kSmallBytes && bytes / static_cast<unsigned>(limits.max_ratio) > zip.size()) {
    return too_large(fmt::format("unpacks to {} bytes, more than {} times its {}", bytes,
                                 limits.max_ratio, zip.size()));
  }
  return {};
}

// Checks every rule that needs no unpacking.
Result<std::vector<ZipEntry>> check(std::string_view zip, const DeployLimits& limits) {
  MS_TRY(check_records(zip));
  Reader reader(zip, limits);
  MS_TRY(reader.open());
  std::vector<ZipEntry> entries;
  for (;;) {
    MS_TRY_ASSIGN(std::optional<ZipEntry> entry, reader.next());
    if (!entry) break;
    if (entries.size() == limits.max_entries) {
      return too_large(fmt::format("more than {} entries", limits.max_entries));
    }
    entries.push_back(std::move(*entry));
  }
  MS_TRY(check_paths(entries));
  MS_TRY(check_sizes(zip, entries, limits));
  return entries;
}

// Metadata files of macOS Finder.
bool is_litter(std::string_view path) {
  return path == "__MACOSX" || path.starts_with("__MACOSX/") || path == ".DS_Store" ||
         path.ends_with("/.DS_Store");
}

}  // namespace

Result<void> unpack_zip(std::string_view zip, const DeployLimits& limits, const VisitEntry& visit) {
  MS_TRY_ASSIGN(const std::vector<ZipEntry> entries, check(zip, limits));
  Reader reader(zip, limits);
  MS_TRY(reader.open());
  for (const ZipEntry& checked : entries) {
    MS_TRY_ASSIGN(const std::optional<ZipEntry> entry, reader.next());
    // Writes only what was checked, even if the reader returns another entry now.
    if (!entry || entry->path != checked.path || entry->directory != checked.directory ||
        entry->bytes != checked.bytes) {
      return bad(checked.path, "is damaged: two reads of it differ");
    }
    if (is_litter(checked.path)) continue;
    MS_TRY(visit(checked, [&](const TakePiece& take) { return reader.unpack(checked, take); }));
  }
  return {};
}

}  // namespace mainspring
