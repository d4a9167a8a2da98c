#include "cli/kit/rank_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/kit/options.h"
#include "core/nearest.h"
#include "dist/launch.h"

namespace fovea::cli {

namespace {

dist::Divide what_is_divided(const RankOptions& options) {
  constexpr std::array<std::string_view, 4> kNames{"nothing", "state", "gradients", "weights"};
  const auto divide = static_cast<dist::Divide>(place_of_name(options.divide, kNames, "part of training", "--divide"));
  return options.divide_state ? std::max(divide, dist::Divide::state) : divide;
}

}  // namespace

dist::Mesh RankOptions::mesh_of(const Console& console) const {
  const dist::Group& all = console.ranks->all();
  if (ranks > 0)
    fail(ErrorCode::unsupported, "this program cannot start others", "--ranks",
         "make dist, and build/release/bin/dist/fovea; within mpirun, leave it out");
  dist::MeshShape shape = dist::MeshShape::parse(mesh, all.size());
  shape.divide = what_is_divided(*this);
  shape.compare_every = compare_every;
  shape.chunks = chunks;
  console.ranks->set_limit(timeout);
  return {all, shape};
}

void add_rank_options(const Arguments& verb, RankOptions& options) {
  verb.add_option("--mesh", options.mesh, "data=N,sequence=N,tensor=N,pipeline=N of the ranks [data]")
      .type_name("AXES");
  verb.add_option("--pipeline-chunks", options.chunks, "runs of layers that each rank of a pipeline has")
      .type_name("N")
      .check(in_range(1, 1e6))
      .show_default()
      .common();
  verb.add_option("--ranks", options.ranks, "start on so many ranks of this machine, with mpirun")
      .type_name("N")
      .check(in_range(1, 1e6))
      .common();
  verb.add_option("--rank-timeout", options.timeout, "seconds to wait for another rank")
      .type_name("S")
      .check(in_range(1, 1e6))
      .show_default()
      .common();
}

void add_training_rank_options(const Arguments& verb, RankOptions& options) {
  add_rank_options(verb, options);
  verb.add_option("--divide", options.divide, "state, gradients or weights: ranks keep shares of them [nothing]")
      .type_name("WHAT")
      .common();
  verb.add_flag("--divide-state", options.divide_state, "the same as --divide state").common();
  verb.add_option("--compare-every", options.compare_every, "steps after which ranks compare their weights; 0: never")
      .type_name("N")
      .check(in_range(0, 1e9))
      .show_default()
      .common();
}

void divide_batch(const dist::Mesh& mesh, const Console& console, RunSettings& settings) {
  TrainConfig& train = settings.train;
  const std::int64_t each = train.batch % (mesh.shape.data * mesh.shape.pipeline) == 0 ? mesh.shape.pipeline : 1;
  const std::int64_t parts = mesh.shape.data * each;  // ranks of a pipeline work on as many at once
  if (train.accumulation >= parts) return;
  train.accumulation = parts;
  train.check();
  console.note(
      fmt::format("each batch of {} is cut into {} parts, one for each rank: any number of ranks up to it goes "
                  "on with this run",
                  train.batch, train.accumulation));
}

std::string first_ranks(const dist::Mesh& mesh, const std::string& text) { return mesh.all.all_gather(text).front(); }

}  // namespace fovea::cli
