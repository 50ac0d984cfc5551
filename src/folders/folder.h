// Folder: which files of one directory are ready to fire its trigger: pure but for looking at them.
//
//   closed, moved in, found by a scan ─▶ waits until it has not changed for `stable` and nobody has
//                                        it open for writing ─▶ ready
//
// What has fired is remembered here too, so that a scan does not ask the ledger again; the ledger
// is what counts.
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
// Of a version of a file: the id of its event.
std::string event_of_file(const std::string& path, const FileVersion& version);
// {"path", "name", "size", "modified_at"}
std::string json_of_file(const std::string& path, const std::string& name,
                         const FileVersion& version);

class Folder {
 public:
  static constexpr std::size_t kMaxFiles = 100'000;  // that are looked at; others are passed over
  static constexpr Duration kOpen =
      std::chrono::seconds(1);  // until an open one is looked at again

  explicit Folder(FolderSource source) : source_(std::move(source)) {}

  // A file may have come, or changed.
  void arrived(const std::string& name, Instant now);
  // Looks at every file. Errors: not_found, io_error.
  Result<void> scan(Instant now);

  struct Ready {
    std::string name;
    FileVersion version;
  };
  // Those that have not changed for long enough and are not written to, the first to come first.
  std::vector<Ready> take_ready(Instant now);
  // When the next one may be; never() = none waits.
  Instant next() const;
  void fired(const Ready& file);
  // It could not be fired now: again at `at`.
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
