// The whole call: workspace, derived constants, the kernels in their order.
#include <cute/numeric/numeric_types.hpp>

#include "api.h"
#include "launch.h"
#include "plan.h"

namespace ragged_attention {

namespace {

// Fills in what the kernels share, or with a null workspace only counts its bytes.
class Workspace {
 public:
  explicit Workspace(void* memory) : memory_(static_cast<char*>(memory)) {}

  float* take_floats(int64_t count) {
    auto* const begin = reinterpret_cast<float*>(memory_ + bytes_);
    bytes_ += (static_cast<size_t>(count) * sizeof(float) + 255) / 256 * 256;
    return begin;
  }
  size_t bytes() const { return bytes_; }

 private:
  char* memory_;
  size_t bytes_ = 0;
};

KernelParams lay_out(Problem const& p, int splits, Workspace& workspace) {
  KernelParams params{p, make_score_constants(p.scale, p.softcap)};
  params.splits = splits;
  params.neg_lse = workspace.take_floats(p.total_q * p.heads);
  params.neg_delta = workspace.take_floats(p.total_q * p.heads);
  if (splits > 1) {
    params.partial_dk = workspace.take_floats(splits * p.total_k * kHeadDim);
    params.partial_dv = workspace.take_floats(splits * p.total_k * kHeadDim);
  }
  return params;
}

template <class Element, class TileRow>
void run(KernelParams const& params, cudaStream_t stream) {
  launch_row_kernel<Element, TileRow>(params, stream);
  launch_key_kernel<Element, TileRow>(params, stream);
  if (params.splits > 1) launch_fold_kernel<Element>(params, stream);
}

template <class Element>
void run(KernelParams const& params, Tiles tiles, cudaStream_t stream) {
  if (tiles == Tiles::kSm90) {
    run<Element, TilesSm90>(params, stream);
  } else {
    run<Element, TilesSm86>(params, stream);
  }
}

}  // namespace

size_t workspace_bytes(int64_t total_q, int64_t total_k, int batch, int heads, Tiles tiles,
                       Device const& device) {
  Problem p{};
  p.total_q = total_q;
  p.total_k = total_k;
  p.batch = batch;
  p.heads = heads;
  Workspace workspace(nullptr);
  lay_out(p, key_splits(p, tiles, device.multiprocessors), workspace);
  return workspace.bytes();
}

void run_full_vjp(Problem const& p, Tiles tiles, Device const& device, cudaStream_t stream) {
  if (p.total_q == 0 && p.total_k == 0) return;
  Workspace workspace(p.workspace);
  KernelParams const params =
      lay_out(p, key_splits(p, tiles, device.multiprocessors), workspace);
  if (p.dtype == DType::kFloat16) {
    run<cute::half_t>(params, tiles, stream);
  } else {
    run<cute::bfloat16_t>(params, tiles, stream);
  }
}

}  // namespace ragged_attention
