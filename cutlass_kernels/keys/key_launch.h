// How the key kernel is launched; included by its instantiations only.
#pragma once

#include "../launch.h"
#include "key_kernel.h"

namespace ragged_attention {

template <class T>
void launch_key_traits(KernelParams const& params, cudaStream_t stream) {
  launch(key_kernel<T>, dim3(params.key_ctas), T::kThreads, sizeof(typename T::SharedStorage),
         params, stream, "key kernel");
}

template <class Element, class TileRow, class Shape>
void launch_key_shape(KernelParams const& params, cudaStream_t stream) {
  if (score_kind(params.problem.softcap) == ScoreKind::kBounded) {
    launch_key_traits<KeyKernelTraits<Element, TileRow, Shape, ScoreKind::kBounded>>(params,
                                                                                     stream);
  } else {
    launch_key_traits<KeyKernelTraits<Element, TileRow, Shape, ScoreKind::kGeneral>>(params,
                                                                                     stream);
  }
}

template <class Element, class TileRow>
void launch_key_kernel(KernelParams const& params, Plan const& plan, cudaStream_t stream) {
  if (plan.short_keys) {
    launch_key_shape<Element, TileRow, typename TileRow::ShortKeys>(params, stream);
  } else {
    launch_key_shape<Element, TileRow, typename TileRow::LongKeys>(params, stream);
  }
}

}  // namespace ragged_attention
