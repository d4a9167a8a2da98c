#pragma once

#include <functional>
#include <string>

#include "dist/group.h"

namespace fovea::dist {

// The processes a program was started as. There is one of them, made when the program begins.
class Ranks {
 public:
  virtual ~Ranks() = default;

  const Group& all() const { return all_; }
  bool leads() const { return all_.rank() == 0; }
  // What carries messages between them: "Open MPI 4.1.4". Empty: nothing, there is one.
  virtual std::string library() const { return {}; }
  // The longest that a call waits for another rank, in seconds.
  virtual void set_limit(double /*seconds*/) const {}

  // The program ends with an error: `say` tells people, on one rank alone. Gives the exit code of this process.
  virtual int end_with(const Error& error, const std::function<void(const Error&)>& say) = 0;

 protected:
  Group all_;
};

// This process alone, whatever it was started by. One of several that a launcher started is refused: each would do the
// same work, and write to the same folder.
class Alone : public Ranks {
 public:
  int end_with(const Error& error, const std::function<void(const Error&)>& say) override;
};

// Cores that a process which was started with others on this machine should use: its share of those that it may use,
// unless it is kept to some of them already. 0: nobody says, all.
int launched_threads();

// How many processes a launcher says that it started of this program; 1: nobody says so.
int launched_processes();
// Which of them this is.
int launched_rank();

}  // namespace fovea::dist
