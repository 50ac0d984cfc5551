// The stock of the shop and the future orders, drawn from the seed.
#include "commands.h"

void open_books(Books& books, std::int64_t orders, std::int64_t seed) {
  constexpr std::int64_t kProducts = 20, kCustomers = 200, kMoney = 100'000'000;
  const auto dice = static_cast<std::uint64_t>(seed);
  books.transaction([&] {
    // Of 100 customers, three have a declined card, three a wrong address and two no mailbox. The
    // stock is smaller than the sum of the orders.
    for (std::int64_t id = 0; id < kCustomers; ++id) {
      const std::int64_t kind = id % 100;
      books.run("INSERT INTO customers VALUES (?1, ?2, ?3, ?4)",
                {id, kind < 3 ? 0 : kMoney, kind < 3 || kind >= 6, kind < 6 || kind >= 8});
    }
    std::int64_t ordered = 0;
    for (std::int64_t id = 1; id <= orders; ++id) {
      const std::int64_t quantity = 1 + roll(dice, "quantity", id, 3);
      const std::int64_t price = quantity * (100 + roll(dice, "price", id, 9'900));
      books.run(
          "INSERT INTO orders(id, customer, product, quantity, price)"
          " VALUES (?1, ?2, ?3, ?4, ?5)",
          {id, roll(dice, "customer", id, kCustomers), roll(dice, "product", id, kProducts),
           quantity, price});
      ordered += quantity;
    }
    const std::int64_t on_shelf = ordered * 75 / 100 / kProducts;
    for (std::int64_t id = 0; id < kProducts; ++id) {
      books.run("INSERT INTO products VALUES (?1, ?2, 0, 0)", {id, on_shelf});
    }
    books.run("INSERT INTO shop SELECT ?1, ?2, (SELECT sum(money) FROM customers), 0",
              {seed, on_shelf * kProducts});
    return "";
  });
}
