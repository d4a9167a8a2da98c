#pragma once

#include "dist/launch.h"

namespace fovea::dist {

class MpiTransport;

// The processes that mpirun or srun started. MPI begins and ends with it.
class MpiRanks : public Ranks {
 public:
  MpiRanks(int* argc, char*** argv);
  ~MpiRanks() override;

  std::string library() const override;
  void set_limit(double seconds) const override;
  int end_with(const Error& error, const std::function<void(const Error&)>& say) override;

 private:
  std::shared_ptr<MpiTransport> transport_;
};

}  // namespace fovea::dist
