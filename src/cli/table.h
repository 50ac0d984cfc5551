// Table: rows for people, in aligned columns, with colours only where a person looks.
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
 public:
  struct Column {
    std::string title;
    Align align = Align::left;
    bool if_any = false;  // left out where no row has anything in it; not of the last one
    bool lines = false;   // of the last one: a text of several lines stays one
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as columns. Control characters are made harmless.
  void add(std::vector<Cell> row);
  bool empty() const { return rows_.empty() && widths_.empty(); }
  // Title line and rows. On a terminal that is too narrow, text columns are cut: the widest first,
  // none below kLeastWidth; then the last column.
  std::string render(const Io& io) const;
  // For long lists: prints the rows that were added since the last call, and forgets them. Columns
  // keep their widths, or become wider.
  void flush(const Io& io);

 private:
  static constexpr std::size_t kLeastWidth = 8;
  std::vector<std::size_t> widths(std::vector<std::size_t> before) const;
  // Narrows text columns for the terminal.
  std::vector<std::size_t> fitted(const Io& io, std::vector<std::size_t> widths) const;
  std::string lines(const Io& io, const std::vector<std::size_t>& widths, bool title) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
  std::vector<std::size_t> widths_;  // of what was flushed; empty = nothing was
};

std::string coloured(const Io& io, std::string_view text, Colour colour);
// Columns that `text` takes on a terminal: UTF-8 sequences count once.
std::size_t display_width(std::string_view text);

}  // namespace mainspring::cli
