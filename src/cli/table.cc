// Aligns and colours rows.
#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "cli/text.h"

namespace mainspring::cli {
namespace {

constexpr std::string_view escape_of(Colour colour) {
  switch (colour) {
    case Colour::none:
      return "";
    case Colour::dim:
      return "\033[2m";
    case Colour::bold:
      return "\033[1m";
    case Colour::green:
      return "\033[32m";
    case Colour::yellow:
      return "\033[33m";
    case Colour::red:
      return "\033[31m";
    case Colour::blue:
      return "\033[34m";
  }
  return "";
}

// The first `width` columns of `text`, the last of them "…" if something was cut.
std::string cut(const std::string& text, std::size_t width) {
  if (width == 0 || display_width(text) <= width) return text;
  std::size_t columns = 0, end = 0;
  while (end < text.size()) {
    const Character next = first_character(std::string_view(text).substr(end));
    columns += columns_of(next.code);
    if (columns >= width) break;
    end += next.bytes;
  }
  return text.substr(0, end) + "…";
}

constexpr std::string_view kGap = "  ";
constexpr std::string_view kBelow = "    ";  // before the last column, if it is below its row

// A cell of several lines that starts at column `used`.
std::string lines_at(const Io& io, const Cell& cell, std::size_t used) {
  std::string out;
  for (std::string_view rest = cell.text;;) {
    const std::size_t end = rest.find('\n');
    out += coloured(io, rest.substr(0, end), cell.colour);
    if (end == std::string_view::npos) return out;
    out += '\n' + std::string(used, ' ');
    rest.remove_prefix(end + 1);
  }
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) {
    const Character next = first_character(text);
    columns += columns_of(next.code);
    text.remove_prefix(next.bytes);
  }
  return columns;
}

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string out;
  const std::string margin(indent, ' ');
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    const bool verbatim = line.starts_with(' ');
    while (!verbatim && line.size() + indent > width) {
      std::size_t cut = line.rfind(' ', width - indent);
      if (cut == std::string_view::npos || cut == 0) cut = line.find(' ');
      if (cut == std::string_view::npos) break;
      out += margin + std::string(line.substr(0, cut)) + '\n';
      line.remove_prefix(cut + 1);
    }
    out += line.empty() ? "\n" : margin + std::string(line) + '\n';
  }
  return out;
}

std::string coloured(const Io& io, std::string_view text, Colour colour) {
  if (!io.colours || colour == Colour::none || text.empty()) return std::string(text);
  return fmt::format("{}{}\033[0m", escape_of(colour), text);
}

void Table::add(std::vector<Cell> row) {
  MS_ASSERT(row.size() == columns_.size(), "a row has a cell for every column");
  for (std::size_t i = 0; i < row.size(); ++i) {
    std::string safe;
    for (std::string_view rest = row[i].text;;) {
      const std::size_t end = columns_[i].lines ? rest.find('\n') : std::string_view::npos;
      safe += printable(rest.substr(0, end));
      if (end == std::string_view::npos) break;
      safe += '\n';
      rest.remove_prefix(end + 1);
    }
    row[i].text = std::move(safe);
  }
  rows_.push_back(std::move(row));
}

std::vector<std::size_t> Table::widths(std::vector<std::size_t> before) const {
  before.resize(columns_.size(), 0);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = before[i];
    for (const auto& row : rows_) width = std::max(width, display_width(row[i].text));
    const bool out = columns_[i].if_any && width == 0;
    before[i] = out ? 0 : std::max(width, display_width(columns_[i].title));
  }
  return before;
}

std::size_t Table::needed(const Layout& layout, std::size_t most) const {
  std::size_t used = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (!layout.shown[i]) continue;
    const bool last = i + 1 == columns_.size();
    std::size_t width = layout.widths[i];
    if (columns_[i].align == Align::left && !columns_[i].whole)
      width = std::min(width, last ? columns_[i].least : most);
    used += (used == 0 ? 0 : kGap.size()) + width;
  }
  return used;
}

