// Zips: the directory at their end, and what it points to.
#include "host/zip.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <map>

namespace mainspring {
namespace {

constexpr std::size_t kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;
constexpr std::size_t kCentralBytes = 46, kLocalBytes = 30;
constexpr std::size_t kMaxCommentBytes = 0xffff;
constexpr std::uint32_t kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator = 0x07064b50;
constexpr std::uint32_t kCentral = 0x02014b50, kLocal = 0x04034b50;
constexpr std::uint16_t kIn64 = 0xffff;  // the real value is in the zip64 field
constexpr std::uint32_t kIn64Long = 0xffffffff;
constexpr unsigned kEncrypted = 1u << 0 | 1u << 6 | 1u << 13;  // wholly, strongly, its directory
constexpr std::uint16_t kStored = 0, kDeflated = 8;
constexpr std::size_t kMaxNameBytes = 255;  // of a part of a path
constexpr std::size_t kMaxParts = 64;
constexpr std::uint64_t kSmallBytes = 10 << 20;  // below, the ratio does not matter
constexpr std::size_t kPieceBytes = 64 << 10;
constexpr std::size_t kShownBytes = 200;

Error bad(std::string what) {
  return invalid("zip", "zip: " + std::move(what));
}

// For messages: paths of a zip may hold anything.
std::string shown(std::string_view path) {
  std::string out(path.substr(0, kShownBytes));
  for (char& c : out) c = static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return out;
}

Error bad(std::string_view path, std::string_view why) {
  return bad(fmt::format("\"{}\": {}", shown(path), why));
}

// Little-endian numbers; the caller has checked that they are within the bytes.
std::uint64_t number_at(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  }
  return value;
}
std::uint16_t u16(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint16_t>(number_at(bytes, at, 2));
}
std::uint32_t u32(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint32_t>(number_at(bytes, at, 4));
}
std::uint64_t u64(std::string_view bytes, std::size_t at) {
  return number_at(bytes, at, 8);
}

bool has(std::string_view bytes, std::uint64_t at, std::size_t size) {
  return at <= bytes.size() && bytes.size() - at >= size;
}

struct Directory {
  std::uint64_t entries = 0;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};

Result<Directory> find_directory(std::string_view zip) {
  const Error none = bad("this is not a zip, or its end is cut off");
  if (zip.size() < kEndBytes) return none;
  std::size_t end = zip.size() - kEndBytes;
  const std::size_t first = end > kMaxCommentBytes ? end - kMaxCommentBytes : 0;
  while (u32(zip, end) != kEnd || end + kEndBytes + u16(zip, end + 20) != zip.size()) {
    if (end-- == first) return none;
  }
  if (u16(zip, end + 4) != 0 && u16(zip, end + 4) != kIn64) return bad("it has several parts");
  Directory directory{u16(zip, end + 10), u32(zip, end + 16), u32(zip, end + 12)};
  std::uint64_t behind = end;
  if (directory.entries == kIn64 || directory.begin == kIn64Long || directory.bytes == kIn64Long) {
    if (end < kLocatorBytes || u32(zip, end - kLocatorBytes) != kLocator) return none;
    behind = u64(zip, end - kLocatorBytes + 8);
    if (!has(zip, behind, kEnd64Bytes)) return none;
    const std::string_view end64 = zip.substr(behind);
    if (u32(end64, 0) != kEnd64) return none;
    directory = {u64(end64, 32), u64(end64, 48), u64(end64, 40)};
  }
  if (directory.begin > behind || directory.bytes != behind - directory.begin) {
    return bad("its directory is not where its end says; is something before the zip?");
  }
  return directory;
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
    if (part.size() > kMaxNameBytes) {
      return bad(whole, fmt::format("a name must have at most {} bytes", kMaxNameBytes));
    }
    if (slash == std::string_view::npos) return out;
    if (parts == kMaxParts) return bad(whole, fmt::format("more than {} folders deep", kMaxParts));
    path.remove_prefix(slash + 1);
  }
}

