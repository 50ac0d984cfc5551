// Access: who may do what. A token has scopes; a scope is a verb and a pattern of names.
//
//   enqueue=photos   read   work=img-*   read:payload=photos   admin
//
// Pure: no clock, no store. Whatever is not granted is refused.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/result.h"

namespace mainspring {

enum class Verb : std::uint8_t {
  enqueue,       // enqueue jobs; start a run of a job folder
  work,          // claim, renew and finish jobs
  lease,         // acquire, renew, release and see leases; the pattern is of their names
  read,          // see jobs, queues, schedules, folders, without what they carry
  read_payload,  // "read:payload": args, results, checkpoints, errors, headers, logs too
  result,        // the state and the result of a job, by its id
  schedule,      // put, pause, trigger, remove schedules of jobs for these queues
  metrics,       // GET /metrics
  admin,         // pause, cancel, retry, redrive, retention; with "*": tokens, audit, verify
  define_exec,   // "define-exec": say what is executed: deploy, change and remove job folders
};
inline constexpr int kVerbs = 10;
std::string_view to_string(Verb verb);
std::optional<Verb> parse_verb(std::string_view text);
// In one sentence, for help and reference.
std::string_view meaning(Verb verb);

// Names of job folders in patterns are "folder/" and the folder's name; queues of the same name are
// the same to a scope.
inline constexpr std::string_view kFolderPrefix = "folder/";

struct Scope {
  Verb verb = Verb::read;
  std::string pattern = "*";  // a name, a beginning of names and "*", or "*"
  bool fits(std::string_view name) const;
  friend bool operator==(const Scope&, const Scope&) = default;
};
// "verb" or "verb=pattern". Errors: invalid_argument.
Result<Scope> parse_scope(std::string_view text);
std::string to_string(const Scope& scope);

inline constexpr std::size_t kMaxScopes = 100;  // of a token

class Scopes {
 public:
  Scopes() = default;  // nothing is allowed
  explicit Scopes(std::vector<Scope> scopes) : scopes_(std::move(scopes)) {}
  static Scopes all();
  // Scopes parted by blanks or commas. Errors: invalid_argument (also for none, and too many).
  static Result<Scopes> parse(std::string_view text);
  std::string text() const;  // parse() of it is this

  bool allows(Verb verb, std::string_view name) const;
  bool allows_all(Verb verb) const;  // whatever the name
  bool allows_some(Verb verb) const;
  // Everything that `other` allows.
  bool covers(const Scopes& other) const;
  std::span<const Scope> list() const { return scopes_; }
  friend bool operator==(const Scopes&, const Scopes&) = default;

 private:
  std::vector<Scope> scopes_;
};

// Restricts an operation to the queues that the caller's scopes allow: what lies in others is not
// there for it. Without scopes nothing is restricted.
struct Within {
  std::shared_ptr<const Scopes> scopes = nullptr;
  Verb verb = Verb::read;
  bool has(std::string_view queue) const {
    return scopes == nullptr || scopes->allows(verb, queue);
  }
};

}  // namespace mainspring
