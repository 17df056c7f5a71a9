// How the key kernel is launched; included by its instantiations only.
#pragma once

#include "../launch.h"
#include "key_kernel.h"

namespace ragged_attention {

template <class T>
void launch_key_traits(KernelParams const& params, cudaStream_t stream) {
  Problem const& p = params.problem;
  int64_t const slots = slot_bound(p.total_k, 1, T::kBlockN, p.batch);
  launch(key_kernel<T>, dim3(static_cast<unsigned>(slots), params.splits), T::kThreads,
         sizeof(typename T::SharedStorage), params, stream, "key kernel");
}

template <class Element, class TileRow>
void launch_key_kernel(KernelParams const& params, cudaStream_t stream) {
  if (score_kind(params.problem.softcap) == ScoreKind::kBounded) {
    launch_key_traits<KeyTraits<Element, TileRow, ScoreKind::kBounded>>(params, stream);
  } else {
    launch_key_traits<KeyTraits<Element, TileRow, ScoreKind::kGeneral>>(params, stream);
  }
}

}  // namespace ragged_attention
