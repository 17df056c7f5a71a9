// A block of threads on the host: fibers that run one after the other from barrier to barrier.
//
// All threads of the block have to reach the same barriers, those of a warp included. Without a
// block, the caller is the only thread of one.
#pragma once

#include <ucontext.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

namespace host_tests {

struct Index {
  int x, y = 0;
};

class HostBlock {
 public:
  static inline Index thread_index{0}, block_index{0}, grid_size{1};

  // Runs function() once for each thread of a block.
  static void run(int threads, std::function<void()> const& function) {
    HostBlock block(threads, function);
    current_ = &block;
    for (int i = 0; i < threads; ++i) {
      getcontext(&block.fibers_[i]);
      block.fibers_[i].uc_stack.ss_sp = block.stacks_.data() + i * kStackBytes;
      block.fibers_[i].uc_stack.ss_size = kStackBytes;
      block.fibers_[i].uc_link = &block.caller_;
      makecontext(
          &block.fibers_[i],
          [] {
            current_->function_();
            current_->ended_ = true;
          },
          0);
    }
    // every thread goes on to its next barrier in turn, until all have ended
    for (std::vector<bool> done(threads); !block.all(done);) {
      for (int i = 0; i < threads; ++i) {
        if (done[i]) continue;
        thread_index.x = i;
        block.ended_ = false;
        swapcontext(&block.caller_, &block.fibers_[i]);
        done[i] = block.ended_;
      }
    }
    current_ = nullptr;
    thread_index.x = 0;
  }

  static void barrier() {
    if (current_) swapcontext(&current_->fibers_[thread_index.x], &current_->caller_);
  }

  // The value of the lane that `lane_of(own lane)` names; outside the warp, the thread's own.
  template <class Value, class LaneOf>
  static Value exchange(Value value, LaneOf const& lane_of) {
    static_assert(sizeof(Value) <= sizeof(uint64_t));
    auto& slots = current_->slots_;
    int const lane = thread_index.x % 32, first = thread_index.x - lane;
    std::memcpy(&slots[thread_index.x], &value, sizeof(Value));
    barrier();
    int const other = lane_of(lane);
    if (0 <= other && other < 32) std::memcpy(&value, &slots[first + other], sizeof(Value));
    barrier();
    return value;
  }

  // How many threads say yes.
  static int count(bool yes) {
    if (!current_) return yes;
    current_->slots_[thread_index.x] = yes;
    barrier();
    int sum = 0;
    for (uint64_t vote : current_->slots_) sum += static_cast<int>(vote);
    barrier();
    return sum;
  }

 private:
  static constexpr size_t kStackBytes = 64 * 1024;

  HostBlock(int threads, std::function<void()> const& function)
      : function_(function), fibers_(threads), stacks_(threads * kStackBytes), slots_(threads) {}
  static bool all(std::vector<bool> const& done) {
    for (bool one : done) {
      if (!one) return false;
    }
    return true;
  }

  static inline HostBlock* current_ = nullptr;
  std::function<void()> const& function_;
  std::vector<ucontext_t> fibers_;
  std::vector<char> stacks_;
  std::vector<uint64_t> slots_;
  ucontext_t caller_{};
  bool ended_ = false;
};

}  // namespace host_tests
