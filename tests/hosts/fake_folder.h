// A file system in memory that keeps no promise it has not made: what was not synced may be lost, whole or in
// pieces, and a name that was not synced may be gone or still the old one. It can also be full.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tftf_native/output_folder.h"

namespace tftf::test {

class FakeDisk {
 public:
  struct Inode {
    uint64_t number = 0;
    std::string now;                                        // as processes see it
    std::string durable;                                    // as the platter has it
    std::vector<std::pair<uint64_t, std::string>> pending;  // writes since the last sync
    std::set<uint64_t> touched;                             // pages that count against the capacity
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;

  uint64_t capacity = UINT64_MAX;        // bytes
  bool can_allocate = true;              // false: space is taken when written
  uint64_t power_fails_at = UINT64_MAX;  // the operation of this number and all later ones fail

  std::mutex mutex;
  uint64_t operations = 0;
  std::vector<std::string> history;
  Names names;
  Names durable_names;
  uint64_t next_inode = 1;

  static constexpr uint64_t kPage = 512;

  uint64_t used() const {
    uint64_t bytes = 0;
    for (const auto& [name, inode] : names) bytes += inode->touched.size() * kPage;
    return bytes;
  }

  // Every operation that changes something goes through here, under the lock.
  Result<void> operate(const std::string& what) {
    if (operations++ >= power_fails_at)
      return Error{.code = ErrorCode::kIoWrite, .message = "The power has failed."};
    history.push_back(what);
    return {};
  }

  Result<void> take_space(Inode& inode, uint64_t begin, uint64_t end) {
    std::vector<uint64_t> pages;
    for (uint64_t page = begin / kPage; page * kPage < end; ++page)
      if (inode.touched.count(page) == 0) pages.push_back(page);
    if (used() + pages.size() * kPage > capacity)
      return Error{.code = ErrorCode::kIoSpace, .message = "No space left on device.", .file = "fake"};
    inode.touched.insert(pages.begin(), pages.end());
    return {};
  }

  // What a machine finds after the power came back: of the writes that were not synced any part, of the names
  // any.
  void restart(uint32_t seed) {
    std::mt19937 random(seed);
    const auto coin = [&] { return random() % 2 == 0; };
    Names found = durable_names;
    std::set<std::string> changed;
    for (const auto& [name, inode] : names)
      if (found.count(name) == 0 || found[name] != inode) changed.insert(name);
    for (const auto& [name, inode] : durable_names)
      if (names.count(name) == 0) changed.insert(name);
    for (const std::string& name : changed) {
      const auto now = names.find(name);
      if (now == names.end()) {
        const auto inode = durable_names.at(name);
        const auto renamed =
            std::any_of(names.begin(), names.end(), [&](const auto& entry) { return entry.second == inode; });
        if (!renamed && coin()) found.erase(name);
        continue;
      }
      if (!coin()) continue;
      // A rename happens as a whole or not at all.
      for (auto old = found.begin(); old != found.end();)
        old = old->second == now->second ? found.erase(old) : std::next(old);
      found[name] = now->second;
    }
    std::set<Inode*> seen;
    for (const auto& [name, inode] : found) {
      if (!seen.insert(inode.get()).second) continue;
      for (const auto& [offset, bytes] : inode->pending) {
        if (!coin()) continue;
        // A piece of the write, whole sectors in the file.
        uint64_t begin = offset;
        uint64_t end = offset + bytes.size();
        if (coin()) end = std::max(begin, (begin + (end - begin) / 2) / kPage * kPage);
        if (coin()) begin = std::min(end, (begin + kPage) / kPage * kPage);
        if (begin >= end) continue;
        if (inode->durable.size() < end) inode->durable.resize(static_cast<size_t>(end));
        std::memcpy(inode->durable.data() + begin, bytes.data() + (begin - offset),
                    static_cast<size_t>(end - begin));
      }
      inode->pending.clear();
      inode->now = inode->durable;
    }
    names = found;
    durable_names = found;
    operations = 0;
    power_fails_at = UINT64_MAX;
    history.clear();
  }
};

class FakeFile : public OutputFile {
 public:
  FakeFile(FakeDisk& disk, std::shared_ptr<FakeDisk::Inode> inode, std::string name)
      : disk_(disk), inode_(std::move(inode)), name_(std::move(name)) {}

