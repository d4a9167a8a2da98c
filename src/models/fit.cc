#include <fmt/format.h>

#include "fovea/model.h"

namespace fovea {
namespace {

void fill(std::int64_t& size, std::int64_t of_data) {
  if (size == 0) size = of_data;
}

void check_size(std::string_view what, std::int64_t has, std::int64_t needed, const char* field) {
  if (has < needed)
    fail(ErrorCode::bad_input, fmt::format("the data set has {} {}, the model {}", needed, what, has), field,
         "0: taken from the data");
}

void check_length(std::string_view what, std::int64_t needed, std::int64_t taken, const char* field) {
  if (needed > taken)
    fail(ErrorCode::bad_input, fmt::format("the data set has {} of {} tokens, the model takes {}", what, needed, taken),
         field, fmt::format("--set model.{}={}, or a shorter data.length", field, needed));
}

}  // namespace

void ModelConfig::fit(const Dataset& data) {
  if (task == Task::classify && data.task == Task::match) task = Task::match;
  if ((task == Task::classify || task == Task::match) && data.task == Task::regress) task = Task::regress;
  if (task != data.task) {
    const auto name = [](Task t) { return task_names()[static_cast<std::size_t>(t)]; };
    fail(ErrorCode::usage,
         fmt::format("a model for {}, but the data \"{}\" is for {}", name(task), data.name, name(data.task)), "task",
         "another preset");
  }
  fill(vocabulary, data.vocabulary);
  fill(classes, data.classes);
  fill(types, data.types);
  if (task == Task::regress) pairs = data.second_max_length > 0;
  check_size("token ids", vocabulary, data.vocabulary, "vocabulary");
  check_size("types of tokens", types, data.types, "types");
  check_size("classes", classes, data.classes, "classes");
  if (image) {
    fill(image->height, data.height);
    fill(image->width, data.width);
    fill(image->channels, data.channels);
  }
  if (series) series->fit(data);
  if (data.vocabulary > 0) check_length("sequences", data.max_length, max_length, "max_length");
  if (data.vocabulary > 0 && task == Task::seq2seq)
    check_length("targets", data.second_max_length, decoder_max_length > 0 ? decoder_max_length : max_length,
                 decoder_max_length > 0 ? "decoder_max_length" : "max_length");
  check();
}

}  // namespace fovea
