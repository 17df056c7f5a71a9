// Two kernels of a call that overlap (programmatic dependent launch, from sm_90 on): the second may start when
// all CTAs of the first have, and waits for the first's results where it needs them.
#pragma once

#include <cute/config.hpp>

namespace ragged_attention {

// In the first kernel, by every CTA.
CUTE_DEVICE void let_next_kernel_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// In the second, by every CTA at least before it ends: what follows it on the stream counts on both.
CUTE_DEVICE void wait_for_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace ragged_attention
