// The colours are on a line from light yellow over teal to dark blue: it is monotone in lightness, so it can be read in
// grey and by those who do not tell red from green.
#include "weft/view/heat_map.h"

#include <algorithm>
#include <cmath>

#include "weft/base/error.h"
#include "weft/view/xml.h"

namespace weft::view {
namespace {

struct Colour {
  double red, green, blue;
};
constexpr Colour stops[] = {{255, 247, 188}, {161, 218, 180}, {65, 182, 196}, {34, 94, 168}, {8, 29, 88}};

// 0: the best, 1: ten times the best and more.
double depth(double ratio) { return std::clamp(std::log10(std::max(1., ratio)), 0., 1.); }

std::string colour(double at) {
  const double place = at * 4;
  const auto low = static_cast<size_t>(std::min(3., std::floor(place)));
  const double share = place - static_cast<double>(low);
  const auto mix = [&](double Colour::*c) {
    return static_cast<int>(std::lround(stops[low].*c + share * (stops[low + 1].*c - stops[low].*c)));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(&Colour::red), mix(&Colour::green), mix(&Colour::blue));
}

constexpr double cell_height = 24, top = 78, letter = 6.6;

double width_of(const std::vector<std::string>& texts) {
  size_t most = 0;
  for (const std::string& text : texts) most = std::max(most, text.size());
  return letter * static_cast<double>(most);
}

std::string legend(double x, double y) {
  std::string out;
  for (int i = 0; i < 60; ++i)
    out +=
        fmt::format("<rect x=\"{}\" y=\"{}\" width=\"3\" height=\"10\" fill=\"{}\"/>\n", x + 3 * i, y, colour(i / 59.));
  out += fmt::format(
      "<text x=\"{}\" y=\"{}\">best</text><text x=\"{}\" y=\"{}\" text-anchor=\"end\">10 times or more"
      "</text>\n",
      x, y + 24, x + 180, y + 24);
  return out;
}

}  // namespace

std::string svg(const HeatMap& map) {
  WEFT_CHECK(map.cells.size() == map.columns.size() * map.rows.size(), "{} cells in {} x {}", map.cells.size(),
             map.columns.size(), map.rows.size());
  std::vector<std::string> texts = map.columns;
  for (const HeatMap::Cell& cell : map.cells) texts.push_back(cell.text);
  const double cell_width = std::max(46., width_of(texts) + 12), left = width_of(map.rows) + 28;
  const double grid = cell_width * static_cast<double>(map.columns.size());
  const double bottom = top + cell_height * static_cast<double>(map.rows.size());
  const double width =
      std::max({left + grid, left + 200, letter * 1.2 * static_cast<double>(map.title.size()) + 40}) + 20;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"16\" y=\"26\" font-size=\"16\">{}</text>\n<text x=\"16\" y=\"48\" fill=\"#555\">{}</text>\n",
      width, bottom + 70, width, bottom + 70, xml_text(map.title), xml_text(map.note));
  for (size_t c = 0; c < map.columns.size(); ++c)
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                       left + cell_width * (static_cast<double>(c) + 0.5), top - 8, xml_text(map.columns[c]));
  for (size_t r = 0; r < map.rows.size(); ++r) {
    const double y = top + cell_height * static_cast<double>(r);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", left - 10,
                       y + cell_height / 2 + 4, xml_text(map.rows[r]));
    for (size_t c = 0; c < map.columns.size(); ++c) {
      const HeatMap::Cell& cell = map.cells[r * map.columns.size() + c];
      const double x = left + cell_width * static_cast<double>(c), at = depth(cell.ratio);
      const bool best = cell.ratio > 0 && cell.ratio <= 1.000001;
      out += fmt::format(
          "<g><title>{}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\" "
          "stroke=\"{}\" stroke-width=\"{}\"/>"
          "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"{}\"{}>{}</text></g>\n",
          xml_text(cell.detail), x + 1.5, y + 1.5, cell_width - 3, cell_height - 3,
          cell.ratio > 0 ? colour(at) : "#eeeeee", best ? "#d7301f" : "none", best ? 2 : 0, x + cell_width / 2,
          y + cell_height / 2 + 4,
          cell.ratio == 0 ? "#999"
          : at > 0.45     ? "white"
                          : "black",
          best ? " font-weight=\"bold\"" : "", xml_text(cell.ratio > 0 ? cell.text : "-"));
    }
  }
  out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"#555\">{}</text>\n", left + grid / 2 - 20, bottom + 18,
                     xml_text(map.x_name));
  return out + legend(16, bottom + 30) + "</svg>\n";
}

}  // namespace weft::view
