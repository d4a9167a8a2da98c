#pragma once

#include "scan/contract.h"

// The three ways to run a problem. R is float, or double for f64.
namespace fovea::scan {

// Every query reads the sum over all keys: two products per row, no scan.
template <class R>
void bidirectional_forward(const Context& context, const Problem& problem, const Forward& io);
template <class R>
void bidirectional_backward(const Context& context, const Problem& problem, const Backward& io);

// Chunk by chunk along the sequence.
template <class R>
void causal_forward(const Context& context, const Problem& problem, const Forward& io);
template <class R>
void causal_backward(const Context& context, const Problem& problem, const Backward& io);

// Where is_step(problem): the states are updated in place of any scan.
template <class R>
void step_forward(const Context& context, const Problem& problem, const Forward& io);

}  // namespace fovea::scan
