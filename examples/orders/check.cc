// The auditor: are the books right, to the cent and the piece?
#include <fmt/format.h>

#include <algorithm>

#include "commands.h"

namespace {

// What happened to one order, by the journal.
struct Story {
  std::int64_t order, completed, ended;
  std::int64_t reserve, release, charge, refund, ship, cancelled, mail, apologise;
};

constexpr const char* kStories = R"(
  SELECT o.id, o.outcome IS 'completed',
         coalesce(o.outcome IN ('completed', 'failed', 'undone', 'cancelled'), 0),
         total(what = 'reserve'), total(what = 'release'),
         total(what = 'charge'), total(what = 'refund'),
         total(what = 'ship'), total(what = 'cancel-shipment'),
         total(what = 'mail'), total(what = 'apologise')
  FROM orders o LEFT JOIN journal j ON j.order_id = o.id GROUP BY o.id)";

class Check {
 public:
  explicit Check(Books& books) : books_(books) {}

  int run() {
    outcomes();
    orders();
    stock();
    money();
    if (wrong_.empty()) fmt::print("\nThe books are right.\n");
    for (std::size_t i = 0; i < std::min(wrong_.size(), kShown); ++i) {
      fmt::print("{}WRONG  {}\n", i == 0 ? "\n" : "", wrong_[i]);
    }
    if (wrong_.size() > kShown) fmt::print("WRONG  and {} more\n", wrong_.size() - kShown);
    return wrong_.empty() ? 0 : 1;
  }

 private:
  static constexpr std::size_t kShown = 20;

  void wrong(std::string what) { wrong_.push_back(std::move(what)); }

  std::int64_t count(const std::string& what) { return books_.number(what.c_str()); }

  void outcomes() {
    for (const char* outcome : {"completed", "failed", "undone", "cancelled"}) {
      fmt::print(
          "{:<16}{:>8}\n", outcome,
          books_.number("SELECT count(*) FROM orders WHERE outcome = ?1", {std::string(outcome)}));
    }
    for (const char* why : {"no_stock", "card_declined", "address_unknown", "no_such_mailbox",
                            "does not answer", "did not answer", "lease expired", "changed"}) {
      const auto orders = books_.number(
          "SELECT count(*) FROM orders WHERE reason LIKE '%' || ?1 || '%'", {std::string(why)});
      if (orders != 0) fmt::print("  {:<18}{:>8}\n", why, orders);
    }
  }

  // Each order is processed completely or not at all, and no part of it twice.
  void orders() {
    Story all{};
    for (const auto& row : books_.numbers(kStories)) {
      const Story s{row[0], row[1], row[2], row[3], row[4], row[5],
                    row[6], row[7], row[8], row[9], row[10]};
      const auto step = [&](const char* name, std::int64_t done, std::int64_t undone) {
        const std::int64_t net = s.completed;
        if (done > 1 || undone > 1 || done - undone != net || (net == 1 && undone != 0)) {
          wrong(fmt::format("order {}, {}: {} done {} times, undone {} times", s.order,
                            s.completed != 0 ? "completed" : "not completed", name, done, undone));
        }
      };
      if (s.ended == 0) wrong(fmt::format("order {} has not ended", s.order));
      step("reserve", s.reserve, s.release);
      step("charge", s.charge, s.refund);
      step("ship", s.ship, s.cancelled);
      step("mail", s.mail, s.apologise);
      all.completed += s.completed;
      all.reserve += s.reserve, all.release += s.release;
      all.charge += s.charge, all.refund += s.refund;
      all.ship += s.ship, all.cancelled += s.cancelled;
      all.mail += s.mail, all.apologise += s.apologise;
    }
    fmt::print("\n{:<16}{:>8}{:>8}{:>8}\n", "", "done", "undone", "net");
    const auto line = [](const char* name, std::int64_t done, std::int64_t undone) {
      fmt::print("{:<16}{:>8}{:>8}{:>8}\n", name, done, undone, done - undone);
    };
    line("reserve", all.reserve, all.release);
    line("charge", all.charge, all.refund);
    line("ship", all.ship, all.cancelled);
    line("mail", all.mail, all.apologise);
  }

  void same(const char* what, std::int64_t is, std::int64_t should_be) {
    fmt::print("{:<24}{:>14}\n", what, is);
    if (is != should_be) wrong(fmt::format("{} is {}, not {}", what, is, should_be));
  }

  void stock() {
    fmt::print("\n");
    same("stock, shipped", count("SELECT sum(shipped) FROM products"),
         count("SELECT total(quantity) FROM orders WHERE outcome = 'completed'"));
    same("stock, reserved", count("SELECT total(reserved != 0) FROM products"), 0);
    same("stock, all", count("SELECT sum(on_shelf + reserved + shipped) FROM products"),
         count("SELECT stock FROM shop"));
  }

  void money() {
    same("money, till", count("SELECT till FROM shop"),
         count("SELECT total(price) FROM orders WHERE outcome = 'completed'"));
    same("money, all", count("SELECT till + (SELECT sum(money) FROM customers) FROM shop"),
         count("SELECT money FROM shop"));
  }

  Books& books_;
  std::vector<std::string> wrong_;
};

}  // namespace

int check(Books& books) {
  return Check(books).run();
}
