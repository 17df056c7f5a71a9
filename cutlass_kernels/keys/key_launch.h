// How the key kernel is launched; included by its instantiations only.
#pragma once

#include "../launch.h"
#include "key_kernel.h"

namespace ragged_attention {

template <class T>
void launch_key_traits(KernelParams const& params, Start start, cudaStream_t stream) {
  launch(key_kernel<T>, dim3(params.key_ctas), T::kThreads, sizeof(typename T::SharedStorage),
         params, start, stream, "key kernel");
}

template <class Element, class TileRow, class Shape>
void launch_key_shape(KernelParams const& params, Start start, cudaStream_t stream) {
  if (score_kind(params.problem.softcap) == ScoreKind::kBounded) {
    launch_key_traits<KeyKernelTraits<Element, TileRow, Shape, ScoreKind::kBounded>>(params, start,
                                                                                     stream);
  } else {
    launch_key_traits<KeyKernelTraits<Element, TileRow, Shape, ScoreKind::kGeneral>>(params, start,
                                                                                     stream);
  }
}

template <class Element, class TileRow>
void launch_key_kernel(KernelParams const& params, Plan const& plan, cudaStream_t stream) {
  Start const start = plan.keys_overlap ? Start::kOverlaps : Start::kAfter;
  if (plan.short_keys) {
    launch_key_shape<Element, TileRow, typename TileRow::ShortKeys>(params, start, stream);
  } else {
    launch_key_shape<Element, TileRow, typename TileRow::LongKeys>(params, start, stream);
  }
}

}  // namespace ragged_attention
