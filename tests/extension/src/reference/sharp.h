#pragma once

#include "reference/attention.h"

namespace fovea::reference {

// o_i = sum_j e^(s_ij) v_j / sum_j e^(s_ij), s_ij = sharpness q_i . k_j / sqrt(d_k), over the keys j that row i may
// read.
inline Result sharp(const Problem& p, double sharpness) {
  Result out;
  for (std::int64_t i = 0; i < p.n_q; ++i)
    for (std::int64_t h = 0; h < p.heads; ++h) {
      std::vector<double> row(at(p.d_v), 0.0);
      double total = 0.0;
      for (std::int64_t j = 0; j < (p.causal ? p.position(i) + 1 : p.n_k); ++j) {
        const double *q = p.query(i, h), *k = p.key(j, p.kv_head(h)), *v = p.value(j, p.kv_head(h));
        const double weight = std::exp(sharpness * scale_of(p) * dot(q, k, p.d_k));
        for (double& o : row) o += weight * *v++;
        total += weight;
      }
      for (double o : row) out.o.push_back(total > 0.0 ? o / total : 0.0);
    }
  return out;
}

}  // namespace fovea::reference
