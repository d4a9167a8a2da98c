#include <fmt/format.h>

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

std::string options_text(const std::vector<Option>& options, bool common) {
  std::string out;
  for (const Option& option : options) {
    if (option.is_common() != common) continue;
    const std::string fallback = option.shown_default().empty() ? "" : " [" + option.shown_default() + "]";
    out += fmt::format(".TP\n.B {}\n{}\n", roff(option.usage()), roff(option.help() + fallback));
  }
  return out;
}

std::string verb_text(const Arguments& verb) {
  const VerbText text = verb.text();
  std::string out = fmt::format(".SS {}\n{}\n.PP\n.nf\n.RS\n", roff(verb.path()), roff(text.summary));
  for (const std::string& example : text.examples) out += roff(example) + "\n";
  out += ".RE\n.fi\n" + options_text(verb.options(), false);
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
  out += ".SH OPTIONS\nThese go with every verb.\n" + options_text(program.verbs().front().options(), true);
  out += ".SH VERBS\n";
  for (const Arguments& verb : program.verbs()) out += verb_text(verb);
  return out + kEnvironment;
}

}  // namespace fovea::cli
