#pragma once

#include <string>
#include <string_view>

#include "fovea/error.h"
#include "io/json_fwd.h"

namespace fovea::dist {
class Ranks;
}

namespace fovea::cli {

// Where text goes. Results are for standard output, everything said to people on the way for standard error; with
// --json standard output carries one document and nothing else.
class Console {
 public:
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  bool silent = false;  // one of several ranks, and not the one that speaks
  const dist::Ranks* ranks = nullptr;
  std::string command;  // the command line as typed, for reports

  void print(std::string_view text) const;     // the result for people; not with --json
  void sentence(std::string_view text) const;  // the same, folded on a terminal
  void document(const Json& result) const;     // the result for scripts; only with --json
  void note(std::string_view text) const;      // on the way; not with --quiet
  void detail(std::string_view text) const;    // on the way; only with --verbose

  void event(const Json& line) const;  // on the way, for programs: an object of --json-lines

  // Results that did not reach standard output (a full disk) are an error, not a detail.
  static void finish();
};

// "fovea: what" and the lines below it, on standard error.
void print_error(const Error& error);

// As one word of a shell.
std::string shell_quoted(const std::string& text);

}  // namespace fovea::cli
