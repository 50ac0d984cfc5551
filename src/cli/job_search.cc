// Converts flags to a search.
#include "cli/job_search.h"

#include <fmt/format.h>

#include "api/search_shapes.h"
#include "cli/support.h"

namespace mainspring::cli {

std::vector<Flag> search_flags() {
  return {{.name = "queue", .value = "QUEUE", .help = "only of this queue"},
          {.name = "kind", .value = "KIND", .help = "only of this kind"},
          {.name = "tag", .value = "TAG", .help = "only with this tag"},
          {.name = "state",
           .value = "STATES",
           .help = "only in these states, several with commas",
           .choices = {"waiting", "scheduled", "available", "running", "completed", "retryable",
                       "cancelled", "dead"},
           .list = true},
          {.name = "since",
           .value = "TIME",
           .help = "only created since then: 2h, 2026-01-31T09:00 or an instant"},
          {.name = "until", .value = "TIME", .help = "only created before then"},
          {.name = "search",
           .value = "QUERY",
           .help = "only jobs that match, for example 'args.order=4711 wait>30s timeout'"}};
}

Result<JobSearch> search_of(const Invocation& invocation, const Io& io) {
  JobSearch search;
  search.queue = invocation.flag("queue").value_or("");
  search.kind = invocation.flag("kind").value_or("");
  search.tag = invocation.flag("tag").value_or("");
  search.q = invocation.flag("search").value_or("");
  if (const auto states = invocation.flag("state")) {
    auto parsed = parse_states(*states);
    if (!parsed) return with_search_flags(parsed.error());
    search.states = std::move(*parsed);
  }
  MS_TRY_ASSIGN(search.from, past_time(invocation, io, "since"));
  MS_TRY_ASSIGN(search.to, past_time(invocation, io, "until"));
  return search;
}

Error with_search_flags(Error error) {
  const std::string& field = error.field;
  const bool flag = field == "queue" || field == "kind" || field == "tag" || field == "state" ||
                    field == "rate" || field == "canary" || field == "priority";
  if (flag && error.message.starts_with(field)) error.message = "--" + error.message;
  if (field == "q" && error.message.starts_with("q")) {
    error.message = "--search" + error.message.substr(1);
  }
  return error;
}

}  // namespace mainspring::cli
