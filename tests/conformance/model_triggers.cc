// The rows of the model store's triggers.
#include "conformance/model_triggers.h"

#include <algorithm>

#include "workflow/references.h"

namespace mainspring {

std::optional<TriggerRecord> ModelTriggers::load(const std::string& name) {
  const auto found = disk_.triggers.find(name);
  if (found == disk_.triggers.end()) return std::nullopt;
  return found->second;
}

bool ModelTriggers::insert(const TriggerRecord& record) {
  save(record);
  return true;
}

void ModelTriggers::save(const TriggerRecord& record) {
  wrote_ = true;
  disk_.triggers[record.name] = record;
}

void ModelTriggers::save_state(const std::string& name, const std::string& state) {
  wrote_ = true;
  disk_.triggers.at(name).state = state;
}

void ModelTriggers::remove(const std::string& name) {
  wrote_ = true;
  disk_.triggers.erase(name);
  disk_.trigger_events.erase(name);
}

std::optional<TriggerEvent> ModelTriggers::find_event(const std::string& name,
                                                      const std::string& event) {
  for (const TriggerEvent& row : disk_.trigger_events[name]) {
    if (row.event == event) return row;
  }
  return std::nullopt;
}

void ModelTriggers::add_event(const std::string& name, const TriggerEvent& event) {
  disk_.trigger_events[name].push_back(event);
}

std::optional<WallTime> ModelTriggers::forget(const std::string& name, std::int64_t seq) {
  std::optional<WallTime> latest;
  std::erase_if(disk_.trigger_events[name], [&](const TriggerEvent& row) {
    if (row.seq > seq) return false;
    if (row.made_at) latest = std::max(latest.value_or(*row.made_at), *row.made_at);
    return true;
  });
  return latest;
}

std::vector<EnqueuedJob> ModelTriggers::make(const std::vector<NewJob>& jobs) {
  std::vector<EnqueuedJob> made;
  for (const NewJob& job : jobs) made.push_back(make_.add(job));
  return made;
}

Result<std::string> ModelTriggers::resolve(std::string_view json, const Names& names) {
  return workflow::resolve(json, names, workflow::Missing::refuse, kMaxArgsBytes);
}

std::vector<TriggerWatch> ModelTriggers::watches() const {
  std::vector<TriggerWatch> all;
  for (const auto& [name, record] : disk_.triggers) {
    if (auto watch = watch_of(record)) all.push_back(std::move(*watch));
  }
  return all;
}

void ModelTriggers::note_end(const EndedJob& ended) {
  for (const TriggerWatch& watch : watches()) {
    if (fires(watch.source, ended.queue, ended.kind, ended.state)) return ends_.push_back(ended);
  }
}

void ModelTriggers::fire_ends(Now now) {
  (void)TriggerRules(*this, now.wall).run(watches(), std::exchange(ends_, {}));
}

Result<TriggerInfo> ModelTriggers::read(const std::string& name) const {
  const auto found = disk_.triggers.find(name);
  if (found == disk_.triggers.end()) return no_trigger(name);
  return read_trigger(found->second);
}

Result<std::vector<TriggerInfo>> ModelTriggers::list(const std::string& after, int limit) const {
  std::vector<TriggerInfo> out;
  for (auto it = disk_.triggers.upper_bound(after);
       it != disk_.triggers.end() && std::ssize(out) < limit; ++it) {
    MS_TRY_ASSIGN(TriggerInfo info, read_trigger(it->second));
    out.push_back(std::move(info));
  }
  return out;
}

Result<TriggerEventPage> ModelTriggers::events(const std::string& name, int limit,
                                               std::int64_t before) const {
  if (!disk_.triggers.contains(name)) return no_trigger(name);
  TriggerEventPage page;
  const auto found = disk_.trigger_events.find(name);
  if (found == disk_.trigger_events.end()) return page;
  for (auto row = found->second.rbegin(); row != found->second.rend(); ++row) {
    if (before != 0 && row->seq >= before) continue;
    if (std::ssize(page.rows) == limit) {
      page.next = page.rows.back().seq;
      break;
    }
    page.rows.push_back(*row);
  }
  return page;
}

}  // namespace mainspring
