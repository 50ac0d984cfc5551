// Records which job folders were seen, in a file of the host's data directory.
#include "host/folder_book.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "host/deploy.h"
#include "host/files.h"

namespace mainspring {
namespace {

constexpr std::size_t kMaxBookBytes = 32 << 20;

struct BookLine {
  std::string type, name;
  WallTime seen;
  bool missing = false, removed = false;
  std::int64_t watched_us = 0;
};
constexpr JsonField<BookLine> kBookFields[] = {
    {"type", [](JsonReader& in, BookLine& line) { return in.string(line.type); }},
    {"name", [](JsonReader& in, BookLine& line) { return in.string(line.name); }},
    {"seen",
     [](JsonReader& in, BookLine& line) {
       std::string text;
       if (!in.string(text)) return false;
       const auto time = parse_wall_time(text);
       if (time) line.seen = *time;
       return time.has_value() || in.fail_here("must be a time");
     }},
    {"missing", [](JsonReader& in, BookLine& line) { return in.boolean(line.missing); }},
    {"removed", [](JsonReader& in, BookLine& line) { return in.boolean(line.removed); }},
    {"watched_us",
     [](JsonReader& in, BookLine& line) { return in.integer(line.watched_us, 0, INT64_MAX / 2); }},
};

}  // namespace

Result<void> FolderBook::read(const Now& now) {
  MS_TRY_ASSIGN(const auto text, read_whole_file(path_, kMaxBookBytes));
  if (!text) return {};
  JsonReader in(*text, JsonReader::Unknown::skip);
  std::vector<BookLine> lines;
  const bool good = in.members([&](std::string_view name) {
    if (name != "folders") return in.skip();
    return in.array(kMaxFolders,
                    [&](std::size_t) { return in.object(kBookFields, lines.emplace_back()); });
  });
  if (!good || !in.end()) {
    return Error{ErrorCode::io_error, fmt::format("{}: {}", path_, in.error().message)};
  }
  for (const BookLine& line : lines) {
    const auto type = parse_job_type(line.type);
    if (!type || !check_job_name(line.name)) continue;
    // A time in the future comes from a clock that was wrong then.
    folders_[{*type, line.name}] = {.seen = std::min(line.seen, now.wall),
                                    .missing = line.missing,
                                    .removed = line.removed,
                                    .watched = Duration(line.watched_us),
                                    .counted = now.instant};
  }
  saved_at_ = now.instant;
  return {};
}

std::string FolderBook::text(const Now& now) const {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("folders").begin_array();
  for (const auto& [key, record] : folders_) {
    w.begin_object().key("type").string(to_string(key.first)).key("name").string(key.second);
    w.key("seen").time(record.seen);
    if (record.missing) w.key("missing").boolean(true);
    if (record.removed) w.key("removed").boolean(true);
    if (record.missing) w.key("watched_us").number(watched(record, now).count());
    w.end_object();
  }
  w.end_array().end_object();
  return out;
}

Result<void> FolderBook::save(const Now& now, bool always) {
  if (!always && !changed_ && now.instant < saved_at_ + kSaveEvery) return {};
  MS_TRY(write_file_atomically(path_, text(now) + "\n", 0600));
  changed_ = false;
  saved_at_ = now.instant;
  return {};
}

FolderBook::Record* FolderBook::record_of(const HostKey& key, const Now& now) {
  const auto found = folders_.find(key);
  if (found != folders_.end()) return &found->second;
  if (folders_.size() >= kMaxFolders) return nullptr;
  changed_ = true;
  return &folders_.try_emplace(key, Record{.seen = now.wall, .counted = now.instant}).first->second;
}

void FolderBook::seen(const HostKey& key, const Now& now) {
  Record* const record = record_of(key, now);
  if (record == nullptr) return;
  changed_ = changed_ || record->missing || record->removed;
  *record = {.seen = now.wall, .counted = now.instant};
}

void FolderBook::kept(const HostKey& key, const Now& now) {
  const auto found = folders_.find(key);
  if (found == folders_.end()) return;
  found->second.seen = now.wall;
  found->second.watched = Duration(0);
  found->second.counted = now.instant;
}

bool FolderBook::missing(const HostKey& key, const Now& now) {
  Record* const record = record_of(key, now);
  if (record == nullptr || record->missing) return false;
  record->missing = true;
  record->watched = Duration(0);
  record->counted = now.instant;
  changed_ = true;
  return true;
}

void FolderBook::removed(const HostKey& key, const Now& now) {
  if (Record* const record = record_of(key, now)) {
    record->missing = record->removed = true;
    changed_ = true;
  }
}

void FolderBook::forget(const HostKey& key) {
  if (folders_.erase(key) != 0) changed_ = true;
}

bool FolderBook::is_missing(const HostKey& key) const {
  const auto found = folders_.find(key);
  return found != folders_.end() && found->second.missing;
}

Duration FolderBook::watched(const Record& record, const Now& now) const {
  return record.watched + std::max(Duration(0), now.instant - record.counted);
}

Duration FolderBook::left(const Record& record, const Now& now) const {
  if (record.removed) return Duration(0);
  const Duration by_clock = retention_ - std::max(Duration(0), now.wall - record.seen);
  const Duration by_watch = std::min(retention_, kWatch) - watched(record, now);
  return std::max({Duration(0), by_clock, by_watch});
}

std::optional<MissingFolder> FolderBook::find_missing(const HostKey& key, const Now& now) const {
  const auto found = folders_.find(key);
  if (found == folders_.end() || !found->second.missing || found->second.removed) {
    return std::nullopt;
  }
  return MissingFolder{.seen = found->second.seen,
                       .kept_until = now.wall + left(found->second, now)};
}

std::vector<HostKey> FolderBook::keys() const {
  std::vector<HostKey> out;
  for (const auto& [key, record] : folders_) out.push_back(key);
  return out;
}

std::vector<HostKey> FolderBook::missing_keys() const {
  std::vector<HostKey> out;
  for (const auto& [key, record] : folders_) {
    if (record.missing) out.push_back(key);
  }
  return out;
}

std::vector<HostKey> FolderBook::due(const Now& now) const {
  std::vector<HostKey> out;
  for (const auto& [key, record] : folders_) {
    if (record.missing && left(record, now) == Duration(0)) out.push_back(key);
  }
  return out;
}

Instant FolderBook::next_due(const Now& now) const {
  Instant next = Instant::never();
  for (const auto& [key, record] : folders_) {
    if (record.missing) next = std::min(next, now.instant + left(record, now));
  }
  return next;
}

}  // namespace mainspring
