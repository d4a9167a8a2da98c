#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "cli/console.h"

namespace fovea::cli {

// A verb of the command line, with its options in a CLI11 app and what it does.
struct Verb {
  CLI::App* app = nullptr;
  std::function<void(const Console&)> run;
};

// How a verb is introduced: the first lines of its --help.
struct VerbText {
  std::string name, summary;
  std::array<std::string, 2> examples;
};

// The program's tree of verbs.
class Program {
 public:
  Program();

  CLI::App& root() { return root_; }
  const CLI::App& root() const { return root_; }

  // A verb, or with a parent the WHAT of one: "bench attention".
  CLI::App& add(const VerbText& text, std::function<void(const Console&)> run, CLI::App* parent = nullptr);
  // A verb that only has WHATs below it.
  CLI::App& add_group(const VerbText& text);

  // Parses and runs; gives the exit code of the process.
  int main(int argc, const char* const* argv);

 private:
  void parse(int argc, const char* const* argv);
  int run_chosen();

  CLI::App root_;
  std::vector<Verb> verbs_;
  Console console_;
};

// One function for each file of the folder.
void add_list(Program& program);
void add_doctor(Program& program);
void add_bench(Program& program);
void add_train(Program& program);
void add_eval(Program& program);
void add_lra(Program& program);
void add_data(Program& program);
void add_tokenize(Program& program);
void add_completion(Program& program);

}  // namespace fovea::cli
