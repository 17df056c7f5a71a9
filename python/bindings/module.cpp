// ragged_attention._native: the kernel library for Python. Addresses, strides and sizes come in as
// plain numbers, so that one build serves every version of the tensor framework.
#include <pybind11/pybind11.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "cutlass_kernels/api.h"

namespace py = pybind11;
namespace ra = ragged_attention;
using namespace pybind11::literals;

namespace {

using Strides = std::pair<int64_t, int64_t>;  // elements

// The two names of an argument that takes one of two values.
template <class Value>
struct Choice {
  char const* argument;
  std::pair<char const*, Value> first, second;
};

constexpr Choice<ra::DType> kDTypes{
    "dtype", {"float16", ra::DType::kFloat16}, {"bfloat16", ra::DType::kBFloat16}};
constexpr Choice<ra::Tiles> kTiles{"tiles", {"sm86", ra::Tiles::kSm86}, {"sm90", ra::Tiles::kSm90}};

template <class Value>
Value parse(Choice<Value> const& choice, std::string_view name) {
  if (name == choice.first.first) return choice.first.second;
  if (name == choice.second.first) return choice.second.second;
  throw py::value_error(std::string(choice.argument) + ": '" + std::string(name) + "'; '" +
                        choice.first.first + "' or '" + choice.second.first + "' is needed");
}

void check_cuda(cudaError_t status, char const* call, int device) {
  if (status == cudaSuccess) return;
  throw std::runtime_error("device: " + std::to_string(device) + "; " + call +
                           " failed: " + cudaGetErrorString(status));
}

// Makes a device the current one for a scope. Costs two cheap calls where it already is.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) {
    check_cuda(cudaGetDevice(&previous_), "cudaGetDevice", device);
    if (device == previous_) return;
    check_cuda(cudaSetDevice(device), "cudaSetDevice", device);
    changed_ = true;
  }
  DeviceGuard(DeviceGuard const&) = delete;
  DeviceGuard& operator=(DeviceGuard const&) = delete;
  ~DeviceGuard() {
    if (changed_) cudaSetDevice(previous_);
  }

 private:
  int previous_ = 0;
  bool changed_ = false;
};

// What is known of a card, asked for once: the query takes far longer than a call.
ra::Device const& device_of(int index) {
  static std::mutex mutex;
  static std::map<int, ra::Device> devices;  // its nodes stay where they are
  std::lock_guard lock(mutex);
  auto found = devices.find(index);
  if (found == devices.end()) found = devices.emplace(index, ra::query_device(index)).first;
  return found->second;
}

