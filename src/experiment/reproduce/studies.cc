#include <algorithm>
#include <iterator>

#include "core/nearest.h"
#include "experiment/reproduce/study.h"

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
