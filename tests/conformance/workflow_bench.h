// WorkflowBench: a Bench with short names for workflows and the jobs of their steps.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "api/workflow_shapes.h"
#include "conformance/bench.h"

namespace mainspring::conformance {

class WorkflowBench : public Bench {
 public:
  using Bench::Bench;

  // A step with a job of the kind `name` in queue "q"; `more` has further members, with a comma.
  static std::string step(const std::string& name, const std::string& more = "") {
    return R"({"name":")" + name + R"(","job":{"queue":"q","kind":")" + name +
           R"(","max_attempts":1})" + more + "}";
  }
  static std::string after(const std::string& names) { return R"(,"after":[)" + names + "]"; }
  static std::string undo(const std::string& name) {
    return R"(,"undo":{"queue":"q","kind":"undo-)" + name + R"(","max_attempts":1})";
  }
  static WorkflowSpec spec(const std::string& steps, const std::string& more = "") {
    auto read = decode_workflow(R"({"name":"w")" + more + R"(,"steps":[)" + steps + "]}");
    if (!read) FAIL(read.error().field << ": " << read.error().message);
    const auto valid = validate(*read);
    if (!valid) FAIL(valid.error().field << ": " << valid.error().message);
    return *read;
  }
  WorkflowId start(const std::string& steps, const std::string& more = "") {
    return one<WorkflowStarted>(StartWorkflow{spec(steps, more)}).id;
  }

  // -- reads ----------------------------------------------------------------------------------
  WorkflowInfo info(WorkflowId id) const {
    auto found = store->workflow(id);
    if (!found) FAIL("workflow " << id << ": " << found.error().message);
    return *found;
  }
  WorkflowState state_of(WorkflowId id) const { return info(id).state; }
  std::vector<WorkflowStep> steps(WorkflowId id) const {
    auto page = store->workflow_steps(id, 0, 100'000);
    if (!page) FAIL("steps of " << id << ": " << page.error().message);
    CHECK_FALSE(page->next.has_value());
    return page->steps;
  }
  WorkflowStep step_of(WorkflowId id, const std::string& name) const {
    for (const WorkflowStep& one : steps(id)) {
      if (one.name == name) return one;
    }
    FAIL("no step " << name);
    return {};
  }
  // "a:completed b:running"
  std::string states(WorkflowId id) const {
    std::string out;
    for (const WorkflowStep& one : steps(id)) {
      if (!out.empty()) out += ' ';
      out += one.name + ":" + std::string(to_string(one.state));
    }
    return out;
  }

  // -- the jobs of steps ----------------------------------------------------------------------
  // The kinds of all jobs that can be claimed, in order; they are claimed.
  std::string started() {
    std::string out;
    for (const ClaimedJob& job : claim(1000)) {
      if (!out.empty()) out += ' ';
      out += job.kind;
      running[job.kind] = job;
    }
    return out;
  }
  ClaimedJob& of(const std::string& kind) {
    if (!running.contains(kind)) started();
    if (!running.contains(kind)) FAIL("no job of kind " << kind << " runs");
    return running[kind];
  }
  void end(const std::string& kind, Outcome outcome) {
    CHECK(finish(of(kind), std::move(outcome)) == FinishStatus::ok);
    running.erase(kind);
  }
  void done(const std::string& kind, std::string result = "") {
    end(kind, Complete{std::move(result)});
  }
  void die(const std::string& kind) { end(kind, Dead{"broken", "it is broken"}); }
  int wake() { return one<StepResult>(WakeWorkflows{}).changed; }

  std::map<std::string, ClaimedJob> running;
};

}  // namespace mainspring::conformance
