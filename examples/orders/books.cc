// The books in SQLite: each change and its note are one transaction.
#include "books.h"

#include <stdexcept>

namespace {

// Only processes are killed here, not machines: synchronous = off is durable enough for that.
constexpr const char* kSchema = R"(
  PRAGMA journal_mode = wal;
  PRAGMA synchronous = off;
  CREATE TABLE IF NOT EXISTS shop(seed, stock, money, till);
  CREATE TABLE IF NOT EXISTS products(id INTEGER PRIMARY KEY, on_shelf, reserved, shipped);
  CREATE TABLE IF NOT EXISTS customers(id INTEGER PRIMARY KEY, money, has_address, has_mailbox);
  CREATE TABLE IF NOT EXISTS orders(id INTEGER PRIMARY KEY, customer, product, quantity, price,
                                    workflow, outcome, reason);
  CREATE TABLE IF NOT EXISTS keys(order_id INTEGER, step TEXT, state TEXT,
                                  PRIMARY KEY(order_id, step)) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS journal(order_id INTEGER, what TEXT);
  CREATE INDEX IF NOT EXISTS journal_by_order ON journal(order_id);)";

constexpr int kBusyMs = 30'000;  // the wait for a transaction of another process

}  // namespace

// -- what the handlers do
// ----------------------------------------------------------------------------

std::string Books::reserve(const Order& order) {
  return once(order, "reserve", [&] {
    const int found =
        run("UPDATE products SET on_shelf = on_shelf - ?2, reserved = reserved + ?2"
            " WHERE id = ?1 AND on_shelf >= ?2",
            {order.product, order.quantity});
    return found == 1 ? "" : "no_stock";
  });
}

std::string Books::release(const Order& order) {
  return undo(order, "reserve", "release", [&] {
    run("UPDATE products SET on_shelf = on_shelf + ?2, reserved = reserved - ?2 WHERE id = ?1",
        {order.product, order.quantity});
  });
}

std::string Books::charge(const Order& order) {
  return once(order, "charge", [&] {
    const int found = run("UPDATE customers SET money = money - ?2 WHERE id = ?1 AND money >= ?2",
                          {order.customer, order.price});
    if (found != 1) return "card_declined";
    run("UPDATE shop SET till = till + ?1", {order.price});
    return "";
  });
}

std::string Books::refund(const Order& order) {
  return undo(order, "charge", "refund", [&] {
    run("UPDATE customers SET money = money + ?2 WHERE id = ?1", {order.customer, order.price});
    run("UPDATE shop SET till = till - ?1", {order.price});
  });
}

std::string Books::ship(const Order& order) {
  return once(order, "ship", [&] {
    if (number("SELECT has_address FROM customers WHERE id = ?1", {order.customer}) == 0) {
      return "address_unknown";
    }
    run("UPDATE products SET reserved = reserved - ?2, shipped = shipped + ?2 WHERE id = ?1",
        {order.product, order.quantity});
    return "";
  });
}

std::string Books::cancel_shipment(const Order& order) {
  return undo(order, "ship", "cancel-shipment", [&] {
    run("UPDATE products SET reserved = reserved + ?2, shipped = shipped - ?2 WHERE id = ?1",
        {order.product, order.quantity});
  });
}

std::string Books::mail(const Order& order) {
  return once(order, "mail", [&] {
    const bool known =
        number("SELECT has_mailbox FROM customers WHERE id = ?1", {order.customer}) != 0;
    return known ? "" : "no_such_mailbox";  // the journal is the mail
  });
}

std::string Books::apologise(const Order& order) {
  return undo(order, "mail", "apologise", [] {});
}

// -- once
// --------------------------------------------------------------------------------------------

std::string Books::once(const Order& order, const std::string& step,
                        const std::function<std::string()>& change) {
  return transaction([&]() -> std::string {
    const std::int64_t undone =
        number("SELECT count(*) FROM keys WHERE order_id = ?1 AND step = ?2 AND state = 'undone'",
               {order.number, step});
    if (undone != 0) return "undone_before";
    const std::int64_t done =
        number("SELECT count(*) FROM keys WHERE order_id = ?1 AND step = ?2", {order.number, step});
    if (done != 0) return "";
    if (std::string refusal = change(); !refusal.empty()) return refusal;
    note(order, step, "done");
    journal(order, step);
    return "";
  });
}

