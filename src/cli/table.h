// Table: rows in aligned columns, for people; coloured only on a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/io.h"

namespace mainspring::cli {

enum class Align { left, right };
enum class Colour { none, dim, bold, green, yellow, red, blue };

struct Cell {
  std::string text;
  Colour colour = Colour::none;
};

// On a narrow terminal a table is fitted in this order: the last column goes `below`, columns with
// `drop` are omitted, text columns are cut.
class Table {
  static constexpr std::size_t kLeastWidth = 8;
  // Names up to this length are kept whole by omitting columns with `drop`.
  static constexpr std::size_t kNameWidth = 24;

 public:
  struct Column {
    std::string title;
    Align align = Align::left;
    bool if_any = false;              // omitted if no row has a value
    bool lines = false;               // for the last column: keep the lines of a multi-line text
    std::size_t least = kLeastWidth;  // for the last column: width that the others leave for it
    bool keep = false;                // names: cut only after the other columns
    bool whole = false;               // states and times: never cut
    int drop = 0;                     // omitted if the terminal is narrow, 1 first; 0 = never
    bool below = false;  // the last column: if it would get less than `least`, on its own lines
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell per column. Control characters are escaped.
  void add(std::vector<Cell> row);
  bool empty() const { return rows_.empty() && widths_.empty(); }
  // Title line and rows. On a narrow terminal, text columns are cut: the widest first, none below
  // kLeastWidth, those with `keep` after the others; then the last column.
  std::string render(const Io& io) const;
  // For long lists: prints the rows added since the last call, and drops them. Columns keep their
  // widths, or become wider.
  void flush(const Io& io);

 private:
  struct Layout {
    std::vector<std::size_t> widths;
    std::vector<bool> shown;
    bool below = false;  // the last column has lines of its own
  };
  std::vector<std::size_t> widths(std::vector<std::size_t> before) const;
  Layout fitted(const Io& io, std::vector<std::size_t> widths) const;
  // Columns that a row takes, if no text column is wider than `most`.
  std::size_t needed(const Layout& layout, std::size_t most) const;
  void drop_columns(Layout& layout, std::size_t room) const;
  void cut_columns(Layout& layout, std::size_t room) const;
  // The index of the widest text column that can be cut; columns_.size() if there is none.
  std::size_t widest(const Layout& layout, bool kept) const;
  std::string lines(const Io& io, const Layout& layout, bool title) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
  std::vector<std::size_t> widths_;  // of flushed rows; empty = none
  std::vector<bool> titles_;         // the columns whose titles were printed last
};

std::string coloured(const Io& io, std::string_view text, Colour colour);
// Columns that `text` takes on a terminal.
std::size_t display_width(std::string_view text);
// Breaks paragraphs into lines of at most `width`, each indented by `indent` blanks. Keeps lines
// that start with a blank.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width);

}  // namespace mainspring::cli
