// Files of a folder that wait, and files that have fired.
#include "folders/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "api/json.h"
#include "base/mutant.h"
#include "env/digest.h"

namespace mainspring {

bool matches_pattern(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = std::string_view::npos, from = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++from;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::string event_of_file(const std::string& path, const FileVersion& version) {
  std::string text =
      fmt::format("{}:{}:{}:{}", version.inode, version.size, version.modified_ns, path);
  return text.size() <= kMaxEventBytes ? text : to_hex(sha256(text));
}

std::string json_of_file(const std::string& path, const std::string& name,
                         const FileVersion& version) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("path").string(path).key("name").string(name);
  w.key("size").number(version.size);
  w.key("modified_at").time(WallTime::from_us(version.modified_ns / 1000)).end_object();
  return out;
}

void Folder::arrived(const std::string& name, Instant now) {
  if (!matches_pattern(source_.pattern, name) || !is_utf8(name)) return;
  const auto version = version_of_file(path_of(name));
  if (!version) {
    waiting_.erase(name);
    fired_.erase(name);
    return;
  }
  if (const auto done = fired_.find(name); done != fired_.end()) {
    if (done->second == *version) return;
    fired_.erase(done);
  }
  const auto [at, fresh] = waiting_.try_emplace(name, Waiting{*version, now});
  if (!fresh && !(at->second.version == *version)) at->second = {*version, now};
  if (waiting_.size() > kMaxFiles) waiting_.erase(at);
}

Result<void> Folder::scan(Instant now) {
  MS_TRY_ASSIGN(const std::vector<std::string> names, files_of_folder(source_.path, kMaxFiles));
  const std::set<std::string> there(names.begin(), names.end());
  std::erase_if(fired_, [&](const auto& entry) { return !there.contains(entry.first); });
  for (const std::string& name : names) arrived(name, now);
  return {};
}

std::vector<Folder::Ready> Folder::take_ready(Instant now) {
  std::vector<Ready> out;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (now < at->second.since + source_.stable) {
      ++at;
      continue;
    }
    const auto version = version_of_file(path_of(at->first));
    if (!version) {
      at = waiting_.erase(at);
    } else if (!(*version == at->second.version)) {
      at->second = {*version, now};
      ++at;
    } else if (is_being_written(path_of(at->first)) && !MS_MUTANT(open_file_fires)) {
      at->second.since = now + std::max(kOpen - source_.stable, Duration(0));
      ++at;
    } else {
      out.push_back({at->first, *version});
      at = waiting_.erase(at);
    }
  }
  // In order of arrival, as the ledger drops rows by that time: see FireTrigger.
  std::sort(out.begin(), out.end(), [](const Ready& a, const Ready& b) {
    return std::pair(a.version.changed_at, a.name) < std::pair(b.version.changed_at, b.name);
  });
  return out;
}

Instant Folder::next() const {
  Instant first = Instant::never();
  for (const auto& [name, waiting] : waiting_)
    first = std::min(first, waiting.since + source_.stable);
  return first;
}

void Folder::fired(const Ready& file) {
  fired_[file.name] = file.version;
}

void Folder::again(const Ready& file, Instant at) {
  waiting_.try_emplace(file.name, Waiting{file.version, at});
}

}  // namespace mainspring
