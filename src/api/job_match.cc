// Matches args by path, and texts. The args of a job are parsed at most once.
#include "api/job_match.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"

namespace mainspring {
namespace {

using About = JobTerm::About;

// Walks args once, and notes the terms whose value is at their path.
class ArgsWalk {
 public:
  explicit ArgsWalk(const JobQuery& query) : terms_(query.terms), found_(query.terms.size()) {
    for (std::size_t i = 0; i < terms_.size(); ++i) {
      if (terms_[i].about == About::args) wanted_.push_back(i);
    }
  }
  void run(const std::string& args) {
    if (wanted_.empty()) return;
    JsonReader in(args, JsonReader::Unknown::skip);
    walk(in, 0, wanted_);
  }
  bool found(std::size_t term) const { return found_[term]; }

 private:
  using Terms = std::vector<std::size_t>;

  Terms those_with(const Terms& terms, std::size_t depth, std::string_view name) const {
    Terms out;
    for (const std::size_t i : terms) {
      const auto& path = terms_[i].path;
      if (path.size() > depth && path[depth] == name) out.push_back(i);
    }
    return out;
  }

  bool walk(JsonReader& in, std::size_t depth, const Terms& terms) {
    const JsonType type = in.peek();
    if (type == JsonType::object) {
      return in.members([&](std::string_view name) {
        const Terms inside = those_with(terms, depth, name);
        return inside.empty() ? in.skip() : walk(in, depth + 1, inside);
      });
    }
    if (type == JsonType::array) {
      return in.array(SIZE_MAX, [&](std::size_t index) {
        const Terms inside = those_with(terms, depth, fmt::format_int(index).c_str());
        return inside.empty() ? in.skip() : walk(in, depth + 1, inside);
      });
    }
    std::string value;
    const bool read =
        type == JsonType::string ? in.string(value) : in.raw(value, JsonReader::Null::take);
    if (!read) return false;
    for (const std::size_t i : terms) {
      if (terms_[i].path.size() == depth && terms_[i].any[0] == value) found_[i] = true;
    }
    return true;
  }

  const std::vector<JobTerm>& terms_;
  Terms wanted_;
  std::vector<bool> found_;
};

bool is_in_errors(const Job& job, const std::string& part) {
  return contains_folded(job.reason, part) || contains_folded(job.description, part) ||
         std::any_of(job.errors.begin(), job.errors.end(), [&](const AttemptError& error) {
           return contains_folded(error.message, part);
         });
}

}  // namespace

bool matches_payload(const JobQuery& query, const Job& job) {
  ArgsWalk args(query);
  args.run(job.args);
  for (std::size_t i = 0; i < query.terms.size(); ++i) {
    const JobTerm& term = query.terms[i];
    bool holds = false;
    if (term.about == About::args) {
      holds = args.found(i);
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
