// Sums the splits' partial dk and dv in a fixed order, so that results repeat bit for bit.
#pragma once

#include "../device/warp_mma.h"
#include "../params.h"

namespace ragged_attention {

constexpr int kFoldThreads = 256;
constexpr int kFoldValues = 4;  // a thread

template <class Element>
__global__ void __launch_bounds__(kFoldThreads)
    fold_kernel(__grid_constant__ KernelParams const params) {
  Problem const& p = params.problem;
  int64_t const count = p.total_k * kHeadDim;
  int64_t const i = (int64_t{blockIdx.x} * kFoldThreads + threadIdx.x) * kFoldValues;
  if (i >= count) return;
  float const* const partial = blockIdx.y == 0 ? params.partial_dk : params.partial_dv;
  float4 sum{};
  for (int split = 0; split < params.splits; ++split) {
    float4 const part = *reinterpret_cast<float4 const*>(partial + split * count + i);
    sum.x += part.x;
    sum.y += part.y;
    sum.z += part.z;
    sum.w += part.w;
  }
  auto* const out = static_cast<Element*>(blockIdx.y == 0 ? p.dk : p.dv);
  *reinterpret_cast<uint2*>(out + i) =
      make_uint2(pack<Element>(sum.x, sum.y), pack<Element>(sum.z, sum.w));
}

}  // namespace ragged_attention
