// Lists of deployed files, as NUL-separated words: directory, inode, paths.
#include "host/deployed_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "host/deploy.h"
#include "host/files.h"

namespace mainspring {
namespace {

constexpr std::size_t kMaxListBytes = 16 << 20;
constexpr std::string_view kPythonCache = "__pycache__";  // Python writes there when it imports

bool is_cache(std::string_view path) {
  for (std::size_t at = path.find(kPythonCache); at != path.npos;
       at = path.find(kPythonCache, at + 1)) {
    const std::size_t end = at + kPythonCache.size();
    if ((at == 0 || path[at - 1] == '/') && (end == path.size() || path[end] == '/')) return true;
  }
  return false;
}

}  // namespace

bool DeployedFiles::is_of(const FolderSignature& signature) const {
  const auto own = signature.entries.find("");
  return own != signature.entries.end() && own->second == directory && signature.inode == inode;
}

DeployedFiles deployed_files_of(const FolderSignature& signature) {
  DeployedFiles files{.inode = signature.inode};
  for (const auto& [path, line] : signature.entries) {
    if (path.empty()) {
      files.directory = line;
    } else if (!is_cache(path)) {
      files.paths.insert(path);
    }
  }
  return files;
}

std::set<std::string> fixed_files_of(const JobFolder& folder) {
  std::string prefix;
  if (folder.script_dir.size() > folder.directory.size()) {
    prefix = folder.script_dir.substr(folder.directory.size() + 1) + "/";
  }
  return {prefix + folder.run_file, prefix + folder.settings_file, prefix + "disable.job"};
}

std::optional<DeployedFiles> read_deployed_files(const std::string& path) {
  const auto text = read_whole_file(path, kMaxListBytes);
  if (!text || !*text) return std::nullopt;
  DeployedFiles files;
  std::string_view left = **text;
  for (int word = 0; !left.empty(); ++word) {
    const std::size_t end = left.find('\0');
    if (end == left.npos) return std::nullopt;  // cut off
    const std::string_view one = left.substr(0, end);
    left.remove_prefix(end + 1);
    if (word == 0) {
      files.directory = one;
    } else if (word == 1) {
      const auto [last, problem] = std::from_chars(one.begin(), one.end(), files.inode);
      if (problem != std::errc() || last != one.end()) return std::nullopt;
    } else {
      files.paths.emplace(one);
    }
  }
  return files;
}

Result<void> write_deployed_files(const std::string& path, const DeployedFiles& files) {
  std::string text = files.directory + '\0' + fmt::to_string(files.inode) + '\0';
  for (const std::string& one : files.paths) {
    text += one + '\0';
    if (text.size() > kMaxListBytes) {
      return Error{ErrorCode::too_large, fmt::format("{}: over {} bytes", path, kMaxListBytes)};
    }
  }
  return write_file_atomically(path, text, 0600);
}

}  // namespace mainspring
