#include "client/memory/buffer_pool.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "client/testing/fake_network.h"
#include "gtest/gtest.h"

namespace farlook::client {
namespace {

class BufferPoolTest : public testing::Test {
 protected:
  FakeNetwork network_;
  std::unique_ptr<rdma::Endpoint> endpoint_ = network_.CreateEndpoint();
};

TEST_F(BufferPoolTest, PiecesDoNotOverlapAndAreUsedAgain) {
  BufferPool pool(endpoint_.get(), false, 4 * BufferPool::kChunkBytes);
  for (size_t bytes : {1, 1024, 1025, 5000, 65536, 65537, 300'000}) {
    std::vector<BufferPool::Piece> pieces;
    for (int i = 0; i < 10; ++i) {
      pieces.push_back(*pool.Take(bytes));
      std::memset(pieces.back().data(), i, bytes);
    }
    for (int i = 0; i < 10; ++i) {
      for (size_t at = 0; at < bytes; at += 511) ASSERT_EQ(pieces[i].data()[at], i);
    }
  }
  // Expect: all are back, and only whole chunks within the bound are kept.
  EXPECT_LE(pool.memory_bytes(), 4 * BufferPool::kChunkBytes);
}

TEST_F(BufferPoolTest, AnIdleChunkIsCutToAnotherSize) {
  BufferPool pool(endpoint_.get(), false, BufferPool::kChunkBytes);
  { auto small = pool.Take(100); }
  { auto large = pool.Take(60'000); }
  EXPECT_EQ(pool.memory_bytes(), BufferPool::kChunkBytes);
  // Expect: it is not cut while a piece of it is in use; another size gets separate memory.
  auto small = *pool.Take(100);
  {
    auto large = *pool.Take(60'000);
    EXPECT_GE(pool.memory_bytes(), BufferPool::kChunkBytes + 60'000);
  }
  EXPECT_EQ(pool.memory_bytes(), BufferPool::kChunkBytes);
}

TEST_F(BufferPoolTest, TellsWhenItIsUsedUp) {
  BufferPool pool(endpoint_.get(), false, 2 * BufferPool::kChunkBytes);
  EXPECT_FALSE(pool.UsedUpFor(5000));
  std::vector<BufferPool::Piece> pieces;
  for (int i = 0; i < 16; ++i) {
    ASSERT_FALSE(pool.UsedUpFor(5000)) << i;
    pieces.push_back(*pool.Take(5000));
  }
  EXPECT_TRUE(pool.UsedUpFor(5000));
  EXPECT_TRUE(pool.UsedUpFor(100));
  EXPECT_FALSE(pool.UsedUpFor(65537)) << "never fits";
  pieces.erase(pieces.begin());
  EXPECT_FALSE(pool.UsedUpFor(8192));
  EXPECT_TRUE(pool.UsedUpFor(4096)) << "the chunk has another size";
  pieces.erase(pieces.begin(), pieces.begin() + 7);
  EXPECT_FALSE(pool.UsedUpFor(4096)) << "the chunk is idle";
  BufferPool none(endpoint_.get(), false, 0);
  EXPECT_FALSE(none.UsedUpFor(100)) << "nothing would come back";
}

TEST_F(BufferPoolTest, NamesPiecesAsPeersSeeThem) {
  BufferPool pool(endpoint_.get(), true, BufferPool::kChunkBytes);
  auto first = *pool.Take(2000), second = *pool.Take(2000), own = *pool.Take(100'000);
  EXPECT_EQ(first.rkey(), second.rkey());
  EXPECT_NE(first.rkey(), 0);
  EXPECT_NE(first.rkey(), own.rkey());
  EXPECT_EQ(second.remote_address() - first.remote_address(), static_cast<uint64_t>(second.data() - first.data()));
  EXPECT_EQ(first.remote_address() % 8, 0);
}

TEST_F(BufferPoolTest, APieceMovesAndIsGivenBackOnce) {
  BufferPool pool(endpoint_.get(), false, 0);
  auto piece = *pool.Take(100);
  BufferPool::Piece moved = std::move(piece);
  EXPECT_EQ(piece.data(), nullptr);
  EXPECT_NE(moved.data(), nullptr);
  moved = BufferPool::Piece();
  EXPECT_EQ(pool.memory_bytes(), 0);
  moved.Release();
}

}  // namespace
}  // namespace farlook::client
