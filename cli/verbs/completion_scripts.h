#pragma once

#include <string>
#include <vector>

// What can be completed, and the scripts that do it.
namespace fovea::cli {

struct CompletionItem {
  std::string name, help;
};

// A point in the command line where something can follow.
struct CompletionPlace {
  std::string path;  // "bench attention"; empty: the program itself
  std::vector<CompletionItem> verbs, options;
};

// What can follow an option or stand as an argument of a verb.
struct CompletionValues {
  std::string owner;
  std::vector<std::string> words;
};

// What can follow --set: names, and what some of them may be set to.
struct CompletionSetting {
  std::string name, help;
  std::vector<std::string> choices;
};

struct Completion {
  std::vector<CompletionPlace> places;
  std::vector<CompletionValues> values;
  std::vector<CompletionSetting> settings;
};

std::string bash_script(const Completion& completion);
std::string zsh_script(const Completion& completion);
std::string fish_script(const Completion& completion);

}  // namespace fovea::cli
