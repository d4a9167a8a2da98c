#include "cli/kit/usage_error.h"

#include <fmt/format.h>

#include "core/nearest.h"

namespace fovea::cli {
namespace {

// `"--causal"?` of name_hint(), or a pointer to the help page when nothing is near.
std::string hint_for(const std::string& name, const std::vector<std::string>& known, const std::string& path) {
  const std::vector<std::string_view> views(known.begin(), known.end());
  return nearest_name(name, views).empty() ? path + " --help" : name_hint(name, views);
}

std::vector<std::string> option_names(const Arguments& verb) {
  std::vector<std::string> names;
  for (const Option& option : verb.options())
    for (const std::string& name : option.long_names()) names.push_back(name);
  return names;
}

std::vector<std::string> verb_names(const Arguments& verb) {
  std::vector<std::string> names;
  for (const Arguments& below : verb.verbs()) names.push_back(below.text().name);
  return names;
}

Error unknown_argument(const Arguments& verb, const std::string& argument) {
  const std::string path = verb.path();
  if (argument.starts_with("-")) {
    const std::string name = argument.substr(0, argument.find('='));
    return Error(ErrorCode::usage, fmt::format("unknown option \"{}\"", name), path,
                 hint_for(name, option_names(verb), path));
  }
  const std::vector<std::string> verbs = verb_names(verb);
  if (verbs.empty()) return Error(ErrorCode::usage, fmt::format("unexpected \"{}\"", argument), path, path + " --help");
  return Error(ErrorCode::usage, fmt::format("unknown verb \"{}\"", argument), path, hint_for(argument, verbs, path));
}

// CLI11 puts the option's name in front of its messages: "--n: ...", "Could not convert: --n = x".
std::string plain_words(const std::string& message) {
  const std::string convert = "Could not convert: ";
  if (message.starts_with(convert)) {
    const std::string rest = message.substr(convert.size());
    const std::size_t equals = rest.find(" = ");
    return fmt::format("{} takes a number, got \"{}\"", rest.substr(0, equals),
                       equals == std::string::npos ? "" : rest.substr(equals + 3));
  }
  const std::size_t colon = message.find(": ");
  if (message.find("required") != std::string::npos && message.find("missing") != std::string::npos)
    return message.substr(0, colon) + " needs a value";
  return message;
}

}  // namespace

Error usage_error(const CommandLine& line, const Parsed& parsed) {
  const Arguments verb = line.chosen();
  const std::string path = verb.path();
  const std::vector<std::string> left = line.unknown_words();
  const std::vector<std::string> verbs = verb_names(verb);
  const bool incomplete = parsed.kind == Parsed::Kind::incomplete;
  if (!left.empty() && (incomplete || parsed.kind == Parsed::Kind::unknown))
    return unknown_argument(verb, left.front());
  if (incomplete && !verbs.empty())
    return Error(ErrorCode::usage, fmt::format("\"{}\" needs a word more", path), {},
                 fmt::format("{} {}", path, fmt::join(verbs, " | ")));
  return Error(ErrorCode::usage, plain_words(parsed.message), path, path + " --help");
}

}  // namespace fovea::cli
