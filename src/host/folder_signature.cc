// Reading a folder's names, sizes, times, modes and link targets.
#include "host/folder_signature.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <functional>
#include <memory>

#include "env/digest.h"
#include "host/files.h"

namespace mainspring {
namespace {

constexpr std::size_t kMaxSignatureEntries = 100'000;
constexpr std::size_t kMaxSignatureLinks = 1'000;  // that are polled; all are in the entries

std::string attributes(const struct stat& status) {
  const bool file = S_ISREG(status.st_mode);
  return fmt::format("{:o} {} {}.{:09}", status.st_mode, file ? status.st_size : 0,
                     file ? status.st_mtim.tv_sec : 0, file ? status.st_mtim.tv_nsec : 0);
}

// The path without links; "" if it cannot be resolved.
std::string resolved(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), ::free);
  return real ? real.get() : "";
}

class Signer {
 public:
  Signer(FolderSignature& into, const std::string& root) : into_(into), root_(root) {}

  void walk(int directory, const std::string& path, int depth) {
    const auto entries = list_directory(directory, path);
    if (!entries || depth == kMaxTreeDepth) {
      into_.unread.push_back(path);
      return;
    }
    for (const Entry& entry : *entries) {
      if (entry.name[0] == '.') continue;
      if (into_.entries.size() >= kMaxSignatureEntries) return;
      visit(directory, entry, path.empty() ? entry.name : path + "/" + entry.name, depth);
    }
  }

  // Returns true if it is a directory. `name` is relative to `directory`.
  bool sign(int directory, const std::string& name, const std::string& path) {
    struct stat status {};
    if (::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno != ENOENT && errno != ENOTDIR) into_.unread.push_back(path);
      return false;
    }
    // A run could not copy it: the job continues with its existing copy.
    if (S_ISREG(status.st_mode) && ::faccessat(directory, name.c_str(), R_OK, 0) != 0 &&
        errno == EACCES) {
      into_.unread.push_back(path);
      return false;
    }
    std::string& line = into_.entries[path] = attributes(status);
    if (S_ISLNK(status.st_mode)) {
      if (into_.links.size() < kMaxSignatureLinks) into_.links.push_back(path);
      line += link_line(directory, name, path);
    }
    return S_ISDIR(status.st_mode);
  }

 private:
  void visit(int directory, const Entry& entry, const std::string& path, int depth) {
    if (!sign(directory, entry.name, path)) return;
    const Fd below(
        ::openat(directory, entry.name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (below) return walk(below.get(), path, depth + 1);
    if (errno != ENOENT) into_.unread.push_back(path);
  }

  std::string link_line(int directory, const std::string& name, const std::string& path) {
    std::array<char, PATH_MAX> target{};
    const ssize_t count = ::readlinkat(directory, name.c_str(), target.data(), target.size());
    std::string line = " -> " + std::string(target.data(), count < 0 ? 0 : std::size_t(count));
    struct stat status {};
    if (::fstatat(directory, name.c_str(), &status, 0) == 0) {
      line += " " + attributes(status);
      line += " " + resolved(root_ + "/" + path);
    } else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP) {
      into_.unread.push_back(path);
    }
    return line;
  }

  FolderSignature& into_;
  const std::string& root_;
};

bool is_at_or_below(const std::string& path, const std::string& directory) {
  return directory.empty() || path == directory ||
         (path.size() > directory.size() && path.starts_with(directory) &&
          path[directory.size()] == '/');
}

}  // namespace

namespace {

FolderSignature sign_with(const std::string& directory,
                          const std::function<void(Signer& signer, int folder)>& sign) {
  FolderSignature signature;
  const Fd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) {
    signature.unread.emplace_back();
    return signature;
  }
  signature.inode = status.st_ino;
  // If a link in the path leads elsewhere now, it is another folder, even if all times are equal.
  signature.entries[""] = resolved(directory);
  Signer signer(signature, directory);
  sign(signer, fd.get());
  return signature;
}

}  // namespace

FolderSignature sign_folder(const std::string& directory) {
  return sign_with(directory, [](Signer& signer, int folder) { signer.walk(folder, "", 0); });
}

FolderSignature sign_files(const std::string& directory, const std::set<std::string>& paths) {
  return sign_with(directory, [&](Signer& signer, int folder) {
    for (const std::string& path : paths) signer.sign(folder, path, path);
  });
}

void keep_unread(FolderSignature& fresh, const FolderSignature& old) {
  for (const std::string& path : fresh.unread) {
    for (auto it = old.entries.lower_bound(path); it != old.entries.end(); ++it) {
      if (!it->first.starts_with(path)) break;
      if (!is_at_or_below(it->first, path)) continue;
      fresh.entries[it->first] = it->second;
    }
  }
}

std::string first_change(const FolderSignature& old, const FolderSignature& fresh) {
  auto a = old.entries.begin();
  auto b = fresh.entries.begin();
  while (a != old.entries.end() || b != fresh.entries.end()) {
    if (a == old.entries.end() || (b != fresh.entries.end() && b->first < a->first)) {
      return b->first;
    }
    if (b == fresh.entries.end() || a->first < b->first) return a->first;
    if (a->second != b->second) return a->first.empty() ? "." : a->first;
    ++a, ++b;
  }
  return "";
}

std::string FolderSignature::digest() const {
  std::string text;
  for (const auto& [path, line] : entries) text += path + '\0' + line + '\0';
  return to_hex(sha256(text));
}

}  // namespace mainspring
