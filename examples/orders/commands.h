// The commands of the program; run.sh uses them.
#pragma once

#include <string>

#include "books.h"

// Fills new books: products, customers and the future orders.
void open_books(Books& books, std::int64_t orders, std::int64_t seed);
// Handles jobs until SIGTERM. Returns the exit code, like the other commands.
int work(Books& books, const std::string& server);
// Starts the workflow of each order that has none, then waits for their ends and records them. May
// be killed and restarted at any time. 75: some are parked; try again when they have continued.
int place(Books& books, const std::string& server);
// Are the books right? 0 or 1, with a table.
int check(Books& books);
