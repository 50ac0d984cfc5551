// workflow start, list, show, signal, cancel, pause, resume, retry, fork, check.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "api/json.h"
#include "api/workflow_shapes.h"
#include "cli/handlers.h"
#include "cli/job_options.h"
#include "cli/sheet.h"
#include "cli/support.h"
#include "cli/workflow_tree.h"
#include "env/clock.h"
#include "env/signals.h"
#include "workflow/references.h"

namespace mainspring::cli {
namespace {

constexpr std::size_t kMaxWorkflowBytes = 64 << 20;
constexpr Duration kWorkflowWait = 1h;
constexpr Duration kWorkflowRetryFor = 5s;
constexpr Duration kRedraw = 1s;
constexpr int kWorkflowsPage = 1000;
constexpr std::int64_t kDefaultWorkflows = 50;

int exit_of_workflow(WorkflowState state) {
  if (state == WorkflowState::completed) return kExitOk;
  return is_at_rest(state) ? kExitDead : kExitNotYet;
}

Result<WorkflowSpec> definition_of(const std::string& file) {
  MS_TRY_ASSIGN(const std::string text, read_file(file, kMaxWorkflowBytes));
  auto spec = decode_workflow(text);
  if (!spec) return in_file(file, spec.error());
  return spec;
}

Result<void> check_definition(const std::string& file, const WorkflowSpec& spec) {
  auto good = validate(spec);
  if (good) return {};
  return in_file(file, good.error());
}

Result<std::vector<WorkflowStep>> all_steps(Workflows& workflows, WorkflowId id) {
  std::vector<WorkflowStep> out;
  for (int after = 0; out.size() <= kMaxStepsInAll;) {
    MS_TRY_ASSIGN(WorkflowStepPage page, workflows.workflow_steps(id, after, kWorkflowsPage));
    out.insert(out.end(), std::make_move_iterator(page.steps.begin()),
               std::make_move_iterator(page.steps.end()));
    if (!page.next) break;
    after = *page.next;
  }
  return out;
}

// The child workflows of these steps, recursively. Some may be pruned or hidden from the caller.
ShownChildren children_of(Workflows& workflows, const std::vector<WorkflowStep>& steps) {
  ShownChildren out;
  std::vector<WorkflowId> next;
  const auto note = [&](const std::vector<WorkflowStep>& of) {
    for (const WorkflowStep& step : of) {
      if (step.workflow != 0 && step.of == 0) next.push_back(step.workflow);
    }
  };
  note(steps);
  for (std::size_t i = 0; i < next.size() && i < kMaxShownChildren; ++i) {
    auto info = workflows.get_workflow(next[i]);
    auto below = info ? all_steps(workflows, next[i]) : Result<std::vector<WorkflowStep>>(Error{});
    if (!below) continue;
    note(*below);
    out.emplace(next[i], ShownChild{std::move(*info), std::move(*below)});
  }
  return out;
}

// {"workflow": {…}, "steps": […]}
std::string json_of_workflow(const WorkflowInfo& info, std::vector<WorkflowStep> steps) {
  std::string workflow, list;
  encode_workflow_info(info, workflow);
  encode_workflow_steps({.steps = std::move(steps), .next = {}}, list);
  return fmt::format("{{\"workflow\":{},{}", workflow, list.substr(1));
}

std::string state_text(const WorkflowInfo& info) {
  return fmt::format("{}{}", to_string(info.state), info.paused ? " (paused)" : "");
}

std::string forked_text(const WorkflowInfo& info) {
  if (!info.forked_from) return "";
  return fmt::format("{}, step {}", info.forked_from->id, info.forked_from->step);
}

std::string parent_text(const WorkflowInfo& info) {
  if (!info.parent) return "";
  return fmt::format("{}, step {}", info.parent->workflow, info.parent->step);
}

std::string text_of_workflow(const WorkflowInfo& info, const std::vector<WorkflowStep>& steps,
                             const ShownChildren& children, const Io& io) {
  const WallTime now = SystemClock().now().wall;
  Sheet head(io);
  head.add("id", fmt::to_string(info.id));
  head.add("name", info.name);
  head.add("key", info.key);
  std::string out =
      head.text() +
      fmt::format("{:<15} {}\n", "state", coloured(io, state_text(info), colour_of(info.state)));
  Sheet rest(io);
  rest.add("reason", info.reason);
  rest.add("forked from", forked_text(info));
  rest.add("parent", parent_text(info));
  rest.add("steps", progress_of(info));
  rest.add("started", info.started_at, now);
  rest.add("finished", info.finished_at, now);
  rest.add("deadline", info.deadline_at, now);
  rest.add("input", info.input == "{}" ? "" : info.input);
  rest.add("result", info.result);
  return out + rest.text() + "\n" + workflow_tree(steps, now, io, children);
}

// Prints the outcome of a workflow that was waited for.
void print_outcome(const Invocation& invocation, Io& io, const WorkflowInfo& info, Duration waited,
                   bool interrupted) {
  if (invocation.json) {
    std::string line;
    encode_workflow_info(info, line);
    print_line(io, line);
  } else if (info.state == WorkflowState::completed) {
    if (!info.result.empty()) print_line(io, without_c1(info.result));
  } else if (is_at_rest(info.state)) {
    io.err(fmt::format("workflow {} is {}: {}\n", info.id, to_string(info.state),
                       printable(info.reason)));
  } else if (interrupted) {
    io.err(
        fmt::format("interrupted: workflow {} is {} and continues: `mainspring workflow show "
                    "{}`\n",
                    info.id, to_string(info.state), info.id));
  } else {
    io.err(
        fmt::format("workflow {} is still {} after {} and continues: `mainspring workflow show "
                    "{}`\n",
                    info.id, to_string(info.state), format_duration(waited), info.id));
  }
}

Result<Duration> workflow_wait_limit(const Invocation& invocation) {
  const auto text = invocation.flag("wait");
  if (!text || text->empty()) return kWorkflowWait;
  MS_TRY_ASSIGN(const auto given, invocation.duration("wait"));
  return *given;
}

Result<int> wait_for_workflow(const Invocation& invocation, Io& io, Connection& connection,
                              WorkflowId id, Duration limit) {
  const StopSignals signals;
  const SystemClock clock;
  const Instant end = clock.now().instant + limit;
  ProgressLine progress(io);
  for (;;) {
    const Duration left = std::max(Duration{0}, end - clock.now().instant);
    const Duration slice = std::min<Duration>(left, kRedraw);
    MS_TRY_ASSIGN(const WorkflowInfo info,
                  connection.workflows().wait_workflow(id, slice, signals.stop()));
    const bool over = signals.stop().stop_requested() || left <= slice;
    if (is_at_rest(info.state) || over) {
      progress.clear();
      print_outcome(invocation, io, info, limit, signals.stop().stop_requested());
      return exit_of_workflow(info.state);
    }
    progress.show(
        fmt::format("workflow {} is {}: {}", id, to_string(info.state), progress_of(info)));
  }
}

Result<int> print_changed(const Invocation& invocation, Io& io, const WorkflowInfo& info) {
  std::string line;
  if (invocation.json) {
    encode_workflow_info(info, line);
  } else {
    line = fmt::format("{} {}", info.id, state_text(info));
  }
  print_line(io, line);
  return kExitOk;
}

Result<WorkflowId> id_of(const Invocation& invocation) {
  const std::string text = *invocation.argument("ID");
  const auto id = parse_count(text);
  if (id && *id >= 1) return *id;
  return invalid("ID",
                 fmt::format("ID \"{}\": must be a workflow's number, from 1 on", printable(text)));
}

// Calls `change` for each of ID….
template <class Change>
Result<int> for_each_workflow(const Invocation& invocation, Io& io, Change change) {
  MS_TRY_ASSIGN(const auto ids, ids_of(invocation, "ID"));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  for (const WorkflowId id : ids) {
    MS_TRY_ASSIGN(const WorkflowInfo info, change(connection->workflows(), id));
    MS_TRY(print_changed(invocation, io, info));
  }
  return kExitOk;
}

// Prints the started workflow, or with --wait how it ended.
Result<int> print_started(const Invocation& invocation, Io& io, Connection& connection,
                          const WorkflowStarted& started) {
  MS_TRY_ASSIGN(const Duration limit, workflow_wait_limit(invocation));
  if (invocation.has("wait"))
    return wait_for_workflow(invocation, io, connection, started.id, limit);
  std::string line;
  if (invocation.json) {
    encode_workflow_started(started, line);
  } else {
    line = fmt::format("{}{}", started.id, started.duplicate ? " (already existed)" : " started");
  }
  print_line(io, line);
  return kExitOk;
}

}  // namespace

Result<int> run_workflow_start(const Invocation& invocation, Io& io) {
  const std::string file = *invocation.argument("FILE");
  MS_TRY_ASSIGN(WorkflowSpec spec, definition_of(file));
  if (auto key = invocation.flag("key")) spec.key = std::move(*key);
  MS_TRY_ASSIGN(const auto key_for, invocation.duration("key-for"));
  if (key_for) spec.key_for = *key_for;
  if (invocation.has("input")) {
    MS_TRY_ASSIGN(spec.input, read_args(invocation.flag("input"), "--input"));
  }
  MS_TRY(check_definition(file, spec));
  MS_TRY(workflow_wait_limit(invocation));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, kWorkflowRetryFor));
  MS_TRY_ASSIGN(const WorkflowStarted started,
                connection->workflows().start_workflow(std::move(spec)));
  return print_started(invocation, io, *connection, started);
}

