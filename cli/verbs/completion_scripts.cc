#include "cli/verbs/completion_scripts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "cli/kit/console.h"

namespace fovea::cli {
namespace {

std::string names_of(const std::vector<CompletionItem>& items) {
  std::string out;
  for (const CompletionItem& item : items) out += (out.empty() ? "" : " ") + item.name;
  return out;
}

std::string setting_names(const Completion& completion) {
  std::string out;
  for (const CompletionSetting& setting : completion.settings) out += setting.name + "= ";
  return out;
}

// In a case of bash and zsh: what a setting may be.
std::string setting_cases(const Completion& completion) {
  std::string out;
  for (const CompletionSetting& setting : completion.settings)
    if (!setting.choices.empty())
      out += fmt::format("      {}) words=\"{}\" ;;\n", setting.name, fmt::join(setting.choices, " "));
  return out;
}

constexpr const char* kBashStart = R"(# fovea completion for bash. Use: source <(fovea completion bash)
_fovea() {
  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" path="" word words="" name="" head=""
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$path $word" in
)";

// Bash cuts "--set model.norm=rms" into "--set", "model.norm", "=" and "rms".
constexpr const char* kBashSet = R"(    esac
  done
  if [[ "$cur" == "=" && "${COMP_WORDS[COMP_CWORD-2]}" == --set ]]; then
    name="$prev" cur=""
  elif ((COMP_CWORD > 2)) && [[ "$prev" == "=" && "${COMP_WORDS[COMP_CWORD-3]}" == --set ]]; then
    name="${COMP_WORDS[COMP_CWORD-2]}"
  elif [[ "$prev" == --set && "$cur" == *=* ]]; then
    name="${cur%%=*}" head="${cur%%=*}=" cur="${cur#*=}"
  elif [[ "$prev" == --set ]]; then
    compopt -o nospace 2>/dev/null
    COMPREPLY=($(compgen -W "$settings" -- "$cur"))
    return
  fi
  if [[ -n "$name" ]]; then
    case "$name" in
)";

constexpr const char* kBashSetEnd = R"(    esac
    if [[ "$cur" == *,* ]]; then head="$head${cur%,*},"; cur="${cur##*,}"; fi
    COMPREPLY=($(compgen -P "$head" -W "$words" -- "$cur"))
    return
  fi
  local values=yes
  case "$prev" in
)";

constexpr const char* kBashEnd = R"(  esac
  if [[ -n "$values" && "$cur" == *,* ]]; then head="${cur%,*},"; cur="${cur##*,}"; fi  # lists: what follows the last comma
  COMPREPLY=($(compgen -P "$head" -W "$words" -- "$cur"))
}
complete -o default -F _fovea fovea
)";

std::string zsh_items(const std::vector<CompletionItem>& items) {
  std::string out;
  for (const CompletionItem& item : items) {
    std::string help = item.help;
    for (std::size_t at = 0; (at = help.find(':', at)) != std::string::npos; at += 2) help.insert(at, "\\");
    out += " " + shell_quoted(item.name + ":" + help);
  }
  return out;
}

constexpr const char* kZshStart = R"(#compdef fovea
# Use: fovea completion zsh > a folder of $fpath, file _fovea
_fovea() {
  local where="" word words_of_setting
  local -a items
  for word in ${words[2,CURRENT-1]}; do
    case "$where $word" in
)";

constexpr const char* kZshSet = R"(    esac
  done
  if [[ "$words[CURRENT-1]" == --set ]]; then
    if ! compset -P 1 '*='; then
      compadd -S '' -- ${=settings}
      return
    fi
    local words=""
    case "$IPREFIX" in
)";

constexpr const char* kZshSetEnd = R"(    esac
    compset -P '*,'
    compadd -S '' -- ${=words}
    return
  fi
  case "$words[CURRENT-1]" in
)";

// The condition under which fish offers what belongs to a place: every word of its path has been seen.
std::string fish_condition(const CompletionPlace& place) {
  if (place.path.empty()) return "__fish_use_subcommand";
  std::string out;
  std::istringstream words(place.path);
  for (std::string word; words >> word;) out += (out.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + word);
  return out;
}

// A function that prints every setting, those with choices once for each.
std::string fish_settings(const Completion& completion) {
  std::string out = "function __fovea_settings\n";
  for (const CompletionSetting& setting : completion.settings) {
    out += fmt::format("  printf '%s\\t%s\\n' {} {}\n", shell_quoted(setting.name + "="), shell_quoted(setting.help));
    for (const std::string& choice : setting.choices)
      out += fmt::format("  printf '%s\\n' {}\n", shell_quoted(setting.name + "=" + choice));
  }
  return out + "end\n";
}

