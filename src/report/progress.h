#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "report/terminal.h"

namespace fovea {

struct ProgressState {
  std::int64_t step = 0;
  std::int64_t total = 0;  // 0: unknown
  // Share of the work done, when the clock decides rather than the steps; NaN: step / total.
  double share = std::numeric_limits<double>::quiet_NaN();
  double rate = std::numeric_limits<double>::quiet_NaN();      // units a second; NaN: steps, over the last while
  double loss = std::numeric_limits<double>::quiet_NaN();      // NaN: not shown
  double accuracy = std::numeric_limits<double>::quiet_NaN();  // a fraction; NaN: not shown
  std::string notice = {};                                     // what is not as always: "3 skipped"
};

struct ProgressOptions {
  std::string label = {};
  std::size_t label_width = 0;  // the same for the runs that follow each other, so that their bars line up
  std::string unit = "steps";   // of the rate
  Terminal terminal = {};       // of `write`
  bool quiet = false;
  bool passing = false;                              // leaves no line behind
  std::function<void(std::string_view)> write = {};  // default: standard error
  std::function<double()> seconds = {};              // default: the steady clock
};

// Shows how far, how fast, how long still, and the numbers that matter. On a terminal one line is redrawn; elsewhere a
// plain line is written every few seconds.
class Progress {
 public:
  explicit Progress(ProgressOptions options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const ProgressState& state);
  void finish();  // draws the last state and ends the line; the destructor does it too
  // Removes the bar so that something else can be written; the next update draws it again.
  void hide();

 private:
  struct Mark {
    double time;
    std::int64_t step;
  };

  void draw(bool last);
  double step_rate() const;  // over the last while
  std::string rate_text() const;
  double left() const;  // seconds
  std::string line(double width, bool last) const;

  ProgressOptions options_;
  ProgressState state_;
  std::deque<Mark> marks_;
  double start_ = 0, start_share_ = 0, drawn_ = 0;
  bool started_ = false, visible_ = false, finished_ = false;
};

}  // namespace fovea
