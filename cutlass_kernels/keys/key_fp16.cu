#include "key_launch.h"

namespace ragged_attention {

template void launch_key_kernel<cute::half_t, TilesSm86>(KernelParams const&, Plan const&,
                                                         cudaStream_t);
template void launch_key_kernel<cute::half_t, TilesSm90>(KernelParams const&, Plan const&,
                                                         cudaStream_t);

}  // namespace ragged_attention
