// Folder: which files of one directory are ready to fire its trigger. Pure, except that it reads
// the files' metadata.
//
//   closed, moved in, found by a scan ─▶ waits until it has not changed for `stable` and no process
//                                        has it open for writing ─▶ ready
//
// Fired files are also remembered here, so that a scan does not query the ledger again; the ledger
// decides.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "env/folder_events.h"
#include "mainspring/trigger.h"

namespace mainspring {

// * and ? in a pattern of file names; the others stand for themselves.
bool matches_pattern(std::string_view pattern, std::string_view name);
// The event id of a version of a file.
std::string event_of_file(const std::string& path, const FileVersion& version);
// {"path", "name", "size", "modified_at"}
std::string json_of_file(const std::string& path, const std::string& name,
                         const FileVersion& version);

class Folder {
 public:
  static constexpr std::size_t kMaxFiles = 100'000;           // further files are ignored
  static constexpr Duration kOpen = std::chrono::seconds(1);  // until an open file is checked again

  explicit Folder(FolderSource source) : source_(std::move(source)) {}

  // A file may be new or changed.
  void arrived(const std::string& name, Instant now);
  // Checks every file. Errors: not_found, io_error.
  Result<void> scan(Instant now);

  struct Ready {
    std::string name;
    FileVersion version;
  };
  // Files that have not changed for long enough and are not being written, oldest arrival first.
  std::vector<Ready> take_ready(Instant now);
  // When the next one may be ready; never() = none waits.
  Instant next() const;
  void fired(const Ready& file);
  // It could not be fired now: tries again at `at`.
  void again(const Ready& file, Instant at);
  std::string path_of(const std::string& name) const { return source_.path + "/" + name; }

 private:
  struct Waiting {
    FileVersion version;
    Instant since;
  };
  const FolderSource source_;
  std::map<std::string, Waiting> waiting_;
  std::map<std::string, FileVersion> fired_;
};

}  // namespace mainspring
