// Rings and their packing: what must hold after 65,536 messages as on the first, and who gets credits when.
#include "weft/runtime/link.h"

#include "tests/unit/runtime/harness.h"

namespace weft::runtime::test {
namespace {

std::vector<std::byte> message_of(int64_t bytes, uint64_t number) {
  std::vector<std::byte> message(static_cast<size_t>(bytes));
  for (int64_t i = 0; i < bytes; ++i)
    message[static_cast<size_t>(i)] = static_cast<std::byte>(number * 31 + static_cast<uint64_t>(i) * 7);
  return message;
}

TEST(Link, LowLatencyMessagesComeWholeAtAllSizes) {
  for (const bool wide : {false, true})
    for (int64_t bytes : {1, 3, 4, 5, 8, 55, 56, 57, 64, 111, 112, 113, 1000}) {
      const auto protocol = wide ? plan::Protocol::ll128 : plan::Protocol::ll;
      std::vector<uint64_t> slot(static_cast<size_t>(slot_bytes(protocol, 1000)) / 8 + 8, 0);
      auto* memory = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(slot.data()) + 63) & ~uintptr_t{63});
      const uint64_t flag = uint64_t{0x12345} << number_bits | 7;
      std::vector<std::byte> got(static_cast<size_t>(bytes) + 8);
      uint64_t foreign = 0;
      const auto unpack = [&](uint64_t want, int64_t done) {
        return wide ? unpack_ll128(memory, got.data(), bytes, want, done, foreign)
                    : unpack_ll(memory, got.data(), bytes, want, done, foreign);
      };
      EXPECT_EQ(unpack(flag, 0), 0);
      EXPECT_EQ(foreign, 0u);
      const auto message = message_of(bytes, 7);
      if (wide)
        pack_ll128(memory, message.data(), bytes, flag);
      else
        pack_ll(memory, slot_bytes(protocol, 1000), message.data(), bytes, flag, 4);
      EXPECT_EQ(unpack(flag, 0), wide ? lines_ll128(bytes) : words_ll(bytes));
      EXPECT_EQ(std::memcmp(got.data(), message.data(), static_cast<size_t>(bytes)), 0);
      EXPECT_EQ(unpack(uint64_t{0x54321} << number_bits | 7, 0), 0);  // the same number, another launch
      EXPECT_NE(foreign, 0u);
    }
}

// Numbers of 16 bits come again. A slot that long messages used and short ones use since must not give stale words.
TEST(Link, ShortNumbersWrapWithoutStaleWords) {
  constexpr int64_t payload = 256;
  constexpr uint64_t slots = 4;
  const int64_t bytes_per_slot = slot_bytes(plan::Protocol::ll, payload);
  std::vector<uint64_t> memory(static_cast<size_t>(bytes_per_slot) * slots / 8, 0);
  const auto slot = [&](uint64_t number) {
    return reinterpret_cast<std::byte*>(memory.data()) + static_cast<int64_t>((number - 1) % slots) * bytes_per_slot;
  };
  for (uint64_t number = 1; number <= 200'000; ++number) {
    const bool large = number % 65536 >= 1 && number % 65536 <= slots;  // one in each slot, again a range later
    const int64_t bytes = large ? payload : 8;
    const uint64_t flag = uint64_t{1} << number_bits | number;
    const auto message = message_of(bytes, number);
    std::vector<std::byte> got(payload);
    uint64_t foreign = 0;
    ASSERT_EQ(unpack_ll(slot(number), got.data(), payload, flag, 0, foreign), 0) << "before message " << number;
    if (large) {  // the receiver looks while only the first half is there
      pack_ll(slot(number), bytes_per_slot / 2, message.data(), bytes / 2, flag, 0);
      ASSERT_EQ(unpack_ll(slot(number), got.data(), payload, flag, 0, foreign), words_ll(payload / 2))
          << "half of message " << number;
    }
    pack_ll(slot(number), bytes_per_slot, message.data(), bytes, flag, slots);
    ASSERT_EQ(unpack_ll(slot(number), got.data(), bytes, flag, 0, foreign), words_ll(bytes));
    ASSERT_EQ(std::memcmp(got.data(), message.data(), static_cast<size_t>(bytes)), 0);
  }
}

