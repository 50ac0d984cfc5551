// The plans of workers: who they are, and what operators want them to do.
#include <algorithm>

#include "api/json.h"
#include "api/shapes.h"
#include "broker/broker.h"
#include "http/plans.h"
#include "model/callback.h"

namespace mainspring::http {
namespace {

// On a reader thread: with several nodes it asks the database who the workers are.
Plan plan_command(const Request& request, Services& services, WorkerCommand command) {
  CommandWorker asked{
      .worker = request.param, .command = command, .within = request.caller->within(Verb::admin)};
  return DoRead{[&services, asked = std::move(asked),
                 audit = audit_of_request(request, "worker/" + request.param, "")] {
    const auto worker = services.broker.command_worker(asked);
    if (!worker) return error_reply(worker.error());
    Audit record = audit;
    JsonWriter image(record.after);
    image.begin_object().key("command");
    write_command(image, worker->command);
    image.end_object();
    if (auto kept = append_record(services, std::move(record)); !kept)
      return error_reply(kept.error());
    Reply reply;
    JsonWriter w(reply.body);
    write_worker(w, *worker);
    return reply;
  }};
}

}  // namespace

Plan plan_list_workers(const Request&, Services& services) {
  return DoRead{[&services] {
    auto workers = services.broker.workers();
    if (!workers) return error_reply(workers.error());
    // Omits workers that are part of a server: operators cannot start or stop these.
    std::erase_if(*workers, [](const WorkerInfo& worker) {
      return !worker.queues.empty() &&
             std::all_of(worker.queues.begin(), worker.queues.end(), [](const std::string& queue) {
               return queue.starts_with(kReservedQueues);
             });
    });
    Reply reply;
    encode_workers(*workers, reply.body);
    return reply;
  }};
}

Plan plan_quiet_worker(const Request& request, Services& services) {
  return plan_command(request, services, WorkerCommand::quiet);
}

Plan plan_stop_worker(const Request& request, Services& services) {
  return plan_command(request, services, WorkerCommand::stop);
}

Plan plan_resume_worker(const Request& request, Services& services) {
  return plan_command(request, services, WorkerCommand::none);
}

}  // namespace mainspring::http
