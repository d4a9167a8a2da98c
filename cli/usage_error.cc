#include "cli/usage_error.h"

#include <fmt/format.h>

#include "core/nearest.h"

namespace fovea::cli {
namespace {

const CLI::App& chosen_app(const CLI::App& root) {
  const CLI::App* app = &root;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return *app;
}

// `"--causal"?` of name_hint(), or a pointer to the help page when nothing is near.
std::string hint_for(const std::string& name, const std::vector<std::string>& known, const std::string& path) {
  const std::vector<std::string_view> views(known.begin(), known.end());
  return nearest_name(name, views).empty() ? path + " --help" : name_hint(name, views);
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

Error unknown_argument(const CLI::App& app, const std::string& argument, const std::string& path) {
  if (argument.starts_with("-")) {
    const std::string name = argument.substr(0, argument.find('='));
    return Error(ErrorCode::usage, fmt::format("unknown option \"{}\"", name), path,
                 hint_for(name, option_names(app), path));
  }
  const std::vector<std::string> verbs = verb_names(app);
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

std::string chosen_path(const CLI::App& root) {
  std::string path = root.get_name();
  for (const CLI::App* app = &root; !app->get_subcommands().empty();) {
    app = app->get_subcommands().front();
    path += " " + app->get_name();
  }
  return path;
}

Error usage_error(const CLI::App& root, const CLI::ParseError& error) {
  const CLI::App& app = chosen_app(root);
  const std::string path = chosen_path(root);
  std::vector<std::string> left = app.remaining();
  if (left.empty()) left = root.remaining(true);
  const bool incomplete = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (!left.empty() && (incomplete || extras)) return unknown_argument(app, left.front(), path);
  if (incomplete && !verb_names(app).empty())
    return Error(ErrorCode::usage, fmt::format("\"{}\" needs a word more", path), {},
                 fmt::format("{} {}", path, fmt::join(verb_names(app), " | ")));
  return Error(ErrorCode::usage, plain_words(error.what()), path, path + " --help");
}

}  // namespace fovea::cli
