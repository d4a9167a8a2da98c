#include "experiment/reproduce/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "experiment/reproduce/known_sets.h"
#include "experiment/reproduce/outcome.h"
#include "experiment/run_folder.h"
#include "io/lock.h"

namespace fovea {
namespace {

// The part of the choices that may not change.
Json lasting(StudyChoices choices) {
  choices.seeds.clear();
  choices.rows.clear();
  choices.columns.clear();
  return write_fields(choices);
}

void refuse_changes(const StudyChoices& before, const StudyChoices& now, const Path& folder) {
  const Json old = lasting(before), wanted = lasting(now);
  for (const auto& [name, value] : old.items())
    if (wanted[name] != value)
      fail(ErrorCode::usage,
           fmt::format("\"{}\" was {} when this was begun, and is {}", name, value.dump(), wanted[name].dump()),
           folder.string(), "the same options to go on, or another --out");
}

void check_folder(const Path& folder, const StudyChoices& choices) {
  if (!is_there(folder / kStudyFile)) return require_new_folder(folder.string());
  const auto before = load_fields<StudyChoices>(folder / kStudyFile);
  if (before.study != choices.study)
    fail(ErrorCode::usage, fmt::format("this folder is of {}, not of {}", before.study, choices.study), folder.string(),
         "another --out: nothing is overwritten");
  refuse_changes(before, choices, folder);
}

StudyChoices begun_choices(const Path& folder, const char* option) {
  if (!is_there(folder / kStudyFile))
    fail(ErrorCode::bad_input, fmt::format("no table is run in \"{}\": it has no {}", folder.string(), kStudyFile),
         option, "the folder given to --out");
  return load_fields<StudyChoices>(folder / kStudyFile);
}

std::string replaced(std::string text, const std::vector<Trial::Word>& words) {
  for (const Trial::Word& word : words) {
    const std::string name = "{" + word.name + "}";
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + word.text.size()))
      text.replace(at, name.size(), word.text);
  }
  return text;
}

// Sizes, not how it is trained or computed.
bool changes_size(const std::vector<std::string>& set) {
  constexpr std::string_view kSizes[] = {
      "model.width=",         "model.inner=",         "model.layers=",        "model.vocabulary=",
      "model.decoder.width=", "model.decoder.inner=", "model.decoder.layers="};
  return std::any_of(set.begin(), set.end(), [&](const std::string& one) {
    return std::any_of(std::begin(kSizes), std::end(kSizes),
                       [&](std::string_view size) { return one.starts_with(size); });
  });
}

}  // namespace

void StudyChoices::fields(FieldVisitor& v) {
  v("study", study, "which table");
  v("quick", quick, "in minutes on two cores");
  v("parts", parts, "data that is not whole is taken");
  v("data", data, "folder of data sets");
  v("set", set, "changed settings of all runs");
  v("steps", steps, "of each run; 0: as the study has it", at_least(0));
  v("minutes", minutes, "of each run; 0: as the study has it", at_least(0));
  v("seeds", seeds, "of weights and batches; empty: as many as the study wants");
  v("rows", rows, "by name; empty: all");
  v("columns", columns, "by name; empty: all");
}

StudyPlan::StudyPlan(const Study& study, const StudyChoices& choices, const Path& folder, Data data)
    : study_(&study), choices_(choices), folder_(folder) {
  if (choices_.seeds.empty())
    for (std::int64_t i = 1; i <= (choices_.quick ? 1 : study.seeds); ++i)
      choices_.seeds.push_back(static_cast<std::uint64_t>(i));
  left_out_.resize(study.trials.size());
  data_.resize(study.trials.size());
  sets_.resize(study.trials.size());
  find_data(data);
  list_cells();
}

StudyPlan::StudyPlan(const StudyChoices& choices, const Path& folder)
    : StudyPlan(study_named(choices.study), choices, folder, Data::found) {
  check_folder(folder_, choices_);
  const FolderLock lock(folder_);
  write_file(folder_ / kStudyFile, json_text(write_fields(choices_)));
}

StudyPlan StudyPlan::load(const Path& folder) {
  const auto choices = begun_choices(folder, "--join");
  return {study_named(choices.study), choices, folder, Data::found};
}

StudyPlan StudyPlan::load_finished(const Path& folder) {
  auto choices = begun_choices(folder, "--report");
  choices.rows.clear();
  choices.columns.clear();
  StudyPlan plan(study_named(choices.study), choices, folder, Data::not_read);
  plan.keep_finished();
  return plan;
}

