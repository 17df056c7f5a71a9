#include "../launch.h"
#include "fold_kernel.h"

namespace ragged_attention {

template <class Element>
void launch_fold_kernel(KernelParams const& params, cudaStream_t stream) {
  int64_t const values = params.problem.total_k * kHeadDim;
  int64_t const per_block = kFoldThreads * kFoldValues;
  auto const blocks = static_cast<unsigned>((values + per_block - 1) / per_block);
  launch(fold_kernel<Element>, dim3(blocks, 2), kFoldThreads, 0, params, stream, "fold kernel");
}

template void launch_fold_kernel<cute::half_t>(KernelParams const&, cudaStream_t);
template void launch_fold_kernel<cute::bfloat16_t>(KernelParams const&, cudaStream_t);

bool has_device_code() {
  cudaFuncAttributes attributes;
  bool const found =
      cudaFuncGetAttributes(&attributes, fold_kernel<cute::half_t>) == cudaSuccess;
  (void)cudaGetLastError();
  return found;
}

}  // namespace ragged_attention
