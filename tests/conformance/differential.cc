// Runs the two stores, and searches for the shortest history on which they differ.
#include "conformance/differential.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "conformance/compare.h"
#include "conformance/describe.h"
#include "conformance/histories.h"
#include "conformance/model_store.h"
#include "env/clock.h"

namespace mainspring {
namespace {

using std::chrono::minutes;

constexpr int kOperationsPerSeed = 4'000;
constexpr int kMostForWindows = 4;  // times as many operations

std::int64_t number_from(const char* name, std::int64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoll(value, nullptr, 10);
}

StoreOptions small_store() {
  StoreOptions o;
  o.retention_completed = minutes(10);
  o.retention_dead = minutes(30);
  o.max_live_jobs = 150;
  o.audit_retention = minutes(20);
  return o;
}

class Pair {
 public:
  Pair(const Differential& how, std::uint64_t seed) : how_(how), place_(how.new_place(seed)) {
    open();
  }

  // The difference after this step; "" = none, or the history is over().
  std::string run(const Step& step) {
    std::string why = run_and_compare(step);
    over_ = !why.empty() && how_.skipped_numbers && how_.skipped_numbers();
    return over_ ? "" : why;
  }

  bool over() const { return over_; }
  const std::vector<OperationResult>& last() const { return last_; }
  const Store& model() const { return *model_; }
  Now now() const { return clock_.now(); }

 private:
  std::string run_and_compare(const Step& step) {
    clock_.advance(step.advance);
    clock_.step_wall(step.step_wall);
    clock_was_set_back_ = clock_was_set_back_ || step.step_wall < Duration(0);
    if (step.reopen) open();
    if (!real_) return "the store does not open";
    if (step.batch.empty()) return step.look ? look() : "";  // all its operations were left out
    for (const Operation& operation : step.batch) {
      const auto* limits = std::get_if<SetQueueLimits>(&operation);
      paths_declared_ =
          paths_declared_ || (limits != nullptr && !limits->limits.searchable.empty());
    }
    const auto mine = model_->apply(step.batch, clock_.now());
    const auto real = real_->apply(step.batch, clock_.now());
    if (!real) return "apply failed: " + real.error().message;
    last_ = mine->results;
    if (std::string why = answers_differ(step.batch, last_, real->results); !why.empty())
      return why;
    if (std::string why = compare_effects(mine->effects, real->effects); !why.empty()) return why;
    if (std::string why = compare_agendas(); !why.empty()) return why;
    return step.look ? look() : "";
  }

  void open() {
    model_ = open_model_store(model_disk_, small_store(), clock_.now());
    real_.reset();
    real_ = place_(small_store(), clock_.now());
  }

  std::string compare_agendas() const {
    const Agenda real = real_->agenda();
    Agenda mine = model_->agenda();
    // The model has no index that needs steps.
    if (paths_declared_) mine.next_prune = std::min(mine.next_prune, real.next_prune);
    if (how_.early_agenda) {  // an earlier one counts as equal
      mine.next_due = std::min(mine.next_due, real.next_due);
      mine.next_opening = std::min(mine.next_opening, real.next_opening);
      // Claims and openings report when keys open. A key that the clock closed is not reported.
      if (clock_was_set_back_) mine.next_opening = real.next_opening;
      // How long an opening has been due does not matter.
      const WallTime now = clock_.now().wall;
      if (mine.next_opening <= now && real.next_opening <= now)
        mine.next_opening = real.next_opening;
      mine.next_lease_expiry = std::min(mine.next_lease_expiry, real.next_lease_expiry);
    }
    return agenda_differs(mine, real);
  }

  bool has_key_rate(const std::string& line) const {
    const auto all = model_->queues();
    return std::any_of(all->begin(), all->end(), [&](const QueueStats& q) {
      return q.name == base_queue_of(line) && q.limits.per_key.rate;
    });
  }
  bool has_key_limits(const std::string& queue) const {
    const auto all = model_->queues();
    return std::any_of(all->begin(), all->end(), [&](const QueueStats& q) {
      return q.name == queue && q.limits.per_key.any();
    });
  }

  // A job that entered and left quarantine within the batch may be reported, but need not be.
  static std::string compare_quarantine(const Effects& mine, const Effects& real) {
    std::set<JobId> came(real.quarantined.begin(), real.quarantined.end()), left;
    for (const JobId id : real.quarantine_left) {
      if (came.erase(id) == 0) left.insert(id);
    }
    if (came != std::set<JobId>(mine.quarantined.begin(), mine.quarantined.end()))
      return "effects.quarantined differs";
    const std::set<JobId> gone(mine.quarantine_left.begin(), mine.quarantine_left.end());
    return left == gone ? "" : "effects.quarantine_left differs";
  }

