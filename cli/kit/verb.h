#pragma once

#include <functional>
#include <vector>

#include "cli/kit/arguments.h"
#include "cli/kit/console.h"
#include "dist/launch.h"

namespace fovea::cli {

// A verb of the command line: what can be typed after it and what it does.
struct Verb {
  Arguments arguments;
  std::function<void(const Console&)> run;
  bool shared = false;  // several ranks do it together
};

// The program's tree of verbs.
class Program {
 public:
  explicit Program(dist::Ranks& ranks);

  Arguments arguments() const { return line_.program(); }

  // A verb, or with a parent the WHAT of one: "bench attention".
  Arguments add(const VerbText& text, std::function<void(const Console&)> run, const Arguments* parent = nullptr);
  // The verb added last is for several ranks, too.
  void share_last() { verbs_.back().shared = true; }
  // A verb that only has WHATs below it.
  Arguments add_group(const VerbText& text);

  // Parses and runs; gives the exit code of the process.
  int main(int argc, const char* const* argv);

 private:
  void run_chosen(int argc, const char* const* argv);
  void run_verb(const Verb& verb) const;
  int end_with(const Error& error);

  dist::Ranks& ranks_;
  CommandLine line_;
  std::vector<Verb> verbs_;
  Console console_;
};

// One function for each file of the folder.
void add_list(Program& program);
void add_show(Program& program);
void add_doctor(Program& program);
void add_bench(Program& program);
void add_bench_threads(Program& program, const Arguments& bench);
void add_bench_decode(Program& program, const Arguments& bench);
void add_train(Program& program);
void add_plan(Program& program);
void add_eval(Program& program);
void add_generate(Program& program);
void add_inspect(Program& program);
void add_import(Program& program);
void add_export(Program& program);
void add_embed(Program& program);
void add_compare(Program& program);
void add_lra(Program& program);
void add_reproduce(Program& program);
void add_data(Program& program);
void add_tokenize(Program& program);
void add_completion(Program& program);
void add_help(Program& program);

}  // namespace fovea::cli
