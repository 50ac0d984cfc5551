// The files of control groups: where hierarchies are mounted, and reading and writing the files of
// a group.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "env/cgroups.h"
#include "mainspring/result.h"

namespace mainspring::cgroup {

// A mounted hierarchy.
struct Hierarchy {
  int version = 1;
  std::vector<std::string> controllers;  // v1: the ones we use; v2: empty, see offered()
  std::string own;                       // the directory of this process's group; "" = not visible
};

// All hierarchies with at least one controller that we use, and v2's in any case. Source: proc(5),
// cgroups(7).
std::vector<Hierarchy> find(const CgroupSources& sources);

// v2: the controllers we use that a group may delegate to groups inside it.
std::vector<std::string> offered(const std::string& directory);

// The text of a group's file; nullopt if there is none.
std::optional<std::string> read(const std::string& path);
// A single number; nullopt also if it is none ("max").
std::optional<std::int64_t> read_number(const std::string& path);
// The number after `key` in lines of "key value".
std::optional<std::int64_t> read_entry(const std::string& path, std::string_view key);
// 0 or an errno.
int write(const std::string& path, std::string_view text);

bool exists(const std::string& path);
// The groups inside, by their paths.
std::vector<std::string> groups_in(const std::string& directory);
// The processes of a group, without those of groups inside.
std::vector<pid_t> processes_in(const std::string& directory);
// All processes in a group and below.
std::vector<pid_t> processes_below(const std::string& directory);
// Calls `visit` for a group and all below it, the deepest first.
void each_group(const std::string& directory, const std::function<void(const std::string&)>& visit);

}  // namespace mainspring::cgroup