Result<int> run_workflow_fork(const Invocation& invocation, Io& io) {
  ForkWorkflow request;
  MS_TRY_ASSIGN(request.id, id_of(invocation));
  const auto from = invocation.flag("from");
  if (!from || from->empty()) return invalid("--from", "--from STEP must be given");
  request.step = *from;
  request.key = invocation.flag("key").value_or("");
  MS_TRY_ASSIGN(const auto key_for, invocation.duration("key-for"));
  if (key_for) request.key_for = *key_for;
  if (invocation.has("input")) {
    MS_TRY_ASSIGN(request.input, read_args(invocation.flag("input"), "--input"));
  }
  MS_TRY(workflow_wait_limit(invocation));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, kWorkflowRetryFor));
  MS_TRY_ASSIGN(const WorkflowStarted started,
                connection->workflows().fork_workflow(std::move(request)));
  return print_started(invocation, io, *connection, started);
}

Result<int> run_workflow_list(const Invocation& invocation, Io& io) {
  WorkflowFilter filter;
  filter.name = invocation.flag("name").value_or("");
  if (const auto state = invocation.flag("state")) filter.state = parse_workflow_state(*state);
  MS_TRY_ASSIGN(const auto given, invocation.number("limit", 1, INT64_MAX));
  const std::int64_t limit = invocation.has("all") ? INT64_MAX : given.value_or(kDefaultWorkflows);
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  const WallTime now = SystemClock().now().wall;
  Table table({{"ID", Align::right},
               {.title = "NAME", .keep = true},
               {"KEY"},
               {.title = "STATE", .whole = true},
               {.title = "STEPS", .whole = true},
               {.title = "STARTED", .whole = true, .drop = 3},
               {"TOOK", Align::right},
               {"ENDED", Align::right},
               {.title = "FORK OF", .drop = 1},
               {.title = "PARENT", .drop = 2},
               {.title = "REASON", .least = 20, .below = true}});
  std::int64_t left = limit;
  for (WorkflowId before = 0; left > 0;) {
    MS_TRY_ASSIGN(
        const WorkflowPage page,
        connection->workflows().workflows(
            filter, static_cast<int>(std::min<std::int64_t>(left, kWorkflowsPage)), before));
    for (const WorkflowInfo& info : page.workflows) {
      --left;
      if (invocation.json) {
        MS_TRY(print_changed(invocation, io, info));
        continue;
      }
      table.add({{fmt::to_string(info.id)},
                 {info.name},
                 {info.key},
                 {state_text(info), colour_of(info.state)},
                 {progress_of(info)},
                 {relative_to(info.started_at, now)},
                 {info.finished_at ? short_duration(*info.finished_at - info.started_at) : "-"},
                 {info.finished_at ? format_age(now - *info.finished_at) : "-"},
                 {info.forked_from ? fmt::to_string(info.forked_from->id) : ""},
                 {info.parent ? fmt::to_string(info.parent->workflow) : ""},
                 {info.reason}});
    }
    table.flush(io);
    if (!page.next) break;
    before = *page.next;
  }
  if (!invocation.json && table.empty()) io.out("no workflows\n");
  return kExitOk;
}