TEST(Link, AMessageOfALaunchIsTheCreditForEarlierOnes) {
  Word to_me = 0, to_peer = 0;
  SendEnd send;
  send.credit = &to_me;
  RecvEnd recv;
  recv.credit = &to_peer;
  recv.back = &send;
  for (uint64_t launch = 1; launch <= 100; ++launch) {
    ASSERT_TRUE(send.has_room(0, 2)) << launch;
    send.enter(launch);
    ++send.sent;
    ASSERT_FALSE(recv.take(launch, 2)) << launch;  // never more than one that the peer does not know of
  }
  EXPECT_EQ(to_peer.load(), 0u);
  recv.push();  // before it waits
  EXPECT_EQ(to_peer.load(), 100u);
}

TEST(Link, OneWayCreditsArePushed) {
  Word to_me = 0, to_peer = 0;
  SendEnd send;
  send.credit = &to_me;
  RecvEnd recv;
  recv.credit = &to_peer;
  recv.back = &send;
  for (uint64_t i = 1; i <= 8; ++i)
    if (recv.take(i, 2)) recv.push();
  EXPECT_EQ(to_peer.load(), 8u);
  SendEnd other;
  other.credit = &to_peer;
  other.sent = 11;
  EXPECT_TRUE(other.has_room(0, 4));
  EXPECT_FALSE(other.has_room(1, 4));
}

// All three protocols carry the ring, at message sizes around a line and around a slot.
TEST(Link, ProtocolsAgree) {
  plan::Plan plan = case_plan("ring_all_reduce");
  for (const auto protocol : {plan::Protocol::simple, plan::Protocol::ll, plan::Protocol::ll128})
    for (int64_t elements : {2, 26, 27, 28, 60, 500, 4001})
      for (int ranks : {2, 3}) {
        plan.families[0].protocol = protocol;
        Sizes sizes;
        sizes.spaces = {flat(elements)};
        sizes.chunk_elements = {static_cast<int64_t>(elements % 2 ? 64 : 1024)};
        SCOPED_TRACE(fmt::format("protocol {} {} elements {} ranks", static_cast<int>(protocol), elements, ranks));
        ASSERT_NO_THROW(agree(&transport::run_threads, plan, ranks, sizes, {.launches = 5}));
      }
}

// What a wire carries and what buffers hold may differ; all ranks still hold the interpreter's bits.
TEST(Link, WiresNarrowAndWide) {
  for (const char* name : {"ring_all_reduce", "pairwise_two_shot_all_reduce", "chain_all_reduce", "fused_ring_adam"})
    for (const char* dtype : {"f32", "f16", "bf16", "f64", "i32", "u8"})
      for (const char* wire : {"", "f16", "bf16", "f32", "f64"}) {
        plan::Plan plan = case_plan(name);
        const bool floats = dtype[0] == 'f' || dtype[0] == 'b';
        if (!floats && (*wire || plan.kernels.size())) continue;
        for (plan::Family& family : plan.families) family.wire = wire;
        for (plan::Buffer& buffer : plan.buffers)
          if (plan.kernels.empty() || buffer.name == "p") buffer.dtype = dtype;
        if (plan.kernels.size() && std::string(dtype) == "f64") continue;
        Sizes sizes;
        sizes.spaces = {flat(131)};
        sizes.chunk_elements = {24};
        for (const plan::Id& scalar : plan::launch_scalars(plan))
          sizes.scalars.push_back(scalar == "step" ? expr::ScalarValue{true, 3, 3}
                                                   : expr::ScalarValue{false, 0, 0.125});
        sizes.values["x"] = sizes.values["g"] = [](int rank, int64_t i) {
          return static_cast<double>((rank * 37 + i * 11) % 97) * 1.37;
        };
        SCOPED_TRACE(fmt::format("{} of {} over {}", name, dtype, wire));
        ASSERT_NO_THROW(agree(&transport::run_threads, plan, 3, sizes, {.launches = 2}));
      }
}

TEST(Link, RingsAreSharedByPlansAndGrow) {
  transport::run_threads(2, [](transport::Transport& t) {
    const auto kernels = kernel::evaluator_library();
    Communicator communicator(t, *kernels);
    LoadOptions load;
    load.verify = false;
    load.chunk_elements = {64};
    const auto a = communicator.load(case_plan("ring_all_reduce"), load);
    const size_t sets = communicator.internals().ring_sets.size();
    const auto b = communicator.load(case_plan("fused_ring_adam"), load);
    need(communicator.internals().ring_sets.size() == sets, "the same rings");
    load.chunk_elements = {1 << 20};
    const auto c = communicator.load(case_plan("ring_all_reduce"), load);
    need(communicator.internals().ring_sets.size() == sets + 1, "larger rings for larger messages");
  });
}

}  // namespace
}  // namespace weft::runtime::test
