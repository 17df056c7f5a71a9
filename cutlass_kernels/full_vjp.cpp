// The whole call: workspace, derived constants, the kernels in their order.
#include <cute/numeric/numeric_types.hpp>

#include "api.h"
#include "launch.h"
#include "plan.h"

namespace ragged_attention {

namespace {

// Hands out parts of the workspace, or from null only counts its bytes.
class Workspace {
 public:
  explicit Workspace(void* memory) : memory_(static_cast<char*>(memory)) {}

  template <class Value>
  Value* take(int64_t count) {
    auto* const begin = reinterpret_cast<Value*>(memory_ + bytes_);
    bytes_ += (static_cast<size_t>(count) * sizeof(Value) + 255) / 256 * 256;
    return begin;
  }
  size_t bytes() const { return bytes_; }

 private:
  char* memory_;
  size_t bytes_ = 0;
};

KernelParams lay_out(Problem const& p, Plan const& plan, Workspace& workspace) {
  KernelParams params{};
  params.problem = p;
  params.by_heads = HeadsDivisor(p.heads);
  params.row_step = RowCursor(8, params.by_heads);
  params.copy_step = RowCursor(kKeyRows / 2, params.by_heads);
  params.key_step = RowCursor(kKeyRows, params.by_heads);
  params.score = make_score_constants(p.scale, p.softcap);
  params.neg_lse = workspace.take<float>(p.total_q * p.heads);
  params.neg_delta = workspace.take<float>(p.total_q * p.heads);
  params.key_ctas = plan.key_ctas;
  if (plan.shared_keys) {
    params.sum_dk = workspace.take<float>(p.total_k * kHeadDim);
    params.sum_dv = workspace.take<float>(p.total_k * kHeadDim);
    params.turn_count = plan.turn_count;
    params.turns = workspace.take<int>(plan.turn_count);
  }
  return params;
}

template <class Element, class TileRow>
void run(KernelParams const& params, Plan const& plan, cudaStream_t stream) {
  launch_row_kernel<Element, TileRow>(params, plan, stream);
  launch_key_kernel<Element, TileRow>(params, plan, stream);
}

template <class Element>
void run(KernelParams const& params, Plan const& plan, Tiles tiles, cudaStream_t stream) {
  if (tiles == Tiles::kSm90) {
    run<Element, TilesSm90>(params, plan, stream);
  } else {
    run<Element, TilesSm86>(params, plan, stream);
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
  lay_out(p, make_plan(p, tiles, device), workspace);
  return workspace.bytes();
}

void run_full_vjp(Problem const& p, Tiles tiles, Device const& device, cudaStream_t stream) {
  if (p.total_q == 0 && p.total_k == 0) return;
  Workspace workspace(p.workspace);
  Plan const plan = make_plan(p, tiles, device);
  KernelParams const params = lay_out(p, plan, workspace);
  if (p.dtype == DType::kFloat16) {
    run<cute::half_t>(params, plan, tiles, stream);
  } else {
    run<cute::bfloat16_t>(params, plan, tiles, stream);
  }
}

}  // namespace ragged_attention
