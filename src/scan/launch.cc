#include "scan/launch.h"

#include "core/visit_device.h"
#include "tensor/array_of.h"

namespace fovea::scan {

void forward(const Context& context, const Problem& problem, const ForwardTensors& io, const Sources& sources) {
  visit_device(context, io, [&]<Device D>() {
    forward<D>(context, problem,
               {.q = array_of<In>(io.in.q),
                .k = array_of<In>(io.in.k),
                .v = array_of<In>(io.in.v),
                .log_decay = array_of<In>(io.in.log_decay),
                .o = array_of<Out>(io.o),
                .statistic = array_of<Out>(io.statistic),
                .initial_state = io.in.initial_state.raw(),
                .final_state = io.final_state.raw(),
                .rest = array_of<Out>(io.rest),
                .total_decay = io.total_decay.raw(),
                .q_source = sources.q,
                .k_source = sources.k});
  });
}

void backward(const Context& context, const Problem& problem, const BackwardTensors& io, const Sources& sources) {
  visit_device(context, io, [&]<Device D>() {
    backward<D>(context, problem,
                {.q = array_of<In>(io.in.q),
                 .k = array_of<In>(io.in.k),
                 .v = array_of<In>(io.in.v),
                 .log_decay = array_of<In>(io.in.log_decay),
                 .o = array_of<In>(io.o),
                 .statistic = array_of<In>(io.statistic),
                 .d_o = array_of<In>(io.d_o),
                 .initial_state = io.in.initial_state.raw(),
                 .final_state = io.final_state.raw(),
                 .d_final_state = io.d_final_state.raw(),
                 .dq = array_of<Out>(io.dq),
                 .dk = array_of<Out>(io.dk),
                 .dv = array_of<Out>(io.dv),
                 .d_log_decay = array_of<Out>(io.d_log_decay),
                 .d_initial_state = io.d_initial_state.raw(),
                 .rest = array_of<In>(io.rest),
                 .q_source = sources.q,
                 .k_source = sources.k});
  });
}

}  // namespace fovea::scan
