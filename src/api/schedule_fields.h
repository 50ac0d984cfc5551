// Shared by the files of the schedules' shapes.
#pragma once

#include "api/fields.h"
#include "mainspring/schedule.h"

namespace mainspring {

// shapes_jobs.cc: reads a job of an enqueue request and validates it; its path is the reader's.
bool read_new_job(JsonReader& in, NewJob& job);
// The same without validate(): for stored jobs, or jobs that are validated later.
bool read_kept_job(JsonReader& in, NewJob& job);
void write_new_job(JsonWriter& w, const NewJob& job);

// The members of a definition, into an open object.
void write_definition(JsonWriter& w, const Schedule& schedule);

bool read_misfire(JsonReader& in, Schedule& schedule);
bool read_overlap_word(JsonReader& in, Overlap& out);
bool read_overlap(JsonReader& in, Schedule& schedule);
bool read_repeated_hour(JsonReader& in, Schedule& schedule);
bool read_continuous(JsonReader& in, Schedule& schedule);

// The members of a definition; more rows are put before them for what goes around one.
inline constexpr JsonField<Schedule> kScheduleFields[] = {
    {"name", &as_optional_string<&Schedule::name>},
    {"cron", &as_optional_string<&Schedule::cron>},
    {"every",
     [](JsonReader& in, Schedule& s) {  // 0 is a schedule that has none
       return in.null() || (in.duration(s.every) &&
                            (s.every != Duration(0) || in.fail_value("must be more than 0")));
     }},
    {"at", &as_optional_time<&Schedule::at>},
    {"time_zone", [](JsonReader& in, Schedule& s) { return in.null() || in.string(s.time_zone); }},
    {"repeated_hour", &read_repeated_hour},
    {"job", [](JsonReader& in, Schedule& s) { return read_new_job(in, s.job); }},
    {"misfire", &read_misfire},
    {"misfire_window", &as_duration<&Schedule::misfire_window>},
    {"misfire_cap", &as_integer<&Schedule::misfire_cap, 1, kMaxMisfires>},
    {"overlap", &read_overlap},
    {"jitter", &as_duration<&Schedule::jitter>},
    {"start_at", &as_optional_time<&Schedule::start_at>},
    {"end_at", &as_optional_time<&Schedule::end_at>},
    {"max_runs", &as_count<&Schedule::max_runs>},
    {"pause_on_failure", &as_boolean<&Schedule::pause_on_failure>},
    {"continuous", &read_continuous},
};

// A table of T that begins with the rows of a table for one of its members.
template <class T, std::size_t N>
struct FieldTable {
  JsonField<T> fields[N];
  constexpr const JsonField<T>& operator[](std::size_t row) const { return fields[row]; }
  constexpr std::size_t size() const { return N; }
};
template <auto& Part, auto Member, std::size_t Row, class T>
bool read_part(JsonReader& in, T& into) {
  return Part[Row].read(in, into.*Member);
}
template <auto& Part, auto Member, class T, std::size_t... Row, std::size_t N, std::size_t... More>
constexpr FieldTable<T, sizeof...(Row) + N> joined(const JsonField<T> (&more)[N],
                                                   std::index_sequence<Row...>,
                                                   std::index_sequence<More...>) {
  return {{{Part[Row].name, &read_part<Part, Member, Row, T>}..., more[More]...}};
}
template <auto& Part, auto Member, class T, std::size_t N>
constexpr auto with_part(const JsonField<T> (&more)[N]) {
  return joined<Part, Member, T>(more, std::make_index_sequence<std::size(Part)>(),
                                 std::make_index_sequence<N>());
}

}  // namespace mainspring
