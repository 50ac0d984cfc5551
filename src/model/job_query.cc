// Parses searches, and evaluates the terms that need no payload.
#include "model/job_query.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <span>

#include "base/edit_distance.h"

namespace mainspring {
namespace {

using About = JobTerm::About;

struct Token {
  std::string_view name;
  About about;
};
constexpr Token kTokens[] = {{"id", About::id},
                             {"kind", About::kind},
                             {"queue", About::queue},
                             {"state", About::state},
                             {"tag", About::tag},
                             {"session", About::session},
                             {"limit_key", About::limit_key},
                             {"correlation", About::correlation},
                             {"worker", About::worker},
                             {"workflow", About::workflow},
                             {"schedule", About::schedule},
                             {"error", About::error},
                             {"before", About::before},
                             {"after", About::after}};
constexpr std::string_view kKnown =
    "id:, kind:, queue:, state:, tag:, session:, limit_key:, correlation:, worker:, workflow:, "
    "schedule:, error:, before:, after:, wait>, run>, args.PATH=";
constexpr std::size_t kShownBytes = 64;

Error bad(std::string_view word, std::string_view rule) {
  return invalid("q", fmt::format("q: \"{}\": {}", word.substr(0, kShownBytes), rule));
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

// One word of a query. `value` starts after the operator. A quoted part is literal.
struct Word {
  std::string text;             // without quotes
  std::string shown;            // as written
  std::size_t operator_at = 0;  // of the first ':', '=' or '>' outside quotes; npos = none
  bool negated = false;
  bool quoted = false;  // starts with a quote
};

// Takes the next word from `rest`, which is not blank.
Result<Word> take_word(std::string_view& rest) {
  Word word;
  word.operator_at = std::string::npos;
  std::size_t i = 0;
  if (rest.size() > 1 && rest[0] == '-' && rest[1] != ' ') word.negated = true, i = 1;
  word.quoted = rest[i] == '"';
  bool in_quotes = false;
  for (; i < rest.size(); ++i) {
    const char c = rest[i];
    if (c == '"') {
      in_quotes = !in_quotes;
      continue;
    }
    if (in_quotes && c == '\\' && i + 1 < rest.size()) {
      word.text += rest[++i];
      continue;
    }
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (blank && !in_quotes) break;
    const bool is_operator = c == ':' || c == '=' || c == '>';
    if (is_operator && !in_quotes && !word.quoted && word.operator_at == std::string::npos)
      word.operator_at = word.text.size();
    word.text += c;
  }
  word.shown = rest.substr(0, i);
  rest.remove_prefix(i);
  if (in_quotes) return bad(word.shown, "the quote is not closed");
  return word;
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(at);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Result<std::vector<std::string>> values_of(const Word& word, std::string_view value) {
  std::vector<std::string> values = split(value, ',');
  if (values.size() > kMaxQueryValues)
    return bad(word.shown, fmt::format("must have at most {} values", kMaxQueryValues));
  for (const std::string& one : values) {
    if (one.empty()) return bad(word.shown, "a value is missing");
  }
  return values;
}

Result<void> read_ids(const Word& word, JobTerm& term) {
  for (const std::string& text : term.any) {
    std::int64_t id = 0;
    const char* const end = text.data() + text.size();
    const auto [last, problem] = std::from_chars(text.data(), end, id);
    if (problem != std::errc() || last != end || id < 1)
      return bad(word.shown,
                 fmt::format("\"{}\": must be a whole number from 1", text.substr(0, kShownBytes)));
    term.ids.push_back(id);
  }
  std::sort(term.ids.begin(), term.ids.end());
  return {};
}

Result<void> read_states(const Word& word, JobTerm& term) {
  for (const std::string& text : term.any) {
    const auto state = parse_job_state(text);
    if (!state) {
      return bad(word.shown, fmt::format("state \"{}\": must be waiting, scheduled, available, "
                                         "running, completed, retryable, cancelled or dead",
                                         text.substr(0, kShownBytes)));
    }
    term.states = static_cast<JobStates>(term.states | states_of(*state));
  }
  return {};
}

// An instant, or a duration before `now`.
Result<void> read_instant(const Word& word, std::string_view value, WallTime now, JobTerm& term) {
  if (const auto ago = parse_duration(value); ago && *ago != kForever) {
    term.at = now - *ago;
    return {};
  }
  if (const auto at = parse_wall_time(value)) {
    term.at = *at;
    return {};
  }
  return bad(
      word.shown,
      "must be an instant, such as 2026-01-31T09:00:00Z, or a duration ago, such as 1h or 7d");
}

Result<JobTerm> read_duration(const Word& word, About about, std::string_view value) {
  JobTerm term{.about = about, .negated = word.negated, .word = word.shown};
  const auto length = parse_duration(value);
  if (!length || *length == kForever || *length < Duration(0))
    return bad(word.shown, "must be a duration, such as 30s, 5m or 2h");
  term.length = *length;
  return term;
}

Result<JobTerm> read_args(const Word& word, std::string_view path, std::string_view value) {
  JobTerm term{.about = About::args, .negated = word.negated, .word = word.shown};
  term.path = split(path, '.');
  if (term.path.size() > kMaxQuerySegments)
    return bad(word.shown,
               fmt::format("must have at most {} names in its path", kMaxQuerySegments));
  for (const std::string& name : term.path) {
    if (name.empty()) return bad(word.shown, "a name in the path is empty: write args.order=4711");
  }
  term.any.emplace_back(value);
  return term;
}

// "did you mean state:? ", or "" if no term is close.
std::string near_term(std::string_view name, char sign) {
  if (sign != ':' || name.size() < 2 || name.size() > kShownBytes) return "";
  const std::size_t most = name.size() < 5 ? 1 : 2;
  for (const Token& token : kTokens) {
    if (token.name.starts_with(name) || edit_distance(name, token.name) <= most)
      return fmt::format("did you mean {}:? It ", token.name);
  }
  return "";
}

Result<JobTerm> read_token(const Word& word, WallTime now) {
  const std::string_view text = word.text;
  const std::string_view name = text.substr(0, word.operator_at);
  const char sign = text[word.operator_at];
  const std::string_view value = text.substr(word.operator_at + 1);
  if (sign == '>' && name == "wait") return read_duration(word, About::wait, value);
  if (sign == '>' && name == "run") return read_duration(word, About::run, value);
  if (sign == '=' && name.starts_with("args.")) return read_args(word, name.substr(5), value);
  const auto* const found =
      std::find_if(std::begin(kTokens), std::end(kTokens),
                   [&](const Token& token) { return sign == ':' && token.name == name; });
  if (found == std::end(kTokens)) {
    return invalid("q",
                   fmt::format("q: unknown term \"{}{}\": {}must be one of {}. To find it as "
                               "text, write it in double quotes",
                               name.substr(0, kShownBytes), sign, near_term(name, sign), kKnown));
  }
  JobTerm term{.about = found->about, .negated = word.negated, .word = word.shown};
  if (value.empty()) return bad(word.shown, "a value is missing");
  switch (found->about) {
    case About::error:
      term.any.push_back(lower(value));
      return term;
    case About::before:
    case About::after:
      MS_TRY(read_instant(word, value, now, term));
      return term;
    case About::session:
    case About::limit_key:
    case About::correlation:
    case About::worker:
    case About::schedule:
      term.any.emplace_back(value);
      return term;
    default:
      break;
  }
  MS_TRY_ASSIGN(term.any, values_of(word, value));
  if (found->about == About::id || found->about == About::workflow) MS_TRY(read_ids(word, term));
  if (found->about == About::state) MS_TRY(read_states(word, term));
  return term;
}

bool is_any(const std::vector<std::string>& any, std::string_view text) {
  return std::find(any.begin(), any.end(), text) != any.end();
}

// How long the job waited for its last attempt, or has waited for the next one.
Duration waited(const Job& job, WallTime now) {
  const WallTime from = std::max(job.run_at, job.created_at);
  if (job.state == JobState::available) return now - from;
  if (job.started_at && *job.started_at > from) return *job.started_at - from;
  return Duration(0);
}

// The run time of its last attempt, so far.
Duration ran(const Job& job, WallTime now) {
  if (!job.started_at) return Duration(0);
  if (job.state == JobState::running) return now - *job.started_at;
  return job.finished_at ? *job.finished_at - *job.started_at : Duration(0);
}

bool holds(const JobTerm& term, const Job& job, WallTime now) {
  switch (term.about) {
    case About::id:
    case About::workflow:
    case About::schedule:
      return std::binary_search(term.ids.begin(), term.ids.end(), job.id);
    case About::kind:
      return is_any(term.any, job.kind);
    case About::queue:
      return is_any(term.any, job.queue);
    case About::state:
      return (term.states & states_of(job.state)) != 0;
    case About::tag:
      return std::any_of(job.tags.begin(), job.tags.end(),
                         [&](const std::string& tag) { return is_any(term.any, tag); });
    case About::session:
      return is_any(term.any, job.session);
    case About::limit_key:
      return is_any(term.any, job.limit_key);
    case About::correlation:
      return is_any(term.any, job.correlation_id);
    case About::worker:
      return is_any(term.any, job.worker);
    case About::before:
      return job.created_at < term.at;
    case About::after:
      return job.created_at >= term.at;
    case About::wait:
      return waited(job, now) > term.length;
    case About::run:
      return ran(job, now) > term.length;
    case About::error:
    case About::args:
    case About::text:
      break;
  }
  return !term.negated;  // checked elsewhere
}

}  // namespace

const JobTerm* JobQuery::payload_term() const {
  const auto found = std::find_if(terms.begin(), terms.end(), [](const JobTerm& term) {
    return term.about == About::error || term.about == About::args || term.about == About::text;
  });
  return found == terms.end() ? nullptr : &*found;
}

Result<JobQuery> parse_job_query(std::string_view text, WallTime now) {
  if (text.size() > kMaxQueryBytes) {
    return invalid("q",
                   fmt::format("q has {} bytes: must be at most {}", text.size(), kMaxQueryBytes));
  }
  JobQuery query{.text = std::string(text), .now = now};
  for (std::string_view rest = text;;) {
    const std::size_t begin = rest.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos) break;
    rest.remove_prefix(begin);
    if (query.terms.size() == kMaxQueryTerms)
      return invalid("q", fmt::format("q: must have at most {} terms", kMaxQueryTerms));
    MS_TRY_ASSIGN(const Word word, take_word(rest));
    if (word.operator_at != std::string::npos) {
      MS_TRY_ASSIGN(JobTerm term, read_token(word, now));
      query.terms.push_back(std::move(term));
      continue;
    }
    if (word.text.empty()) return bad(word.shown, "a text to find is missing");
    query.terms.push_back({.about = About::text,
                           .negated = word.negated,
                           .any = {lower(word.text)},
                           .word = word.shown});
  }
  return query;
}

bool matches_record(const JobQuery& query, const Job& job) {
  return std::all_of(query.terms.begin(), query.terms.end(), [&](const JobTerm& term) {
    return holds(term, job, query.now) != term.negated;
  });
}

bool contains_folded(std::string_view text, std::string_view part) {
  if (part.empty()) return true;
  if (part.size() > text.size()) return false;
  const auto fold = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  const char first = part[0];
  const char other = first >= 'a' && first <= 'z' ? static_cast<char>(first - 32) : first;
  const std::size_t last = text.size() - part.size();
  for (std::size_t i = 0; i <= last; ++i) {
    if (text[i] != first && text[i] != other) continue;
    std::size_t n = 1;
    while (n < part.size() && fold(text[i + n]) == part[n]) ++n;
    if (n == part.size()) return true;
  }
  return false;
}

}  // namespace mainspring
