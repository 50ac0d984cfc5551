// Shared by the black-box tests: search in text, JSON, waiting for a state, a small disk.
#pragma once

#include <doctest/doctest.h>
#include <rapidjson/document.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "served.h"

namespace blackbox {

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline rapidjson::Document parse(const std::string& body) {
  rapidjson::Document document;
  document.Parse(body.data(), body.size());
  return document;
}

// Creates or replaces a file, and its parent directories.
inline void write_file(const std::string& path, const std::string& content) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

// Asks every 20 ms until `holds()` is true. False if it is still false after `milliseconds`.
template <typename Condition>
bool eventually(Condition holds, int milliseconds = 60'000) {
  for (const std::int64_t end = now_us() + milliseconds * 1000LL; now_us() < end;) {
    if (holds()) return true;
    pause_for(20'000);
  }
  return holds();
}

// A tmpfs for one test. Without the right to mount, ok() is false.
class SmallDisk {
 public:
  explicit SmallDisk(const char* options) {
    char path[] = "/tmp/mainspring-disk-XXXXXX";
    path_ = mkdtemp(path) == nullptr ? "" : path;
    ok_ = mount("mainspring-test", path_.c_str(), "tmpfs", 0, options) == 0;
    if (!ok_) error_ = std::strerror(errno);
  }
  ~SmallDisk() {
    if (ok_) umount2(path_.c_str(), MNT_DETACH);
    std::filesystem::remove(path_);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool ok() const { return ok_; }
  const std::string& path() const { return path_; }
  const std::string& error() const { return error_; }

 private:
  bool ok_ = false;
  std::string path_, error_;
};

}  // namespace blackbox
