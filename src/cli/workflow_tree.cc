// A forest of steps, drawn depth first without recursion: a chain may have 10,000 steps.
#include "cli/workflow_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "cli/support.h"

namespace mainspring::cli {
namespace {

constexpr std::size_t kMaxIndent = 20;  // deeper steps of a chain are not indented further

struct Mark {
  std::string_view text;
  Colour colour;
};
constexpr std::array<Mark, kStepStateCount> kMarks = {{{"·", Colour::dim},
                                                       {"▸", Colour::yellow},
                                                       {"✓", Colour::green},
                                                       {"✗", Colour::red},
                                                       {"–", Colour::dim},
                                                       {"↶", Colour::yellow},
                                                       {"↺", Colour::blue},
                                                       {"!", Colour::red}}};

struct Drawn {
  const WorkflowStep* step = nullptr;
  std::vector<std::size_t> below;  // steps that are drawn below it
  bool below_another = false;
  std::array<int, kStepStateCount> jobs{};  // of `each`, by state
  bool of_workflows = false;                // `each` created workflows instead of jobs
  std::vector<const WorkflowStep*> failed;  // the first failed ones
};

std::vector<Drawn> arrange(const std::vector<WorkflowStep>& steps) {
  std::vector<Drawn> out;
  std::map<std::string_view, std::size_t> by_name;
  std::map<int, std::size_t> by_number;
  for (const WorkflowStep& step : steps) {
    if (step.of != 0) continue;
    by_name.emplace(step.name, out.size());
    by_number.emplace(step.number, out.size());
    out.push_back({.step = &step});
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::size_t last = out.size();  // none
    for (const std::string& name : out[i].step->after) {
      const auto found = by_name.find(name);
      if (found != by_name.end() && (last == out.size() || found->second > last))
        last = found->second;
    }
    if (last == out.size()) continue;
    out[last].below.push_back(i);
    out[i].below_another = true;
  }
  for (const WorkflowStep& step : steps) {
    const auto found = by_number.find(step.of);
    if (step.of == 0 || found == by_number.end()) continue;
    Drawn& each = out[found->second];
    ++each.jobs[static_cast<std::size_t>(step.state)];
    each.of_workflows = each.of_workflows || step.workflow != 0;
    const bool failed = step.state == StepState::failed || step.state == StepState::undo_failed;
    if (failed && each.failed.size() < kMaxNamedJobs) each.failed.push_back(&step);
  }
  return out;
}

std::string counts_of(const Drawn& drawn) {
  std::string out;
  int all = 0;
  for (std::size_t i = 0; i < drawn.jobs.size(); ++i) {
    if (drawn.jobs[i] == 0) continue;
    all += drawn.jobs[i];
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", format_count(drawn.jobs[i]),
                       to_string(static_cast<StepState>(i)));
  }
  if (all == 0) return "";
  return fmt::format("  {}: {}", counted(all, drawn.of_workflows ? "workflow" : "job"), out);
}

// "running on w1, attempt 2 of 5, 14m left"
std::string job_of_step(const WorkflowStep& step, WallTime now) {
  std::string out;
  const auto add = [&out](const std::string& what) { out += (out.empty() ? "  " : ", ") + what; };
  if (step.job_state) {
    const std::string on = step.worker.empty() ? "" : " on " + printable(step.worker);
    add(std::string(to_string(*step.job_state)) + on);
    if (step.attempt > 0) add(fmt::format("attempt {} of {}", step.attempt, step.max_attempts));
  }
  if (step.complete_by) {
    const Duration left = *step.complete_by - now;
    add(left < std::chrono::seconds(1) ? "late" : format_left(left) + " left");
  }
  return out;
}

// `child`: the progress of its workflow.
std::string line_of_step(const WorkflowStep& step, std::size_t depth, const std::string& more,
                         WallTime now, const Io& io, const std::string& child = "") {
  const auto& [mark, colour] = kMarks[static_cast<std::size_t>(step.state)];
  std::string out = std::string(2 * std::min(depth, kMaxIndent), ' ') +
                    fmt::format("{} {}  {}", coloured(io, mark, colour), printable(step.name),
                                coloured(io, to_string(step.state), colour));
  if (step.taken_over) out += " (taken over)";
  if (step.job != 0) out += fmt::format("  job {}", step.job);
  if (step.undo_job != 0) out += fmt::format("  undo job {}", step.undo_job);
  if (step.workflow != 0) out += fmt::format("  workflow {}{}", step.workflow, child);
  out += job_of_step(step, now);
  if (step.started_at) {
    out += "  " + (step.ended_at ? short_duration(*step.ended_at - *step.started_at)
                                 : format_age(std::max(Duration(0), now - *step.started_at)));
  }
  if (step.after.size() > 1) {
    std::string names;
    for (const std::string& name : step.after) names += (names.empty() ? "" : ", ") + name;
    out += "  after " + printable(names);
  }
  out += more;
  if (!step.reason.empty()) out += "  " + printable(step.reason);
  return out + "\n";
}

// Draws steps, and below each workflow step the steps of its workflow.
class Tree {
 public:
  Tree(WallTime now, const Io& io, const ShownChildren& children)
      : now_(now), io_(io), children_(children) {}

