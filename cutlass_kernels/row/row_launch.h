// How the row kernel is launched; included by its instantiations only.
#pragma once

#include "../launch.h"
#include "row_kernel.h"

namespace ragged_attention {

template <class T>
void launch_row_traits(KernelParams const& params, cudaStream_t stream) {
  Problem const& p = params.problem;
  int64_t const slots = slot_bound(p.total_q, p.heads, T::kBlockM, p.batch);
  launch(row_kernel<T>, dim3(static_cast<unsigned>(slots)), T::kThreads,
         sizeof(typename T::SharedStorage), params, stream, "row kernel");
}

template <class Element, class TileRow>
void launch_row_kernel(KernelParams const& params, cudaStream_t stream) {
  if (score_kind(params.problem.softcap) == ScoreKind::kBounded) {
    launch_row_traits<RowTraits<Element, TileRow, ScoreKind::kBounded>>(params, stream);
  } else {
    launch_row_traits<RowTraits<Element, TileRow, ScoreKind::kGeneral>>(params, stream);
  }
}

}  // namespace ragged_attention
