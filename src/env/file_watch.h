// FileWatch: tells which entries of a directory changed, in them or anywhere below, by inotify.
#pragma once

#include <memory>
#include <set>
#include <stop_token>
#include <string>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring {

// Not for use from several threads, but for wake().
class FileWatch {
 public:
  // Watches `root` and all below, also what is made later. Names below that begin with '.' are
  // passed over. Errors: not_found (no such directory), io_error (the system's watches are used up:
  // says fs.inotify.max_user_watches).
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
  // Waits until something changes, wake() is called or `limit` has passed; then takes all there is.
  // Opening a file for reading is no change; a change of its mode is. Errors: io_error.
  Result<Changes> wait(int depth, Duration limit);
  // Ends a wait, now or the next one. Callable from every thread.
  void wake();

 private:
  struct Impl;
  explicit FileWatch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
