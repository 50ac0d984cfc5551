// Searches for jobs, in their three forms.
#include "api/search_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "api/fields.h"

namespace mainspring {
namespace {

std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(',');
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Result<JobState> parse_listed_state(std::string_view text) {
  if (const auto state = parse_job_state(text)) return *state;
  return invalid("state", fmt::format("state \"{}\": must be waiting, scheduled, available, "
                                      "running, completed, retryable, cancelled or dead",
                                      cut_text(text, 64)));
}

// The parts of a term that a store can look up itself, so that it reads fewer records.
void use_term(const JobTerm& term, JobFilter& filter) {
  if (term.negated) return;
  const auto use = [&](std::string& field) {
    if (field.empty() && term.any.size() == 1) field = term.any[0];
  };
  switch (term.about) {
    case JobTerm::About::queue:
      return use(filter.queue);
    case JobTerm::About::kind:
      return use(filter.kind);
    case JobTerm::About::tag:
      return use(filter.tag);
    case JobTerm::About::state:
      if (filter.states == 0) filter.states = term.states;
      return;
    case JobTerm::About::before:
      filter.to = std::min(filter.to.value_or(term.at), term.at);
      return;
    case JobTerm::About::after:
      filter.from = std::max(filter.from.value_or(term.at), term.at);
      return;
    case JobTerm::About::id:
      if (!filter.ids) filter.ids.emplace(term.ids.rbegin(), term.ids.rend());
      return;
    default:
      return;
  }
}

std::string encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    plain ? out += c : out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

template <auto Member>
bool read_search_word(JsonReader& in, JobSearch& search) {
  if (in.null()) return true;
  return in.string(search.*Member) &&
         (!(search.*Member).empty() || in.fail_value("must not be empty; leave it out"));
}

constexpr JsonField<JobSearch> kSearch[] = {
    {"queue", &read_search_word<&JobSearch::queue>},
    {"kind", &read_search_word<&JobSearch::kind>},
    {"tag", &read_search_word<&JobSearch::tag>},
    {"state",
     [](JsonReader& in, JobSearch& search) {
       return in.null() || in.array(kJobStateCount, [&](std::size_t) {
         return read_state(in, search.states.emplace_back());
       });
     }},
    {"from", &as_optional_time<&JobSearch::from>},
    {"to", &as_optional_time<&JobSearch::to>},
    {"ids",
     [](JsonReader& in, JobSearch& search) {
       return in.null() || in.array(kMaxSearchIds, [&](std::size_t) {
         return in.integer(search.ids.emplace_back(), std::int64_t{1}, INT64_MAX);
       });
     }},
    {"q", &as_optional_string<&JobSearch::q>},
};

}  // namespace

Result<std::vector<JobState>> parse_states(std::string_view text) {
  std::vector<JobState> states;
  for (const std::string_view one : split_list(text)) {
    MS_TRY_ASSIGN(const JobState state, parse_listed_state(one));
    states.push_back(state);
    if (states.size() > kJobStateCount) return invalid("state", "state: is given more than once");
  }
  return states;
}

Result<std::vector<JobId>> parse_search_ids(std::string_view text) {
  std::vector<JobId> ids;
  for (const std::string_view one : split_list(text)) {
    JobId id = 0;
    const char* const end = one.data() + one.size();
    const auto [last, problem] = std::from_chars(one.data(), end, id);
    if (problem != std::errc() || last != end || id < 1)
      return invalid("ids", fmt::format("ids \"{}\": must be whole numbers from 1, separated by "
                                        "commas",
                                        cut_text(one, 64)));
    ids.push_back(id);
    if (ids.size() > kMaxSearchIds)
      return invalid("ids", fmt::format("ids: must be at most {}", kMaxSearchIds));
  }
  return ids;
}

Result<JobFilter> job_filter_of(const JobSearch& search, WallTime now) {
  if (!search.queue.empty()) MS_TRY(check_name("queue", search.queue));
  if (!search.kind.empty()) MS_TRY(check_name("kind", search.kind));
  if (search.tag.size() > kMaxTagBytes)
    return invalid(
        "tag", fmt::format("tag of {} bytes: must be at most {}", search.tag.size(), kMaxTagBytes));
  if (search.ids.size() > kMaxSearchIds)
    return invalid("ids", fmt::format("ids: must be at most {}", kMaxSearchIds));
  JobFilter filter{.queue = search.queue, .kind = search.kind, .tag = search.tag};
  for (const JobState state : search.states)
    filter.states = static_cast<JobStates>(filter.states | states_of(state));
  filter.from = search.from;
  filter.to = search.to;
  if (!search.ids.empty()) {
    filter.ids = search.ids;
    std::sort(filter.ids->rbegin(), filter.ids->rend());
    filter.ids->erase(std::unique(filter.ids->begin(), filter.ids->end()), filter.ids->end());
  }
  if (!search.q.empty()) {
    MS_TRY_ASSIGN(JobQuery query, parse_job_query(search.q, now));
    for (const JobTerm& term : query.terms) use_term(term, filter);
    filter.query = std::make_shared<const JobQuery>(std::move(query));
  }
  for (int i = 0; i < kJobStateCount; ++i) {
    const auto state = static_cast<JobState>(i);
    if (filter.states == states_of(state)) filter.state = state;
  }
  return filter;
}

std::string search_parameters(const JobFilter& filter) {
  std::string out;
  std::string states;
  for (int i = 0; i < kJobStateCount; ++i) {
    const auto state = static_cast<JobState>(i);
    if ((!filter.state && filter.states == 0) || !filter.wants(state)) continue;
    states += fmt::format("{}{}", states.empty() ? "" : ",", to_string(state));
  }
  if (!states.empty()) out += "&state=" + states;
  if (filter.from) out += "&from=" + encoded(format_wall_time(*filter.from));
  if (filter.to) out += "&to=" + encoded(format_wall_time(*filter.to));
  if (filter.ids) out += fmt::format("&ids={}", fmt::join(*filter.ids, ","));
  if (filter.query) out += "&q=" + encoded(filter.query->text);
  return out;
}

bool read_search(JsonReader& in, JobSearch& search) {
  return in.object(kSearch, search);
}

void write_search(JsonWriter& w, const JobSearch& search) {
  w.begin_object();
  if (!search.queue.empty()) w.key("queue").string(search.queue);
  if (!search.kind.empty()) w.key("kind").string(search.kind);
  if (!search.tag.empty()) w.key("tag").string(search.tag);
  if (!search.states.empty()) {
    w.key("state").begin_array();
    for (const JobState state : search.states) w.string(to_string(state));
    w.end_array();
  }
  if (search.from) w.key("from").time(*search.from);
  if (search.to) w.key("to").time(*search.to);
  if (!search.ids.empty()) {
    w.key("ids").begin_array();
    for (const JobId id : search.ids) w.number(id);
    w.end_array();
  }
  if (!search.q.empty()) w.key("q").string(search.q);
  w.end_object();
}

std::vector<std::string_view> search_request_fields(std::string_view schema) {
  if (schema == "JobSearch") return field_names(kSearch);
  return {};
}

}  // namespace mainspring
