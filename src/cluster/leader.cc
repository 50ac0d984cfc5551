// Keeps the view of the leader, its log lines and its metrics.
#include "cluster/leader.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace mainspring {
namespace {

Counter& forwarded(Registry& registry, const char* outcome) {
  return registry.counter("mainspring_forwarded_requests_total",
                          "Requests that this node relayed to the leader, by outcome.",
                          {{"outcome", outcome}});
}

}  // namespace

struct Leadership::Watchers {
  Mutex mutex;
  std::int64_t next MS_GUARDED_BY(mutex) = 0;
  std::map<std::int64_t, std::function<void()>> all MS_GUARDED_BY(mutex);
};

Leadership::Leadership(Log& log, Registry& registry)
    : answered(forwarded(registry, "answered")),
      refused(forwarded(registry, "refused")),
      lost(forwarded(registry, "lost")),
      log_(log),
      takeovers_(registry.counter("mainspring_takeovers_total",
                                  "Changes of the leader since the start of this node.")),
      view_(std::make_shared<LeaderView>()),
      watchers_(std::make_shared<Watchers>()) {
  registry.gauge("mainspring_leader", "1 on the node that leads the cluster, 0 on the others.",
                 [this] { return view()->is_me ? 1.0 : 0.0; });
}

std::shared_ptr<const LeaderView> Leadership::view() const {
  const MutexLock lock(mutex_);
  return view_;
}

void Leadership::set(LeaderView view) {
  auto next = std::make_shared<const LeaderView>(std::move(view));
  {
    const MutexLock lock(mutex_);
    if (next->term < view_->term) return;
    const bool takes_over =
        next->node != 0 && (next->node != view_->node || next->term != view_->term);
    view_ = next;
    problem_.clear();
    if (takes_over && std::exchange(had_leader_, true)) takeovers_.add();
  }
  if (next->node == 0) {
    log_.warn("the cluster has no leader", {{"why", next->why}});
  } else {
    log_.info(next->is_me ? "this node leads the cluster" : "another node leads the cluster",
              {{"node", fmt::to_string(next->node)},
               {"term", fmt::to_string(next->term)},
               {"address", next->address},
               {"why", next->why}});
  }
  // Under the lock, so that no watcher is called after its handle is destroyed.
  const MutexLock lock(watchers_->mutex);
  for (const auto& [id, changed] : watchers_->all) changed();
}

std::shared_ptr<void> Leadership::watch(std::function<void()> changed) {
  const MutexLock lock(watchers_->mutex);
  const std::int64_t id = watchers_->next++;
  watchers_->all.emplace(id, std::move(changed));
  return {this, [watchers = watchers_, id](void*) {
            const MutexLock ending(watchers->mutex);
            watchers->all.erase(id);
          }};
}

void Leadership::note_reach(std::string problem) {
  {
    const MutexLock lock(mutex_);
    if (problem_ == problem) return;
    problem_ = problem;
  }
  problem.empty() ? log_.info("the leader answers")
                  : log_.warn("the leader does not answer", {{"problem", problem}});
}

std::optional<std::string> Leadership::not_ready() const {
  const MutexLock lock(mutex_);
  if (view_->is_me) return std::nullopt;
  if (view_->node == 0) {
    return view_->why.empty() ? "the cluster has no leader"
                              : "the cluster has no leader: " + view_->why;
  }
  if (problem_.empty()) return std::nullopt;
  return fmt::format("the leader, node {} at {}, does not answer: {}", view_->node, view_->address,
                     problem_);
}

std::string Leadership::describe() const {
  const auto now = view();
  if (now->node == 0) return "no node leads the cluster";
  return fmt::format("node {} at {} leads since {} (term {}: {})", now->node, now->address,
                     format_wall_time(now->since), now->term, now->why);
}

}  // namespace mainspring
