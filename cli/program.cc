#include <new>

#include "cli/kit/help.h"
#include "cli/kit/usage_error.h"
#include "cli/kit/verb.h"
#include "measure/machine.h"

namespace fovea::cli {
namespace {

// The command as it can be typed again.
std::string command_line(int argc, const char* const* argv) {
  std::string line = "fovea";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool plain = !word.empty() && word.find_first_of(" \t\n'\"\\$&|;<>()*?[]{}!#~`") == std::string::npos;
    line += plain ? " " + word : " " + shell_quoted(word);
  }
  return line;
}

}  // namespace

Program::Program()
    : line_({"fovea",
             "Every attention, one engine: train, compare and time attention mechanisms.",
             {"fovea lra listops --attention transformer,transnormer-t2 --minutes 2", "fovea list"}},
            "fovea " + build_text()) {}

Arguments Program::add(const VerbText& text, std::function<void(const Console&)> run, const Arguments* parent) {
  const Arguments verb = (parent == nullptr ? line_.program() : *parent).add_verb(text);
  verb.add_flag("--json", console_.json, "print one JSON document").common();
  verb.add_flag("--quiet", console_.quiet, "say only what goes wrong").common();
  verb.add_flag("--verbose", console_.verbose, "say more").common();
  verbs_.push_back({verb, std::move(run)});
  return verb;
}

Arguments Program::add_group(const VerbText& text) {
  const Arguments group = line_.program().add_verb(text);
  group.require_verb();
  return group;
}

void Program::run_chosen(int argc, const char* const* argv) {
  const Parsed parsed = line_.parse(argc, argv);
  switch (parsed.kind) {
    case Parsed::Kind::help: Console().print(help_page(line_.chosen())); break;  // with --json, too
    case Parsed::Kind::version: Console().print(parsed.message); break;
    case Parsed::Kind::accepted:
      for (const Verb& verb : verbs_)
        if (verb.arguments.typed()) verb.run(console_);
      break;
    default: throw usage_error(line_, parsed);
  }
  Console::finish();
}

int Program::main(int argc, const char* const* argv) {
  try {
    if (argc < 2) {
      print_error(Error(ErrorCode::usage, "what to do? The verbs are:"));
      console_.note("\n" + help_page(line_.program()));
      return exit_code(ErrorCode::usage);
    }
    console_.command = command_line(argc, argv);
    run_chosen(argc, argv);
    return 0;
  } catch (const Error& error) {
    print_error(error);
    return exit_code(error.code());
  } catch (const std::bad_alloc&) {
    print_error(Error(ErrorCode::out_of_memory, "out of memory", {}, "a shorter sequence or a smaller batch"));
  } catch (const std::exception& error) {
    print_error(Error(ErrorCode::internal, error.what(), {}, "please report this, with the command"));
  }
  return exit_code(ErrorCode::internal);
}

}  // namespace fovea::cli
