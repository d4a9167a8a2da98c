#include "cli/start.h"

#include "cli/kit/verb.h"

namespace fovea::cli {

int start(int argc, char** argv, dist::Ranks& ranks) {
  Program program(ranks);
  add_list(program);
  add_show(program);
  add_doctor(program);
  add_bench(program);
  add_train(program);
  add_plan(program);
  add_eval(program);
  add_generate(program);
  add_inspect(program);
  add_import(program);
  add_export(program);
  add_embed(program);
  add_compare(program);
  add_lra(program);
  add_reproduce(program);
  add_data(program);
  add_tokenize(program);
  add_completion(program);
  add_help(program);
  return program.main(argc, argv);
}

}  // namespace fovea::cli
