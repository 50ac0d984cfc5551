// Opens the shared store: the connection, the schema, and joining the other nodes.
#include "store_postgres/postgres_store.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

#include "base/mutant.h"
#include "env/random.h"
#include "store_postgres/migrations.h"
#include "store_postgres/reader.h"
#include "store_postgres/session_settings.h"
#include "store_postgres/store_impl.h"

namespace mainspring::pg {

namespace {

constexpr int kOldestServer = 150000;
constexpr std::size_t kMaxSchemaName = 40;

PostgresOptions with_incarnation(PostgresOptions options) {
  if (options.incarnation.empty()) options.incarnation = SystemRandom().hex128();
  return options;
}

}  // namespace

PostgresStore::PostgresStore(PostgresOptions options, Log& log, DatabaseClock* clock)
    : StoreState(with_incarnation(std::move(options)), log, clock) {}

PostgresStore::~PostgresStore() {
  try {
    if (connection_ && node_ != 0) connection_->run(sql_.node_leaves, params(node_));
  } catch (const PgError&) {
    // The node is forgotten after a time without a heartbeat.
  }
}

std::unique_ptr<Connection> PostgresStore::connect(bool writable) const {
  auto connection = std::make_unique<Connection>(
      ConnectionOptions{.url = options_.url,
                        .connect_timeout = options_.connect_timeout,
                        .timeout = writable ? options_.statement_timeout : options_.read_timeout,
                        .prepared = options_.prepared,
                        .writable = writable,
                        .name = "mainspring " + options_.incarnation.substr(0, 8)},
      steady_);
  // A batch reads few rows by their keys, so plan for index lookups whatever the statistics say.
  // With a pooler this setting would affect other clients: there each transaction sets it (see
  // plan_by_keys).
  if (writable && options_.prepared) {
    connection->execute(
        "SET plan_cache_mode = force_generic_plan; SET random_page_cost = 0.01; SET seq_page_cost "
        "= 0.01; SET enable_hashjoin = off; SET "
        "enable_mergejoin = off; SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = "
        "off");
    connection->execute(fmt::format("SET lock_timeout = {}", options_.lock_wait.count() / 1000));
  }
  return connection;
}

void PostgresStore::pause_before_reconnect() const {
  constexpr int kPauseMs = 50;
  poll(nullptr, 0, kPauseMs);
}

void PostgresStore::open(Now now) {
  begin_at(now);
  connection_ = connect(true);
  if (connection_->server_version() < kOldestServer) {
    throw Error{.code = ErrorCode::conflict,
                .message = fmt::format("the server is PostgreSQL {}: must be 15 or newer",
                                       connection_->server_version() / 10000)};
  }
  check_settings(*connection_, !options_.prepared, options_.statement_timeout);
  if (options_.migrate) {
    migrate(*connection_, schema_);
  } else {
    check_schema(schema_version(*connection_, schema_), schema_);
  }
  if (database_clock_ != nullptr) {
    const Now sent = steady_.now();
    const Rows time = connection_->run(sql_.clock);
    database_clock_->note(WallTime::from_us(time.integer(0, 0)), sent, steady_.now());
    begin_at(database_clock_->now());
  }
  check_place();
  if (moved_to_.empty()) {
    join();
    // Check again: a copy into this store could start only before this node joined.
    check_place();
  }
  reload_copies();
  load_dry_lines();
}

void PostgresStore::check_place() {
  const Rows copying = connection_->run(sql_.find_move, params("copying"));
  if (!copying.empty()) {
    if (node_ != 0) connection_->run(sql_.node_leaves, params(node_));
    throw Error{
        .code = ErrorCode::conflict,
        .message = fmt::format("the schema {} is an unfinished copy of {}: run `mainspring store "
                               "copy` again to continue, or drop it",
                               schema_, copying.text(0, 0))};
  }
  look_for_move();
  if (moved_to_.empty() || options_.if_moved == IfMoved::open) return;
  Error error = moved_error();
  error.code = ErrorCode::conflict;  // permanent
  throw error;
}

void PostgresStore::look_for_move() {
  const Rows rows = connection_->run(sql_.find_move, params("moved"));
  if (rows.empty() || !moved_to_.empty()) return;
  moved_to_ = rows.text(0, 0);
  {
    MutexLock lock(published_mutex_);
    published_move_ = moved_to_;
  }
  log_.error("this store has moved and accepts no changes", {{"to", moved_to_}});
}

std::string PostgresStore::moved_to() const {
  MutexLock lock(published_mutex_);
  return published_move_;
}

Error PostgresStore::moved_error() const {
  return {
      .code = ErrorCode::unavailable,
      .message = fmt::format("the store (schema {}) has moved to {}: start the server with that "
                             "one",
                             schema_, moved_to_),
      .retry_after_ms = 5000};
}

// Two nodes that open at once must not both conclude that they are alone, and one must not reset
// the leases of the other's first claims. So the table is locked while a node decides.
void PostgresStore::join() {
  if (!options_.joins) {
    node_ = connection_->run(sql_.node_number).integer(0, 0);
    return;
  }
  connection_->run(sql_.begin);
  connection_->run(sql_.lock_nodes);
  const Rows others =
      connection_->run(sql_.nodes_alive, params(wall() - kNodeAlive, options_.incarnation));
  const Rows joined =
      connection_->run(sql_.node_joins, params(options_.incarnation, MAINSPRING_VERSION, wall()));
  node_ = joined.integer(0, 0);
  in_transaction_ = true;
  if (others.integer(0, 0) == 0) start_over();
  // For SQL functions, which cannot read options.
  tell(sql_.keep_setting,
       params("retention_completed", options_.store.retention_completed.count()));
  tell(sql_.keep_setting, params("retention_dead", options_.store.retention_dead.count()));
  tell(sql_.keep_setting, params("retention_replies", options_.store.retention_replies.count()));
  settle();
  connection_->run(sql_.commit);
  in_transaction_ = false;
}

void PostgresStore::start_over() {
  const std::int64_t allowance = restart_allowance();
  const Rows rows = ask(sql_.reset_jobs, params(lease_now()));
  tell(sql_.drop_leased, {});
  std::map<std::int64_t, Ints> ends;
  for (int i = 0; i < rows.size(); ++i) {
    const JobRow row = read_row(rows, i);
    ends[row.lease_until].push_back(row.id);
    own_leases_[row.id] = LeaseOfJob{.token = row.token,
                                     .until = row.lease_until,
                                     .flags = row.flags,
                                     .queue = row.queue,
                                     .simple = ends_simply(row.schedule, row.flags),
                                     .session = row.session};
    lease_order_.emplace(row.lease_until, row.id);
  }
  for (const auto& [at, ids] : ends) tell(sql_.insert_leased, params(at, node_, ids));
  tell(schedule_sql_.forget_leader, params(kLeadershipLease));  // it ended with its node
  reset_leases(lease_now(), allowance);
  tell(session_sql_.start_over, params(lease_now(), allowance));
  tell(sql_.wake, {});
}

void PostgresStore::look_for_losses() {
  if (!options_.joins || !moved_to_.empty()) return;
  if (!connection_->run(sql_.nothing_lost).empty()) return;
  fast_path_ = false;  // the last batch may have been on the fast path
  connection_->run(sql_.begin);
  in_transaction_ = true;
  reset_after_crash();
  settle();
  connection_->run(sql_.commit);
  in_transaction_ = false;
}

// Renewals do not wait for the disk, so after a crash the end of recently renewed leases is
// unknown. One node resets them. The others wait for its commit before they consider any lease
// expired.
void PostgresStore::reset_after_crash() {
  if (ask(sql_.wake, {}).empty() || MS_MUTANT(crash_takes_renewals)) return;
  wrote();
  // The batch may have started before the crash and waited; others have renewed leases meanwhile.
  const std::int64_t at = lease_now() + (steady_.now().instant - batch_start_).count();
  const std::int64_t allowance = restart_allowance();  // workers may rely on it
  tell(session_sql_.start_over, params(at, allowance));
  reset_leases(at, allowance);
  const Rows rows = ask(sql_.lengthen_jobs, params(at));
  tell(sql_.drop_leased, {});
  std::map<std::int64_t, Ints> ends;
  for (int i = 0; i < rows.size(); ++i) ends[rows.integer(i, 1)].push_back(rows.integer(i, 0));
  for (const auto& [until, ids] : ends)
    tell(sql_.insert_leased, params(until, std::int64_t{0}, ids));
  log_.info("the database crashed or failed over: leases start again", {});
}

void PostgresStore::reload_copies() {
  look_for_losses();
  // Read the versions first: later changes are found again.
  const Rows versions = connection_->run(sql_.versions);
  load_queues();
  load_breakers();
  load_kinds();
  Connection& c = *connection_;
  c.queue(sql_.available);
  c.queue(session_sql_.queues_with_heads);
  c.queue(sql_.totals);
  c.queue(sql_.first_due);
  c.queue(sql_.first_expiring);
  c.queue(sql_.first_prune);
  c.queue(workflow_sql_.first_finished, retentions());
  c.queue(workflow_sql_.first_wake);
  c.queue(sql_.first_leased, params(node_));
  const Rows available = c.next();
  dry_queues_.clear();
  for (const auto& [id, queue] : queues_by_id_) hints_[id];
  for (auto& [id, hint] : hints_) {
    hint.available = hint.heads = hint.running = 0;
    hint.uncertain = hint.dry = hint.running_uncertain = false;
    hint.heads_uncertain = hint.heads_dry = hint.heads_drift = false;
  }
  for (int i = 0; i < available.size(); ++i) {
    QueueHint& hint = hints_[static_cast<int>(available.integer(i, 0))];
    hint.available = available.integer(i, 1);
    hint.running = available.integer(i, 2);
  }
  const Rows heads = c.next();
  for (int i = 0; i < heads.size(); ++i) {
    QueueHint& hint = hints_[static_cast<int>(heads.integer(i, 0))];
    hint.heads_uncertain = hint.heads_drift = true;
  }
  const Rows totals = c.next();
  live_jobs_ = totals.integer(0, 0);
  finished_jobs_ = totals.integer(0, 1);
  const auto time_of = [](const Rows& rows) {
    return rows.empty() || rows.is_null(0, 0) ? WallTime::never()
                                              : WallTime::from_us(rows.integer(0, 0));
  };
  next_due_ = time_of(c.next());
  next_expiry_ = time_of(c.next());
  next_prune_ = time_of(c.next());
  next_prune_ = std::min(next_prune_, time_of(c.next()));
  next_workflow_ = time_of(c.next());
  if (finished_jobs_ > options_.store.max_finished_jobs) next_prune_ = WallTime();
  const Rows leased = c.next();
  foreign_lease_ = leased.empty() ? 0 : leased.integer(0, 0);
  for (int i = 0; i < versions.size(); ++i)
    versions_[versions.string(i, 0)] = versions.integer(i, 1);
  if (versions_.contains("moved")) look_for_move();
  load_named_leases();
  load_schedules();
  load_tokens();
  load_audit();
}

}  // namespace mainspring::pg

namespace mainspring {

Result<std::unique_ptr<SharedStore>> open_postgres_store(PostgresOptions options, Now now, Log& log,
                                                         DatabaseClock* clock) {
  const std::string& schema = options.schema;
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  const bool named = !schema.empty() && schema.size() <= pg::kMaxSchemaName && letter(schema[0]) &&
                     std::all_of(schema.begin(), schema.end(),
                                 [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
  if (!named || schema.rfind("pg_", 0) == 0) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = fmt::format("schema \"{}\": must be 1 to {} of [a-z0-9_], begin with a "
                                        "letter, and not with pg_",
                                        schema, pg::kMaxSchemaName),
                 .field = "schema"};
  }
  auto store = std::make_unique<pg::PostgresStore>(std::move(options), log, clock);
  try {
    store->open(now);
  } catch (const pg::PgError& error) {
    Error reported = pg::to_error(error);
    reported.message = "the store does not open: " + reported.message;
    return reported;
  } catch (const Error& error) {
    return error;
  }
  return std::unique_ptr<SharedStore>(std::move(store));
}

}  // namespace mainspring