  // NOLINTNEXTLINE(misc-no-recursion): kMaxWorkflowDepth bounds it
  void draw(const std::vector<WorkflowStep>& steps, std::size_t indent) {
    const std::vector<Drawn> all = arrange(steps);
    struct Next {
      std::size_t step, depth;
    };
    std::vector<Next> next;
    for (std::size_t i = all.size(); i-- > 0;) {
      if (!all[i].below_another) next.push_back({i, indent});
    }
    for (std::size_t drawn = 0; !next.empty(); ++drawn, ++lines_) {
      if (lines_ >= kMaxTreeLines) {
        out_ += fmt::format("… and {} more; --json shows all\n",
                            counted(static_cast<std::int64_t>(all.size() - drawn), "step"));
        return;
      }
      const auto [at, depth] = next.back();
      next.pop_back();
      draw_step(all[at], depth);
      for (std::size_t i = all[at].below.size(); i-- > 0;)
        next.push_back({all[at].below[i], depth + 1});
    }
  }
  std::string take() { return std::move(out_); }

 private:
  // NOLINTNEXTLINE(misc-no-recursion): kMaxWorkflowDepth bounds it
  void draw_step(const Drawn& drawn, std::size_t depth) {
    const auto child = children_.find(drawn.step->workflow);
    const bool known = drawn.step->workflow != 0 && child != children_.end();
    const std::string of = known ? ": " + progress_of(child->second.info) : "";
    out_ += line_of_step(*drawn.step, depth, counts_of(drawn), now_, io_, of);
    for (const WorkflowStep* failed : drawn.failed)
      out_ += line_of_step(*failed, depth + 2, "", now_, io_);
    if (known) draw(child->second.steps, depth + 2);
  }

  const WallTime now_;
  const Io& io_;
  const ShownChildren& children_;
  std::size_t lines_ = 0;
  std::string out_;
};

}  // namespace

std::string workflow_tree(const std::vector<WorkflowStep>& steps, WallTime now, const Io& io,
                          const ShownChildren& children) {
  Tree tree(now, io, children);
  tree.draw(steps, 0);
  return tree.take();
}

std::string progress_of(const WorkflowInfo& info) {
  std::string out = fmt::format("{} of {}", format_count(info.completed + info.skipped),
                                format_count(info.steps));
  if (info.failed > 0) out += fmt::format(", {} failed", format_count(info.failed));
  if (info.undone > 0) out += fmt::format(", {} undone", format_count(info.undone));
  if (info.undo_failed > 0) out += fmt::format(", {} not undone", format_count(info.undo_failed));
  return out;
}

Colour colour_of(WorkflowState state) {
  switch (state) {
    case WorkflowState::completed:
      return Colour::green;
    case WorkflowState::parked:
    case WorkflowState::failed:
      return Colour::red;
    case WorkflowState::running:
    case WorkflowState::undoing:
      return Colour::yellow;
    default:
      return Colour::blue;
  }
}

}  // namespace mainspring::cli
