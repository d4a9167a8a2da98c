#include <fmt/format.h>

#include <memory>
#include <sstream>

#include "cli/kit/verb.h"
#include "core/nearest.h"
#include "fovea/mechanism.h"
#include "fovea/model.h"

// fovea completion: a script for the shell, written from the tree of verbs, so that it cannot fall behind it.
namespace fovea::cli {
namespace {

struct Item {
  std::string name, help;
};

// A point in the command line where something can follow.
struct Place {
  std::string path;  // "bench attention"; empty: the program itself
  std::vector<Item> verbs, options;
};

void collect(const Arguments& verb, const std::string& path, std::vector<Place>& places) {
  Place place{path, {}, {}};
  for (const Arguments& below : verb.verbs()) place.verbs.push_back({below.text().name, below.text().summary});
  for (const Option& option : verb.options())
    for (const std::string& name : option.long_names()) place.options.push_back({name, option.help()});
  places.push_back(place);
  for (const Arguments& below : verb.verbs())
    collect(below, path.empty() ? below.text().name : path + " " + below.text().name, places);
}

// What can follow an option or stand as an argument of a verb.
struct Values {
  std::string owner;
  std::vector<std::string> words;
};

std::vector<Values> known_values() {
  std::vector<std::string> mechanisms, models, features;
  for (std::string_view name : mechanism_names()) mechanisms.emplace_back(name);
  for (std::string_view name : ModelConfig::preset_names()) models.emplace_back(name);
  models.insert(models.end(), mechanisms.begin(), mechanisms.end());
  for (int i = 0; i < kFeatures; ++i) features.emplace_back(name_of(static_cast<Feature>(i)));
  return {{"--attention", models},
          {"--with", features},
          {"--device", {"auto", "cpu", "cuda"}},
          {"--dtype", {"f32", "bf16", "f16", "f64"}},
          {"list", mechanisms},
          {"completion", {"bash", "zsh", "fish"}}};
}

std::string names_of(const std::vector<Item>& items) {
  std::string out;
  for (const Item& item : items) out += (out.empty() ? "" : " ") + item.name;
  return out;
}

constexpr const char* kBashStart = R"(# fovea completion for bash. Use: source <(fovea completion bash)
_fovea() {
  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" path="" word words=""
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$path $word" in
)";

constexpr const char* kBashEnd = R"(  esac
  local head=""  # lists: complete what follows the last comma
  if [[ -n "$values" && "$cur" == *,* ]]; then head="${cur%,*},"; cur="${cur##*,}"; fi
  COMPREPLY=($(compgen -P "$head" -W "$words" -- "$cur"))
}
complete -o default -F _fovea fovea
)";

std::string bash_script(const std::vector<Place>& places, const std::vector<Values>& values) {
  std::string out = kBashStart;
  for (const Place& place : places)
    if (!place.path.empty()) out += fmt::format("      \" {}\") path=\" {}\" ;;\n", place.path, place.path);
  out += "    esac\n  done\n  local values=yes\n  case \"$prev\" in\n";
  for (const Values& v : values) out += fmt::format("    {}) words=\"{}\" ;;\n", v.owner, fmt::join(v.words, " "));
  out +=
      "    *) values=\"\" ;;\n  esac\n  [[ \"$cur\" == -* ]] && values=\"\"\n  [[ -z \"$values\" ]] && case \"$path\" "
      "in\n";
  for (const Place& place : places)
    out += fmt::format("    \"{}{}\") words=\"{}\" ;;\n", place.path.empty() ? "" : " ", place.path,
                       names_of(place.verbs) + " " + names_of(place.options));
  return out + kBashEnd;
}

std::string zsh_items(const std::vector<Item>& items) {
  std::string out;
  for (const Item& item : items) {
    std::string help = item.help;
    for (std::size_t at = 0; (at = help.find(':', at)) != std::string::npos; at += 2) help.insert(at, "\\");
    out += " " + shell_quoted(item.name + ":" + help);
  }
  return out;
}

