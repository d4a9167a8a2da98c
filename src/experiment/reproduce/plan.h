#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiment/reproduce/known_sets.h"
#include "experiment/reproduce/study.h"

namespace fovea {

// The file of a study's folder that says what is run in it.
inline constexpr const char* kStudyFile = "study.json";

// What is chosen of a study. The first part decides results, and stays as it is for as long as the folder; the second
// may be another every time.
struct StudyChoices {
  std::string study;
  bool quick = false;
  bool parts = false;     // data that is not whole is taken, and said
  std::string data = {};  // folder of data sets; empty: none
  std::vector<std::string> set = {};
  std::int64_t steps = 0;  // of each run; 0: as the study has it
  double minutes = 0.0;    // the same

  std::vector<std::uint64_t> seeds = {};             // empty: as many as the study wants
  std::vector<std::string> rows = {}, columns = {};  // by name; empty: all

  void fields(FieldVisitor& v);
};

// One run of a row in one trial.
struct StudyCell {
  std::size_t row = 0, trial = 0;
  std::uint64_t seed = 0;
};

// A study as it is run in a folder.
class StudyPlan {
 public:
  // Finds the data; writes study.json. Refuses a folder of something else, or of the same study with other choices.
  StudyPlan(const StudyChoices& choices, const Path& folder);
  static StudyPlan load(const Path& folder);  // refuses a folder without one
  // The same to look at what is there: without data, which may be on another machine.
  static StudyPlan load_finished(const Path& folder);

  const Study& study() const { return *study_; }
  const StudyChoices& choices() const { return choices_; }
  const Path& folder() const { return folder_; }

  const std::vector<StudyCell>& cells() const { return cells_; }  // those chosen, the most wanted first
  bool has(std::size_t row, std::size_t trial) const;             // as cells
  bool shows(std::size_t row, std::size_t trial) const;           // the same, or why there are none
  bool has_trial(std::size_t trial) const;                        // for any row
  const std::string& left_out(std::size_t trial) const { return left_out_[trial]; }  // why; empty: it is run

  std::string name(const StudyCell& cell) const;  // "listops performer, seed 1"
  Path folder(const StudyCell& cell) const;
  RunSettings settings(const StudyCell& cell) const;                          // train.out is below the cell's folder
  std::vector<std::string> quick_changes(std::size_t trial) const;            // of the settings
  const KnownSet* data_set(std::size_t trial) const { return sets_[trial]; }  // null: generated, or none
  std::size_t start_of(std::size_t trial) const;  // whose weights it begins with; itself: nobody's
  bool smaller_model(std::size_t trial) const;    // than the published one

 private:
  enum class Data : std::uint8_t { found, not_read };
  StudyPlan(const Study& study, const StudyChoices& choices, const Path& folder, Data data);
  void find_data(Data data);
  void list_cells();
  void keep_finished();
  bool wanted(std::size_t row, std::size_t trial) const;

  const Study* study_;
  StudyChoices choices_;
  Path folder_;
  std::vector<StudyCell> cells_;
  std::vector<std::string> left_out_;             // of each trial
  std::vector<std::optional<std::string>> data_;  // of each trial
  std::vector<const KnownSet*> sets_;             // the same
};

// "3" is 1, 2, 3; "4,7" are those two.
std::vector<std::uint64_t> parse_seeds(const std::string& text);

// "runs/table-6", "runs/table-6-quick"
std::string default_study_folder(const StudyChoices& choices);

}  // namespace fovea
