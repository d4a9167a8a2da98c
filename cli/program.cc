#include <fmt/format.h>

#include <algorithm>
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

Program::Program(dist::Ranks& ranks)
    : ranks_(ranks),
      line_({"fovea",
             "Every attention, one engine: train, compare and time attention mechanisms.",
             {"fovea lra listops --attention transformer,transnormer-t2 --minutes 2", "fovea list"}},
            "fovea " + build_text()) {
  console_.ranks = &ranks;
  console_.silent = !ranks.leads();
}

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
    case Parsed::Kind::help:  // with --json, too
      if (ranks_.leads()) Console().print(help_page(line_.chosen()));
      break;
    case Parsed::Kind::version:
      if (ranks_.leads()) Console().print(parsed.message);
      break;
    case Parsed::Kind::accepted:
      for (const Verb& verb : verbs_)
        if (verb.arguments.typed()) run_verb(verb);
      break;
    default: throw usage_error(line_, parsed);
  }
  Console::finish();
}

void Program::run_verb(const Verb& verb) const {
  const int ranks = std::max(ranks_.all().size(), dist::launched_processes());
  if (ranks > 1 && ranks_.all().size() == 1)
    fail(ErrorCode::unsupported,
         fmt::format("started as {} processes, but this program knows nothing of others", ranks), "mpirun",
         "make dist, and start build/release/bin/dist/fovea");
  if (ranks > 1 && !verb.shared)
    fail(ErrorCode::unsupported, fmt::format("{} does not run on several ranks", verb.arguments.path()), "mpirun",
         "without it; fovea train shares its work");
  verb.run(console_);
}

int Program::end_with(const Error& error) { return ranks_.end_with(error, print_error); }

int Program::main(int argc, const char* const* argv) {
  try {
    if (argc < 2) {
      if (ranks_.leads()) print_error(Error(ErrorCode::usage, "what to do? The verbs are:"));
      console_.note("\n" + help_page(line_.program()));
      return exit_code(ErrorCode::usage);
    }
    console_.command = command_line(argc, argv);
    run_chosen(argc, argv);
    return 0;
  } catch (const Error& error) {
    return end_with(error);
  } catch (const std::bad_alloc&) {
    end_with(Error(ErrorCode::out_of_memory, "out of memory", {}, "a shorter sequence or a smaller batch"));
  } catch (const std::exception& error) {
    end_with(Error(ErrorCode::internal, error.what(), {}, "please report this, with the command"));
  }
  return exit_code(ErrorCode::internal);
}

}  // namespace fovea::cli
