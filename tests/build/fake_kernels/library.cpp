// A library behind api.h without CUDA, its run-time library included, so that the binding can be
// tested on any machine. run_full_vjp reports its arguments in the error that it throws.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "cutlass_kernels/api.h"

namespace {

constexpr int kDevices = 2;
int current_device = 0;
int queries = 0;

}  // namespace

extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
  current_device = device;
  return cudaSuccess;
}

char const* cudaGetErrorString(cudaError_t) { return "invalid device ordinal"; }

}  // extern "C"

namespace ragged_attention {

Device query_device(int index) { return {"fake card", index, 9, 0, 100 + ++queries, 232448, true}; }

Tiles choose_tiles(Device const& device) { return device.index == 0 ? Tiles::kSm90 : Tiles::kSm86; }

void check_tiles(Tiles tiles, Device const& device) {
  if (tiles == Tiles::kSm90) throw std::runtime_error("tiles: sm90 on " + device.name);
}

size_t workspace_bytes(int64_t total_q, int64_t total_k, int batch, int heads, Tiles tiles,
                       Device const& device) {
  return total_q + 10 * total_k + 100 * batch + 1000 * heads + 10000 * static_cast<int>(tiles) +
         100000 * device.index + 1000000 * current_device;
}

double measure_mma_rate(Device const& device, float milliseconds) {
  return 1e12 * (100 * current_device + 10 * device.index + milliseconds);
}

void run_full_vjp(Problem const& p, Tiles tiles, Device const& device, cudaStream_t stream) {
  if (stream == nullptr) {
    // Waits for another thread of the program, which can only run where the GIL is free.
    auto* flag = static_cast<std::atomic<int>*>(p.workspace);
    for (int i = 0; i < 5000 && *flag == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (*flag == 0) throw std::runtime_error("no other thread ran");
    return;
  }
  std::ostringstream text;
  auto address = [](void const* pointer) { return reinterpret_cast<uintptr_t>(pointer); };
  for (View const& view : {p.q, p.k, p.v, p.dout}) {
    text << address(view.data) << ' ' << view.token_stride << ' ' << view.head_stride << ' ';
  }
  for (void const* pointer : {static_cast<void const*>(p.cu_q), static_cast<void const*>(p.cu_k),
                              static_cast<void const*>(p.slopes)}) {
    text << address(pointer) << ' ';
  }
  text << p.slope_batch_stride << ' ' << p.slope_head_stride << ' ';
  for (void* pointer : {p.out, p.dq, p.dk, p.dv, p.workspace}) text << address(pointer) << ' ';
  text << p.total_q << ' ' << p.total_k << ' ' << p.batch << ' ' << p.heads << ' ' << p.softcap
       << ' ' << p.scale << ' ' << static_cast<int>(p.dtype) << ' ' << static_cast<int>(tiles)
       << ' ' << device.index << ' ' << device.multiprocessors << ' ' << current_device << ' '
       << address(stream);
  throw std::runtime_error(text.str());
}

BuildInfo build_info() { return {"none", "86;90", "0.0.0", "0123456789", {86, 90}, 3}; }

}  // namespace ragged_attention