Result<int> run_workflow_show(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const WorkflowId id, id_of(invocation));
  const bool follow = invocation.has("follow");
  MS_TRY_ASSIGN(const auto connection,
                connect(invocation, follow ? kWorkflowRetryFor : Duration{0}));
  Workflows& workflows = connection->workflows();
  const auto draw = [&](const WorkflowInfo& info) -> Result<void> {
    MS_TRY_ASSIGN(auto steps, all_steps(workflows, id));
    if (invocation.json) {
      print_line(io, json_of_workflow(info, std::move(steps)));
      return {};
    }
    if (follow && io.out_is_terminal) io.out("\x1b[H\x1b[2J");
    io.out(text_of_workflow(info, steps, children_of(workflows, steps), io));
    return {};
  };
  if (!follow) {
    MS_TRY_ASSIGN(const WorkflowInfo info, workflows.get_workflow(id));
    MS_TRY(draw(info));
    return kExitOk;
  }
  const StopSignals signals;
  std::int64_t drawn = 0;  // the version
  for (;;) {
    MS_TRY_ASSIGN(const WorkflowInfo info,
                  workflows.wait_workflow(id, drawn == 0 ? Duration{0} : kRedraw, signals.stop()));
    const bool over = is_at_rest(info.state) || signals.stop().stop_requested();
    // Without a terminal, redraws would pile up: only the last one is printed.
    const bool wanted = invocation.json || io.out_is_terminal;
    if (over || (wanted && info.version != drawn)) MS_TRY(draw(info));
    if (over) return exit_of_workflow(info.state);
    drawn = info.version;
  }
}

