// Caller: the sender of a request, and its permissions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "mainspring/job.h"
#include "mainspring/result.h"
#include "mainspring/time.h"
#include "model/access.h"

namespace mainspring::http {

// Belongs to one connection and one token; shared by its requests, immutable.
struct Caller {
  std::string who;   // a token's name; "local" = no token was needed
  std::string from;  // the peer: "192.0.2.7", "unix uid=1000"; with a certificate " cert=NAME"
  std::shared_ptr<const Scopes> scopes;     // nullptr = all: no token was needed
  WallTime expires_at = WallTime::never();  // of the token
  std::uint64_t token_id = 0;               // the first bytes of the token's digest; 0 = no token

  bool may(Verb verb, std::string_view name) const {
    return scopes == nullptr || scopes->allows(verb, name);
  }
  bool may_all(Verb verb) const { return scopes == nullptr || scopes->allows_all(verb); }
  bool may_some(Verb verb) const { return scopes == nullptr || scopes->allows_some(verb); }
  Within within(Verb verb) const { return {scopes, verb}; }
};

// What a route requires of its caller. A route without it does not compile.
enum class On {
  open,       // nothing: health, for load balancers
  signed_in,  // any token, where one is required
  all,        // the verb for "*": affects all names
  queue,      // the verb for the queue that is the path's first parameter
  lease,      // … for the lease
  folder,     // … for "folder/" and the last of {type}/{name}, or of {name}
  plan,       // the verb for some name; the plan then checks which, see Request::caller
};
struct Access {
  constexpr Access(On what) : on(what) {}  // for open and signed_in
  constexpr Access(Verb which, On what) : verb(which), other(which), on(what) {}
  constexpr Access(Verb which, Verb or_this, On what) : verb(which), other(or_this), on(what) {}
  Verb verb = Verb::admin;
  Verb other = Verb::admin;  // an alternative: one of the two verbs is enough
  On on;
};

// Errors: forbidden, with the missing scope: `needs the scope "work=photos"`.
Result<void> check_may(const Caller& caller, Verb verb, std::string_view name);
// Checks the queue of a job, and the queues that get jobs when it ends.
Result<void> check_may_make(const Caller& caller, Verb verb, const NewJob& job);
// The same for everything: `needs the scope "admin"`.
Result<void> check_may_all(const Caller& caller, Verb verb);

// A job folder's name as scopes have it.
inline std::string folder_scope(std::string_view name) {
  return std::string(kFolderPrefix).append(name);
}

// The same for a breaker.
inline std::string breaker_scope(std::string_view name) {
  return std::string("breaker/").append(name);
}

}  // namespace mainspring::http
