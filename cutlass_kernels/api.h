// The one header that crosses the boundary to the bindings: plain structs, no CuTe, no framework.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ragged_attention {

constexpr int kHeadDim = 160;
constexpr int kMaxHeads = 128;  // query heads that share the one K/V head

enum class DType : int { kFloat16 = 0, kBFloat16 = 1 };

// A row of the tile table; see tiles.h.
enum class Tiles : int { kSm86 = 0, kSm90 = 1 };

// A [tokens, heads, 160] view: last axis contiguous, 16-byte aligned; strides in elements.
// k and v have one head, whose stride is never read.
struct View {
  void const* data;
  int64_t token_stride;
  int64_t head_stride;
};

// One call: out, dq, dk, dv of packed ragged cross-attention. All pointers are device pointers.
struct Problem {
  View q, k, v, dout;
  int32_t const* cu_q;                            // (batch + 1), token offsets
  int32_t const* cu_k;                            // (batch + 1), token offsets
  float const* slopes;                            // (batch, heads) ALiBi slopes, or null for none
  int64_t slope_batch_stride, slope_head_stride;  // elements
  void* out;                                      // (total_q, heads, 160), dense
  void* dq;                                       // (total_q, heads, 160), dense
  void* dk;                                       // (total_k, 1, 160), dense
  void* dv;                                       // (total_k, 1, 160), dense
  void* workspace;                                // workspace_bytes(...) bytes, 256-byte aligned
  int64_t total_q, total_k;                       // tokens
  int batch, heads;
  float softcap;  // 0 = off
  float scale;    // multiplies q . k
  DType dtype;
};

// What the launchers need to know of a card.
struct Device {
  std::string name;
  int index;
  int major, minor;  // compute capability
  int multiprocessors;
  int max_shared_memory;  // bytes a block may opt in to
  bool has_code;          // the compiled kernels run on it
};

// Throws std::runtime_error when a CUDA call fails.
Device query_device(int index);

// The row of the tile table that suits the card: kSm90 where it fits, else kSm86.
// Throws std::runtime_error, naming card, capability, what was built, bytes wanted and allowed,
// when no compiled row can run there.
Tiles choose_tiles(Device const& device);

// The same errors for a row that was asked for.
void check_tiles(Tiles tiles, Device const& device);

// Scratch that run_full_vjp needs, from totals alone; bytes.
size_t workspace_bytes(int64_t total_q, int64_t total_k, int batch, int heads, Tiles tiles,
                       Device const& device);

// Enqueues everything on `stream` of the current device. Allocates nothing, never synchronises.
// Throws std::runtime_error when a launch fails.
void run_full_vjp(Problem const& problem, Tiles tiles, Device const& device, cudaStream_t stream);

// What the tensor cores of the current device reach with nothing else to do: mma.sync m16n8k16 on
// fp16 with fp32 sums, run for about so long; FLOP per second. Waits for the device.
double measure_mma_rate(Device const& device, float milliseconds);

struct BuildInfo {
  std::string compiler;       // "nvcc 13.0.88"
  std::string architectures;  // "86;90"
  std::string cutlass;        // "4.2.0"
  std::string commit;         // short hash, "-dirty" appended where it applies
  std::vector<int> sm;        // compiled architectures: 86, 90
  int mma_repeat = 1;         // how often each mma is issued; above 1, results are wrong
};
BuildInfo build_info();

}  // namespace ragged_attention