void Table::drop_columns(Layout& layout, std::size_t room) const {
  while (needed(layout, kNameWidth) > room) {
    std::size_t first = columns_.size();
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!layout.shown[i] || columns_[i].drop == 0) continue;
      if (first == columns_.size() || columns_[i].drop < columns_[first].drop) first = i;
    }
    if (first == columns_.size()) return;
    layout.shown[first] = false;
  }
}

std::size_t Table::widest(const Layout& layout, bool kept) const {
  std::size_t found = columns_.size();
  for (std::size_t i = 0; i + 1 < columns_.size(); ++i) {
    const Column& column = columns_[i];
    const bool text = layout.shown[i] && column.align == Align::left && !column.whole;
    if (!text || column.keep != kept || layout.widths[i] <= kLeastWidth) continue;
    if (found == columns_.size() || layout.widths[i] > layout.widths[found]) found = i;
  }
  return found;
}

void Table::cut_columns(Layout& layout, std::size_t room) const {
  while (needed(layout, SIZE_MAX) > room) {
    std::size_t i = widest(layout, false);
    if (i == columns_.size()) i = widest(layout, true);
    if (i == columns_.size()) return;
    --layout.widths[i];
  }
}

Table::Layout Table::fitted(const Io& io, std::vector<std::size_t> widths) const {
  Layout layout{.widths = std::move(widths), .shown = {}, .below = false};
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    layout.shown.push_back(layout.widths[i] != 0 || !columns_[i].if_any);
  }
  if (io.width <= 0) return layout;
  const auto room = static_cast<std::size_t>(io.width);
  const bool last = columns_.back().below && layout.shown.back();
  if (last && needed(layout, kNameWidth) > room) {
    layout.below = true;
    layout.shown.back() = false;
  }
  drop_columns(layout, room);
  cut_columns(layout, room);
  return layout;
}

std::string Table::render(const Io& io) const {
  return lines(io, fitted(io, widths({})), true);
}

void Table::flush(const Io& io) {
  if (rows_.empty()) return;
  std::vector<std::size_t> now = widths(widths_);
  const Layout layout = fitted(io, now);
  io.out(lines(io, layout, titles_ != layout.shown));
  titles_ = layout.shown;
  widths_ = std::move(now);
  rows_.clear();
}

std::string Table::lines(const Io& io, const Layout& layout, bool title) const {
  const auto room = static_cast<std::size_t>(std::max(io.width, 0));
  std::string out;
  const auto line = [&](auto&& cell_at) {
    std::size_t used = 0;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!layout.shown[i]) continue;
      if (used != 0) out += kGap, used += kGap.size();
      Cell cell = cell_at(i);
      const bool last = i + 1 == columns_.size();
      if (!last) cell.text = cut(cell.text, layout.widths[i]);
      if (last && room >= used + kLeastWidth) cell.text = cut(cell.text, room - used);
      const std::size_t width = display_width(cell.text);
      const std::size_t missing = layout.widths[i] > width ? layout.widths[i] - width : 0;
      if (columns_[i].align == Align::right) out.append(missing, ' ');
      out += columns_[i].lines ? lines_at(io, cell, used) : coloured(io, cell.text, cell.colour);
      if (columns_[i].align == Align::left && !last) out.append(missing, ' ');
      used += layout.widths[i];
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += '\n';
  };
  if (title) line([&](std::size_t i) { return Cell{columns_[i].title, Colour::dim}; });
  for (const auto& row : rows_) {
    line([&](std::size_t i) { return row[i]; });
    if (!layout.below || row.back().text.empty()) continue;
    const std::size_t width = room > kBelow.size() + kLeastWidth ? room - kBelow.size() : 0;
    out += kBelow;
    out += coloured(io, cut(row.back().text, width), row.back().colour) + '\n';
  }
  return out;
}

}  // namespace mainspring::cli
