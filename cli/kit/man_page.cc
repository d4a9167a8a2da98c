#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cli/kit/help.h"

namespace fovea::cli {
namespace {

// Text as roff shows it: dashes that can be copied, no line that begins with a command.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

std::string options_text(const std::vector<Option>& options) {
  std::string out;
  for (const Option& option : options) {
    const std::string fallback = option.shown_default().empty() ? "" : " [" + option.shown_default() + "]";
    out += fmt::format(".TP\n.B {}\n{}\n", roff(option.usage()), roff(option.help() + fallback));
  }
  return out;
}

// Those that every verb has: they stand at the beginning.
constexpr std::string_view kEverywhere[] = {"--help", "--json", "--quiet", "--verbose"};

std::vector<Option> man_options(const Arguments& verb, bool everywhere) {
  std::vector<Option> options;
  for (const Option& option : verb.options()) {
    const auto has = [&](std::string_view name) { return option.names().front() == name; };
    if (std::any_of(std::begin(kEverywhere), std::end(kEverywhere), has) == everywhere) options.push_back(option);
  }
  return options;
}

std::string verb_text(const Arguments& verb) {
  const VerbText text = verb.text();
  std::string out = fmt::format(".SS {}\n{}\n.PP\n.nf\n.RS\n", roff(verb.path()), roff(text.summary));
  for (const std::string& example : text.examples) out += roff(example) + "\n";
  out += ".RE\n.fi\n" + options_text(man_options(verb, false));
  for (const Arguments& below : verb.verbs()) out += verb_text(below);
  return out;
}

constexpr const char* kEnvironment = R"(.SH ENVIRONMENT
.TP
.B OMP_NUM_THREADS
threads, where \-\-threads does not say
.TP
.B FOVEA_ISA
the set of instructions to use: see fovea doctor
.TP
.B NO_COLOR
neither bold nor colours
.SH EXIT STATUS
0 done, 1 failed, 2 wrong usage, 3 bad input data, 130 interrupted
)";

}  // namespace

std::string man_page(const Arguments& program, const std::string& version) {
  const VerbText text = program.text();
  std::string out =
      fmt::format(".TH FOVEA 1 \"\" \"fovea {}\"\n.SH NAME\nfovea \\- {}\n", roff(version), roff(text.summary));
  out += ".SH SYNOPSIS\n.B fovea\n.I VERB\n[\n.I WHAT\n] [\n.I options\n]\n.SH DESCRIPTION\n";
  for (const std::string& example : text.examples) out += fmt::format(".PP\n.nf\n.RS\n{}\n.RE\n.fi\n", roff(example));
  out += ".SH OPTIONS\nThese go with every verb.\n" + options_text(man_options(program.verbs().front(), true));
  out += ".SH VERBS\n";
  for (const Arguments& verb : program.verbs()) out += verb_text(verb);
  return out + kEnvironment;
}

}  // namespace fovea::cli
