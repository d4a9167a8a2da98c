#include <fmt/format.h>

#include <new>

#include "cli/help.h"
#include "cli/usage_error.h"
#include "cli/verb.h"
#include "fovea/version.h"

namespace fovea::cli {
namespace {

std::string joined(const std::array<std::string, 2>& examples) { return examples[0] + "\n" + examples[1]; }

// The command as it can be typed again.
std::string command_line(int argc, const char* const* argv) {
  std::string line = "fovea";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool plain = !word.empty() && word.find_first_of(" \t\n'\"\\$&|;<>()*?[]{}!#~`") == std::string::npos;
    line += plain ? " " + word : fmt::format(" '{}'", fmt::join(CLI::detail::split(word, '\''), "'\\''"));
  }
  return line;
}

}  // namespace

Program::Program() : root_("Every attention, one engine: train, compare and time attention mechanisms.", "fovea") {
  root_.formatter(std::make_shared<HelpPage>());
  root_.set_help_flag("-h,--help", "this page")->group(kCommonGroup);
  root_.set_version_flag("--version", "fovea " FOVEA_VERSION)->group(kCommonGroup);
  root_.footer(joined({"fovea lra listops --attention transformer,transnormer-t2 --minutes 2", "fovea list"}));
  root_.require_subcommand(1);
}

CLI::App& Program::add(const VerbText& text, std::function<void(const Console&)> run, CLI::App* parent) {
  CLI::App& app = *(parent == nullptr ? &root_ : parent)->add_subcommand(text.name, text.summary);
  app.footer(joined(text.examples));
  app.get_help_ptr()->group(kCommonGroup);
  app.add_flag("--json", console_.json, "print one JSON document")->group(kCommonGroup);
  app.add_flag("--quiet", console_.quiet, "say only what goes wrong")->group(kCommonGroup);
  app.add_flag("--verbose", console_.verbose, "say more")->group(kCommonGroup);
  verbs_.push_back({&app, std::move(run)});
  return app;
}

CLI::App& Program::add_group(const VerbText& text) {
  CLI::App& app = *root_.add_subcommand(text.name, text.summary);
  app.footer(joined(text.examples));
  app.get_help_ptr()->group(kCommonGroup);
  app.require_subcommand(1);
  return app;
}

void Program::parse(int argc, const char* const* argv) {
  try {
    root_.parse(argc, argv);
  } catch (const CLI::Success&) {
    throw;
  } catch (const CLI::ParseError& error) {
    throw usage_error(root_, error);
  }
}

int Program::run_chosen() {
  for (const Verb& verb : verbs_)
    if (verb.app->parsed()) verb.run(console_);
  Console::finish();
  return 0;
}

int Program::main(int argc, const char* const* argv) {
  try {
    if (argc < 2) {
      print_error(Error(ErrorCode::usage, "what to do? The verbs are:"));
      console_.note("\n" + root_.help());
      return exit_code(ErrorCode::usage);
    }
    console_.command = command_line(argc, argv);
    parse(argc, argv);
    return run_chosen();
  } catch (const CLI::Success& wanted) {
    return root_.exit(wanted);  // prints the help page or the version
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
