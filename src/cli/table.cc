// Aligns and colours rows.
#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"

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

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

// The first `width` columns of `text`, the last of them "…" if something was cut.
std::string cut(const std::string& text, std::size_t width) {
  if (display_width(text) <= width || width == 0) return text;
  std::size_t columns = 0;
  std::size_t end = 0;
  for (; end < text.size(); ++end) {
    if (is_continuation(text[end])) continue;
    if (++columns == width) break;
  }
  return text.substr(0, end) + "…";
}

constexpr std::string_view kGap = "  ";

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
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
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

std::vector<std::size_t> Table::fitted(const Io& io, std::vector<std::size_t> widths) const {
  if (io.width <= 0) return widths;
  const auto room = static_cast<std::size_t>(io.width);
  for (;;) {
    const std::size_t none = columns_.size();
    std::size_t used = 0, widest = none;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const bool last = i + 1 == columns_.size();
      if (widths[i] == 0 && columns_[i].if_any) continue;
      used += last ? std::min(widths[i], columns_[i].least) : widths[i] + kGap.size();
      const bool text = !last && columns_[i].align == Align::left && widths[i] > kLeastWidth;
      if (!text) continue;
      const bool first = widest == none || (columns_[widest].keep && !columns_[i].keep);
      const bool wider =
          widest != none && columns_[widest].keep == columns_[i].keep && widths[i] > widths[widest];
      if (first || wider) widest = i;
    }
    if (used <= room || widest == none) return widths;
    --widths[widest];
  }
}

std::string Table::render(const Io& io) const {
  return lines(io, fitted(io, widths({})), true);
}

void Table::flush(const Io& io) {
  if (rows_.empty()) return;
  std::vector<std::size_t> now = widths(widths_);
  bool title = widths_.empty();
  // A column without values until now needs its title.
  for (std::size_t i = 0; i < widths_.size(); ++i)
    title = title || (widths_[i] == 0 && now[i] != 0);
  io.out(lines(io, fitted(io, now), title));
  widths_ = std::move(now);
  rows_.clear();
}

std::string Table::lines(const Io& io, const std::vector<std::size_t>& widths, bool title) const {
  std::string out;
  const auto line = [&](auto&& cell_at) {
    std::size_t used = 0;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (widths[i] == 0 && columns_[i].if_any) continue;
      Cell cell = cell_at(i);
      const bool last = i + 1 == columns_.size();
      if (!last) cell.text = cut(cell.text, widths[i]);
      if (last && io.width > 0 && static_cast<std::size_t>(io.width) >= used + kLeastWidth) {
        cell.text = cut(cell.text, static_cast<std::size_t>(io.width) - used);
      }
      const std::size_t width = display_width(cell.text);
      const std::string padding(widths[i] > width ? widths[i] - width : 0, ' ');
      if (columns_[i].align == Align::right) out += padding;
      out += columns_[i].lines ? lines_at(io, cell, used) : coloured(io, cell.text, cell.colour);
      if (last) break;
      if (columns_[i].align == Align::left) out += padding;
      out += kGap;
      used += widths[i] + kGap.size();
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += '\n';
  };
  if (title) line([&](std::size_t i) { return Cell{columns_[i].title, Colour::dim}; });
  for (const auto& row : rows_) {
    line([&](std::size_t i) { return row[i]; });
  }
  return out;
}

}  // namespace mainspring::cli
