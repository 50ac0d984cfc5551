// What the program can do; run.sh puts it together.
#pragma once

#include <string>

#include "books.h"

// Fills new books: products, customers, and the orders that there will be.
void open_books(Books& books, std::int64_t orders, std::int64_t seed);
// Handles jobs until SIGTERM. Returns the exit code, as the others.
int work(Books& books, const std::string& server);
// Starts the workflow of each order that has none, then waits for their ends and enters them. May
// be killed and started again at any time. 75: some are parked, try again when they are not.
int place(Books& books, const std::string& server);
// Are the books right? 0 or 1, with a table.
int check(Books& books);
