// A whole program: a shop whose orders are workflows. Stock is reserved, the card charged, the
// parcel shipped, a mail sent. Whatever fails, all of these happen or none.
//
//   examples/orders/run.sh      the shop with its server and workers, which are killed repeatedly
//
// order.cc has the workflow, work.cc the handlers, books.h the idempotent changes, and place.cc the
// caller.
#include <fmt/format.h>

#include <cstdlib>
#include <exception>

#include "commands.h"

int main(int argc, char** argv) {
  const std::string command = argc > 2 ? argv[1] : "";
  try {
    if (command == "open" && argc == 5) {
      Books books(argv[2]);
      open_books(books, std::atoll(argv[3]), std::atoll(argv[4]));
      return 0;
    }
    if (command == "work" && argc == 4) {
      Books books(argv[2]);
      return work(books, argv[3]);
    }
    if (command == "place" && argc == 4) {
      Books books(argv[2]);
      return place(books, argv[3]);
    }
    if (command == "progress" && argc == 3) {
      Books books(argv[2]);
      fmt::print("{}\n", books.number("SELECT count(*) FROM journal"));
      return 0;
    }
    if (command == "check" && argc == 3) {
      Books books(argv[2]);
      return check(books);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  fmt::print(stderr,
             "orders open BOOKS ORDERS SEED | work BOOKS SERVER | place BOOKS SERVER |"
             " progress BOOKS | check BOOKS\n");
  return 64;
}
