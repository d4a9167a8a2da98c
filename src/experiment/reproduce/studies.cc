#include <algorithm>
#include <iterator>

#include "core/nearest.h"
#include "experiment/reproduce/study.h"
#include "fovea/error.h"

namespace fovea {
namespace {

// The place of a name in a list where each entry has two; refuses others with all first names.
template <class List, class First, class Second>
std::size_t named(std::string_view name, const List& list, First first, Second second, const char* what) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (name == first(list[i]) || name == second(list[i])) return i;
    names.push_back(first(list[i]));
  }
  return place_of_name(name, names, what, std::string("--") + what + "s");
}

// The longest known name that the text begins with and that ends at a comma; else what stands before the first comma.
std::string_view first_name(std::string_view text, const std::vector<std::string_view>& known) {
  std::string_view longest = text.substr(0, text.find(','));
  for (const std::string_view name : known)
    if (name.size() > longest.size() && text.starts_with(name) &&
        (text.size() == name.size() || text[name.size()] == ','))
      longest = name;
  return longest;
}

std::vector<std::string> split(std::string_view text, const std::vector<std::string_view>& known, const char* option) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= text.size(); at += names.back().size() + 1) {
    names.emplace_back(first_name(text.substr(at), known));
    if (names.back().empty())
      fail(ErrorCode::usage, "a name is empty", option, std::string("names separated by commas: ") + option + " A,B");
  }
  return names;
}

}  // namespace

double Study::published(std::size_t row, std::size_t column) const {
  const std::vector<double>& values = rows[row].published;
  return column < values.size() ? values[column] : kUnpublished;
}

std::size_t Study::row_named(std::string_view wanted) const {
  const auto name = [](const StudyRow& row) -> std::string_view { return row.name; };
  const auto attention = [](const StudyRow& row) -> std::string_view { return row.attention; };
  return named(wanted, rows, name, attention, "row");
}

std::size_t Study::column_named(std::string_view wanted) const {
  const auto name = [](const StudyColumn& column) -> std::string_view { return column.name; };
  const auto trial = [&](const StudyColumn& column) -> std::string_view { return trials[column.trial].name; };
  return named(wanted, columns, name, trial, "column");
}

std::vector<std::string> Study::split_rows(std::string_view text) const {
  std::vector<std::string_view> known;
  for (const StudyRow& row : rows) known.insert(known.end(), {row.name, row.attention});
  return split(text, known, "--rows");
}

std::vector<std::string> Study::split_columns(std::string_view text) const {
  std::vector<std::string_view> known;
  for (const StudyColumn& column : columns) known.insert(known.end(), {column.name, trials[column.trial].name});
  return split(text, known, "--columns");
}

std::span<const Study> studies() {
  static const std::vector<Study> all = [] {
    std::vector<Study> list;
    for (std::vector<Study> part : {language_studies(), arena_studies(), design_studies()})
      std::move(part.begin(), part.end(), std::back_inserter(list));
    const auto number = [](const Study& study) {  // "table-10" after "table-9"
      return study.name.starts_with("table-") ? std::stoi(study.name.substr(6)) : 100;
    };
    std::stable_sort(list.begin(), list.end(), [&](const Study& a, const Study& b) { return number(a) < number(b); });
    return list;
  }();
  return all;
}

const Study& study_named(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Study& study : studies()) names.push_back(study.name);
  return studies()[place_of_name(name, names, "table", "reproduce")];
}

}  // namespace fovea
