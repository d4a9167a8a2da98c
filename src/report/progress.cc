#include "report/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "report/numbers.h"

namespace fovea {
namespace {

constexpr double kRedrawSeconds = 0.1, kPlainSeconds = 5, kRateSeconds = 10;
constexpr int kWidestBar = 20, kNarrowestBar = 6;

double share_of(const ProgressState& state) {
  double share = state.share;
  if (std::isnan(share))
    share = state.total > 0 ? static_cast<double>(state.step) / static_cast<double>(state.total) : 0;
  return std::clamp(share, 0.0, 1.0);
}

std::string bar(double share, int width) {
  const int full = static_cast<int>(share * width);
  std::string text;
  for (int i = 0; i < width; ++i) text += i < full ? "█" : "░";
  return text;
}

void write_to_stderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Progress::Progress(ProgressOptions options) : options_(std::move(options)) {
  if (!options_.write) options_.write = write_to_stderr;
  if (!options_.seconds) options_.seconds = steady_seconds;
}

Progress::~Progress() { finish(); }

void Progress::update(const ProgressState& state) {
  const double now = options_.seconds();
  state_ = state;
  if (!started_) {  // a resumed run starts in the middle
    started_ = true;
    start_ = drawn_ = now;
    start_share_ = share_of(state);
    if (!options_.terminal.interactive) drawn_ -= kPlainSeconds - 1;  // the first plain line comes after a second
  }
  marks_.push_back({now, state.step});
  while (marks_.size() > 2 && now - marks_.front().time > kRateSeconds) marks_.pop_front();
  const double pause = options_.terminal.interactive ? kRedrawSeconds : kPlainSeconds;
  if (now - drawn_ >= pause) draw(false);
}

void Progress::finish() {
  if (finished_) return;
  finished_ = true;
  if (options_.passing)
    hide();
  else if (started_)
    draw(true);
}

void Progress::hide() {
  if (visible_ && !options_.quiet) options_.write("\r\033[K");
  visible_ = false;
}

double Progress::step_rate() const {
  if (marks_.size() < 2) return 0;
  const double seconds = marks_.back().time - marks_.front().time;
  return seconds > 0 ? static_cast<double>(marks_.back().step - marks_.front().step) / seconds : 0;
}

std::string Progress::rate_text() const {
  const double rate = std::isnan(state_.rate) ? step_rate() : state_.rate;
  return rate < 1000 ? number_text(rate) : quantity_text(Quantity::count, std::round(rate));
}

double Progress::left() const {
  const double done = share_of(state_) - start_share_;
  if (done <= 0) return std::numeric_limits<double>::infinity();
  return (options_.seconds() - start_) * (1 - share_of(state_)) / done;
}

std::string Progress::line(double width, bool last) const {
  const std::string steps =
      state_.total > 0 ? fmt::format("{}/{}", state_.step, state_.total) : fmt::format("{}", state_.step);
  std::string tail = fmt::format("  {}  {} {}/s", steps, rate_text(), options_.unit);
  if (!std::isnan(state_.loss)) tail += "  loss " + number_text(state_.loss);
  if (!std::isnan(state_.accuracy)) tail += "  acc " + quantity_text(Quantity::percent, state_.accuracy);
  if (!state_.notice.empty()) tail += "  " + state_.notice;
  tail += last ? "  " + clock_text(options_.seconds() - start_) : "  " + clock_text(left()) + " left";
  const std::string head = pad_right(options_.label, options_.label_width);
  if (!options_.terminal.interactive) return head + fmt::format("  {:.0f}%", 100 * share_of(state_)) + tail;
  const int room = static_cast<int>(width) - 1 - static_cast<int>(text_width(head) + text_width(tail)) - 2;
  if (room < kNarrowestBar)  // a line that wraps cannot be redrawn
    return std::string(cut_right(head + tail, static_cast<std::size_t>(std::max(width - 1, 1.0))));
  return head + "  " + bar(share_of(state_), std::min(room, kWidestBar)) + tail;
}

void Progress::draw(bool last) {
  drawn_ = options_.seconds();
  if (options_.quiet) return;
  const std::string text = line(options_.terminal.width, last);
  visible_ = options_.terminal.interactive && !last;
  if (options_.terminal.interactive)
    options_.write("\r\033[K" + text + (last ? "\n" : ""));
  else
    options_.write(text + "\n");
}

}  // namespace fovea
