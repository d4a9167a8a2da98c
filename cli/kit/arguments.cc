#include "cli/kit/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "core/nearest.h"
#include "fovea/error.h"

namespace fovea::cli {
namespace {

constexpr const char* kCommonGroup = "common";

CLI::App* last_typed(CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

void introduce(CLI::App& app, const VerbText& text) {
  app.footer(text.examples[0] + "\n" + text.examples[1]);
  app.get_help_ptr()->group(kCommonGroup);
}

}  // namespace

Option Option::type_name(const std::string& name) const { return Option(option_->type_name(name)); }
Option Option::check(const Check& check) const { return Option(option_->check(CLI::Validator(check, ""))); }
Option Option::show_default() const { return Option(option_->capture_default_str()); }
Option Option::required() const { return Option(option_->required()); }
Option Option::repeatable() const { return Option(option_->expected(1)->take_all()); }
Option Option::needs(Option other) const { return Option(option_->needs(other.option_)); }
Option Option::excludes(Option other) const { return Option(option_->excludes(other.option_)); }
Option Option::common() const { return Option(option_->group(kCommonGroup)); }

std::string Option::usage() const {
  std::string name = option_->get_positional() ? option_->get_single_name() : option_->get_name(false, true);
  std::replace(name.begin(), name.end(), ',', ' ');
  const bool takes_value = !option_->get_type_name().empty() && option_->nonpositional();
  return takes_value ? name + " " + option_->get_type_name() : name;
}

std::vector<std::string> Option::long_names() const {
  std::vector<std::string> names;
  for (const std::string& name : option_->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> Option::names() const {
  std::vector<std::string> names = long_names();
  if (names.empty()) names.push_back(option_->get_single_name());
  return names;
}

std::string Option::help() const { return option_->get_description(); }
std::string Option::shown_default() const { return option_->get_default_str(); }
bool Option::is_common() const { return option_->get_group() == kCommonGroup; }

Arguments Arguments::add_verb(const VerbText& text) const {
  CLI::App* app = app_->add_subcommand(text.name, text.summary);
  introduce(*app, text);
  return Arguments(app);
}

void Arguments::require_verb() const { app_->require_subcommand(1); }

template <class T>
Option Arguments::add_option(const std::string& name, T& value, const std::string& help) const {
  return Option(app_->add_option(name, value, help));
}

template Option Arguments::add_option(const std::string&, std::string&, const std::string&) const;
template Option Arguments::add_option(const std::string&, std::int64_t&, const std::string&) const;
template Option Arguments::add_option(const std::string&, std::uint64_t&, const std::string&) const;
template Option Arguments::add_option(const std::string&, double&, const std::string&) const;
template Option Arguments::add_option(const std::string&, std::optional<std::string>&, const std::string&) const;
template Option Arguments::add_option(const std::string&, std::optional<std::int64_t>&, const std::string&) const;
template Option Arguments::add_option(const std::string&, std::optional<std::uint64_t>&, const std::string&) const;
template Option Arguments::add_option(const std::string&, std::optional<double>&, const std::string&) const;
template Option Arguments::add_option(const std::string&, std::vector<std::string>&, const std::string&) const;

Option Arguments::add_flag(const std::string& name, bool& value, const std::string& help) const {
  return Option(app_->add_flag(name, value, help)->disable_flag_override());
}

VerbText Arguments::text() const {
  const std::string examples = app_->get_footer();
  const std::size_t end = examples.find('\n');
  return {app_->get_name(), app_->get_description(), {examples.substr(0, end), examples.substr(end + 1)}};
}

std::string Arguments::path() const {
  return is_program() ? app_->get_name() : Arguments(app_->get_parent()).path() + " " + app_->get_name();
}

bool Arguments::is_program() const { return app_->get_parent() == nullptr; }

std::vector<Arguments> Arguments::verbs() const {
  std::vector<Arguments> verbs;
  for (CLI::App* app : app_->get_subcommands([](CLI::App*) { return true; })) verbs.emplace_back(app);
  return verbs;
}

std::vector<Option> Arguments::options() const {
  std::vector<Option> options;
  for (CLI::Option* option : app_->get_options()) options.emplace_back(option);
  return options;
}

bool Arguments::typed() const { return app_->parsed(); }

Arguments Arguments::find(const std::vector<std::string>& names) const {
  Arguments found = *this;
  for (const std::string& name : names) {
    std::vector<std::string> known;
    for (const Arguments& below : found.verbs()) known.push_back(below.text().name);
    const auto at = std::find(known.begin(), known.end(), name);
    const std::vector<std::string_view> views(known.begin(), known.end());
    if (at == known.end())
      fail(ErrorCode::usage, "no verb \"" + name + "\"", "fovea help",
           known.empty() ? "fovea help" : name_hint(name, views));
    found = found.verbs()[static_cast<std::size_t>(at - known.begin())];
  }
  return found;
}

CommandLine::CommandLine(const VerbText& program, const std::string& version)
    : app_(std::make_unique<CLI::App>(program.summary, program.name)) {
  app_->set_help_flag("-h,--help", "this page");
  app_->set_version_flag("--version", version)->group(kCommonGroup);
  introduce(*app_, program);
  app_->require_subcommand(1);
}

CommandLine::~CommandLine() = default;

Parsed CommandLine::parse(int argc, const char* const* argv) {
  using Kind = Parsed::Kind;
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {Kind::help};
  } catch (const CLI::CallForVersion& error) {
    return {Kind::version, error.what()};
  } catch (const CLI::RequiredError& error) {
    return {Kind::incomplete, error.what()};
  } catch (const CLI::ExtrasError& error) {
    return {Kind::unknown, error.what()};
  } catch (const CLI::ParseError& error) {
    return {Kind::refused, error.what()};
  }
  return {Kind::accepted};
}

Arguments CommandLine::chosen() const { return Arguments(last_typed(app_.get())); }

std::vector<std::string> CommandLine::unknown_words() const {
  const std::vector<std::string> words = last_typed(app_.get())->remaining();
  return words.empty() ? app_->remaining(true) : words;
}

}  // namespace fovea::cli
