// The ragged scheduler for Python: the tiles that CTAs find, how rows are shared out and walked.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>

#include "cutlass_kernels/keys/key_partition.h"
#include "cutlass_kernels/params.h"
#include "cutlass_kernels/row/row_partition.h"

namespace host_tests {

namespace py = pybind11;
using namespace pybind11::literals;
using namespace ragged_attention;
using Offsets = py::array_t<int32_t, py::array::c_style>;

inline KernelParams ragged_params(Offsets const& cu_q, Offsets const& cu_k, int64_t total_q,
                                  int64_t total_k, int heads) {
  KernelParams params{};
  params.problem.cu_q = cu_q.data();
  params.problem.cu_k = cu_k.data();
  params.problem.total_q = total_q;
  params.problem.total_k = total_k;
  params.problem.heads = heads;
  params.problem.batch = static_cast<int>(cu_q.size()) - 1;
  return params;
}

// (slots,6): sequence, block, q_begin, k_begin, queries, keys of the tile that each CTA finds.
template <int kThreads>
py::array_t<int64_t> find_tiles(Offsets const& cu_q, Offsets const& cu_k, int64_t total_q,
                                int64_t total_k, int heads, bool by_rows, int block, int slots) {
  KernelParams const params = ragged_params(cu_q, cu_k, total_q, total_k, heads);
  Cut const cut = by_rows ? params.row_cut(block) : params.key_cut(block);
  py::array_t<int64_t> tiles({slots, 6});
  auto at = tiles.mutable_unchecked<2>();
  static TileSearch search;
  for (int slot = 0; slot < slots; ++slot) {
    ragged_attention::Tile tile;
    auto find = [&] { find_tile<kThreads>(cut, slot, search, tile); };
    kThreads == 1 ? find() : HostBlock::run(kThreads, find);
    at(slot, 0) = tile.sequence;
    at(slot, 1) = tile.block;
    at(slot, 2) = tile.q_begin;
    at(slot, 3) = tile.k_begin;
    at(slot, 4) = tile.queries;
    at(slot, 5) = tile.keys;
  }
  return tiles;
}

constexpr int kPartitionThreads = 64;

// Runs function(cta) by a block for each CTA of a grid.
template <class Function>
void for_grid(int ctas, Function const& function) {
  HostBlock::grid_size.x = ctas;
  for (int cta = 0; cta < ctas; ++cta) {
    HostBlock::block_index.x = cta;
    HostBlock::run(kPartitionThreads, [&] { function(cta); });
  }
  HostBlock::block_index.x = 0;
  HostBlock::grid_size.x = 1;
}

inline py::array_t<int64_t> as_table(std::vector<int64_t> const& values, int columns) {
  py::array_t<int64_t> table(
      {static_cast<py::ssize_t>(values.size()) / columns, static_cast<py::ssize_t>(columns)});
  std::copy(values.begin(), values.end(), table.mutable_data());
  return table;
}

// (shares,5): CTA, sequence, first block, block past the last, cost of a block, of what each CTA of
// a grid gets of the rows.
inline py::array_t<int64_t> partition_rows(Offsets const& cu_q, Offsets const& cu_k,
                                           int64_t total_q, int64_t total_k, int heads, int block,
                                           int resident_keys, std::array<int, 3> const& room,
                                           int ctas) {
  Cut const cut = ragged_params(cu_q, cu_k, total_q, total_k, heads).row_cut(block);
  BlockCosts const costs{resident_keys, {room[0], room[1], room[2]}};
  static RowPartition<kPartitionThreads> partition;
  static Share share;
  std::vector<int64_t> shares;
  for_grid(ctas, [&](int cta) {
    partition.start();
    while (find_share<kPartitionThreads>(cut, costs, partition, share)) {
      if (HostBlock::thread_index.x != 0) continue;
      Span const span = cut.span(share.tile.sequence + 1);
      shares.insert(shares.end(),
                    {cta, share.tile.sequence, share.begin, share.end, costs.of(span)});
    }
  });
  return as_table(shares, 5);
}

// (parts,10): CTA, sequence, first key of the tile, key past its last, keys whose products are computed,
// first row, row past the last, turn, turns, slot, of what each CTA of a grid gets of the key tiles.
inline py::array_t<int64_t> partition_keys(Offsets const& cu_q, Offsets const& cu_k,
                                           int64_t total_q, int64_t total_k, int heads, int block,
                                           int largest_team, std::array<int, 4> const& costs,
                                           int ctas) {
  Cut const cut = ragged_params(cu_q, cu_k, total_q, total_k, heads).key_cut(block);
  static KeyPartitionStorage<kPartitionThreads> storage;
  static KeyPlace place;
  static KeyPart part;
  KeyPartition<kPartitionThreads> const partition{
      cut, heads, {block, largest_team, {costs[0], costs[1], costs[2], costs[3]}}, storage};
  std::vector<int64_t> parts;
  for_grid(ctas, [&](int cta) {
    partition.find_place(place);
    while (partition.find_part(place, part)) {
      if (HostBlock::thread_index.x == 0) {
        parts.insert(parts.end(),
                     {cta, part.tile.sequence, part.keys.begin, part.keys.end, part.computed_keys,
                      part.rows.begin, part.rows.end, part.turn.index, part.turn.count, part.slot});
      }
      HostBlock::barrier();
    }
  });
  return as_table(parts, 10);
}

// (steps,2): token and head after 0, 1, ... steps of `step` rows from `row`.
inline py::array_t<int> walk_rows(int row, int step, int heads, int steps) {
  py::array_t<int> walk({steps, 2});
  HeadsDivisor const by_heads(heads);
  RowCursor cursor(row, by_heads);
  RowCursor const stride(step, by_heads);
  for (int i = 0; i < steps; ++i, cursor.advance(stride, heads)) {
    walk.mutable_at(i, 0) = cursor.token;
    walk.mutable_at(i, 1) = cursor.head;
  }
  return walk;
}

inline void bind_ragged(py::module_& module) {
  module.attr("max_sorted_segments") = kMaxSortedSegments;
  module.def("slot_bound", &slot_bound, "total"_a, "items_per_token"_a, "block"_a, "batch"_a);
  module.def("find_tiles", &find_tiles<1>, "cu_q"_a, "cu_k"_a, "total_q"_a, "total_k"_a, "heads"_a,
             "by_rows"_a, "block"_a, "slots"_a);
  module.def("find_tiles_by_a_block", &find_tiles<64>, "cu_q"_a, "cu_k"_a, "total_q"_a, "total_k"_a,
             "heads"_a, "by_rows"_a, "block"_a, "slots"_a);
  module.def("partition_rows", &partition_rows, "cu_q"_a, "cu_k"_a, "total_q"_a, "total_k"_a,
             "heads"_a, "block"_a, "resident_keys"_a, "room"_a, "ctas"_a);
  module.def("partition_keys", &partition_keys, "cu_q"_a, "cu_k"_a, "total_q"_a, "total_k"_a,
             "heads"_a, "block"_a, "largest_team"_a, "costs"_a, "ctas"_a);
  module.def("divide_by_heads",
             py::vectorize([](int row, int heads) { return HeadsDivisor(heads).divide(row); }),
             "row"_a, "heads"_a);
  module.def("walk_rows", &walk_rows, "row"_a, "step"_a, "heads"_a, "steps"_a);
}

}  // namespace host_tests
