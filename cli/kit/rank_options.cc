#include "cli/kit/rank_options.h"

#include <fmt/format.h>

#include "cli/kit/options.h"
#include "dist/launch.h"

namespace fovea::cli {

dist::Mesh RankOptions::mesh_of(const Console& console) const {
  const dist::Group& all = console.ranks->all();
  dist::MeshShape shape = dist::MeshShape::parse(mesh, all.size());
  if (shape.sequence > 1)
    fail(ErrorCode::unsupported, "training does not divide sequences among ranks yet", "--mesh",
         fmt::format("--mesh data={}", all.size()));
  shape.divides_state = divide_state;
  console.ranks->set_limit(timeout);
  return {all, shape};
}

void add_rank_options(const Arguments& verb, RankOptions& options) {
  verb.add_option("--mesh", options.mesh, "how the ranks that mpirun started share the work [data=all]")
      .type_name("data=N");
  verb.add_flag("--divide-state", options.divide_state, "each rank keeps a share of the optimiser's state").common();
  verb.add_option("--rank-timeout", options.timeout, "seconds to wait for another rank")
      .type_name("S")
      .check(in_range(1, 1e6))
      .show_default()
      .common();
}

void divide_batch(const dist::Mesh& mesh, const Console& console, RunSettings& settings) {
  TrainConfig& train = settings.train;
  if (train.accumulation >= mesh.shape.data) return;
  train.accumulation = mesh.shape.data;
  train.check();
  console.note(
      fmt::format("each batch of {} is cut into {} parts, one for each rank: any number of ranks up to it goes "
                  "on with this run",
                  train.batch, train.accumulation));
}

std::string first_ranks(const dist::Mesh& mesh, const std::string& text) { return mesh.all.all_gather(text).front(); }

}  // namespace fovea::cli
