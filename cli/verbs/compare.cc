#include <memory>

#include "cli/kit/run_comparison.h"
#include "cli/kit/verb.h"

// fovea compare: several models on any data, each with the same budget.
namespace fovea::cli {
namespace {

void run(const ComparisonOptions& options, const Console& console) {
  if (!options.resume.empty()) {
    run_comparison(resumed_comparison(options), options, console);
    return;
  }
  const ComparisonChoices choices = options.choices({});
  if (!choices.run.names_data())
    fail(ErrorCode::usage, "what are they to be trained on?", "fovea compare",
         "fovea compare --data FILE --attention softmax,norm --minutes 2; fovea list data");
  run_comparison(new_comparison({}, choices, options, console), options, console);
}

}  // namespace

void add_compare(Program& program) {
  const auto options = std::make_shared<ComparisonOptions>();
  const Arguments verb = program.add({"compare",
                                      "Trains several models with the same budget; one table and page.",
                                      {"fovea compare --data in.txt --attention softmax,norm --minutes 2 --seeds 3",
                                       "fovea compare --data in.txt --model gpt,llama --tokens 2000000"}},
                                     [options](const Console& console) { run(*options, console); });
  program.share_last();
  verb.add_option("--model", options->model, "rivals: presets; with --attention every pair [by the data]")
      .type_name("A,B");
  add_comparison_options(verb, *options);
}

}  // namespace fovea::cli