template <class T>
T* pointer(uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

ra::View view(uintptr_t address, Strides const& strides) {
  return {pointer<void const>(address), strides.first, strides.second};
}

void full_vjp(uintptr_t q, uintptr_t k, uintptr_t v, uintptr_t dout, uintptr_t cu_q, uintptr_t cu_k,
              uintptr_t slopes, uintptr_t out, uintptr_t dq, uintptr_t dk, uintptr_t dv,
              uintptr_t workspace, Strides q_strides, Strides k_strides, Strides v_strides,
              Strides dout_strides, Strides slope_strides, int64_t total_q, int64_t total_k,
              int batch, int heads, float softcap, float scale, std::string_view dtype,
              std::string_view tiles, int device, uintptr_t stream) {
  ra::Problem problem{};
  problem.q = view(q, q_strides);
  problem.k = view(k, k_strides);
  problem.v = view(v, v_strides);
  problem.dout = view(dout, dout_strides);
  problem.cu_q = pointer<int32_t const>(cu_q);
  problem.cu_k = pointer<int32_t const>(cu_k);
  problem.slopes = pointer<float const>(slopes);
  problem.slope_batch_stride = slope_strides.first;
  problem.slope_head_stride = slope_strides.second;
  problem.out = pointer<void>(out);
  problem.dq = pointer<void>(dq);
  problem.dk = pointer<void>(dk);
  problem.dv = pointer<void>(dv);
  problem.workspace = pointer<void>(workspace);
  problem.total_q = total_q;
  problem.total_k = total_k;
  problem.batch = batch;
  problem.heads = heads;
  problem.softcap = softcap;
  problem.scale = scale;
  problem.dtype = parse(kDTypes, dtype);
  ra::Tiles const row = parse(kTiles, tiles);

  py::gil_scoped_release no_gil;
  DeviceGuard guard(device);
  ra::run_full_vjp(problem, row, device_of(device), pointer<CUstream_st>(stream));
}

size_t workspace_bytes(int64_t total_q, int64_t total_k, int batch, int heads,
                       std::string_view tiles, int device) {
  ra::Tiles const row = parse(kTiles, tiles);
  return ra::workspace_bytes(total_q, total_k, batch, heads, row, device_of(device));
}

std::string choose_tiles(int device) {
  bool const first = ra::choose_tiles(device_of(device)) == kTiles.first.second;
  return first ? kTiles.first.first : kTiles.second.first;
}

void check_tiles(std::string_view tiles, int device) {
  ra::Tiles const row = parse(kTiles, tiles);
  ra::check_tiles(row, device_of(device));
}

double mma_rate(int device, float milliseconds) {
  if (!(milliseconds > 0 && milliseconds <= 10000)) {
    throw py::value_error("milliseconds: " + std::to_string(milliseconds) +
                          "; above 0 and at most 10000 is needed");
  }
  py::gil_scoped_release no_gil;
  DeviceGuard guard(device);
  return 1e-12 * ra::measure_mma_rate(device_of(device), milliseconds);
}

py::dict build_info() {
  ra::BuildInfo const info = ra::build_info();
  py::list sm;
  for (int number : info.sm) sm.append(number);
  return py::dict("compiler"_a = info.compiler, "architectures"_a = info.architectures,
                  "cutlass"_a = info.cutlass, "commit"_a = info.commit, "sm"_a = sm,
                  "mma_repeat"_a = info.mma_repeat,
                  "python_module"_a =
                      "cp" + std::to_string(PY_MAJOR_VERSION) + std::to_string(PY_MINOR_VERSION));
}

}  // namespace

// Arguments may be given by name, or by position in the order below, which is 2 us faster a call.
PYBIND11_MODULE(_native, m) {
  m.doc() = "Kernels of ragged_attention. Addresses are device addresses, strides are in elements.";
  m.def("full_vjp", &full_vjp, "q"_a, "k"_a, "v"_a, "dout"_a, "cu_q"_a, "cu_k"_a, "slopes"_a,
        "out"_a, "dq"_a, "dk"_a, "dv"_a, "workspace"_a, "q_strides"_a, "k_strides"_a, "v_strides"_a,
        "dout_strides"_a, "slope_strides"_a, "total_q"_a, "total_k"_a, "batch"_a, "heads"_a,
        "softcap"_a, "scale"_a, "dtype"_a, "tiles"_a, "device"_a, "stream"_a,
        "Enqueues out, dq, dk and dv on a stream. Strides are pairs: (token, head), and\n"
        "(batch, head) for the slopes, whose address is 0 for none. dtype: 'float16' or\n"
        "'bfloat16'; tiles: 'sm86' or 'sm90'. Raises RuntimeError when a launch fails.");
  m.def("workspace_bytes", &workspace_bytes, "total_q"_a, "total_k"_a, "batch"_a, "heads"_a,
        "tiles"_a, "device"_a, "Bytes of scratch that full_vjp needs at `workspace`.");
  m.def("choose_tiles", &choose_tiles, "device"_a,
        "The row of the tile table that suits a card. Raises RuntimeError where none can run.");
  m.def("check_tiles", &check_tiles, "tiles"_a, "device"_a,
        "Raises RuntimeError where this row of the tile table cannot run on a card.");
  m.def("mma_rate", &mma_rate, "device"_a, "milliseconds"_a,
        "TFLOP/s that mma.sync (m16n8k16, fp32 sums) reaches on a card, run for about so long.\n"
        "Waits for the card. Raises RuntimeError where a launch fails.");
  m.def("build_info", &build_info,
        "Compiler, architectures, CUTLASS version, commit, sm numbers, how often each mma is\n"
        "issued (above 1 in a timing build, whose results are wrong), Python tag.");
}
