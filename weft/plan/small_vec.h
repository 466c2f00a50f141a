// SmallVec: a vector whose first N elements lie inside it.
//
// Walk::next() fills a step of two or three operands fifty million times a second, so it must not allocate. Ways: a
// fixed array (some steps name dozens of operands), std::vector (allocates, and its elements are a cache line away), or
// an inline array that moves to the heap when it is too small. We take the last. Elements are constructed once and then
// assigned: clear() keeps the memory, and an element that owns memory (an await's indices) keeps that too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>

namespace weft::plan {

template <typename T, size_t N>
class SmallVec {
 public:
  SmallVec() = default;
  SmallVec(std::initializer_list<T> values) { assign(values.begin(), values.end()); }
  SmallVec(const SmallVec& other) { assign(other.begin(), other.end()); }
  SmallVec(SmallVec&& other) noexcept { take(other); }
  SmallVec& operator=(const SmallVec& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  SmallVec& operator=(SmallVec&& other) noexcept {
    if (this != &other) take(other);
    return *this;
  }
  ~SmallVec() = default;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return heap_ ? heap_.get() : inline_; }
  const T* data() const { return heap_ ? heap_.get() : inline_; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T& front() { return data()[0]; }
  const T& front() const { return data()[0]; }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }

  void clear() { size_ = 0; }
  void pop_back() { --size_; }
  void push_back(const T& value) {
    if (size_ < capacity_) {
      data()[size_++] = value;
      return;
    }
    T copy = value;  // `value` may lie in the memory that grows away
    extend() = std::move(copy);
  }
  // One more element, with whatever an earlier one left in that place: for callers that set every member.
  T& extend() {
    if (size_ == capacity_) reserve(2 * size_t{capacity_});
    return data()[size_++];
  }
  // Exactly `size` elements, with whatever earlier ones left there.
  T* extend_to(size_t size) {
    reserve(size);
    size_ = static_cast<uint32_t>(size);
    return data();
  }
  void truncate(size_t size) { size_ = static_cast<uint32_t>(size); }
  void resize(size_t size) {
    reserve(size);
    for (size_t i = size_; i < size; ++i) data()[i] = T{};
    size_ = static_cast<uint32_t>(size);
  }
  void reserve(size_t capacity) {
    if (capacity <= capacity_) return;
    auto larger = std::make_unique<T[]>(capacity);
    std::move(begin(), end(), larger.get());
    heap_ = std::move(larger);
    capacity_ = static_cast<uint32_t>(capacity);
  }
  template <typename Iterator>
  void assign(Iterator first, Iterator last) {
    const auto count = static_cast<size_t>(last - first);
    size_ = 0;  // nothing to carry over when it grows
    reserve(count);
    std::copy(first, last, data());
    size_ = static_cast<uint32_t>(count);
  }
  friend bool operator==(const SmallVec& a, const SmallVec& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  void take(SmallVec& other) {
    if (other.heap_) {
      heap_ = std::move(other.heap_);
      capacity_ = std::exchange(other.capacity_, static_cast<uint32_t>(N));
      size_ = std::exchange(other.size_, 0);
      return;
    }
    size_ = 0;  // at most N elements: no allocation
    std::move(other.begin(), other.end(), data());
    size_ = std::exchange(other.size_, 0);
  }

  uint32_t size_ = 0, capacity_ = static_cast<uint32_t>(N);
  std::unique_ptr<T[]> heap_;
  T inline_[N];
};

}  // namespace weft::plan
