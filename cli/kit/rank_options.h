#pragma once

#include <string>

#include "cli/kit/arguments.h"
#include "cli/kit/console.h"
#include "dist/mesh.h"
#include "experiment/settings.h"

namespace fovea::cli {

// How the ranks that a launcher started share a run.
struct RankOptions {
  std::string mesh;
  double timeout = 300.0;
  std::int64_t compare_every = 100, chunks = 1;
  std::string divide = "nothing";
  bool divide_state = false;
  std::int64_t ranks = 0, restarts = 0;  // the launcher of the program with MPI takes them

  dist::Mesh mesh_of(const Console& console) const;
};
void add_rank_options(const Arguments& verb, RankOptions& options);  // of any work
void add_training_rank_options(const Arguments& verb, RankOptions& options);

// A new run's batch is cut into no fewer parts than there are ranks to share them.
void divide_batch(const dist::Mesh& mesh, const Console& console, RunSettings& settings);

// What the first rank has: a name with the time in it, say.
std::string first_ranks(const dist::Mesh& mesh, const std::string& text);

}  // namespace fovea::cli
