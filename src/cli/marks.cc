// mark, marks list, marks remove; views list, save, remove.
#include <fmt/format.h>

#include "api/mark_shapes.h"
#include "cli/handlers.h"
#include "cli/support.h"
#include "env/clock.h"

namespace mainspring::cli {
namespace {

constexpr std::int64_t kDefaultMarks = 100;

void print_mark(const Mark& mark, Io& io) {
  std::string line;
  encode_mark(mark, line);
  print_line(io, line);
}

Result<std::optional<WallTime>> time_flag(const Invocation& invocation, const std::string& name) {
  const auto text = invocation.flag(name);
  if (!text) return std::optional<WallTime>();
  const auto time = parse_wall_time(*text);
  if (time) return std::optional<WallTime>(*time);
  return invalid("--" + name, fmt::format("--{} \"{}\": must be a time such as "
                                          "2026-01-31T09:00:00Z",
                                          name, text->substr(0, 64)));
}

}  // namespace

Result<int> run_mark(const Invocation& invocation, Io& io) {
  AddMark request{.text = *invocation.argument("TEXT")};
  MS_TRY(check_mark_text(request.text));
  MS_TRY_ASSIGN(request.at, time_flag(invocation, "at"));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const Mark mark, connection->client->add_mark(request));
  if (invocation.json) {
    print_mark(mark, io);
  } else {
    print_line(io, fmt::format("mark {}: {} at {}", mark.id, printable(mark.text),
                               shown_time(io, mark.at)));
  }
  return kExitOk;
}

Result<int> run_marks_list(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto since, past_time(invocation, io, "since"));
  MS_TRY_ASSIGN(const auto limit, invocation.number("limit", 1, kMaxMarks));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MarkFilter filter;
  if (since) filter.from = *since;
  Table table({{"MARK", Align::right},
               {.title = "AT", .whole = true},
               {.title = "BY", .drop = 2},
               {.title = "SOURCE", .drop = 1},
               {.title = "TEXT", .least = 40, .below = true}});
  for (std::int64_t left = limit.value_or(kDefaultMarks); left > 0;) {
    filter.limit = static_cast<int>(std::min<std::int64_t>(left, kMaxMarkPage));
    MS_TRY_ASSIGN(const MarkPage page, connection->client->marks(filter));
    for (const Mark& mark : page.marks) {
      if (invocation.json) {
        print_mark(mark, io);
      } else {
        table.add({{fmt::to_string(mark.id)},
                   {shown_time(io, mark.at)},
                   {mark.by},
                   {std::string(to_string(mark.source))},
                   {mark.text}});
      }
    }
    left -= std::ssize(page.marks);
    if (!page.next) break;
    filter.before = page.next;
  }
  if (!invocation.json) io.out(table.empty() ? "no marks\n" : table.render(io));
  return kExitOk;
}

Result<int> run_marks_remove(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const std::vector<JobId> ids, ids_of(invocation, "MARK"));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  for (const JobId id : ids) {
    MS_TRY(connection->client->remove_mark(id));
    print_line(io, invocation.json ? fmt::format("{{\"id\":{},\"removed\":true}}", id)
                                   : fmt::format("mark {}: removed", id));
  }
  return kExitOk;
}

Result<int> run_views_list(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const std::vector<SavedView> views, connection->client->views());
  Table table({{.title = "VIEW", .keep = true},
               {.title = "BY", .drop = 1},
               {.title = "UPDATED", .whole = true, .drop = 2},
               {.title = "PAGE", .keep = true},
               {.title = "QUERY", .least = 40, .below = true}});
  for (const SavedView& view : views) {
    if (invocation.json) {
      std::string line;
      encode_view(view, line);
      print_line(io, line);
    } else {
      table.add(
          {{view.name}, {view.by}, {shown_time(io, view.updated_at)}, {view.page}, {view.query}});
    }
  }
  if (!invocation.json) io.out(table.empty() ? "no saved views\n" : table.render(io));
  return kExitOk;
}

Result<int> run_views_save(const Invocation& invocation, Io& io) {
  PutView request;
  request.view.name = *invocation.argument("NAME");
  request.view.page = *invocation.argument("PAGE");
  request.view.query = invocation.flag("query").value_or("");
  MS_TRY(validate(request.view));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const SavedView view, connection->client->put_view(request));
  std::string line;
  encode_view(view, line);
  print_line(io, invocation.json ? line
                                 : fmt::format("{}: {}{}{}", view.name, view.page,
                                               view.query.empty() ? "" : "?", view.query));
  return kExitOk;
}

Result<int> run_views_remove(const Invocation& invocation, Io& io) {
  const std::string name = *invocation.argument("NAME");
  MS_TRY(check_view_name(name));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY(connection->client->remove_view(name));
  std::string line;
  JsonWriter(line)
      .begin_object()
      .key("name")
      .string(name)
      .key("removed")
      .boolean(true)
      .end_object();
  print_line(io, invocation.json ? line : fmt::format("{}: removed", name));
  return kExitOk;
}

}  // namespace mainspring::cli
