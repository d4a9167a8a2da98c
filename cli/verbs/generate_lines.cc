#include "cli/verbs/generate_lines.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/kit/progress.h"
#include "core/nearest.h"

namespace fovea::cli {
namespace {

// No bar among lines that are written to a terminal.
ProgressOptions bar_options(const std::string& file, const Console& console) {
  ProgressOptions options = progress_options(console, "generate", "prompts");
  options.quiet = options.quiet || (file.empty() && Terminal::of(STDOUT_FILENO).interactive);
  return options;
}

}  // namespace

WeightForm weight_form(const std::string& name) {
  return static_cast<WeightForm>(place_of_name(name, weight_form_names(), "form of weights", "--weights"));
}

BeamStop beam_stop(const std::string& name) {
  return static_cast<BeamStop>(place_of_name(name, beam_stop_names(), "end of a search", "--beam-stop"));
}

void write_now(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return lines;
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    const bool escape = text[i] == '\\' && (next == 'n' || next == 't' || next == '\\');
    out += !escape ? text[i] : next == 'n' ? '\n' : next == 't' ? '\t' : '\\';
    if (escape) ++i;
  }
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else
      out += c;
  }
  return out;
}

LineWriter::LineWriter(const std::string& file, std::int64_t count, const Console& console)
    : name_(file), shown_(!console.json), count_(count), progress_(bar_options(file, console)) {
  if (file.empty()) return;
  file_.open(file, std::ios::binary | std::ios::trunc);
  if (!file_)
    fail(ErrorCode::io, "cannot write the file", file, "a folder that exists, and a name that may be written");
}

void LineWriter::put(std::int64_t prompt, const std::string& text) {
  waiting_.emplace(prompt, escaped(text));
  for (auto at = waiting_.begin(); at != waiting_.end() && at->first == next_; at = waiting_.erase(at), ++next_)
    write(at->second + "\n");
  progress_.update({.step = ++done_, .total = count_});
}

void LineWriter::write(const std::string& line) {
  if (file_.is_open())
    file_ << line;
  else if (shown_)
    write_now(line);
}

void LineWriter::close() {
  progress_.finish();
  if (!file_.is_open()) return;
  file_.close();
  if (!file_) fail(ErrorCode::io, "could not write all of the file", name_, "is the disk full?");
}

}  // namespace fovea::cli
