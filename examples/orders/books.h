// The shop's own books, in a SQLite file: stock, money, parcels and mails. They stand for the
// systems that a real shop calls. The engine does not know them.
//
// Handlers run at least once, undo jobs too. An undo may run during or even before the job that it
// undoes, because a worker that counts as lost may still be running. So the changes of a handler
// must be idempotent, by a key that the job and its undo share. Here the key is the order's number
// and the step, in the table "keys":
//
//   no row    nothing has happened     do: change, note "done"     undo: note "undone"
//   done      it has happened          do: nothing, say yes        undo: change back, note "undone"
//   undone    it has been undone,      do: nothing, say no         undo: nothing
//             or will never happen
//
// The change and its note are one transaction, so the change happens once. For an external service,
// use its idempotency key and make it from your order's number.
#pragma once

#include <sqlite3.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "order.h"

class Books {
 public:
  using Value = std::variant<std::int64_t, std::string>;

  // Creates the file if it is new. All functions throw errors as std::runtime_error.
  explicit Books(const std::string& path);

  // -- what the handlers do
  // ------------------------------------------------------------------------
  // "" = done now or earlier; else the reason of a permanent refusal, which is the same in later
  // attempts.
  std::string reserve(const Order& order);
  std::string charge(const Order& order);
  std::string ship(const Order& order);
  std::string mail(const Order& order);
  // Undone, or there was nothing to undo. An undo cannot refuse.
  std::string release(const Order& order);
  std::string refund(const Order& order);
  std::string cancel_shipment(const Order& order);
  std::string apologise(const Order& order);

  // -- for all others
  // ------------------------------------------------------------------------------ A transaction
  // around `work`; rolled back if that throws or says why not.
  std::string transaction(const std::function<std::string()>& work);
  // How many rows it changed.
  int run(const char* sql, std::initializer_list<Value> values = {});
  std::vector<std::vector<std::int64_t>> numbers(const char* sql,
                                                 std::initializer_list<Value> values = {});
  std::int64_t number(const char* sql, std::initializer_list<Value> values = {});

 private:
  std::string once(const Order& order, const std::string& step,
                   const std::function<std::string()>& change);
  std::string undo(const Order& order, const std::string& step, const std::string& what,
                   const std::function<void()>& change_back);
  void note(const Order& order, const std::string& step, const std::string& state);
  void journal(const Order& order, const std::string& what);

  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close(database); }
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Close>;
  Statement prepare(const char* sql, std::initializer_list<Value> values);

  std::unique_ptr<sqlite3, Close> database_;
  std::recursive_mutex mutex_;  // handlers run on several threads
};
