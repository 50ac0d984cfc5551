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

class Table {
  static constexpr std::size_t kLeastWidth = 8;

 public:
  struct Column {
    std::string title;
    Align align = Align::left;
    bool if_any = false;  // omitted if no row has a value
    bool lines = false;   // for the last column: keep the lines of a multi-line text
    std::size_t least = kLeastWidth;  // for the last column: width that the others leave for it
    bool keep = false;                // names and states: cut only after the other columns
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
  std::vector<std::size_t> widths(std::vector<std::size_t> before) const;
  // Narrows text columns for the terminal.
  std::vector<std::size_t> fitted(const Io& io, std::vector<std::size_t> widths) const;
  std::string lines(const Io& io, const std::vector<std::size_t>& widths, bool title) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
  std::vector<std::size_t> widths_;  // of flushed rows; empty = none
};

std::string coloured(const Io& io, std::string_view text, Colour colour);
// Columns that `text` takes on a terminal: UTF-8 sequences count once.
std::size_t display_width(std::string_view text);
// Breaks paragraphs into lines of at most `width`, each indented by `indent` blanks. Keeps lines
// that start with a blank.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width);

}  // namespace mainspring::cli
