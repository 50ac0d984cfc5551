// The keeper: the process that supervises a program from fork to end.
//
// It is forked from a program with threads, so all of it is async-signal-safe: system calls on
// memory that was prepared before the fork, no allocation, no locks.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace mainspring::keeper {

// From the keeper (and from the program before its exec) to the parent, over the link.
enum class Report : std::int32_t {
  forked,         // value: the program's number; it has not run yet
  killing,        // the program has ended or must end: the rest of the tree is being killed
  ended,          // value: the wait status; all processes of the tree are gone
  peak_memory,    // before `ended`; value: KiB, as ProcessEnd::peak_memory
  fork_failed,    // value: errno, as in all below; nothing runs
  cgroup_failed,  // which: of groups_to_join
  nice_failed,    //
  limit_failed,   // which: of resources
  user_failed,    //
  privs_failed,   //
  chdir_failed,   //
  exec_failed,    //
};
struct Record {
  Report report;
  std::int32_t value;
  std::int32_t which;
};

// From the parent to the keeper: one byte. The link's end means kKill.
inline constexpr char kTerm = 't';  // TERM to the program's process group
inline constexpr char kKill = 'k';  // KILL to all of the tree

struct ResourceLimit {
  int resource;
  rlim_t soft;
  rlim_t hard;
};

// Limits to set in the program, in this order; see ProcessLimits.
struct Limits {
  const int* groups_to_join = nullptr;  // open files into which it writes "0"
  std::size_t groups_to_join_count = 0;
  bool set_nice = false;
  int nice = 0;
  const ResourceLimit* resources = nullptr;
  std::size_t resource_count = 0;
  int umask = -1;  // -1 = unchanged
  bool change_user = false;
  uid_t uid = 0;
  gid_t gid = 0;
  const gid_t* user_groups = nullptr;
  std::size_t user_group_count = 0;
  bool no_new_privs = false;
};

// Prepared before the fork. Descriptors are 10 or higher, so that dup2 onto 0 to 4 hits none.
struct Plan {
  const char* path;
  char* const* argv;
  char* const* environment;
  const char* directory;  // nullptr = stay
  int input;              // becomes 0
  int out;                // becomes 1
  int err;                // becomes 2
  int messages;           // becomes 3
  int link;               // a socket to the parent
  int answers;            // becomes 4; -1 = none
  Limits limits;
};

// Call in the forked child with all signals blocked. Starts the program, supervises it, cleans up,
// exits. All other descriptors are closed at the program's exec; the parent detects the exec by
// that.
[[noreturn]] void keep(const Plan& plan);

}  // namespace mainspring::keeper
