// FolderSignature: the content of a job folder, to detect changes.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace mainspring {

// Names that begin with '.' are ignored, as in FileWatch. Links to directories are not followed;
// the target of a link is part of the signature.
struct FolderSignature {
  // Path relative to the folder ("" = the folder itself) → type, size, time, mode, link target.
  std::map<std::string, std::string> entries;
  std::vector<std::string> links;   // paths of symbolic links, relative
  std::vector<std::string> unread;  // paths that could not be read: their content is unknown
  std::uint64_t inode = 0;          // of the folder; 0 = it could not be read

  friend bool operator==(const FolderSignature& a, const FolderSignature& b) {
    return a.entries == b.entries;
  }
  // 64 hex digits of all entries.
  std::string digest() const;
};

// Reads the folder. Unreadable paths are in `unread`.
FolderSignature sign_folder(const std::string& directory);
// Signs only these paths, relative to the folder, if they exist.
FolderSignature sign_files(const std::string& directory, const std::set<std::string>& paths);
// Copies from `old` what `fresh` could not read: an unreadable file counts as unchanged.
void keep_unread(FolderSignature& fresh, const FolderSignature& old);
// The first path that was added, removed or changed; "" = none. "." is the folder itself.
std::string first_change(const FolderSignature& old, const FolderSignature& fresh);

}  // namespace mainspring
