// Facts about this process.
#include "worker/facts.h"

#include "env/host.h"

namespace mainspring {

std::shared_ptr<WorkerFacts> process_facts(std::string version, std::string language, int slots) {
  return std::make_shared<WorkerFacts>(WorkerFacts{.host = host_name(),
                                                   .pid = process_id(),
                                                   .version = std::move(version),
                                                   .language = std::move(language),
                                                   .slots = slots});
}

}  // namespace mainspring
