// Parses scopes and decides what they allow.
#include "model/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "mainspring/job.h"

namespace mainspring {
namespace {

constexpr std::string_view kAllScopes = "all";

struct VerbRow {
  Verb verb;
  std::string_view name;
  std::string_view meaning;
};
constexpr std::array<VerbRow, kVerbs> kTable{{
    {Verb::enqueue, "enqueue", "enqueue jobs into these queues; start runs of job folders"},
    {Verb::work, "work", "claim, renew and finish jobs of these queues"},
    {Verb::lease, "lease", "acquire, renew, release and see locks of these names"},
    {Verb::read, "read", "see jobs, queues, schedules and job folders, without payloads"},
    {Verb::read_payload, "read:payload",
     "also see args, results, checkpoints, errors, headers, logs"},
    {Verb::result, "result", "see the state and the result of a job by its id"},
    {Verb::schedule, "schedule", "define and change schedules of jobs for these queues"},
    {Verb::metrics, "metrics", "see the metrics of the server"},
    {Verb::admin, "admin",
     "pause, cancel, retry, edit, delete, redrive, retention; for all queues also: tokens, "
     "audit, verify"},
    {Verb::define_exec, "define-exec",
     "define what is executed: deploy, change and remove job folders"},
}};

const VerbRow& row_of(Verb verb) {
  return kTable[static_cast<std::size_t>(verb)];
}

Error bad_scope(std::string_view text, std::string_view rule) {
  return invalid("scopes", fmt::format("scope \"{}\": {}", text.substr(0, 160), rule));
}

}  // namespace

std::string_view to_string(Verb verb) {
  return row_of(verb).name;
}

std::string_view meaning(Verb verb) {
  return row_of(verb).meaning;
}

std::optional<Verb> parse_verb(std::string_view text) {
  for (const VerbRow& row : kTable) {
    if (row.name == text) return row.verb;
  }
  return std::nullopt;
}

bool Scope::fits(std::string_view name) const {
  if (!pattern.ends_with('*')) return name == pattern;
  return name.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
}

Result<Scope> parse_scope(std::string_view text) {
  const std::size_t equals = text.find('=');
  const auto verb = parse_verb(text.substr(0, equals));
  if (!verb) {
    std::vector<std::string_view> names;
    for (const VerbRow& row : kTable) names.push_back(row.name);
    return bad_scope(text, fmt::format("must be all, VERB or VERB=PATTERN, VERB one of {}",
                                       fmt::join(names, ", ")));
  }
  Scope scope{.verb = *verb};
  if (equals == std::string_view::npos) return scope;
  scope.pattern = text.substr(equals + 1);
  std::string_view stem = scope.pattern;
  const bool open = stem.ends_with('*');
  if (open) stem.remove_suffix(1);
  if ((open && stem.empty()) || check_name("pattern", stem)) return scope;
  return bad_scope(text, "the pattern must be *, a name, or the beginning of names and *");
}

std::string to_string(const Scope& scope) {
  if (scope.pattern == "*") return std::string(to_string(scope.verb));
  return fmt::format("{}={}", to_string(scope.verb), scope.pattern);
}

Scopes Scopes::all() {
  std::vector<Scope> scopes;
  for (const VerbRow& row : kTable) scopes.push_back({.verb = row.verb});
  return Scopes(std::move(scopes));
}

Result<Scopes> Scopes::parse(std::string_view text) {
  constexpr std::string_view kBlanks = " ,\t\n";
  std::vector<Scope> scopes;
  while (true) {
    const std::size_t begin = text.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(kBlanks));
    Scopes named = Scopes::all();
    if (word != kAllScopes) {
      MS_TRY_ASSIGN(Scope scope, parse_scope(word));
      named = Scopes({std::move(scope)});
    }
    for (const Scope& scope : named.list()) {
      if (std::ranges::find(scopes, scope) == scopes.end()) scopes.push_back(scope);
    }
    text.remove_prefix(word.size());
    if (scopes.size() > kMaxScopes) {
      return invalid("scopes", fmt::format("scopes: must be at most {}", kMaxScopes));
    }
  }
  if (scopes.empty()) return invalid("scopes", "scopes: must name at least one");
  return Scopes(std::move(scopes));
}

std::string Scopes::text() const {
  std::string out;
  for (const Scope& scope : scopes_) {
    if (!out.empty()) out += ' ';
    out += to_string(scope);
  }
  return out;
}

bool Scopes::allows(Verb verb, std::string_view name) const {
  return std::any_of(scopes_.begin(), scopes_.end(),
                     [&](const Scope& scope) { return scope.verb == verb && scope.fits(name); });
}

bool Scopes::allows_all(Verb verb) const {
  return std::any_of(scopes_.begin(), scopes_.end(), [&](const Scope& scope) {
    return scope.verb == verb && scope.pattern == "*";
  });
}

bool Scopes::allows_some(Verb verb) const {
  return std::any_of(scopes_.begin(), scopes_.end(),
                     [&](const Scope& scope) { return scope.verb == verb; });
}

bool Scopes::covers(const Scopes& other) const {
  // A pattern "PREFIX*" is covered by a pattern "SHORTER*" with a prefix of it: "a*" is covered by
  // "*" and "a*", but not by "ab*".
  return std::all_of(other.scopes_.begin(), other.scopes_.end(), [&](const Scope& wanted) {
    return std::any_of(scopes_.begin(), scopes_.end(), [&](const Scope& mine) {
      if (mine.verb != wanted.verb) return false;
      if (!wanted.pattern.ends_with('*')) return mine.fits(wanted.pattern);
      return mine.pattern.ends_with('*') &&
             wanted.pattern.starts_with(
                 std::string_view(mine.pattern).substr(0, mine.pattern.size() - 1));
    });
  });
}

}  // namespace mainspring