// What of a central record does not fit into its 32 bits.
Result<void> read_zip64(std::string_view extra, std::string_view path, std::uint64_t& bytes,
                        std::uint64_t& packed, std::uint64_t& begin) {
  while (extra.size() >= 4) {
    const std::size_t size = u16(extra, 2);
    if (!has(extra, 4, size)) break;
    std::string_view field = extra.substr(4, size);
    const bool zip64 = u16(extra, 0) == 1;
    extra.remove_prefix(4 + size);
    if (!zip64) continue;
    for (std::uint64_t* value : {&bytes, &packed, &begin}) {
      if (*value != kIn64Long || field.size() < 8) continue;
      *value = u64(field, 0);
      field.remove_prefix(8);
    }
    break;
  }
  if (bytes == kIn64Long || packed == kIn64Long || begin == kIn64Long) {
    return bad(path, "its size is not told");
  }
  return {};
}

// `record` begins with a central record whose variable parts are within it.
Result<void> read_kind(std::string_view record, std::string_view path, ZipEntry& entry) {
  if ((u16(record, 8) & kEncrypted) != 0) return bad(path, "is encrypted");
  const std::uint16_t method = u16(record, 10);
  if (method != kStored && method != kDeflated) {
    return bad(path, fmt::format("compression method {}: must be stored or deflated", method));
  }
  entry.deflated = method == kDeflated;
  const unsigned attributes = u32(record, 38);
  const unsigned mode = attributes >> 16;
  // Whatever system it says it was made on: readers disagree about when these bits mean something.
  const unsigned type = mode & S_IFMT;
  if (type == S_IFLNK) return bad(path, "is a symbolic link");
  if (type != 0 && type != S_IFREG && type != S_IFDIR) {
    return bad(path, "is neither a file nor a folder");
  }
  entry.mode = mode & 0777;
  entry.directory = path.ends_with('/');
  if (type != 0 && entry.directory != (type == S_IFDIR)) {
    return bad(path, "is a file by its name and a folder by its mode, or the reverse");
  }
  return {};
}

Result<ZipEntry> read_entry(std::string_view zip, const Directory& directory,
                            std::string_view record, const DeployLimits& limits) {
  const std::string_view path = record.substr(kCentralBytes, u16(record, 28));
  const std::string_view extra = record.substr(kCentralBytes + path.size(), u16(record, 30));
  ZipEntry entry;
  MS_TRY_ASSIGN(entry.path, check_path(path, limits.max_path_bytes));
  MS_TRY(read_kind(record, path, entry));
  entry.crc = u32(record, 16);
  entry.bytes = u32(record, 24);
  std::uint64_t packed = u32(record, 20), begin = u32(record, 42);
  MS_TRY(read_zip64(extra, path, entry.bytes, packed, begin));
  if (entry.bytes > static_cast<std::uint64_t>(limits.max_file_bytes)) {
    return Error{ErrorCode::too_large,
                 fmt::format("zip: \"{}\" has {} bytes, more than {}", shown(path), entry.bytes,
                             limits.max_file_bytes),
                 "zip"};
  }
  const std::string_view files = zip.substr(0, directory.begin);
  if (!has(files, begin, kLocalBytes) || u32(files, begin) != kLocal) {
    return bad(path, "is not where the directory says");
  }
  const std::size_t name_bytes = u16(files, begin + 26);
  const std::uint64_t data = begin + kLocalBytes + name_bytes + u16(files, begin + 28);
  if (!has(files, data, 0) || packed > files.size() - data) return bad(path, "is cut off");
  if (files.substr(begin + kLocalBytes, name_bytes) != path ||
      (u16(files, begin + 6) & kEncrypted) != 0 || u16(files, begin + 8) != u16(record, 10)) {
    return bad(path, "its header says other things than the directory");
  }
  entry.packed = files.substr(data, packed);
  if (entry.directory && entry.bytes != 0) return bad(path, "is a folder with content");
  if (!entry.deflated && packed != entry.bytes) return bad(path, "its sizes do not fit");
  return entry;
}

// One path, one thing: no file twice, and none that is a folder too.
Result<void> check_paths(const std::vector<ZipEntry>& entries) {
  std::map<std::string_view, bool> directories;  // path: is it one?
  for (const ZipEntry& entry : entries) {
    const std::string_view path = entry.path;
    for (std::size_t at = path.find('/'); at != std::string_view::npos;
         at = path.find('/', at + 1)) {
      if (!directories.emplace(path.substr(0, at), true).first->second) {
        return bad(path, "is in a folder that is a file too");
      }
    }
    const auto [known, added] = directories.emplace(path, entry.directory);
    if (!added && !(known->second && entry.directory)) return bad(path, "is there twice");
  }
  return {};
}

