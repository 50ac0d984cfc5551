// Start positions of listeners in the ring, and the events of other nodes.
#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "broker/events.h"

namespace mainspring {
namespace {

// Processes that are remembered, also of nodes that have gone: twice the peers of a notifier.
constexpr std::size_t kMaxSources = EventMarks::kMaxMarks;

}  // namespace

// -- start positions ----------------------------------------------------------------------------

Events::Place Events::newest_place() const {
  MutexLock lock(mutex_);
  Place place{.position = next_ - 1, .marks = {}, .gap = {}};
  // A process that is over has no further events, and later processes do not know it.
  for (const Source& source : sources_) {
    if (!source.over) place.marks.set(name_of(source), source.newest);
  }
  return place;
}

Events::Place Events::place_after(const EventMarks& marks) const {
  MutexLock lock(mutex_);
  Place place{.position = next_ - 1 - ring_.size(), .marks = {}, .gap = {}};
  std::size_t known = 0;
  for (const Source& source : sources_) {
    std::uint64_t has = marks.of(name_of(source));
    if (marks.has(name_of(source))) {
      ++known;
    } else if (source.over && !MS_MUTANT(event_of_process_gone_reported_again)) {
      has = source.newest;  // the id is from a node that had not listed this process
    }
    const bool own = source.process == nullptr;
    // Another node may have been ahead of this one. For this process's own events that is a gap.
    if (own && has > source.newest) place.gap = "forgotten";
    if (has < source.oldest && !MS_MUTANT(event_gap_not_reported)) {
      place.gap = "forgotten";
      place.missed += source.oldest - has;
    }
    place.marks.set(name_of(source), own ? std::clamp(has, source.oldest, source.newest)
                                         : std::max(has, source.oldest));
  }
  if (known < marks.all().size()) {
    place.gap = "restart";
    place.missed = 0;  // not known
  }
  for (const EventPtr& event : ring_) {
    const std::string& process = event->process == nullptr ? process_ : *event->process;
    if (event->number > place.marks.of(process)) break;
    place.position = event->position;
  }
  return place;
}

void Events::drop_unknown(EventMarks& marks) const {
  MutexLock lock(mutex_);
  EventMarks left;
  for (const Source& source : sources_) {
    const std::uint64_t has = marks.of(name_of(source));
    if (source.over && has >= source.newest) continue;
    if (marks.has(name_of(source))) left.set(name_of(source), has);
  }
  marks = std::move(left);
}

// -- for other nodes ----------------------------------------------------------------------------

void Events::on_listener(std::function<void()> callback) {
  MutexLock lock(mutex_);
  on_listener_ = std::move(callback);
}

void Events::join(std::int64_t node) {
  process_ += fmt::format("n{}", node);
}

std::shared_ptr<void> Events::listen_for_others() {
  MutexLock lock(mutex_);
  ++relays_;
  on_.store(true, std::memory_order_release);
  return {this, [](Events* self) {
            MutexLock gone(self->mutex_);
            --self->relays_;
          }};
}

Events::Own Events::newest_own() const {
  MutexLock lock(mutex_);
  const std::uint64_t newest = sources_.front().newest;
  return {.position = next_ - 1, .from = newest, .to = newest, .events = {}};
}

Events::Own Events::read_own(const Own& after, std::size_t limit) {
  MutexLock lock(mutex_);
  const std::uint64_t first = next_ - ring_.size();
  Own own{.position = after.position, .from = after.to, .to = after.to, .events = {}};
  if (after.position + 1 < first) {
    // It has left the ring: the other side sees that numbers are missing.
    own.position = first - 1;
    own.from = own.to = std::max(after.to, sources_.front().oldest);
  }
  for (std::uint64_t at = own.position + 1; at < next_ && own.events.size() < limit; ++at) {
    const EventPtr& event = *find(at);
    own.position = at;
    if (event->process != nullptr) continue;
    own.to = event->number;
    if (!event->local || MS_MUTANT(event_local_forwarded)) own.events.push_back(event);
  }
  return own;
}

Events::Source* Events::find_source(std::string_view process) {
  const auto found = std::find_if(sources_.begin(), sources_.end(),
                                  [&](const Source& source) { return name_of(source) == process; });
  return found == sources_.end() ? nullptr : &*found;
}

void Events::push_gap(Now now) {
  if (MS_MUTANT(event_gap_of_node_not_reported)) return;
  push({.type = EventType::gap, .at = now.wall, .reason = "node", .local = true});
}

Events::Source& Events::source_of(std::int64_t node, const Said& said, Now now) {
  if (Source* const known = find_source(said.process)) return *known;
  // The node's previous process: its unsent events are lost.
  for (std::size_t i = 1; i < sources_.size(); ++i) {
    if (sources_[i].node != node || std::exchange(sources_[i].over, true)) continue;
    push_gap(now);
  }
  if (sources_.size() >= kMaxSources) {
    const auto over = std::find_if(sources_.begin() + 1, sources_.end(),
                                   [](const Source& source) { return source.over; });
    sources_.erase(over != sources_.end() ? over : sources_.begin() + 1);
  }
  sources_.push_back({.process = std::make_shared<const std::string>(said.process),
                      .node = node,
                      .oldest = said.from,
                      .newest = said.from});
  push({.at = now.wall, .process = sources_.back().process, .number = said.from, .mark = true});
  return sources_.back();
}

void Events::take_said(std::int64_t node, Said said, Now now) {
  MutexLock lock(mutex_);
  if (!on_.load(std::memory_order_acquire) || said.process == process_) return;
  Source& source = source_of(node, said, now);
  // `source` stays valid: a gap is an event of this process.
  if (said.from > source.newest) {
    source.oldest = source.newest = said.from;
    push_gap(now);
  }
  for (Event& event : said.events) {
    if (event.number <= source.newest && !MS_MUTANT(event_of_node_twice)) continue;
    source.newest = event.number;
    event.process = source.process;
    push(std::move(event));
  }
  source.newest = std::max(source.newest, said.to);
  source.over = said.last;  // a process that was thought gone is back if it sends events
}

void Events::forget_node(std::int64_t node, Now now) {
  MutexLock lock(mutex_);
  if (!on_.load(std::memory_order_acquire)) return;
  for (std::size_t i = 1; i < sources_.size(); ++i) {
    if (sources_[i].node == node && !std::exchange(sources_[i].over, true)) push_gap(now);
  }
}

}  // namespace mainspring