std::string zsh_script(const std::vector<Place>& places, const std::vector<Values>& values) {
  std::string out =
      "#compdef fovea\n# Use: fovea completion zsh > a folder of $fpath, file _fovea\n_fovea() {\n"
      "  local where=\"\" word\n  local -a items\n  for word in ${words[2,CURRENT-1]}; do\n    case \"$where $word\" "
      "in\n";
  for (const Place& place : places)
    if (!place.path.empty()) out += fmt::format("      \" {}\") where=\" {}\" ;;\n", place.path, place.path);
  out += "    esac\n  done\n  case \"$words[CURRENT-1]\" in\n";
  for (const Values& v : values)
    out += fmt::format("    {}) _values -s , value {} ; return ;;\n", v.owner, fmt::join(v.words, " "));
  out += "    --config|--data|--out|--resume) _files ; return ;;\n  esac\n  case \"$where\" in\n";
  for (const Place& place : places) {
    std::vector<Item> items = place.verbs;
    items.insert(items.end(), place.options.begin(), place.options.end());
    out += fmt::format("    \"{}{}\") items=({}) ;;\n", place.path.empty() ? "" : " ", place.path, zsh_items(items));
  }
  return out + "  esac\n  _describe 'fovea' items\n}\n_fovea \"$@\"\n";
}

// The condition under which fish offers what belongs to a place: every word of its path has been seen.
std::string fish_condition(const Place& place) {
  if (place.path.empty()) return "__fish_use_subcommand";
  std::string out;
  std::istringstream words(place.path);
  for (std::string word; words >> word;) out += (out.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + word);
  return out;
}

std::string fish_script(const std::vector<Place>& places, const std::vector<Values>& values) {
  std::string out = "# Use: fovea completion fish > ~/.config/fish/completions/fovea.fish\n";
  for (const Place& place : places) {
    const std::string condition = shell_quoted(fish_condition(place));
    for (const Item& verb : place.verbs)
      out += fmt::format("complete -c fovea -f -n {} -a {} -d {}\n", condition, verb.name, shell_quoted(verb.help));
    for (const Item& option : place.options) {
      out += fmt::format("complete -c fovea -n {} -l {} -d {}", condition, option.name.substr(2),
                         shell_quoted(option.help));
      for (const Values& v : values)
        if (v.owner == option.name)
          out += fmt::format(" -x -a {}", shell_quoted(fmt::format("{}", fmt::join(v.words, " "))));
      out += "\n";
    }
    for (const Values& v : values)
      if (v.owner == place.path)
        out += fmt::format("complete -c fovea -f -n {} -a {}\n", condition,
                           shell_quoted(fmt::format("{}", fmt::join(v.words, " "))));
  }
  return out;
}

void run(const Arguments& program, const std::string& shell, const Console& console) {
  std::vector<Place> places;
  collect(program, "", places);
  const std::vector<Values> values = known_values();
  if (shell == "bash") return console.print(bash_script(places, values));
  if (shell == "zsh") return console.print(zsh_script(places, values));
  if (shell == "fish") return console.print(fish_script(places, values));
  const std::vector<std::string_view> shells{"bash", "zsh", "fish"};
  fail(ErrorCode::usage, fmt::format("no completion for the shell \"{}\"", shell), "fovea completion",
       name_hint(shell, shells));
}

}  // namespace

void add_completion(Program& program) {
  const auto shell = std::make_shared<std::string>();
  const Arguments verb = program.add(
      {"completion",
       "Prints a completion script for bash, zsh or fish.",
       {"source <(fovea completion bash)", "fovea completion fish > ~/.config/fish/completions/fovea.fish"}},
      [shell, all = program.arguments()](const Console& console) { run(all, *shell, console); });
  verb.add_option("shell", *shell, "bash, zsh or fish").required();
}

}  // namespace fovea::cli
