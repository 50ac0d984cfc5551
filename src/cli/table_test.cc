// Tables: their columns, their width, and what they may print.
#include "cli/table.h"

#include <doctest/doctest.h>

#include <sstream>

using namespace mainspring;
using namespace mainspring::cli;

namespace {

bool table_has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a table fits a narrow terminal: its widest text columns are cut") {
  Table table({{"QUEUE"}, {"JOBS", Align::right}, {"HOST"}, {"NOTE"}});
  table.add({{std::string(60, 'q')}, {"1,000"}, {std::string(30, 'h')}, {"a note of some length"}});
  Io io;
  io.width = 60;
  std::istringstream lines(table.render(io));
  for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(display_width(line) <= 60, line);
  io.width = 0;
  CHECK(table_has(table.render(io), std::string(60, 'q')));
}

TEST_CASE("names and states of a table are cut only after its other columns") {
  Table table({{.title = "NAME", .keep = true}, {"WHEN"}, {.title = "STATE", .keep = true}, {"X"}});
  table.add({{std::string(20, 'n')}, {std::string(30, 'w')}, {"completed"}, {"x"}});
  Io io;
  io.width = 60;
  CHECK(table_has(table.render(io), std::string(20, 'n')));
  CHECK(table_has(table.render(io), "completed"));
  CHECK(table_has(table.render(io), "w…"));
  io.width = 40;
  CHECK(table_has(table.render(io), "n…"));
}

TEST_CASE(
    "a table on a narrow terminal omits columns before it cuts names, and never cuts states") {
  Table table({{"ID", Align::right},
               {.title = "QUEUE", .keep = true},
               {.title = "STATE", .whole = true},
               {.title = "AGE", .align = Align::right, .drop = 1},
               {.title = "ZONE", .drop = 2},
               {.title = "ERROR", .if_any = true, .least = 20, .below = true}});
  table.add({{"7"}, {"reports.daily"}, {"retryable"}, {"now"}, {"UTC"}, {""}});
  table.add(
      {{"8"}, {"mail"}, {"dead"}, {"3m"}, {"UTC"}, {"no such invoice: 4711, of customer 17"}});
  Io io;
  io.width = 80;
  CHECK(table.render(io) ==
        "ID  QUEUE          STATE      AGE  ZONE  ERROR\n"
        " 7  reports.daily  retryable  now  UTC\n"
        " 8  mail           dead        3m  UTC   no such invoice: 4711, of customer 17\n");
  io.width = 36;
  CHECK(table.render(io) ==
        "ID  QUEUE          STATE      ZONE\n"
        " 7  reports.daily  retryable  UTC\n"
        " 8  mail           dead       UTC\n"
        "    no such invoice: 4711, of custo…\n");
  io.width = 24;
  CHECK(table.render(io) ==
        "ID  QUEUE      STATE\n"
        " 7  reports.…  retryable\n"
        " 8  mail       dead\n"
        "    no such invoice: 47…\n");
}

TEST_CASE("an error goes below its row before it makes names shorter") {
  Table table(
      {{.title = "QUEUE", .keep = true}, {"KIND"}, {.title = "ERROR", .least = 40, .below = true}});
  table.add({{"reports.daily"}, {"invoice_export"}, {std::string(60, 'e')}});
  Io io;
  io.width = 71;
  CHECK(table.render(io) ==
        "QUEUE          KIND            ERROR\nreports.daily  invoice_export  " +
            std::string(39, 'e') + "…\n");
  io.width = 70;
  CHECK(table.render(io) ==
        "QUEUE          KIND\nreports.daily  invoice_export\n    " + std::string(60, 'e') + "\n");
}

TEST_CASE("wide characters take two columns, combining marks none") {
  CHECK(display_width("größer") == 6);
  CHECK(display_width("注文") == 4);
  CHECK(display_width("e\xcc\x81") == 1);
  CHECK(display_width("🙂") == 2);
  CHECK(display_width("\xff\xff") == 2);
  Table table({{"NAME"}, {"N"}});
  table.add({{"注文処理の失敗の通知"}, {"1"}});
  table.add({{"a"}, {"2"}});
  Io io;
  io.width = 14;
  CHECK(table.render(io) == "NAME         N\n注文処理の…  1\na            2\n");
}

TEST_CASE("foreign text cannot control the terminal") {
  CHECK(printable("a\tb\nc\x1b[2J\x7f") == "a\\tb\\nc\\x1b[2J\\x7f");
  CHECK(printable("\xc2\x9b"
                  "31m") == "\\u009b31m");
  CHECK(printable("\xe2\x80\xae"
                  "gpj.exe\xe2\x81\xa6") == "\\u202egpj.exe\\u2066");
  CHECK(printable("\x9b"
                  "31m\xe2\x80") == "\\x9b31m\\xe2\\x80");
  CHECK(printable("größer 注文 🙂") == "größer 注文 🙂");
  CHECK(printable_lines("a\tb\n\x1b]0;x\x07\xc2\x9b"
                        "2J\r\n") == "a\tb\n\\x1b]0;x\\x07\\u009b2J\\x0d\n");
  CHECK(without_c1("§ \xc2\x9b"
                   "2J é \xc2\x85\xc2\xa0\xc2") == "§ \\u009b2J é \\u0085\xc2\xa0\xc2");
}

TEST_CASE("a table aligns its columns and escapes control characters") {
  Table table({{"NAME"}, {"COUNT", Align::right}, {"REST"}});
  table.add({{"a"}, {"1"}, {"x"}});
  table.add({{"größer"}, {"1,000"}, {"bell\a and\nline"}});
  Io io;
  CHECK(table.render(io) ==
        "NAME    COUNT  REST\n"
        "a           1  x\n"
        "größer  1,000  bell\\x07 and\\nline\n");
  io.colours = true;
  Table coloured_table({{"S"}});
  coloured_table.add({{"dead", Colour::red}});
  CHECK(coloured_table.render(io) == "\033[2mS\033[0m\n\033[31mdead\033[0m\n");
  Io narrow;
  narrow.width = 24;
  CHECK(table_has(table.render(narrow), "bell\\x07…"));
}

TEST_CASE("a table printed in parts keeps its columns and prints its header once") {
  std::string out;
  Io io;
  io.out = [&](std::string_view text) { out += text; };
  Table table({{"NAME"}, {"NOTE", Align::left, true}, {"REST"}});
  CHECK(table.empty());
  table.flush(io);
  CHECK(out.empty());
  table.add({{"longest"}, {""}, {"x"}});
  table.flush(io);
  CHECK_FALSE(table.empty());
  table.add({{"b"}, {""}, {"y"}});
  table.flush(io);
  CHECK(out == "NAME     REST\nlongest  x\nb        y\n");
  out.clear();
  table.add({{"c"}, {"new"}, {"z"}});
  table.flush(io);
  CHECK(out == "NAME     NOTE  REST\nc        new   z\n");
}
