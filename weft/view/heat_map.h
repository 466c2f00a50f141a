// A table of figures as a picture: a colour for how far each is from the best, the figure itself in the cell.
#pragma once

#include <string>
#include <vector>

namespace weft::view {

struct HeatMap {
  struct Cell {
    double ratio = 0;    // to the best: 1 and more; 0: there is none
    std::string text;    // in the cell
    std::string detail;  // shown when pointed at
  };
  std::string title, x_name, y_name, note;
  std::vector<std::string> columns, rows;
  std::vector<Cell> cells;  // row by row
};
// SVG. Light where a figure is the best, dark where it is ten times that or more; the best has a frame.
std::string svg(const HeatMap& map);

}  // namespace weft::view
