// Handlers are idempotent: they may run twice, late, or early.
#include "books.h"

#include <doctest/doctest.h>

#include "commands.h"

namespace {

struct Shop {
  Shop() { open_books(books, 20, 1); }
  std::int64_t till() { return books.number("SELECT till FROM shop"); }
  std::int64_t shipped() { return books.number("SELECT sum(shipped) FROM products"); }

  Books books{":memory:"};
  Order order{.number = 1, .customer = 50, .product = 2, .quantity = 1, .price = 250};
};

}  // namespace

TEST_CASE("what is done twice happens once") {
  Shop shop;
  CHECK(shop.books.charge(shop.order).empty());
  CHECK(shop.books.charge(shop.order).empty());
  CHECK(shop.till() == 250);
}

TEST_CASE("what is undone twice is undone once") {
  Shop shop;
  CHECK(shop.books.charge(shop.order).empty());
  CHECK(shop.books.refund(shop.order).empty());
  CHECK(shop.books.refund(shop.order).empty());
  CHECK(shop.till() == 0);
}

TEST_CASE("an undo that comes first keeps the late job from doing it") {
  Shop shop;
  CHECK(shop.books.refund(shop.order).empty());
  CHECK(shop.books.charge(shop.order) == "undone_before");
  CHECK(shop.books.cancel_shipment(shop.order).empty());
  CHECK(shop.books.ship(shop.order) == "undone_before");
  CHECK(shop.till() == 0);
  CHECK(shop.shipped() == 0);
}

TEST_CASE("what is refused has changed nothing, and may be undone") {
  Shop shop;
  shop.order.customer = 0;  // a card without money
  CHECK(shop.books.charge(shop.order) == "card_declined");
  CHECK(shop.books.refund(shop.order).empty());
  CHECK(shop.till() == 0);
}

TEST_CASE("the audit finds an order that is half done") {
  Shop shop;
  shop.books.run("UPDATE orders SET outcome = 'undone'");
  CHECK(check(shop.books) == 0);
  CHECK(shop.books.charge(shop.order).empty());
  CHECK(check(shop.books) == 1);
  CHECK(shop.books.refund(shop.order).empty());
  CHECK(check(shop.books) == 0);
}
