#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's own name
class App;
class Option;
}  // namespace CLI

// What can be typed: verbs and their options. CLI11 parses, and arguments.cc alone includes it: its header costs 5 s of
// compilation in each file that sees it.
namespace fovea::cli {

// Says what is wrong with the text of an option; nothing when it is right.
using Check = std::function<std::string(const std::string& text)>;

// An option of a verb. A handle: copies stand for the same option.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option type_name(const std::string& name) const;  // stands for the value in the help: "N"
  Option check(const Check& check) const;
  Option show_default() const;  // the value it has now, in the help
  Option required() const;
  Option repeatable() const;  // each takes one value, and all are kept
  Option needs(Option other) const;
  Option excludes(Option other) const;
  Option common() const;  // every verb has it: one line of help for all of them

  std::string usage() const;                    // "--n N"; a positional: its name
  std::vector<std::string> long_names() const;  // "--n"
  std::vector<std::string> names() const;       // the same; of a positional its name
  std::string help() const;
  std::string shown_default() const;
  bool is_common() const;

 private:
  CLI::Option* option_;
};

// How a verb is introduced: the first lines of its --help.
struct VerbText {
  std::string name, summary;
  std::array<std::string, 2> examples;
};

// A verb with its options and the verbs below it; the program itself is the first. A handle, too.
class Arguments {
 public:
  explicit Arguments(CLI::App* app) : app_(app) {}

  Arguments add_verb(const VerbText& text) const;
  void require_verb() const;  // it does nothing without one of those below it

  // T: std::string, std::int64_t, std::uint64_t or double, std::optional of these, or std::vector<std::string>. A name
  // without dashes is a positional.
  template <class T>
  Option add_option(const std::string& name, T& value, const std::string& help) const;
  Option add_flag(const std::string& name, bool& value, const std::string& help) const;

  VerbText text() const;
  std::string path() const;  // "fovea bench attention"
  bool is_program() const;
  std::vector<Arguments> verbs() const;
  std::vector<Option> options() const;
  bool typed() const;  // known after parsing
  // "bench", "attention": a verb below this one; refuses a name that there is none of.
  Arguments find(const std::vector<std::string>& names) const;

 private:
  CLI::App* app_;
};

// What became of a command line.
struct Parsed {
  enum class Kind { accepted, help, version, incomplete, unknown, refused };
  Kind kind = Kind::accepted;
  std::string message = {};  // of CLI11; the text for --version
};

// The tree of everything that can be typed, and what was.
class CommandLine {
 public:
  CommandLine(const VerbText& program, const std::string& version);
  ~CommandLine();

  Arguments program() const { return Arguments(app_.get()); }
  Parsed parse(int argc, const char* const* argv);

  Arguments chosen() const;                        // the last verb that was typed
  std::vector<std::string> unknown_words() const;  // what no verb and no option took

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace fovea::cli