// Rows and columns that have an outcome.
void StudyPlan::keep_finished() {
  std::vector<bool> rows(study_->rows.size()), trials(study_->trials.size());
  for (const StudyCell& cell : cells_)
    if (is_there(folder(cell) / kOutcomeFile)) rows[cell.row] = trials[cell.trial] = true;
  const bool none = std::find(rows.begin(), rows.end(), true) == rows.end();
  if (none)
    fail(ErrorCode::bad_input, fmt::format("no cell of {} is finished", study_->name), folder_.string(),
         "fovea reproduce " + study_->name);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = rows[i] || !study_->rows[i].missing.empty();
  const auto all = [](const std::vector<bool>& there) {
    return std::find(there.begin(), there.end(), false) == there.end();
  };
  if (!all(rows))
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (rows[i]) choices_.rows.push_back(study_->rows[i].name);
  if (!all(trials))
    for (const StudyColumn& column : study_->columns)
      if (trials[column.trial]) choices_.columns.push_back(column.name);
  cells_.clear();
  list_cells();
}

// A trial whose data is not there is left out, unless a column of it was asked for.
void StudyPlan::find_data(Data data) {
  for (std::size_t i = 0; i < study_->trials.size(); ++i) {
    const Trial& trial = study_->trials[i];
    const bool asked = !choices_.columns.empty() && wanted(0, i);
    if (choices_.quick && trial.quick.left_out && !asked) left_out_[i] = "not with --quick";
    if (data == Data::not_read || trial.data.empty() || !left_out_[i].empty()) continue;
    for (const std::string& name : trial.data)
      if (!sets_[i] && !choices_.data.empty() && find_set(known_set(name), choices_.data)) sets_[i] = &known_set(name);
    if (sets_[i]) {
      const Path place = *find_set(*sets_[i], choices_.data);
      if (!choices_.parts && (choices_.columns.empty() || asked)) require_whole(*sets_[i], place);
      data_[i] = std::filesystem::absolute(place).lexically_normal().string();
      continue;
    }
    const KnownSet& wanted_set = known_set(trial.data.back());
    const std::string expected = expected_files(wanted_set);
    if (asked) fail(ErrorCode::bad_input, fmt::format("{} needs {}", trial.name, wanted_set.title), "--data", expected);
    left_out_[i] = "no data: " + expected;
  }
}

bool StudyPlan::wanted(std::size_t row, std::size_t trial) const {
  // What another begins with is run as well.
  const auto column = [&](const std::string& name) {
    const std::size_t named = study_->columns[study_->column_named(name)].trial;
    return named == trial || start_of(named) == trial;
  };
  const auto is_row = [&](const std::string& name) { return study_->row_named(name) == row; };
  const auto& [columns, rows] = std::tie(choices_.columns, choices_.rows);
  if (!columns.empty() && std::none_of(columns.begin(), columns.end(), column)) return false;
  if (!rows.empty()) return std::any_of(rows.begin(), rows.end(), is_row);
  return true;
}

void StudyPlan::list_cells() {
  for (const std::string& name : choices_.rows) study_->row_named(name);
  for (const std::uint64_t seed : choices_.seeds)
    for (std::size_t trial = 0; trial < study_->trials.size(); ++trial)
      for (std::size_t row = 0; row < study_->rows.size(); ++row)
        if (has(row, trial)) cells_.push_back({row, trial, seed});
  if (!cells_.empty()) return;
  std::vector<std::string> reasons;
  for (std::size_t i = 0; i < left_out_.size(); ++i)
    if (!left_out_[i].empty()) reasons.push_back(study_->trials[i].name + ": " + left_out_[i]);
  for (const StudyRow& row : study_->rows)
    if (!row.missing.empty()) reasons.push_back(row.name + ": " + row.missing);
  fail(ErrorCode::bad_input, fmt::format("nothing of {} can be run", study_->name), "--data",
       fmt::format("{}", fmt::join(reasons, "; ")));
}

bool StudyPlan::has(std::size_t row, std::size_t trial) const {
  return study_->rows[row].missing.empty() && shows(row, trial);
}

bool StudyPlan::shows(std::size_t row, std::size_t trial) const {
  if (!left_out_[trial].empty() || !wanted(row, trial)) return false;
  return !choices_.quick || !choices_.rows.empty() || study_->trials[trial].quick.all_rows || study_->rows[row].main;
}