std::string Books::undo(const Order& order, const std::string& step, const std::string& what,
                        const std::function<void()>& change_back) {
  return transaction([&]() -> std::string {
    const std::int64_t done =
        number("SELECT count(*) FROM keys WHERE order_id = ?1 AND step = ?2 AND state = 'done'",
               {order.number, step});
    note(order, step, "undone");
    if (done == 0) return "";
    change_back();
    journal(order, what);
    return "";
  });
}

void Books::note(const Order& order, const std::string& step, const std::string& state) {
  run("INSERT OR REPLACE INTO keys VALUES (?1, ?2, ?3)", {order.number, step, state});
}

// The record of all effects, for the check only. No handler reads it.
void Books::journal(const Order& order, const std::string& what) {
  run("INSERT INTO journal VALUES (?1, ?2)", {order.number, what});
}

// -- SQLite
// ------------------------------------------------------------------------------------------

Books::Books(const std::string& path) {
  sqlite3* opened = nullptr;
  const int code = sqlite3_open(path.c_str(), &opened);
  database_.reset(opened);
  if (code != SQLITE_OK) throw std::runtime_error(path + ": " + sqlite3_errstr(code));
  sqlite3_busy_timeout(opened, kBusyMs);
  char* error = nullptr;
  if (sqlite3_exec(opened, kSchema, nullptr, nullptr, &error) == SQLITE_OK) return;
  const std::string why = error;
  sqlite3_free(error);
  throw std::runtime_error(path + ": " + why);
}

std::string Books::transaction(const std::function<std::string()>& work) {
  std::lock_guard lock(mutex_);
  run("BEGIN IMMEDIATE");
  std::string refusal;
  try {
    refusal = work();
    run(refusal.empty() ? "COMMIT" : "ROLLBACK");
  } catch (...) {
    sqlite3_exec(database_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
  return refusal;
}

Books::Statement Books::prepare(const char* sql, std::initializer_list<Value> values) {
  sqlite3_stmt* made = nullptr;
  if (sqlite3_prepare_v2(database_.get(), sql, -1, &made, nullptr) != SQLITE_OK) {
    throw std::runtime_error(std::string("books: ") + sqlite3_errmsg(database_.get()));
  }
  Statement statement(made);
  int place = 0;
  for (const Value& value : values) {
    ++place;
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
      sqlite3_bind_int64(made, place, *number);
    } else {
      sqlite3_bind_text(made, place, std::get<std::string>(value).c_str(), -1, SQLITE_TRANSIENT);
    }
  }
  return statement;
}

int Books::run(const char* sql, std::initializer_list<Value> values) {
  std::lock_guard lock(mutex_);
  const Statement statement = prepare(sql, values);
  if (sqlite3_step(statement.get()) != SQLITE_DONE) {
    throw std::runtime_error(std::string("books: ") + sqlite3_errmsg(database_.get()));
  }
  return sqlite3_changes(database_.get());
}

std::vector<std::vector<std::int64_t>> Books::numbers(const char* sql,
                                                      std::initializer_list<Value> values) {
  std::lock_guard lock(mutex_);
  const Statement statement = prepare(sql, values);
  std::vector<std::vector<std::int64_t>> rows;
  int code = 0;
  while ((code = sqlite3_step(statement.get())) == SQLITE_ROW) {
    std::vector<std::int64_t>& row = rows.emplace_back();
    for (int i = 0; i < sqlite3_column_count(statement.get()); ++i) {
      row.push_back(sqlite3_column_int64(statement.get(), i));
    }
  }
  if (code != SQLITE_DONE) {
    throw std::runtime_error(std::string("books: ") + sqlite3_errmsg(database_.get()));
  }
  return rows;
}

std::int64_t Books::number(const char* sql, std::initializer_list<Value> values) {
  const auto rows = numbers(sql, values);
  return rows.empty() ? 0 : rows[0].at(0);
}
