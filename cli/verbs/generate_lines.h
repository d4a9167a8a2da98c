#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/kit/console.h"
#include "fovea/generate.h"
#include "report/progress.h"

namespace fovea::cli {

WeightForm weight_form(const std::string& name);  // of --weights
BeamStop beam_stop(const std::string& name);      // of --beam-stop

// On standard output at once, for text that somebody watches.
void write_now(std::string_view text);

// Lines of a file, without their ends ("\n" or "\r\n").
std::vector<std::string> lines_of(std::string_view text);

// "\n", "\t" and "\\" as typed in a shell; other backslashes stay.
std::string unescaped(std::string_view text);
// The other way round, so that a text takes one line.
std::string escaped(std::string_view text);

// Writes results line by line in the order of the prompts, whatever order they come in, to a file or to standard
// output; shows how many there are when it does not write to a terminal.
class LineWriter {
 public:
  // `file` empty: standard output, unless that is for the document alone.
  LineWriter(const std::string& file, std::int64_t count, const Console& console);

  void put(std::int64_t prompt, const std::string& text);
  void close();  // refuses if not everything could be written

 private:
  void write(const std::string& line);

  std::string name_;
  std::ofstream file_;
  bool shown_;
  std::int64_t count_, done_ = 0, next_ = 0;
  std::map<std::int64_t, std::string> waiting_;
  Progress progress_;
};

}  // namespace fovea::cli
