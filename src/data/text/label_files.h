#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/files.h"

namespace fovea {

// Texts with the names of their classes, or with numbers, from one tab-separated file: a label and a text, IMDB's with
// rating and number between them, CoLA's; or the columns of GLUE's other tasks, found by their header.
struct LabelTable {
  std::vector<std::string_view> first = {}, second = {}, labels = {};  // second: only of pairs
  std::vector<std::size_t> lines = {};                                 // of each

  std::size_t size() const { return first.size(); }
};

// Where the fields are. Without a label the file is one of GLUE's test files, whose answers are kept secret.
struct LabelColumns {
  std::optional<std::size_t> label, first, second;
  std::size_t fields = 0;  // of a line; without a header the text comes last and may hold tabs
  bool header = false;

  static std::optional<LabelColumns> of(std::span<const std::string_view> fields);  // of the first line; none: unknown
  // A name of a class and a text, without a header.
  static LabelColumns named();
};

// Do lines of two fields begin with names of classes ("pos", "neg")? Names come again and again, sentences hardly ever:
// there are at most half as many different ones as lines.
bool begin_with_names(std::string_view text);

LabelTable read_labels(const TextLines& file, const LabelColumns& columns);

// Are these numbers rather than classes: as the settings say, else where all are numbers, and one has a fraction?
bool asks_numbers(std::span<const std::string_view> labels, std::string_view answers);
float number_of(std::string_view label, const std::string& where);  // refuses what is none

// The classes of the training labels: numbers in their order, else names in alphabetical order.
class LabelNames {
 public:
  explicit LabelNames(std::span<const std::string_view> labels);

  std::int64_t size() const { return std::ssize(ids_); }
  std::vector<std::string> names() const;                                   // in the order of their ids
  std::int32_t id(std::string_view label, const std::string& where) const;  // refuses one it has not seen

 private:
  std::map<std::string, std::int32_t, std::less<>> ids_;
};

}  // namespace fovea
