#pragma once

#include <string>
#include <vector>

#include "report/axis.h"
#include "report/canvas.h"

namespace fovea {

// What things are made of: a bar for each, in pieces that follow each other.
struct Bars {
  struct Part {
    std::string name;
    double value = 0.0;
  };
  struct Bar {
    std::string name;
    std::vector<Part> parts;
  };

  std::string title = {};
  Axis axis = {};
  std::vector<Bar> bars = {};
  double width = 720;

  Size size() const;  // as high as its bars and their legend take
};

void draw(const Bars& bars, Canvas& canvas);

}  // namespace fovea
