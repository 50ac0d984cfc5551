// Names, index and order of a log's files.
#include "host/log_files.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "env/private_files.h"

namespace mainspring::log_files {
namespace {
constexpr std::string_view kIndexHeader = "mainspring log index 1\n";
constexpr std::size_t kMaxIndexBytes = 64 << 10;
// A reader starts over when files were moved meanwhile; each time needs a roll in between.
constexpr int kMaxLooks = 1000;
// This many unused names in a row are the end. A rename leaves one unused for a moment, or forever
// if the program died; a change between two of our reads may show one more.
constexpr int kMaxGap = 3;

std::pair<std::string, std::string> split(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash + 1), path.substr(slash + 1)};
}

std::string index_path(const std::string& path) {
  const auto [directory, name] = split(path);
  return directory + "." + name + ".index";
}

// Parses the next number up to `end_of_number`, which is consumed too.
template <class T>
bool take_number(std::string_view& text, char end_of_number, T& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  if (error != std::errc() || end == text.data() + text.size() || *end != end_of_number) {
    return false;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  return true;
}

Result<std::optional<LogFile>> open_one(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT || errno == ENOTDIR) return std::optional<LogFile>();
    return file_error("open", path, errno);
  }
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return file_error("look at", path, errno);
  if (!S_ISREG(info.st_mode)) return std::optional<LogFile>();
  LogFile file;
  file.inode = info.st_ino;
  file.size = info.st_size;
  file.fd = std::move(fd);
  return std::optional<LogFile>(std::move(file));
}

const IndexEntry* find(const std::vector<IndexEntry>& index, ino_t inode) {
  const auto found = std::find_if(index.begin(), index.end(),
                                  [&](const IndexEntry& e) { return e.inode == inode; });
  return found == index.end() ? nullptr : &*found;
}

// `files` newest first: sets the position of each, from the index if it contains the file, else
// from the adjacent file.
void place(std::vector<LogFile>& files, const std::vector<IndexEntry>& index) {
  const std::size_t none = files.size();
  std::size_t known = none;
  for (std::size_t i = 0; i < files.size() && known == none; ++i) {
    const IndexEntry* entry = find(index, files[i].inode);
    if (entry == nullptr) continue;
    known = i;
    files[i].begin = entry->begin;
  }
  if (known == none && !index.empty()) {
    known = 0;
    files[0].begin = index.back().begin;
  } else if (known == none) {
    known = files.size() - 1;
    files[known].begin = 0;
  }
  for (std::size_t i = known; i-- > 0;) files[i].begin = files[i + 1].end();
  for (std::size_t i = known + 1; i < files.size(); ++i) {
    const IndexEntry* entry = find(index, files[i].inode);
    files[i].begin = entry != nullptr ? entry->begin : files[i - 1].begin - files[i].size;
    files[i].begin = std::max<std::int64_t>(files[i].begin, 0);
  }
}

// From the newest to the oldest.
Result<std::vector<LogFile>> open_by_name(const std::string& path) {
  std::vector<LogFile> files;
  int missing = 0;
  for (int i = 0; i <= kMaxGenerations && missing < kMaxGap; ++i) {
    MS_TRY_ASSIGN(std::optional<LogFile> file, open_one(name_of(path, i)));
    if (!file) {
      ++missing;
      continue;
    }
    missing = 0;
    // Renamed while we read: seen already.
    const bool seen = std::any_of(files.begin(), files.end(),
                                  [&](const LogFile& f) { return f.inode == file->inode; });
    if (!seen) files.push_back(std::move(*file));
  }
  return files;
}

// A follower of a log needs only its newest file: nullopt if that does not contain `position`.
Result<std::optional<LogFile>> open_newest(const std::string& path, std::int64_t position) {
  MS_TRY_ASSIGN(std::optional<LogFile> newest, open_one(path));
  if (!newest) return newest;
  const std::vector<IndexEntry> index = read_index(path);
  const IndexEntry* entry = find(index, newest->inode);
  if (entry == nullptr || entry->begin > position) return std::optional<LogFile>();
  newest->begin = entry->begin;
  return newest;
}

// Returns whether the files cover the log from `position` on, according to the index.
bool complete(const std::vector<LogFile>& files, const std::vector<IndexEntry>& index,
              std::int64_t position) {
  if (files.empty()) return index.empty();
  for (std::size_t i = 0; i + 1 < files.size(); ++i) {
    if (files[i].begin != files[i + 1].end() && files[i].begin > position) return false;
  }
  const std::int64_t oldest = files.back().begin;
  return oldest <= position || std::none_of(index.begin(), index.end(),
                                            [&](const IndexEntry& e) { return e.begin < oldest; });
}

}  // namespace

