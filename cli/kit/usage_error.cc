#include "cli/kit/usage_error.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "core/nearest.h"

namespace fovea::cli {
namespace {

// `"--causal"?` of name_hint(), or a pointer to the help page when nothing is near.
std::string hint_for(const std::string& name, const std::vector<std::string>& known, const std::string& path) {
  const std::vector<std::string_view> views(known.begin(), known.end());
  return nearest_name(name, views).empty() ? path + " --help" : name_hint(name, views);
}

std::string example(const Arguments& verb);

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
  if (verbs.empty()) return Error(ErrorCode::usage, fmt::format("unexpected \"{}\"", argument), path, example(verb));
  return Error(ErrorCode::usage, fmt::format("unknown verb \"{}\"", argument), path, hint_for(argument, verbs, path));
}

// The option of a message of CLI11, which puts its name in front; nothing: of none.
std::optional<Option> option_of(const Arguments& verb, const std::string& message) {
  for (const Option& option : verb.options())
    for (const std::string& name : option.names())
      if (message.starts_with(name + ":") || message.starts_with(name + " ") ||
          message.starts_with("Could not convert: " + name + " ") ||
          message.starts_with("Could not convert: " + name + ":"))
        return option;
  return {};
}

// "--n: takes a number", "Could not convert: --n = x", "--n: At Most 1 required but received 2", in our words.
std::string plain_words(const std::string& message, const std::string& name) {
  const std::size_t equals = message.find(" = ");
  if (message.starts_with("Could not convert: "))
    return fmt::format("{} takes a number, got \"{}\"", name,
                       equals == std::string::npos ? "" : message.substr(equals + 3));
  const auto says = [&](const char* words) { return message.find(words) != std::string::npos; };
  if (says("required") && says("missing")) return name + " needs a value";
  if (says("At Most 1 required")) return name + " is given more than once";
  if (const std::size_t at = message.find(" excludes "); at != std::string::npos)
    return fmt::format("{} and {} do not go together", name, message.substr(at + 10));
  if (const std::size_t at = message.find(" requires "); at != std::string::npos)
    return fmt::format("{} needs {}, too", name, message.substr(at + 10));
  const std::size_t colon = message.find(": ");
  return colon == std::string::npos ? message : message.substr(0, colon) + message.substr(colon + 1);
}

// A command that is complete, and where all is explained.
std::string example(const Arguments& verb) {
  std::string path = verb.path();
  if (path.starts_with("fovea")) path = "fovea help" + path.substr(std::string_view("fovea").size());
  return fmt::format("{}; {}", verb.text().examples[0], path);
}

Error refused(const Arguments& verb, const std::string& message) {
  if (const std::size_t at = message.find(" was given a disallowed flag override"); at != std::string::npos)
    return Error(ErrorCode::usage, fmt::format("--{} takes no value", message.substr(0, at)), verb.path(),
                 "--" + message.substr(0, at));
  const std::optional<Option> option = option_of(verb, message);
  if (!option) return Error(ErrorCode::usage, message, verb.path(), example(verb));
  const std::string name = option->names().front();
  if (message.find("is required") != std::string::npos)
    return Error(ErrorCode::usage, fmt::format("{} is missing", option->usage()), verb.path(), example(verb));
  return Error(ErrorCode::usage, plain_words(message, name), verb.path(),
               fmt::format("{}   ({})", option->usage(), option->help()));
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
    return Error(ErrorCode::usage, fmt::format("\"{}\" needs a word more", path), path,
                 fmt::format("{} {}", path, fmt::join(verbs, " | ")));
  return refused(verb, parsed.message);
}

}  // namespace fovea::cli
