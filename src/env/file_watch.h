// FileWatch: reports changed entries of a directory, including all levels below, with inotify.
#pragma once

#include <memory>
#include <set>
#include <stop_token>
#include <string>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring {

// Not thread-safe, except wake().
class FileWatch {
 public:
  // Watches `root` and all below, including later additions. Ignores names below that begin with
  // '.'. Errors: not_found (no such directory), io_error (no inotify watches left: the message
  // names fs.inotify.max_user_watches).
  static Result<std::unique_ptr<FileWatch>> open(const std::string& root);
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  struct Changes {
    // Paths relative to root, cut to `depth` parts: "triggered/report" for
    // "triggered/report/lib/a.py" and a depth of 2.
    std::set<std::string> entries;
    bool all = false;   // the system dropped events: anything may have changed
    bool gone = false;  // root itself was removed or moved: open a new watch
  };
  // Waits until something changes, wake() is called or `limit` has passed; then returns all
  // changes. Reading a file is not a change; a change of its mode is. Errors: io_error.
  Result<Changes> wait(int depth, Duration limit);
  // Ends the current or the next wait. Thread-safe.
  void wake();

 private:
  struct Impl;
  explicit FileWatch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