std::string name_of(const std::string& path, int generation) {
  if (generation == 0) return path;
  const auto [directory, name] = split(path);
  std::size_t dot = name.rfind('.');
  if (dot == std::string::npos || dot == 0) dot = name.size();
  std::string stem = name.substr(0, dot);
  if (stem == "log" || stem.ends_with("_log")) {
    stem.insert(stem.size() - 3, "prev_");
  } else {
    stem += "_prev";
  }
  if (generation > 1) stem += fmt::format(".{}", generation - 1);
  return directory + stem + name.substr(dot);
}

std::vector<IndexEntry> read_index(const std::string& path) {
  const auto content = read_whole_file(index_path(path), kMaxIndexBytes);
  if (!content || !*content) return {};
  std::string_view text(**content);
  if (!text.starts_with(kIndexHeader)) return {};
  text.remove_prefix(kIndexHeader.size());
  std::vector<IndexEntry> entries;
  while (!text.empty()) {
    IndexEntry entry;
    if (!take_number(text, ' ', entry.inode) || !take_number(text, '\n', entry.begin)) return {};
    if (entry.begin < 0 || (!entries.empty() && entry.begin < entries.back().begin)) return {};
    entries.push_back(entry);
  }
  return entries;
}

Result<void> write_index(const std::string& path, const std::vector<IndexEntry>& entries) {
  std::string text(kIndexHeader);
  for (const IndexEntry& entry : entries) text += fmt::format("{} {}\n", entry.inode, entry.begin);
  const std::string final_name = index_path(path);
  const std::string name = final_name + ".new";
  // A job may write to this directory: non-blocking, in case of a pipe with that name.
  const Fd fd(open_private(name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return file_error("open", name, errno);
  const ssize_t written = ::write(fd.get(), text.data(), text.size());
  if (written < 0) return file_error("write", name, errno);
  if (static_cast<std::size_t>(written) != text.size()) {
    return file_error("write", name, ENOSPC);
  }
  if (::rename(name.c_str(), final_name.c_str()) != 0) return file_error("rename", name, errno);
  return {};
}

Result<std::vector<LogFile>> open_all(const std::string& path, std::int64_t position) {
  std::vector<ino_t> before;
  for (int look = 1;; ++look) {
    if (position >= 0) {
      MS_TRY_ASSIGN(std::optional<LogFile> newest, open_newest(path, position));
      if (newest) {
        std::vector<LogFile> one;
        one.push_back(std::move(*newest));
        return one;
      }
    }
    MS_TRY_ASSIGN(std::vector<LogFile> files, open_by_name(path));
    const std::vector<IndexEntry> index = read_index(path);
    if (!files.empty()) place(files, index);
    // A file that is missing twice in the same way was removed.
    std::vector<ino_t> seen;
    for (const LogFile& file : files) seen.push_back(file.inode);
    for (const IndexEntry& entry : index) seen.push_back(entry.inode);
    if (look == kMaxLooks || complete(files, index, position) || seen == before) {
      std::reverse(files.begin(), files.end());
      return files;
    }
    before = std::move(seen);
  }
}

Result<LogFile> create(const std::string& path, std::int64_t begin,
                       const std::vector<IndexEntry>& older) {
  const auto [directory, name] = split(path);
  const std::string temporary = directory + "." + name + ".new";
  LogFile file;
  file.fd = Fd(open_private(temporary, O_RDWR | O_APPEND | O_CREAT | O_TRUNC));
  if (!file.fd) return file_error("open", temporary, errno);
  struct stat info {};
  if (fstat(file.fd.get(), &info) != 0) return file_error("look at", temporary, errno);
  file.inode = info.st_ino;
  file.begin = begin;
  if (begin > 0 || !older.empty()) {
    std::vector<IndexEntry> entries = older;
    entries.push_back({file.inode, begin});
    MS_TRY(write_index(path, entries));
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) return file_error("rename", temporary, errno);
  return file;
}

Result<void> shift(const std::string& path, int generations) {
  if (generations == 0) return {};
  // Up to the first unused name; the last one's file goes.
  int last = 1;
  while (last < generations && ::access(name_of(path, last).c_str(), F_OK) == 0) ++last;
  for (int i = last; i > 0; --i) {
    const std::string from = name_of(path, i - 1);
    if (::rename(from.c_str(), name_of(path, i).c_str()) != 0 && errno != ENOENT) {
      return file_error("rename", from, errno);
    }
  }
  return {};
}

}  // namespace mainspring::log_files