bool StudyPlan::has_trial(std::size_t trial) const {
  for (std::size_t row = 0; row < study_->rows.size(); ++row)
    if (has(row, trial)) return true;
  return false;
}

std::string StudyPlan::name(const StudyCell& cell) const {
  return fmt::format("{} {}, seed {}", study_->trials[cell.trial].name, study_->rows[cell.row].name, cell.seed);
}

Path StudyPlan::folder(const StudyCell& cell) const {
  return folder_ / study_->trials[cell.trial].name / folder_name(study_->rows[cell.row].name) /
         fmt::format("seed-{}", cell.seed);
}

RunSettings StudyPlan::settings(const StudyCell& cell) const {
  const Trial& trial = study_->trials[cell.trial];
  const StudyRow& row = study_->rows[cell.row];
  Protocol protocol = trial.protocol;
  RunChoices run;
  run.set = row.set;
  if (choices_.quick) {
    if (trial.quick.depth > 0) protocol.depth = trial.quick.depth;
    run.set.insert(run.set.end(), trial.quick.set.begin(), trial.quick.set.end());
    run.set.insert(run.set.end(), row.quick.begin(), row.quick.end());
  }
  run.set.insert(run.set.end(), choices_.set.begin(), choices_.set.end());
  if (trial.kind == TrialKind::tuning) {  // its model is that of its weights
    std::erase_if(run.set, [](const std::string& one) { return one.starts_with("model."); });
    run.attention = "transformer";
  } else {
    if (!row.model.empty()) run.model = row.model;
    if (!row.attention.empty()) run.attention = replaced(row.attention, trial.words);
  }
  run.data = data_[cell.trial];
  if (choices_.steps > 0) run.steps = choices_.steps;
  if (choices_.minutes > 0.0) run.minutes = choices_.minutes;
  run.seed = cell.seed;
  run.out = (folder(cell) / "training").string();
  try {
    return new_run(protocol, run);
  } catch (const Error& error) {
    throw error.inside(name(cell));
  }
}

std::vector<std::string> StudyPlan::quick_changes(std::size_t trial) const {
  if (!choices_.quick) return {};
  const Quick& quick = study_->trials[trial].quick;
  std::vector<std::string> changes = quick.set;
  if (quick.depth > 0) changes.push_back(fmt::format("{} layers", quick.depth));
  return changes;
}

std::size_t StudyPlan::start_of(std::size_t trial) const {
  const auto same = [&](const Trial& other) { return other.name == study_->trials[trial].start; };
  const auto found = std::find_if(study_->trials.begin(), study_->trials.end(), same);
  return found == study_->trials.end() ? trial : static_cast<std::size_t>(found - study_->trials.begin());
}

bool StudyPlan::smaller_model(std::size_t trial) const {
  const Quick& quick = study_->trials[start_of(trial)].quick;
  return changes_size(choices_.set) || (choices_.quick && (quick.depth > 0 || changes_size(quick.set)));
}

std::vector<std::uint64_t> parse_seeds(const std::string& text) {
  constexpr std::uint64_t kMost = 1000;
  const auto wrong = [&](std::string_view word) {
    fail(ErrorCode::usage, fmt::format("\"{}\" is not a number", word), "--seeds", "how many, or a list: 3 or 1,2,5");
  };
  std::vector<std::uint64_t> seeds;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view word = std::string_view(text).substr(at, end - at);
    std::uint64_t seed = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), seed);
    if (word.empty() || error != std::errc() || rest != word.data() + word.size()) wrong(word);
    seeds.push_back(seed);
    at = end + 1;
  }
  if (seeds.size() > 1) {
    for (auto seed = seeds.begin(); seed != seeds.end(); ++seed)
      if (std::find(seeds.begin(), seed, *seed) != seed)
        fail(ErrorCode::usage, fmt::format("seed {} is named twice", *seed), "--seeds");
    return seeds;
  }
  const std::uint64_t count = seeds.front();
  if (count < 1 || count > kMost)
    fail(ErrorCode::usage, fmt::format("{} seeds", count), "--seeds", fmt::format("between 1 and {}", kMost));
  seeds.clear();
  for (std::uint64_t seed = 1; seed <= count; ++seed) seeds.push_back(seed);
  return seeds;
}

std::string default_study_folder(const StudyChoices& choices) {
  return "runs/" + choices.study + (choices.quick ? "-quick" : "");
}

}  // namespace fovea
