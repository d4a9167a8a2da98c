#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include "core/stop.h"
#include "fovea/context.h"
#include "place.h"

namespace fovea::python {

namespace nb = nanobind;

// The context of a call: one for all, or one of a single thread where the work is too little to share, which costs
// more than it brings below about a million multiplications. A child of fork() has the latter only: the threads of
// OpenMP do not come along. On a card there is one for each stream.
std::shared_ptr<Context> context_for(double multiplications, const Place& place = {});

std::vector<std::string> device_names();  // "cpu", and "cuda:0" and so on where there are cards and kernels for them
void empty_cache();                       // gives the memory of cards back that waits to be used again

void set_threads(int threads);  // 0: OMP_NUM_THREADS, else every core
int threads();

// Inside it the calling thread runs the engine: other Python threads may go on, Ctrl-C ends the work (and leaves
// KeyboardInterrupt to be raised).
class Running {
 public:
  Running();

 private:
  nb::gil_scoped_release no_gil_;
  Stop stop_;
};

}  // namespace fovea::python
