// How fast the tensor cores are when nothing holds them up: the ceiling that benchmarks refer to.
#include <cuda_runtime.h>

#include <cute/arch/mma_sm80.hpp>

#include "../api.h"
#include "../launch.h"

namespace ragged_attention {

namespace {

constexpr int kWarps = 8;  // on a multiprocessor; with more the rate stays the same
constexpr int kSums =
    8;  // independent accumulators of a warp, so that no product waits for another
constexpr int kUnroll = 4;
constexpr double kFlop = 2.0 * 16 * 8 * 16;  // of one instruction

// Two fp16 values in +-[0.5, 1): their sums stay finite, and their bits differ as real data's do.
__device__ uint32_t operand(uint32_t index) {
  uint32_t const hash = (index * 32 + threadIdx.x + 1) * 2654435761u;
  return 0x38003800u | ((hash ^ hash >> 13) & 0x83ff83ffu);
}

__device__ float sink;  // something the products might be needed for

__global__ void __launch_bounds__(kWarps * 32, 1) mma_rate_kernel(int rounds) {
  uint32_t a[4], b[kSums][2];
  float c[kSums][4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = operand(i);
#pragma unroll
  for (int i = 0; i < 2 * kSums; ++i) b[i / 2][i % 2] = operand(4 + i);
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int i = 0; i < kUnroll * kSums; ++i) {
      int const s = i % kSums;
      cute::SM80_16x8x16_F32F16F16F32_TN::fma(c[s][0], c[s][1], c[s][2], c[s][3], a[0], a[1], a[2],
                                              a[3], b[s][0], b[s][1], c[s][0], c[s][1], c[s][2],
                                              c[s][3]);
    }
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4 * kSums; ++i) sum += c[i / 4][i % 4];
  if (sum == 0.123f) sink = sum;
}

class Event {
 public:
  Event() { check_cuda(cudaEventCreate(&event_), "cudaEventCreate"); }
  Event(Event const&) = delete;
  Event& operator=(Event const&) = delete;
  ~Event() { cudaEventDestroy(event_); }

  void record() const { check_cuda(cudaEventRecord(event_), "cudaEventRecord"); }
  float milliseconds_since(Event const& start) const {
    check_cuda(cudaEventSynchronize(event_), "mma rate kernel");
    float milliseconds;
    check_cuda(cudaEventElapsedTime(&milliseconds, start.event_, event_), "cudaEventElapsedTime");
    return milliseconds;
  }

 private:
  cudaEvent_t event_;
};

float run_rounds(int multiprocessors, int rounds) {
  Event const start, end;
  start.record();
  mma_rate_kernel<<<multiprocessors, kWarps * 32>>>(rounds);
  check_cuda(cudaGetLastError(), "mma rate kernel");
  end.record();
  return end.milliseconds_since(start);
}

}  // namespace

double measure_mma_rate(Device const& device, float milliseconds) {
  constexpr int kFirstRounds = 1 << 14;
  run_rounds(device.multiprocessors, kFirstRounds);  // loads the code
  float const first = run_rounds(device.multiprocessors, kFirstRounds);
  int const rounds = static_cast<int>(kFirstRounds * (1.0 + milliseconds / first));
  run_rounds(device.multiprocessors, rounds);  // lets the clock settle
  double const seconds = 1e-3 * run_rounds(device.multiprocessors, rounds);
  return kFlop * kUnroll * kSums * kWarps * device.multiprocessors * rounds / seconds;
}

}  // namespace ragged_attention
