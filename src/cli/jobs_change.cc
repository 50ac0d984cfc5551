// jobs edit, delete, clone.
#include <fmt/format.h>

#include "api/shapes.h"
#include "cli/handlers.h"
#include "cli/job_options.h"
#include "cli/support.h"

namespace mainspring::cli {
namespace {

Result<std::optional<std::string>> args_flag(const Invocation& invocation) {
  const auto given = invocation.flag("args");
  if (!given) return std::optional<std::string>();
  MS_TRY_ASSIGN(std::string args, read_args(given, "--args"));
  return std::optional(std::move(args));
}

Result<std::optional<int>> priority_flag(const Invocation& invocation) {
  MS_TRY_ASSIGN(const auto priority, invocation.number("priority", 0, kLowestPriority));
  return priority ? std::optional(static_cast<int>(*priority)) : std::nullopt;
}

Result<EditJob> edit_of(const Invocation& invocation) {
  EditJob edit;
  MS_TRY_ASSIGN(edit.args, args_flag(invocation));
  MS_TRY_ASSIGN(edit.priority, priority_flag(invocation));
  MS_TRY_ASSIGN(edit.run_at, instant_flag(invocation, "run-at"));
  const bool tags = !invocation.all_flags("tag").empty();
  if (tags && invocation.has("no-tags"))
    return invalid("no-tags", "--tag and --no-tags: only one of them can be given");
  if (tags || invocation.has("no-tags")) edit.tags = invocation.all_flags("tag");
  if (!edit.args && !edit.priority && !edit.run_at && !edit.tags) {
    return invalid("", "nothing to change: give --args, --priority, --run-at, --tag or --no-tags");
  }
  return edit;
}

template <class F>
Result<int> change_each(const Invocation& invocation, Io& io, F&& change) {
  MS_TRY_ASSIGN(const std::vector<JobId> ids, ids_of(invocation, "ID"));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  std::optional<Error> first;
  for (const JobId id : ids) {
    const Result<std::string> done = change(connection->jobs(), id);
    if (done) {
      print_line(io, *done);
    } else if (!first) {
      first = done.error();
    } else {
      io.err(fmt::format("mainspring: {}\n", printable_lines(done.error().message)));
    }
  }
  if (first) return with_flag_names(*first);
  return kExitOk;
}

}  // namespace

Result<int> run_jobs_edit(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const EditJob edit, edit_of(invocation));
  return change_each(invocation, io, [&](Jobs& jobs, JobId id) -> Result<std::string> {
    EditJob one = edit;
    one.id = id;
    MS_TRY_ASSIGN(const EditResult result, jobs.edit(std::move(one)));
    if (invocation.json)
      return fmt::format(R"({{"id":{},"state":"{}"}})", id, to_string(result.state));
    return fmt::format("{} edited, {}", id, to_string(result.state));
  });
}

Result<int> run_jobs_delete(const Invocation& invocation, Io& io) {
  return change_each(invocation, io, [&](Jobs& jobs, JobId id) -> Result<std::string> {
    MS_TRY(jobs.delete_job({.id = id}));
    if (invocation.json) return fmt::format(R"({{"id":{},"deleted":true}})", id);
    return fmt::format("{} deleted", id);
  });
}

Result<int> run_jobs_clone(const Invocation& invocation, Io& io) {
  CloneJob clone;
  MS_TRY_ASSIGN(clone.args, args_flag(invocation));
  MS_TRY_ASSIGN(clone.priority, priority_flag(invocation));
  MS_TRY_ASSIGN(clone.run_at, instant_flag(invocation, "run-at"));
  clone.queue = invocation.flag("queue");
  return change_each(invocation, io, [&](Jobs& jobs, JobId id) -> Result<std::string> {
    CloneJob one = clone;
    one.id = id;
    MS_TRY_ASSIGN(const EnqueuedJob made, jobs.clone(std::move(one)));
    if (invocation.json)
      return fmt::format(R"({{"id":{},"state":"{}","cloned_from":{}}})", made.id,
                         to_string(made.state), id);
    return fmt::format("{} {}", made.id, to_string(made.state));
  });
}

}  // namespace mainspring::cli
