// The broker's calls about breakers, and its log lines when they open and close.
#include <fmt/format.h>

#include <algorithm>

#include "broker/breakers.h"
#include "broker/sync_call.h"
#include "model/breaker.h"

namespace mainspring {

Result<BreakerInfo> find_breaker(const Store& store, const std::string& name, WallTime now) {
  MS_TRY_ASSIGN(const std::vector<BreakerInfo> all, store.breakers(now));
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const BreakerInfo& info) { return info.name == name; });
  if (found == all.end()) return no_breaker(name);
  return *found;
}

Result<void> Broker::put_breaker(PutBreaker request) {
  MS_TRY(check_name("name", request.name));
  MS_TRY(validate(request.settings));
  MS_TRY(call<Done>(std::move(request)));
  return {};
}

Result<void> Broker::remove_breaker(const std::string& name) {
  MS_TRY(call<Done>(RemoveBreaker{.name = name}));
  return {};
}

Result<void> Broker::open_breaker(OpenBreaker request) {
  if (request.open_for != Duration(0)) MS_TRY(check_open_for("for", request.open_for));
  MS_TRY(call<Done>(std::move(request)));
  return {};
}

Result<void> Broker::close_breaker(const std::string& name) {
  MS_TRY(call<Done>(CloseBreaker{.name = name}));
  return {};
}

Result<BreakerInfo> Broker::get_breaker(const std::string& name) {
  return find_breaker(store_, name, clock_.now().wall);
}

Result<std::vector<BreakerInfo>> Broker::breakers() {
  return store_.breakers(clock_.now().wall);
}

void Broker::note_breakers(const std::vector<BreakerInfo>& changed) {
  for (const BreakerInfo& info : changed) {
    if (info.state == BreakerState::open) {
      log_.warn("a breaker has opened",
                {{"breaker", info.name}, {"until", format_wall_time(*info.open_until)}});
    } else {
      const bool closed = info.state == BreakerState::closed;
      log_.info(closed ? "a breaker has closed" : "a breaker is half open",
                {{"breaker", info.name}});
    }
  }
}

void Broker::register_breaker_gauges() {
  const auto of_each = [this](auto value) {
    Registry::Samples samples;
    const auto all = store_.breakers(clock_.now().wall);
    for (const BreakerInfo& info : all ? *all : std::vector<BreakerInfo>{})
      samples.push_back({{{"breaker", info.name}}, value(info)});
    return samples;
  };
  registry_.gauges("mainspring_breaker_state",
                   "State of the breaker: 0 = closed, 1 = half open, 2 = open.", [of_each] {
                     return of_each([](const BreakerInfo& info) {
                       if (info.state == BreakerState::closed) return 0.0;
                       return info.state == BreakerState::open ? 2.0 : 1.0;
                     });
                   });
  registry_.counters_of(
      "mainspring_breaker_opened_total", "Number of times the breaker opened.", [of_each] {
        return of_each([](const BreakerInfo& info) { return static_cast<double>(info.opened); });
      });
}

}  // namespace mainspring
