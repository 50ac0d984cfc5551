// The plans of bulk operations.
#include <fmt/format.h>

#include "api/bulk_shapes.h"
#include "api/json.h"
#include "api/search_shapes.h"
#include "base/mutant.h"
#include "broker/broker.h"
#include "broker/bulk.h"
#include "http/plans.h"

namespace mainspring::http {
namespace {

// Requires access to one queue, or to everything: the job that does it has no scopes.
Result<void> may_change_all(const Caller& caller, const JobFilter& filter) {
  MS_TRY(check_payload_terms(caller, filter));
  if (MS_MUTANT(bulk_scope_ignored)) return {};
  if (!filter.queue.empty()) return check_may(caller, Verb::admin, filter.queue);
  return check_may_all(caller, Verb::admin);
}

// Returns whether the caller may see it and change it.
bool may_see(const Caller& caller, const BulkInfo& info, WallTime now) {
  const auto filter = bulk_filter_of(info.order, now);
  return filter && may_change_all(caller, *filter).has_value();
}

Reply bulk_reply(const Result<BulkInfo>& info, int status = 200) {
  if (!info) return error_reply(info.error());
  Reply reply{.status = status};
  encode_bulk_info(*info, reply.body);
  return reply;
}

Result<BulkInfo> seen_bulk(const Services& services, const Caller& caller, JobId id) {
  MS_TRY_ASSIGN(BulkInfo info, get_bulk(services.store, id));
  if (may_see(caller, info, services.clock.now().wall)) return info;
  return Error{ErrorCode::not_found, fmt::format("bulk operation {}: does not exist", id)};
}

using Change = Result<BulkInfo> (Broker::*)(JobId, std::optional<Audit>);

Plan plan_change_bulk(const Request& request, Services& services, Change change) {
  auto id = parse_id(request.param);
  if (!id) return error_reply(id.error());
  return DoRead{[&services, change, id = *id, caller = request.caller,
                 audit = audit_of(request, fmt::format("job/{}", *id))] {
    const auto seen = seen_bulk(services, *caller, id);
    if (!seen) return error_reply(seen.error());
    return bulk_reply((services.broker.*change)(id, audit));
  }};
}

}  // namespace

Plan plan_start_bulk(const Request& request, Services& services) {
  auto asked = decode_bulk_request(request.body);
  if (!asked) return error_reply(asked.error());
  const WallTime now = services.clock.now().wall;
  const auto filter = bulk_filter_of(asked->order, now);
  if (!filter) return error_reply(filter.error());
  if (auto may = may_change_all(*request.caller, *filter); !may) return error_reply(may.error());
  if (asked->dry_run) {
    return DoRead{[&services, now, order = std::move(asked->order)] {
      const auto count = count_bulk(services.store, order, now);
      if (!count) return error_reply(count.error());
      Reply reply;
      encode_bulk_count(*count, reply.body);
      return reply;
    }};
  }
  std::string text;
  encode_bulk_request(*asked, text);
  return DoRead{[&services, order = std::move(asked->order), by = request.caller->who,
                 audit = audit_of_request(request, std::string(kCreatedJob), std::move(text))] {
    return bulk_reply(services.broker.start_bulk(order, by, audit), 201);
  }};
}

Plan plan_list_bulks(const Request& request, Services& services) {
  return DoRead{[&services, caller = request.caller] {
    auto bulks = list_bulks(services.store);
    if (!bulks) return error_reply(bulks.error());
    const WallTime now = services.clock.now().wall;
    std::erase_if(*bulks, [&](const BulkInfo& info) { return !may_see(*caller, info, now); });
    Reply reply;
    encode_bulk_list(*bulks, reply.body);
    return reply;
  }};
}

Plan plan_get_bulk(const Request& request, Services& services) {
  auto id = parse_id(request.param);
  if (!id) return error_reply(id.error());
  return DoRead{[&services, id = *id, caller = request.caller] {
    return bulk_reply(seen_bulk(services, *caller, id));
  }};
}

Plan plan_stop_bulk(const Request& request, Services& services) {
  return plan_change_bulk(request, services, &Broker::stop_bulk);
}

Plan plan_continue_bulk(const Request& request, Services& services) {
  return plan_change_bulk(request, services, &Broker::continue_bulk);
}

}  // namespace mainspring::http
