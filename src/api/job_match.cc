// Matches args by path, and texts. The args of a job are parsed at most once.
#include "api/job_match.h"

#include <algorithm>

#include "api/search_keys.h"

namespace mainspring {
namespace {

using About = JobTerm::About;

// The values at the paths of the terms on args.
class TermValues {
 public:
  TermValues(const JobQuery& query, const std::string& args) : values_(args, paths_of(query)) {
    for (std::size_t i = 0; i < query.terms.size(); ++i) {
      if (query.terms[i].about == About::args) terms_.push_back(i);
    }
  }
  bool holds(const JobQuery& query, std::size_t term) const {
    const auto place = std::find(terms_.begin(), terms_.end(), term) - terms_.begin();
    const ScalarValue* value = values_.at(static_cast<std::size_t>(place));
    return value != nullptr && is_value(*value, query.terms[term].any[0]);
  }

 private:
  static std::vector<const ScalarsAt::Path*> paths_of(const JobQuery& query) {
    std::vector<const ScalarsAt::Path*> paths;
    for (const JobTerm& term : query.terms) {
      if (term.about == About::args) paths.push_back(&term.path);
    }
    return paths;
  }
  ScalarsAt values_;
  std::vector<std::size_t> terms_;
};

bool is_in_errors(const Job& job, const std::string& part) {
  return contains_folded(job.reason, part) || contains_folded(job.description, part) ||
         std::any_of(job.errors.begin(), job.errors.end(), [&](const AttemptError& error) {
           return contains_folded(error.message, part);
         });
}

}  // namespace

bool matches_payload(const JobQuery& query, const Job& job) {
  const TermValues args(query, job.args);
  for (std::size_t i = 0; i < query.terms.size(); ++i) {
    const JobTerm& term = query.terms[i];
    bool holds = false;
    if (term.about == About::args) {
      holds = args.holds(query, i);
    } else if (term.about == About::error) {
      holds = is_in_errors(job, term.any[0]);
    } else if (term.about == About::text) {
      holds = contains_folded(job.args, term.any[0]) || contains_folded(job.result, term.any[0]) ||
              is_in_errors(job, term.any[0]);
    } else {
      continue;
    }
    if (holds == term.negated) return false;
  }
  return true;
}

std::size_t searched_bytes(const Job& job) {
  std::size_t bytes = job.args.size() + job.result.size() + job.description.size();
  for (const AttemptError& error : job.errors) bytes += error.message.size();
  return bytes;
}

}  // namespace mainspring
