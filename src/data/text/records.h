#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/files.h"
#include "fovea/data.h"

namespace fovea {

// Rows with named columns, of a CSV file (fields may be quoted), of a TSV file whose first line names them, or of JSON
// lines: an object each, whose values are texts, numbers or true and false.
struct Records {
  std::string path;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;

  std::string where(std::size_t row) const;  // "reviews.csv, row 12"
};
Records read_records(const Path& path, std::size_t cap);

// Their columns alone, from the beginning of the file; none: it is no such file.
std::vector<std::string> record_columns(const Path& path);

bool is_record_file(const Path& path);  // by the end of its name, ".csv" or ".jsonl", also packed

// Which columns hold what is learned.
struct RecordColumns {
  std::size_t label = 0, first = 0;
  std::optional<std::size_t> second = {};
};
// By the names that the settings give, or else by what such columns are usually called. None: not to be told.
std::optional<RecordColumns> find_columns(const std::vector<std::string>& columns, const DataSettings& settings);
// The same; an error that names the columns where there is nothing to find.
RecordColumns require_columns(const std::vector<std::string>& columns, const DataSettings& settings,
                              const std::string& where);

}  // namespace fovea
