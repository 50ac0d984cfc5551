// Stubs of the store_postgres functions that the engine uses, for a build without libpq: databases
// are refused.
#include "store_postgres/node_channel.h"
#include "store_postgres/postgres_store.h"

namespace mainspring {
namespace {

Error no_postgres() {
  return invalid("url",
                 "url: postgres://… is not part of this build of Mainspring. Configure it with "
                 "-DMAINSPRING_POSTGRES=ON, which needs libpq");
}

}  // namespace

struct DatabaseClock::State {
  const Clock& base;
};

DatabaseClock::DatabaseClock(const Clock& base) : state_(new State{base}) {}
DatabaseClock::~DatabaseClock() = default;

Now DatabaseClock::now() const {
  return state_->base.now();
}

Result<std::unique_ptr<SharedStore>> open_postgres_store(PostgresOptions, Now, Log&,
                                                         DatabaseClock*) {
  return no_postgres();
}

// A node creates a channel only for an open store, so none is ever created here.
struct NodeChannel::Impl {};

NodeChannel::NodeChannel(NodeChannelOptions, const Clock&, Random&, Log&, Registry&, Handlers) {}
NodeChannel::~NodeChannel() = default;

void NodeChannel::start() {}
void NodeChannel::stop() {}
void NodeChannel::say(const ChangeHints&) {}

NodeChannel::Listening NodeChannel::listening() const {
  return Listening::away;
}

std::string_view to_string(NodeChannel::Listening) {
  return "away";
}

Result<Secret> shared_secret(const NodeChannelOptions&, const std::string&, const Clock&, Random&) {
  return no_postgres();
}

Result<Secret> shared_peer_key(const NodeChannelOptions&, const Clock&, Random&) {
  return no_postgres();
}

}  // namespace mainspring
