// The keeper: what runs between fork and the end of a program, in a process of its own.
//
// It is forked from a program with threads, so all of it is async-signal-safe: system calls on
// memory that was prepared before the fork, no allocation, no locks.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace mainspring::keeper {

// From the keeper (and from the program before its exec) to the parent, over the link.
enum class Report : std::int32_t {
  ended,         // value: the wait status; everything of the tree is gone
  fork_failed,   // value: errno, as below
  chdir_failed,  //
  exec_failed,   //
};
struct Record {
  Report report;
  std::int32_t value;
};

// From the parent to the keeper: one byte. The link's end means kKill.
inline constexpr char kTerm = 't';  // TERM to the program's process group
inline constexpr char kKill = 'k';  // KILL to all of the tree

// Prepared before the fork. Descriptors are 10 or higher, so that dup2 onto 0 to 3 hits none.
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
};

// Call in the forked child with all signals blocked. Starts the program, watches, cleans up, ends.
[[noreturn]] void keep(const Plan& plan);

}  // namespace mainspring::keeper
