// Permission checks: for a name, for everything, for a route.
#include "http/caller.h"

#include <fmt/format.h>

#include "api/json.h"
#include "base/mutant.h"
#include "http/routes.h"
#include "model/callback.h"
#include "model/job_token.h"

namespace mainspring::http {
namespace {

Error needs(const Caller& caller, const Scope& scope) {
  if (caller.who.empty()) {
    return {ErrorCode::unauthenticated, "a token is needed: Authorization: Bearer TOKEN"};
  }
  return {ErrorCode::forbidden,
          fmt::format("\"{}\" needs the scope \"{}\"", caller.who, to_string(scope))};
}

// The value of {name}, at any position among the parameters of the pattern.
std::string_view name_in_path(std::string_view pattern, const Request& request) {
  std::size_t index = 0;
  for (std::size_t at = 0; (at = pattern.find('{', at)) != std::string_view::npos; ++at) {
    if (pattern.substr(at).starts_with("{name}")) break;
    ++index;
  }
  if (index == 0) return request.param;
  return index <= request.more_params.size() ? std::string_view(request.more_params[index - 1])
                                             : std::string_view();
}

}  // namespace

Result<void> check_may(const Caller& caller, Verb verb, std::string_view name) {
  if (caller.may(verb, name)) return {};
  return needs(caller, {verb, std::string(cut_text(name, 128))});
}

Result<void> check_may_make(const Caller& caller, Verb verb, const NewJob& job) {
  // A job of the folders' queue runs any folder, with any arguments and reason: only a host adds
  // it.
  const auto check = [&](std::string_view queue) -> Result<void> {
    if (queue == kFolderQueue && !MS_MUTANT(folder_run_forged))
      MS_TRY(check_may_all(caller, Verb::define_exec));
    return check_may(caller, verb, queue);
  };
  MS_TRY(check(job.queue));
  for (const FollowUp& next : job.follow_ups) {
    if (!is_callback(next)) MS_TRY(check(next.queue));
  }
  if (!job.reply_to.empty()) MS_TRY(check(job.reply_to));
  return {};
}

Result<void> check_may_all(const Caller& caller, Verb verb) {
  if (caller.may_all(verb)) return {};
  return needs(caller, {verb, "*"});
}

Result<void> check_access(const Route& route, const Request& request) {
  const Caller& caller = *request.caller;
  const Access& access = route.access;
  switch (access.on) {
    case On::open:
      return {};
    case On::signed_in:
      if (caller.who.empty()) return needs(caller, {});
      return {};
    case On::all:
      return check_may_all(caller, access.verb);
    case On::queue:
    case On::lease:
      return check_may(caller, access.verb, request.param);
    case On::folder:
      return check_may(caller, access.verb, folder_scope(name_in_path(route.pattern, request)));
    case On::plan:
      if (caller.may_some(access.verb) || caller.may_some(access.other)) return {};
      return needs(caller, {access.verb, "NAME"});
  }
  return needs(caller, {});
}

}  // namespace mainspring::http