Result<void> check_sizes(std::string_view zip, const std::vector<ZipEntry>& entries,
                         const DeployLimits& limits) {
  std::uint64_t bytes = 0, packed = 0;  // cannot overflow: the entries' number and size are bound
  for (const ZipEntry& entry : entries) {
    bytes += entry.bytes;
    packed += entry.packed.size();
  }
  if (packed > zip.size()) return bad("its files overlap");
  if (bytes > static_cast<std::uint64_t>(limits.max_total_bytes)) {
    return Error{
        ErrorCode::too_large,
        fmt::format("zip: unpacks to {} bytes, more than {}", bytes, limits.max_total_bytes),
        "zip"};
  }
  if (bytes > kSmallBytes && bytes / static_cast<unsigned>(limits.max_ratio) > zip.size()) {
    return Error{ErrorCode::too_large,
                 fmt::format("zip: unpacks to {} bytes, more than {} times its {}", bytes,
                             limits.max_ratio, zip.size()),
                 "zip"};
  }
  return {};
}

// Ends the inflater with its scope.
struct Inflater {
  z_stream stream{};
  bool ready = ::inflateInit2(&stream, -MAX_WBITS) == Z_OK;  // negative: no zlib header
  ~Inflater() {
    if (ready) ::inflateEnd(&stream);
  }
};

}  // namespace

Result<std::vector<ZipEntry>> read_zip(std::string_view zip, const DeployLimits& limits) {
  MS_TRY_ASSIGN(const Directory directory, find_directory(zip));
  if (directory.entries > limits.max_entries) {
    return Error{
        ErrorCode::too_large,
        fmt::format("zip: {} entries, more than {}", directory.entries, limits.max_entries), "zip"};
  }
  std::string_view left = zip.substr(directory.begin, directory.bytes);
  std::vector<ZipEntry> entries;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    if (left.size() < kCentralBytes || u32(left, 0) != kCentral) return bad("damaged directory");
    const std::size_t bytes =
        kCentralBytes + std::size_t{u16(left, 28)} + u16(left, 30) + u16(left, 32);
    if (left.size() < bytes) return bad("damaged directory");
    MS_TRY_ASSIGN(ZipEntry entry, read_entry(zip, directory, left.substr(0, bytes), limits));
    entries.push_back(std::move(entry));
    left.remove_prefix(bytes);
  }
  if (!left.empty()) return bad("its directory is longer than its number of entries");
  MS_TRY(check_paths(entries));
  MS_TRY(check_sizes(zip, entries, limits));
  return entries;
}

Result<void> unpack(const ZipEntry& entry,
                    const std::function<Result<void>(std::string_view piece)>& take) {
  std::uint64_t left = entry.bytes;
  uLong crc = ::crc32(0, nullptr, 0);
  const auto give = [&](std::string_view piece) -> Result<void> {
    if (piece.size() > left) return bad(entry.path, "is longer than its size");
    left -= piece.size();
    crc =
        ::crc32(crc, reinterpret_cast<const Bytef*>(piece.data()), static_cast<uInt>(piece.size()));
    return piece.empty() ? Result<void>() : take(piece);
  };
  std::string_view input = entry.packed;
  if (!entry.deflated) {
    for (; !input.empty(); input.remove_prefix(std::min(kPieceBytes, input.size()))) {
      MS_TRY(give(input.substr(0, kPieceBytes)));
    }
  } else {
    Inflater inflater;
    if (!inflater.ready) return Error{ErrorCode::io_error, "zlib cannot be started"};
    std::array<char, kPieceBytes> buffer;
    for (int state = Z_OK; state != Z_STREAM_END;) {
      z_stream& stream = inflater.stream;
      const std::size_t given = std::min(kPieceBytes, input.size());
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
      stream.avail_in = static_cast<uInt>(given);
      stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
      stream.avail_out = kPieceBytes;
      state = ::inflate(&stream, Z_NO_FLUSH);
      input.remove_prefix(given - stream.avail_in);
      const std::size_t made = kPieceBytes - stream.avail_out;
      // Z_BUF_ERROR: neither input nor room was used; the input has ended too early.
      if (state != Z_OK && state != Z_STREAM_END) return bad(entry.path, "is damaged");
      MS_TRY(give({buffer.data(), made}));
    }
    if (!input.empty()) return bad(entry.path, "is followed by something");
  }
  if (left != 0 || crc != entry.crc) return bad(entry.path, "is damaged: wrong size or checksum");
  return {};
}

}  // namespace mainspring