  Result<void> allocate(uint64_t size) override {
    const std::lock_guard lock(disk_.mutex);
    TFTF_TRY(disk_.operate("allocate " + name_));
    if (disk_.can_allocate) TFTF_TRY(disk_.take_space(*inode_, 0, size));
    if (inode_->now.size() < size) inode_->now.resize(static_cast<size_t>(size));
    return {};
  }
  Result<void> truncate(uint64_t size) override {
    const std::lock_guard lock(disk_.mutex);
    TFTF_TRY(disk_.operate("truncate " + name_));
    inode_->now.resize(static_cast<size_t>(size));
    // Not worth tearing: a truncation is durable at once here.
    inode_->durable.resize(std::min<size_t>(inode_->durable.size(), static_cast<size_t>(size)));
    return {};
  }
  Result<void> write(uint64_t offset, Bytes bytes) override {
    const std::lock_guard lock(disk_.mutex);
    TFTF_TRY(disk_.operate("write " + name_));
    TFTF_TRY(disk_.take_space(*inode_, offset, offset + bytes.size()));
    if (inode_->now.size() < offset + bytes.size())
      inode_->now.resize(static_cast<size_t>(offset) + bytes.size());
    if (!bytes.empty()) std::memcpy(inode_->now.data() + offset, bytes.data(), bytes.size());
    inode_->pending.emplace_back(offset, std::string(as_text(bytes)));
    return {};
  }
  Result<void> sync() override {
    const std::lock_guard lock(disk_.mutex);
    TFTF_TRY(disk_.operate("sync " + name_));
    inode_->durable = inode_->now;
    inode_->pending.clear();
    return {};
  }
  Result<void> set_attributes(uint32_t, int64_t) override { return {}; }

 private:
  FakeDisk& disk_;
  std::shared_ptr<FakeDisk::Inode> inode_;
  std::string name_;
};

class FakeFolder : public OutputFolder {
 public:
  explicit FakeFolder(FakeDisk& disk) : disk_(disk) {}

  std::string path_of(const std::string& name) const override { return "fake/" + name; }
  Result<std::vector<std::string>> list() override {
    const std::lock_guard lock(disk_.mutex);
    std::vector<std::string> list;
    for (const auto& [name, inode] : disk_.names) list.push_back(name);
    return list;
  }
  Result<std::optional<EntryInfo>> look(const std::string& name) override {
    const std::lock_guard lock(disk_.mutex);
    const auto found = disk_.names.find(name);
    if (found == disk_.names.end()) return std::optional<EntryInfo>();
    EntryInfo info;
    info.fingerprint.size = found->second->now.size();
    info.fingerprint.inode = found->second->number;
    info.allocated = found->second->touched.size() * FakeDisk::kPage;
    return std::optional<EntryInfo>(info);
  }
  Result<std::shared_ptr<OutputFile>> open(const std::string& name, OpenMode mode) override {
    const std::lock_guard lock(disk_.mutex);
    const bool there = disk_.names.count(name) != 0;
    if (there != (mode == OpenMode::kOld))
      return Error{.code = ErrorCode::kIoWrite, .message = "Wrong open of " + name + "."};
    if (!there) {
      TFTF_TRY(disk_.operate("create " + name));
      disk_.names[name] = std::make_shared<FakeDisk::Inode>();
      disk_.names[name]->number = disk_.next_inode++;
    }
    return std::shared_ptr<OutputFile>(std::make_shared<FakeFile>(disk_, disk_.names[name], name));
  }
  Result<std::string> read(const std::string& name, uint64_t) override {
    const std::lock_guard lock(disk_.mutex);
    return disk_.names.at(name)->now;
  }
  Result<void> rename(const std::string& from, const std::string& to) override {
    const std::lock_guard lock(disk_.mutex);
    TFTF_TRY(disk_.operate("rename " + from + " " + to));
    disk_.names[to] = disk_.names.at(from);
    disk_.names.erase(from);
    return {};
  }
  Result<void> remove(const std::string& name) override {
    const std::lock_guard lock(disk_.mutex);
    if (disk_.names.count(name) == 0) return {};
    TFTF_TRY(disk_.operate("remove " + name));
    disk_.names.erase(name);
    return {};
  }
  Result<void> sync() override {
    const std::lock_guard lock(disk_.mutex);
    TFTF_TRY(disk_.operate("sync folder"));
    disk_.durable_names = disk_.names;
    return {};
  }
  std::optional<uint64_t> free_bytes() const override {
    const std::lock_guard lock(disk_.mutex);
    return disk_.capacity - std::min(disk_.capacity, disk_.used());
  }

 private:
  FakeDisk& disk_;
};

}  // namespace tftf::test
