#include "row_launch.h"

namespace ragged_attention {

template void launch_row_kernel<cute::half_t, TilesSm86>(KernelParams const&, Plan const&,
                                                         cudaStream_t);
template void launch_row_kernel<cute::half_t, TilesSm90>(KernelParams const&, Plan const&,
                                                         cudaStream_t);

bool has_device_code() {
  cudaFuncAttributes attributes;
  auto* const kernel = row_kernel<RowTraits<cute::half_t, TilesSm86, ScoreKind::kBounded>>;
  bool const found = cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess;
  (void)cudaGetLastError();  // a missing image is an answer here, not an error of the next call
  return found;
}

}  // namespace ragged_attention