  bool has_costs(const std::string& line) const {
    const auto all = model_->queues();
    return std::any_of(all->begin(), all->end(), [&](const QueueStats& q) {
      return q.name == base_queue_of(line) && !q.limits.costs.empty();
    });
  }

  std::string compare_effects(const Effects& mine, const Effects& real) const {
    for (const std::string& queue : mine.available) {
      // A key that the clock has closed again opens for the next claim that looks.
      if (clock_was_set_back_ && how_.early_agenda && has_key_rate(queue)) continue;
      // A later claim of the batch has seen that the next job does not fit.
      if (how_.eager_lines && has_costs(queue)) continue;
      if (std::find(real.available.begin(), real.available.end(), queue) == real.available.end() &&
          !only_expiring(*model_, queue))
        return "effects.available lacks " + queue;
    }
    for (const std::string& queue : real.available) {
      const bool eager =
          how_.eager_lines && (parse_accept_queue(queue) || parse_session_queue(queue) ||
                               has_key_limits(queue) || has_costs(queue));
      if (!model_->has_available(queue) && !eager) return "effects.available has " + queue;
    }
    const auto as_set = [](const std::vector<JobId>& v) {
      return std::set<JobId>(v.begin(), v.end());
    };
    if (as_set(mine.ended) != as_set(real.ended)) return "effects.ended differs";
    if (std::string why = compare_quarantine(mine, real); !why.empty()) return why;
    const std::set<std::string> freed(mine.released.begin(), mine.released.end());
    if (freed != std::set<std::string>(real.released.begin(), real.released.end()))
      return "effects.released differs";
    return "";
  }

  std::string look() {
    if (std::string why = differs(*model_, *real_); !why.empty()) return why;
    if (std::string why = breakers_differ(*model_, *real_, clock_.now().wall); !why.empty())
      return why;
    if (std::string why = compare_lists(); !why.empty()) return why;
    const auto verified = real_->verify();
    if (!verified) return "verify: " + verified.error().message;
    if (!verified->problems.empty()) return "verify: " + verified->problems[0];
    return "";
  }

  std::string compare_lists() const {
    const Within within_b{std::make_shared<const Scopes>(*Scopes::parse("read=b")), Verb::read};
    const std::vector<JobFilter> filters = {
        {},
        {.queue = "a"},
        {.kind = "k1"},
        {.tag = "t1"},
        {.state = JobState::dead},
        {.state = JobState::running},
        {.queue = "b", .state = JobState::available},
        {.within = within_b},
        {.state = JobState::running, .within = within_b},
        {.quarantined = true},
        {.queue = "a", .state = JobState::retryable, .quarantined = true},
        {.state = JobState::running, .quarantined = true},
        {.within = within_b, .quarantined = true},
        {.state = JobState::dead, .within = within_b},
        {.queue = "a", .kind = "k0", .tag = "t0", .state = JobState::completed}};
    for (const JobFilter& filter : filters) {
      const auto collect = [&](const Store& store) {
        std::vector<std::string> lines;
        JobId before = 0;
        for (int page = 0; page < 1000; ++page) {
          const auto got = store.list(filter, 7, before);
          if (!got) return std::vector<std::string>{got.error().message};
          for (const Job& j : got->jobs) lines.push_back(describe(j));
          if (!got->next) return lines;
          before = *got->next;
        }
        return std::vector<std::string>{"list does not end"};
      };
      if (collect(*model_) != collect(*real_)) return "list differs";
    }
    for (const JobId id : {JobId(0), JobId(1), JobId(2), JobId(1'000'000)}) {
      const auto a = model_->get(id);
      const auto b = real_->get(id);
      if (a.has_value() != b.has_value() || (!a && a.error().code != b.error().code))
        return fmt::format("get({}) differs", id);
    }
    return "";
  }

