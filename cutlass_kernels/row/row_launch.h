// How the row kernels are launched; included by their instantiations only.
#pragma once

#include "../launch.h"
#include "resident_kernel.h"
#include "row_kernel.h"

namespace ragged_attention {

template <class Element, class TileRow, ScoreKind kKind>
void launch_row_kind(KernelParams const& params, Plan const& plan, cudaStream_t stream) {
  dim3 const grid(plan.row_ctas);
  if (plan.resident_rows) {
    using T = ResidentTraits<Element, TileRow, kKind>;
    return launch(resident_row_kernel<T>, grid, T::kThreads, sizeof(typename T::SharedStorage),
                  params, Start::kAfter, stream, "resident row kernel");
  }
  using T = RowTraits<Element, TileRow, kKind>;
  launch(row_kernel<T>, grid, T::kThreads, sizeof(typename T::SharedStorage), params, Start::kAfter,
         stream, "row kernel");
}

template <class Element, class TileRow>
void launch_row_kernel(KernelParams const& params, Plan const& plan, cudaStream_t stream) {
  if (score_kind(params.problem.softcap) == ScoreKind::kBounded) {
    launch_row_kind<Element, TileRow, ScoreKind::kBounded>(params, plan, stream);
  } else {
    launch_row_kind<Element, TileRow, ScoreKind::kGeneral>(params, plan, stream);
  }
}

}  // namespace ragged_attention
