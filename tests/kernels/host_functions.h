// The kernels' device functions that tests run on the host: the headers that hold them, included
// with host meanings for what only a device has. Comes before any other header of the kernels.
#pragma once

#include <cuda_runtime.h>
#include <cutlass/numeric_conversion.h>

#include <cute/tensor.hpp>
#include <vector>

#include "host_block.h"

namespace host_tests {

// A cp.async of 16 bytes only leaves a note.
struct AsyncCopy {
  void const* source;
  void const* target;
  bool valid;
};
inline std::vector<AsyncCopy> async_copies;

// What a function that is compiled for the device too takes for threadIdx.
CUTE_HOST_DEVICE Index thread_index() {
#ifdef __CUDA_ARCH__
  return {0};
#else
  return HostBlock::thread_index;
#endif
}

}  // namespace host_tests

template <>
struct cute::SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<cute::uint128_t, cute::uint128_t> {
  static void copy(uint128_t const& source, uint128_t& target, bool valid) {
    host_tests::async_copies.push_back({&source, &target, valid});
  }
};

// Plain host functions: what they call is not there on a device.
#pragma nv_diagnostic push
#pragma nv_diag_suppress 20093  // the address of shared memory, in a function that no test calls
#pragma push_macro("CUTE_DEVICE")
#undef CUTE_DEVICE
#define CUTE_DEVICE inline
#define threadIdx host_tests::thread_index()
#define blockIdx host_tests::HostBlock::block_index
#define gridDim host_tests::HostBlock::grid_size
#define __ldg(address) (*(address))
#define __syncthreads() host_tests::HostBlock::barrier()
#define __syncwarp() host_tests::HostBlock::barrier()
#define __syncthreads_count(yes) host_tests::HostBlock::count(yes)
#define __shfl_xor_sync(lanes, value, mask) \
  host_tests::HostBlock::exchange(value, [&](int lane) { return lane ^ (mask); })
#define __shfl_up_sync(lanes, value, step) \
  host_tests::HostBlock::exchange(value, [&](int lane) { return lane - (step); })

#define atomicAdd(address, value) (*(address) += (value))
#define atomicMax(address, value) (*(address) = std::max(*(address), value))

#include "cutlass_kernels/device/quad_order.h"
#include "cutlass_kernels/device/store.h"
#include "cutlass_kernels/keys/key_partition.h"
#include "cutlass_kernels/ragged.h"
#include "cutlass_kernels/row/row_partition.h"

#undef atomicMax
#undef atomicAdd
#undef __shfl_up_sync
#undef __shfl_xor_sync
#undef __syncthreads_count
#undef __syncwarp
#undef __syncthreads
#undef __ldg
#undef gridDim
#undef blockIdx
#undef threadIdx
#pragma pop_macro("CUTE_DEVICE")
#pragma nv_diagnostic pop
