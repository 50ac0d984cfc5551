// Access control. A token has scopes; a scope is a verb and a pattern of names.
//
//   enqueue=photos   read   work=img-*   read:payload=photos   admin
//
// No clock and no store. Everything that is not granted is refused.
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
  lease,         // acquire, renew, release and list leases; the pattern matches lease names
  read,          // list jobs, queues, schedules and folders, without payloads
  read_payload,  // "read:payload": also args, results, checkpoints, errors, headers, logs
  result,        // the state and the result of one job, by id
  schedule,      // put, pause, trigger, remove schedules of jobs for these queues
  metrics,       // GET /metrics
  admin,         // pause, cancel, retry, redrive, retention; with "*": tokens, audit, verify
  define_exec,   // "define-exec": deploy, change and remove job folders, which are executed
};
inline constexpr int kVerbs = 10;
std::string_view to_string(Verb verb);
std::optional<Verb> parse_verb(std::string_view text);
// One sentence, for help and reference.
std::string_view meaning(Verb verb);

// In patterns, a job folder's name has the prefix "folder/". A scope does not distinguish a queue
// "folder/x" from the folder x.
inline constexpr std::string_view kFolderPrefix = "folder/";

struct Scope {
  Verb verb = Verb::read;
  std::string pattern = "*";  // a name, a prefix and "*", or "*"
  bool fits(std::string_view name) const;
  friend bool operator==(const Scope&, const Scope&) = default;
};
// "verb" or "verb=pattern". Errors: invalid_argument.
Result<Scope> parse_scope(std::string_view text);
std::string to_string(const Scope& scope);

inline constexpr std::size_t kMaxScopes = 100;  // of a token

class Scopes {
 public:
  Scopes() = default;  // allows nothing
  explicit Scopes(std::vector<Scope> scopes) : scopes_(std::move(scopes)) {}
  static Scopes all();
  // Scopes separated by blanks or commas. Errors: invalid_argument (also for no scopes or too
  // many).
  static Result<Scopes> parse(std::string_view text);
  std::string text() const;  // inverse of parse()

  bool allows(Verb verb, std::string_view name) const;
  bool allows_all(Verb verb) const;  // for every name
  bool allows_some(Verb verb) const;
  // Whether these scopes allow everything that `other` allows.
  bool covers(const Scopes& other) const;
  std::span<const Scope> list() const { return scopes_; }
  friend bool operator==(const Scopes&, const Scopes&) = default;

 private:
  std::vector<Scope> scopes_;
};

// Restricts an operation to the queues that the caller's scopes allow. Data of other queues counts
// as not found. Without scopes nothing is restricted.
struct Within {
  std::shared_ptr<const Scopes> scopes = nullptr;
  Verb verb = Verb::read;
  bool has(std::string_view queue) const {
    return scopes == nullptr || scopes->allows(verb, queue);
  }
};

}  // namespace mainspring
