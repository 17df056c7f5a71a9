// What the kernels take of a card, for Python: one record for each traits struct.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>

#include "cutlass_kernels/keys/key_traits.h"
#include "cutlass_kernels/row/resident_traits.h"
#include "cutlass_kernels/row/row_traits.h"

namespace host_tests {

namespace py = pybind11;
using namespace pybind11::literals;
using namespace ragged_attention;

// `tile_steps`: bytes that lead from the storage's begin to its tiles and from tile to tile.
template <class T, class TileRow>
py::dict traits_record(char const* kernel, int ctas, py::tuple const& tile_steps,
                       size_t tile_bytes) {
  return py::dict("kernel"_a = kernel, "tiles"_a = TileRow::kName, "threads"_a = T::kThreads,
                  "ctas"_a = ctas, "shared_memory"_a = sizeof(typename T::SharedStorage),
                  "tile_steps"_a = tile_steps, "tile_bytes"_a = tile_bytes);
}

template <class T, class TileRow>
py::dict row_record() {
  using Storage = typename T::SharedStorage;
  using Stage = typename T::Stage;
  using Operands = typename T::Operands;
  return traits_record<T, TileRow>(
      "row", 1,
      py::make_tuple(offsetof(Storage, tiles), offsetof(Stage, v), sizeof(Stage),
                     offsetof(Operands, dout), sizeof(Operands::q[0])),
      T::kStages * 2 * T::kBlockN * kHeadDim * sizeof(typename T::Element));
}

// T: KeyKernelTraits, one kernel with two ways through a tile.
template <class T, class TileRow>
py::dict key_record(char const* kernel) {
  using Storage = typename T::SharedStorage;
  using Wide = typename T::Wide;
  using Narrow = typename T::Narrow;
  using Stage = typename Wide::Stage;
  using WideOperands = typename Wide::PairOperands;
  using NarrowOperands = typename Narrow::PairOperands;
  return traits_record<T, TileRow>(
      kernel, T::kCtas,
      py::make_tuple(offsetof(Storage, wide), offsetof(Storage, narrow),
                     offsetof(typename Wide::SharedStorage, tiles),
                     offsetof(typename Narrow::SharedStorage, tiles), offsetof(Stage, dout),
                     sizeof(Stage), sizeof(typename Narrow::Stage), offsetof(WideOperands, v),
                     sizeof(WideOperands), offsetof(NarrowOperands, v), sizeof(NarrowOperands)),
      Wide::kStages * 2 * Wide::kBlockM * kHeadDim * sizeof(typename Wide::Element));
}

template <class T, class TileRow>
py::dict resident_record() {
  using Storage = typename T::SharedStorage;
  using Resident = typename T::Resident;
  using Step = typename T::KeyStep;
  return traits_record<T, TileRow>(
      "resident row", 1,
      py::make_tuple(offsetof(Storage, resident), offsetof(Storage, streamed),
                     offsetof(Resident, room), sizeof(Resident::room), offsetof(Step, v),
                     sizeof(Step)),
      2 * TileRow::kResidentKeys * kHeadDim * sizeof(typename T::Element));
}

template <class TileRow, ScoreKind kKind>
void append_traits(py::list& records) {
  using cute::half_t;
  records.append(row_record<RowTraits<half_t, TileRow, kKind>, TileRow>());
  using Long = KeyKernelTraits<half_t, TileRow, typename TileRow::LongKeys, kKind>;
  using Short = KeyKernelTraits<half_t, TileRow, typename TileRow::ShortKeys, kKind>;
  records.append(key_record<Long, TileRow>("long keys"));
  records.append(key_record<Short, TileRow>("short keys"));
  records.append(resident_record<ResidentTraits<half_t, TileRow, kKind>, TileRow>());
}

inline py::list traits() {
  py::list records;
  append_traits<TilesSm86, ScoreKind::kBounded>(records);
  append_traits<TilesSm86, ScoreKind::kGeneral>(records);
  append_traits<TilesSm90, ScoreKind::kBounded>(records);
  append_traits<TilesSm90, ScoreKind::kGeneral>(records);
  return records;
}

inline void bind_traits(py::module_& module) { module.def("traits", &traits); }

}  // namespace host_tests