  const Differential& how_;
  bool clock_was_set_back_ = false, over_ = false, paths_declared_ = false;
  Differential::Place place_;
  ManualClock clock_;
  std::shared_ptr<ModelDisk> model_disk_ = make_model_disk();
  std::unique_ptr<Store> model_;
  std::unique_ptr<Store> real_;
  std::vector<OperationResult> last_;
};

std::string replay(const Differential& how, const std::vector<Step>& steps, std::uint64_t seed,
                   std::size_t* at = nullptr) {
  Pair pair(how, seed);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::string why = pair.run(steps[i]);
    if (!why.empty()) {
      if (at != nullptr) *at = i;
      return why;
    }
    if (pair.over()) return "";
  }
  return "";
}

// Leaves out all steps that a mismatch does not need: halves, quarters, … single steps.
std::vector<Step> shrink(const Differential& how, std::vector<Step> steps, std::uint64_t seed) {
  int runs = 0;
  for (std::size_t chunk = steps.size() / 2; chunk > 0; chunk /= 2) {
    for (std::size_t at = 0; at + 1 < steps.size() && runs < how.max_shrink_runs;) {
      std::vector<Step> less(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(at));
      const std::size_t end = std::min(at + chunk, steps.size() - 1);
      less.insert(less.end(), steps.begin() + static_cast<std::ptrdiff_t>(end), steps.end());
      ++runs;
      std::size_t failed = 0;
      if (!replay(how, less, seed, &failed).empty()) {
        less.resize(failed + 1);
        steps = std::move(less);
      } else {
        at += chunk;
      }
    }
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (std::size_t op = 0; op < steps[i].batch.size() && runs < how.max_shrink_runs;) {
      std::vector<Step> less = steps;
      less[i].batch.erase(less[i].batch.begin() + static_cast<std::ptrdiff_t>(op));
      ++runs;
      if (replay(how, less, seed).empty()) {
        ++op;
      } else {
        steps = std::move(less);
      }
    }
  }
  return steps;
}

std::string report(const Differential& how, const std::vector<Step>& steps, std::uint64_t seed) {
  constexpr std::size_t kLastSteps = 40;
  std::string out = fmt::format("seed {}: {}\nshortest history ({} batches):\n", seed,
                                replay(how, steps, seed), steps.size());
  for (std::size_t i = steps.size() > kLastSteps ? steps.size() - kLastSteps : 0; i < steps.size();
       ++i) {
    out += fmt::format("-- +{}us wall {:+}us{}\n", steps[i].advance.count(),
                       steps[i].step_wall.count(), steps[i].reopen ? " reopen" : "");
    for (const Operation& op : steps[i].batch) out += "   " + describe(op) + "\n";
  }
  return out;
}

void count(const std::vector<Operation>& batch, const std::vector<OperationResult>& results,
           const Store& model, Compared& compared) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto* enqueued = std::get_if<EnqueueResult>(&results[i]);
    if (enqueued != nullptr && !enqueued->replayed) {
      compared.windows += std::count_if(
          enqueued->jobs.begin(), enqueued->jobs.end(),
          [&](const EnqueuedJob& job) { return job.duplicate && !model.get(job.id).has_value(); });
    }
    const auto* started = std::get_if<WorkflowStarted>(&results[i]);
    if (started == nullptr || started->duplicate) continue;
    ++(std::holds_alternative<ForkWorkflow>(batch[i]) ? compared.forks : compared.workflows);
  }
}

// "" or the report of the first mismatch of this seed.
std::string run_seed(const Differential& how, std::uint64_t seed, int operations,
                     Compared& compared) {
  Generator generator(seed, true, how.keeps_fair_keys);
  Pair pair(how, seed);
  std::vector<Step> steps;
  for (int done = 0; done < operations;) {
    steps.push_back(generator.next(pair.now(), pair.model()));
    done += static_cast<int>(steps.back().batch.size());
    if (const std::string why = pair.run(steps.back()); !why.empty()) {
      fmt::print(stderr, "seed {}: {}\nlooking for a shorter history\n", seed, why);
      return report(how, shrink(how, steps, seed), seed);
    }
    if (pair.over()) {
      ++compared.cut_short;
      return "";
    }
    generator.learn(steps.back().batch, pair.last());
    count(steps.back().batch, pair.last(), pair.model(), compared);
  }
  return "";
}

}  // namespace

Compared compare_with_model(const Differential& how, std::int64_t operations) {
  const std::int64_t wanted = number_from("MS_DIFF_OPERATIONS", operations);
  auto seed = static_cast<std::uint64_t>(number_from("MS_DIFF_SEED", 1));
  Compared compared;
  // A duplicate of a pruned job is rare: more seeds are tried until one occurs.
  const auto enough = [&] {
    return compared.operations >= (compared.windows > 0 ? wanted : kMostForWindows * wanted);
  };
  for (; !enough(); ++seed, compared.operations += kOperationsPerSeed) {
    compared.mismatch = run_seed(how, seed, kOperationsPerSeed, compared);
    if (!compared.mismatch.empty()) return compared;
  }
  return compared;
}

}  // namespace mainspring