// What an option takes, for fish: the words of its values.
std::string fish_values(const Completion& completion, const std::string& option) {
  if (option == "--set") return " -x -a '(__fovea_settings)'";
  std::string out;
  for (const CompletionValues& v : completion.values)
    if (v.owner == option) out += fmt::format(" -x -a {}", shell_quoted(fmt::format("{}", fmt::join(v.words, " "))));
  return out;
}

}  // namespace

std::string bash_script(const Completion& completion) {
  std::string out = kBashStart;
  for (const CompletionPlace& place : completion.places)
    if (!place.path.empty()) out += fmt::format("      \" {}\") path=\" {}\" ;;\n", place.path, place.path);
  out += kBashSet + setting_cases(completion) + kBashSetEnd;
  out.insert(out.find("  for word in"), fmt::format("  local settings=\"{}\"\n", setting_names(completion)));
  for (const CompletionValues& v : completion.values)
    out += fmt::format("    {}) words=\"{}\" ;;\n", v.owner, fmt::join(v.words, " "));
  out +=
      "    *) values=\"\" ;;\n  esac\n  [[ \"$cur\" == -* ]] && values=\"\"\n  [[ -z \"$values\" ]] && case \"$path\" "
      "in\n";
  for (const CompletionPlace& place : completion.places)
    out += fmt::format("    \"{}{}\") words=\"{}\" ;;\n", place.path.empty() ? "" : " ", place.path,
                       names_of(place.verbs) + " " + names_of(place.options));
  return out + kBashEnd;
}

std::string zsh_script(const Completion& completion) {
  std::string out = kZshStart;
  out.insert(out.find("  for word in"), fmt::format("  local settings=\"{}\"\n", setting_names(completion)));
  for (const CompletionPlace& place : completion.places)
    if (!place.path.empty()) out += fmt::format("      \" {}\") where=\" {}\" ;;\n", place.path, place.path);
  out += kZshSet;
  for (const CompletionSetting& setting : completion.settings)
    if (!setting.choices.empty())
      out += fmt::format("      *{}=) words=\"{}\" ;;\n", setting.name, fmt::join(setting.choices, " "));
  out += kZshSetEnd;
  for (const CompletionValues& v : completion.values)
    if (v.owner.starts_with("--"))
      out +=
          fmt::format("    {}) compset -P '*,'; compadd -S '' -- {} ; return ;;\n", v.owner, fmt::join(v.words, " "));
  out += "    --config|--data|--out|--resume|--from) _files ; return ;;\n  esac\n  case \"$where\" in\n";
  for (const CompletionPlace& place : completion.places) {
    std::vector<CompletionItem> items = place.verbs;
    items.insert(items.end(), place.options.begin(), place.options.end());
    std::string words;
    for (const CompletionValues& v : completion.values)
      if (v.owner == place.path) words = fmt::format(" compadd -- {} ;", fmt::join(v.words, " "));
    out += fmt::format("    \"{}{}\"){} items=({}) ;;\n", place.path.empty() ? "" : " ", place.path, words,
                       zsh_items(items));
  }
  return out +
         "  esac\n  _describe 'fovea' items\n}\nif [[ \"$funcstack[1]\" == _fovea ]]; then _fovea \"$@\"; else compdef "
         "_fovea fovea; fi\n";
}

std::string fish_script(const Completion& completion) {
  std::string out =
      "# Use: fovea completion fish > ~/.config/fish/completions/fovea.fish\n" + fish_settings(completion);
  for (const CompletionPlace& place : completion.places) {
    const std::string condition = shell_quoted(fish_condition(place));
    for (const CompletionItem& verb : place.verbs)
      out += fmt::format("complete -c fovea -f -n {} -a {} -d {}\n", condition, verb.name, shell_quoted(verb.help));
    for (const CompletionItem& option : place.options)
      out += fmt::format("complete -c fovea -n {} -l {} -d {}{}\n", condition, option.name.substr(2),
                         shell_quoted(option.help), fish_values(completion, option.name));
    for (const CompletionValues& v : completion.values)
      if (v.owner == place.path)
        out += fmt::format("complete -c fovea -f -n {} -a {}\n", condition,
                           shell_quoted(fmt::format("{}", fmt::join(v.words, " "))));
  }
  return out;
}

}  // namespace fovea::cli
