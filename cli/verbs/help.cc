#include <memory>

#include "cli/kit/help.h"
#include "cli/kit/verb.h"
#include "measure/machine.h"

// fovea help: the page of a verb, and all of them as a manual page.
namespace fovea::cli {
namespace {

struct HelpOptions {
  std::vector<std::string> verb;
  bool man = false;
};

}  // namespace

void add_help(Program& program) {
  const auto options = std::make_shared<HelpOptions>();
  const Arguments all = program.arguments();
  const Arguments verb = program.add(
      {"help", "Explains a verb, as --help after it does.", {"fovea help train", "fovea help --man > fovea.1"}},
      [options, all](const Console& console) {
        Console told = console;
        told.json = false;  // a page for people, whatever was asked for
        told.print(options->man ? man_page(all, build_text()) : help_page(all.find(options->verb)));
      });
  verb.add_option("verb", options->verb, "and what it is to do: bench attention [all verbs]");
  verb.add_flag("--man", options->man, "print the manual page fovea(1)");
}

}  // namespace fovea::cli
