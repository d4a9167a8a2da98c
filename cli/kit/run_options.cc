#include "cli/kit/run_options.h"

#include <fmt/format.h>

namespace fovea::cli {

RunChoices RunOptions::choices() const {
  RunChoices choices = typed;
  if (dtype) choices.dtype = parse_dtype(*dtype);
  return choices;
}

Watch RunOptions::watch() const {
  if (profile && health)
    fail(ErrorCode::usage, "--profile would measure what --health does", "fovea", "one of them in a run");
  return profile ? Watch::profile : health ? Watch::health : Watch::none;
}

bool RunOptions::any() const {
  const RunChoices& o = typed;
  return dtype || o.model || o.attention || o.from || o.data || o.out || o.steps || o.tokens || o.batch || o.lora ||
         o.minutes || o.lr || o.seed || !o.config.empty() || !o.set.empty() || !o.freeze.empty();
}

void add_run_options(const Arguments& verb, RunOptions& options) {
  RunChoices& o = options.typed;
  verb.add_flag("--profile", options.profile, "measure time and memory by layer and operation").common();
  verb.add_flag("--health", options.health, "watch gradients and scores of every layer").common();
  verb.add_flag("--json-lines", options.json_lines, "progress as JSON, an object a line, on standard error").common();
  verb.add_option("--data", o.data, "folder, file, - or listops: fovea list data").type_name("SOURCE");
  verb.add_option("--out", o.out, "folder for checkpoints, curves and report").type_name("FOLDER");
  verb.add_option("--steps", o.steps, "training steps").type_name("N").check(in_range(1, 1e12));
  verb.add_option("--minutes", o.minutes, "training time, evaluation not counted")
      .type_name("M")
      .check(in_range(1e-4, 1e7));
  verb.add_option("--tokens", o.tokens, "training ends after so many").type_name("N").check(in_range(1, 1e15)).common();
  verb.add_option("--batch", o.batch, "examples per step").type_name("N").check(in_range(1, 1e6));
  verb.add_option("--lr", o.lr, "peak learning rate").type_name("X").check(in_range(1e-12, 1e3));
  verb.add_option("--dtype", options.dtype, "f32 or bf16").type_name("NAME");
  verb.add_option("--seed", o.seed, "of weights, dropout and shuffling").type_name("N");
  verb.add_option("--config", o.config, "JSON file; settings as run.json has them").type_name("FILE");
  verb.add_option("--set", o.set, "change one setting: train.warmup=200 (repeatable)")
      .type_name("NAME=VALUE")
      .repeatable();
  add_machine_options(verb, options.machine);
}

}  // namespace fovea::cli