Result<int> run_workflow_signal(const Invocation& invocation, Io& io) {
  SignalWorkflow request;
  MS_TRY_ASSIGN(request.id, id_of(invocation));
  request.name = *invocation.argument("NAME");
  request.signal_id = invocation.flag("id").value_or("");
  if (invocation.has("payload")) {
    MS_TRY_ASSIGN(request.payload, read_args(invocation.flag("payload"), "--payload"));
  }
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY(connection->workflows().signal_workflow(request));
  std::string line;
  if (invocation.json) {
    encode_workflow_signalled(request, line);
  } else {
    line = fmt::format("{} has the signal {}", request.id, request.name);
  }
  print_line(io, line);
  return kExitOk;
}

Result<int> run_workflow_cancel(const Invocation& invocation, Io& io) {
  const std::string reason = invocation.flag("reason").value_or("");
  return for_each_workflow(invocation, io, [&](Workflows& workflows, WorkflowId id) {
    return workflows.cancel_workflow({.id = id, .reason = reason});
  });
}

Result<int> run_workflow_pause(const Invocation& invocation, Io& io) {
  return for_each_workflow(invocation, io, [](Workflows& workflows, WorkflowId id) {
    return workflows.pause_workflow({.id = id, .paused = true});
  });
}

Result<int> run_workflow_resume(const Invocation& invocation, Io& io) {
  return for_each_workflow(invocation, io, [](Workflows& workflows, WorkflowId id) {
    return workflows.pause_workflow({.id = id, .paused = false});
  });
}

Result<int> run_workflow_retry(const Invocation& invocation, Io& io) {
  RetryWorkflow request;
  MS_TRY_ASSIGN(request.id, id_of(invocation));
  request.step = invocation.flag("step").value_or("");
  request.by_hand = invocation.has("by-hand");
  if (invocation.has("result")) {
    if (!request.by_hand || request.step.empty()) {
      return Error{ErrorCode::invalid_argument, "--result: needs --step and --by-hand", "--result"};
    }
    MS_TRY_ASSIGN(request.result, read_args(invocation.flag("result"), "--result"));
  }
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const WorkflowInfo info,
                connection->workflows().retry_workflow(std::move(request)));
  return print_changed(invocation, io, info);
}

namespace {

// A list of results grows with the list: the definition cannot tell whether it will fit.
void note_fan_ins(const WorkflowSpec& spec, Io& io) {
  for (const StepSpec& list : spec.steps) {
    if (!list.each.empty() && workflow::refers_to_all(spec.result, list.name)) {
      print_line(io, fmt::format("note: the result has all results of step {}, at most {} bytes "
                                 "together; a larger one is left out: use by_reference",
                                 list.name, kMaxResultBytes));
    }
    for (const StepSpec& step : spec.steps) {
      if (list.each.empty() || !workflow::refers_to_all(step, list.name)) continue;
      print_line(io, fmt::format("note: step {} gets all results of step {}, at most {} bytes "
                                 "together; larger ones park the workflow: use by_reference",
                                 step.name, list.name, kMaxArgsBytes));
    }
  }
}

}  // namespace

Result<int> run_workflow_check(const Invocation& invocation, Io& io) {
  for (const std::string& file : invocation.all_arguments("FILE")) {
    MS_TRY_ASSIGN(const WorkflowSpec spec, definition_of(file));
    MS_TRY(check_definition(file, spec));
    std::set<std::string> queues;
    std::int64_t steps = 0;
    (void)for_each_step(spec, [&](const std::string&, const StepSpec& step) -> Result<void> {
      ++steps;
      if (step.job) queues.insert(step.job->queue);
      if (step.undo) queues.insert(step.undo->queue);
      return {};
    });
    if (invocation.json) {
      std::string line;
      JsonWriter w(line);
      w.begin_object().key("name").string(spec.name).key("steps").number(steps);
      w.key("queues").begin_array();
      for (const std::string& queue : queues) w.string(queue);
      w.end_array().end_object();
      print_line(io, line);
      continue;
    }
    std::string names;
    for (const std::string& queue : queues) names += (names.empty() ? "" : ", ") + queue;
    print_line(io, fmt::format("{}: {}, {}{}", file, spec.name, counted(steps, "step"),
                               names.empty() ? "" : ", queues " + names));
    note_fan_ins(spec, io);
  }
  return kExitOk;
}

}  // namespace mainspring::cli
