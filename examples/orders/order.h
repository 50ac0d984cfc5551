// An order of the shop, and the workflow that it is.
#pragma once

#include <cstdint>
#include <string>

#include "mainspring/engine.h"

// The args of every step of an order.
struct Order {
  std::int64_t number = 0;
  std::int64_t customer = 0;
  std::int64_t product = 0;
  std::int64_t quantity = 0;
  std::int64_t price = 0;  // of all of it, in cents
};
BOOST_DESCRIBE_STRUCT(Order, (), (number, customer, product, quantity, price))

// Reserve, charge, ship, mail; and the undo of each step.
mainspring::WorkflowSpec workflow_of(const Order& order);

// A random number of a run: 0 to `sides` - 1, the same for the same seed and words.
std::int64_t roll(std::uint64_t seed, std::string_view what, std::int64_t number,
                  std::int64_t sides);
