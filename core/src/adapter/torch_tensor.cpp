#include "tftf/adapter/torch_tensor.h"

#include <algorithm>
#include <array>

#include "tftf/adapter/zip_archive.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

constexpr uint64_t kMostSharing = 16;

struct TorchDType {
  std::string_view name;
  DType dtype;
};
constexpr TorchDType kDTypes[] = {{"float64", DType::F64},
                                  {"float32", DType::F32},
                                  {"float16", DType::F16},
                                  {"bfloat16", DType::BF16},
                                  {"float8_e4m3fn", DType::F8_E4M3},
                                  {"float8_e5m2", DType::F8_E5M2},
                                  {"float8_e4m3fnuz", DType::F8_E4M3FNUZ},
                                  {"float8_e5m2fnuz", DType::F8_E5M2FNUZ},
                                  {"int64", DType::I64},
                                  {"int32", DType::I32},
                                  {"int16", DType::I16},
                                  {"int8", DType::I8},
                                  {"uint8", DType::U8},
                                  {"uint16", DType::U16},
                                  {"uint32", DType::U32},
                                  {"uint64", DType::U64},
                                  {"bool", DType::BOOL}};

struct StorageClass {
  std::string_view name;
  DType dtype;
};
constexpr StorageClass kStorages[] = {{"DoubleStorage", DType::F64}, {"FloatStorage", DType::F32},
                                      {"HalfStorage", DType::F16},   {"BFloat16Storage", DType::BF16},
                                      {"LongStorage", DType::I64},   {"IntStorage", DType::I32},
                                      {"ShortStorage", DType::I16},  {"CharStorage", DType::I8},
                                      {"ByteStorage", DType::U8},    {"BoolStorage", DType::BOOL}};

constexpr auto kDTypeGlobals = [] {
  std::array<PickleGlobal, std::size(kDTypes)> out{};
  for (size_t i = 0; i < out.size(); ++i) out[i] = {"torch", kDTypes[i].name, PickleCall::kOpaque};
  return out;
}();

const std::vector<PickleGlobal>& allowed_global() {
  static const std::vector<PickleGlobal> kAllowed = [] {
    std::vector<PickleGlobal> list(kDTypeGlobals.begin(), kDTypeGlobals.end());
    for (const StorageClass& storage : kStorages)
      list.push_back({"torch", storage.name, PickleCall::kOpaque});
    list.push_back({"torch.storage", "UntypedStorage", PickleCall::kOpaque});
    list.push_back({"torch", "Size", PickleCall::kFirstArgument});
    list.push_back({"torch._utils", "_rebuild_tensor_v2", PickleCall::kOpaque});
    list.push_back({"torch._utils", "_rebuild_tensor_v3", PickleCall::kOpaque});
    list.push_back({"torch._utils", "_rebuild_parameter", PickleCall::kOpaque});
    list.push_back({"collections", "OrderedDict", PickleCall::kEmptyDict});
    return list;
  }();
  return kAllowed;
}

Error archive_refused(std::string why) {
  Error error;
  error.code = ErrorCode::kRefusedInput;
  error.message = "a saved tensor cannot be read: " + std::move(why) + ".";
  return error;
}

// A view of a storage, as the pickle describes it.
struct View {
  DType dtype{};
  std::string storage;  // member data/<storage>
  uint64_t storage_bytes = 0;
  uint64_t offset = 0;  // elements
  Shape shape;
  std::vector<uint64_t> stride;  // elements
};

Result<View> read_view(const Pickle& pickle, PickleId id) {
  auto function_of = [&](PickleId object) { return pickle[pickle[object].callee].text; };
  if (pickle[id].kind == PickleNode::Kind::kObject && function_of(id) == "_rebuild_parameter") {
    const auto arguments = pickle.items(pickle[id].arguments);
    if (arguments.empty()) return archive_refused("a parameter holds no tensor");
    id = arguments[0];
  }
  if (pickle[id].kind != PickleNode::Kind::kObject) return archive_refused("it is no tensor");
  const bool untyped = function_of(id) == "_rebuild_tensor_v3";
  if (!untyped && function_of(id) != "_rebuild_tensor_v2") return archive_refused("it is no tensor");
  const auto arguments = pickle.items(pickle[id].arguments);
  if (arguments.size() < (untyped ? 7u : 6u)) return archive_refused("its description is incomplete");
  if (pickle[arguments[0]].kind != PickleNode::Kind::kPersistent) return archive_refused("it has no storage");
  const auto storage = pickle.items(pickle[arguments[0]].arguments);
  if (storage.size() != 5 || pickle.text(storage[0]) != "storage")
    return archive_refused("its storage is not described as torch does");
  View view;
  const auto key = pickle.text(storage[2]);
  const auto count = pickle.size(storage[4]);
  const auto offset = pickle.size(arguments[1]);
  const auto shape = pickle.sizes(arguments[2]);
  const auto stride = pickle.sizes(arguments[3]);
  if (!key || !count || !offset || !shape || !stride || shape->size() != stride->size())
    return archive_refused("a size, stride or offset is missing or negative");
  std::optional<DType> dtype;
  if (untyped) {
    dtype = torch_dtype(pickle[arguments[6]].text);
  } else {
    for (const StorageClass& known : kStorages)
      if (pickle.is_global(storage[1], "torch", known.name)) dtype = known.dtype;
  }
  if (!dtype) return archive_refused("its dtype is not known");
  const auto bytes = checked_mul(*count, untyped ? 1 : dtype_bits(*dtype) / 8);
  if (!bytes) return archive_refused("its storage size overflows");
  view.dtype = *dtype;
  view.storage = *key;
  view.storage_bytes = *bytes;
  view.offset = *offset;
  view.shape = *shape;
  view.stride = *stride;
  return view;
}

// The largest element index of a view plus one, nothing on overflow; 0 for an empty view.
std::optional<uint64_t> view_extent(const View& view) {
  uint64_t last = view.offset;
  for (size_t i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] == 0) return 0;
    const auto step = checked_mul(view.shape[i] - 1, view.stride[i]);
    const auto sum = step ? checked_add(last, *step) : std::nullopt;
    if (!sum) return std::nullopt;
    last = *sum;
  }
  return checked_add(last, 1);
}

std::vector<std::byte> gather(const View& view, Bytes storage, uint64_t elements) {
  const uint64_t size = dtype_bits(view.dtype) / 8;
  std::vector<std::byte> out(to_size(elements * size));
  std::vector<uint64_t> index(view.shape.size());
  uint64_t from = view.offset;
  for (uint64_t i = 0; i < elements; ++i) {
    std::memcpy(out.data() + i * size, storage.data() + from * size, to_size(size));
    for (size_t d = view.shape.size(); d-- > 0;) {
      from += view.stride[d];
      if (++index[d] < view.shape[d]) break;
      from -= view.stride[d] * view.shape[d];
      index[d] = 0;
    }
  }
  return out;
}

// What torch.save has written: one pickle and the storages that it points to.
class Archive {
 public:
  static Result<Archive> open(Bytes bytes) {
    Archive archive(bytes);
    auto members = read_zip(bytes);
    if (!members) return members.error();
    archive.members_ = *std::move(members);
    if (const ZipMember* order = archive.find("byteorder")) {
      auto text = zip_data(bytes, *order);
      if (!text) return text.error();
      if (as_text(*text) != "little")
        return archive_refused("it was saved on a machine of another byte order");
    }
    const ZipMember* description = archive.find("data.pkl");
    if (!description) return archive_refused("the archive holds no data.pkl");
    auto pickled = zip_data(bytes, *description);
    if (!pickled) return pickled.error();
    auto pickle = read_pickle(*pickled, allowed_global());
    if (!pickle) return pickle.error();
    archive.pickle_ = *std::move(pickle);
    return archive;
  }

  const Pickle& pickle() const { return pickle_; }

  Result<TensorData> load(const View& view) const {
    const ZipMember* member = find("data/" + view.storage);
    if (!member) return archive_refused("its storage " + quote_name(view.storage) + " is not in the archive");
    if (member->size < view.storage_bytes) return archive_refused("its storage is cut short");
    const auto elements = element_count(view.shape);
    const auto extent = view_extent(view);
    const uint64_t size = dtype_bits(view.dtype) / 8;
    const auto extent_bytes = extent ? checked_mul(*extent, size) : std::nullopt;
    if (!extent_bytes || *extent_bytes > view.storage_bytes)
      return archive_refused("its strides leave the storage");
    if (!elements) return archive_refused("its number of elements overflows");
    auto storage = zip_data(bytes_, *member);
    if (!storage) return storage.error();
    return TensorData{view.dtype, view.shape, gather(view, *storage, *elements)};
  }

 private:
  explicit Archive(Bytes bytes) : bytes_(bytes) {}
  const ZipMember* find(std::string_view suffix) const {
    for (const ZipMember& member : members_) {
      const size_t slash = member.name.find('/');
      if (slash != std::string::npos && std::string_view(member.name).substr(slash + 1) == suffix)
        return &member;
    }
    return nullptr;
  }

  Bytes bytes_;
  std::vector<ZipMember> members_;
  Pickle pickle_;
};

}  // namespace

std::span<const PickleGlobal> torch_dtype_globals() { return kDTypeGlobals; }

std::optional<DType> torch_dtype(std::string_view name) {
  for (const TorchDType& known : kDTypes)
    if (known.name == name) return known.dtype;
  return std::nullopt;
}

Result<TensorData> read_torch_tensor(Bytes bytes, uint64_t max_elements) {
  auto archive = Archive::open(bytes);
  if (!archive) return archive.error();
  auto view = read_view(archive->pickle(), archive->pickle().root());
  if (!view) return view.error();
  const auto elements = element_count(view->shape);
  if (!elements || *elements > max_elements)
    return archive_refused("it has more elements than its description elsewhere allows");
  return archive->load(*view);
}

bool is_torch_file(std::string_view name) {
  return name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth");
}

Result<std::vector<NamedTensor>> read_torch_state(Bytes bytes) {
  auto archive = Archive::open(bytes);
  if (!archive) return archive.error();
  const Pickle& pickle = archive->pickle();
  if (pickle[pickle.root()].kind != PickleNode::Kind::kDict)
    return archive_refused("the archive holds no dictionary of tensors");
  std::vector<NamedTensor> tensors;
  uint64_t held = 0;
  const auto items = pickle.items(pickle.root());
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const auto name = pickle.text(items[i]);
    if (!name) return archive_refused("the archive holds something that has no name");
    const auto named = [&](const Error& error) {
      Error told = error;
      told.message = "Tensor " + quote_name(*name) + ": " + error.message;
      told.tensor = std::string(*name);
      return told;
    };
    auto view = read_view(pickle, items[i + 1]);
    if (!view) return named(view.error());
    const auto elements = element_count(view->shape);
    const auto needed = elements ? checked_mul(*elements, dtype_bits(view->dtype) / 8) : std::nullopt;
    if (!needed || *needed > view->storage_bytes)
      return named(archive_refused("it has more elements than its storage"));
    auto tensor = archive->load(*view);
    if (!tensor) return named(tensor.error());
    // Tensors may share a storage; a file that makes much of little is none of a training run.
    held += tensor->bytes.size();
    if (held / kMostSharing > bytes.size())
      return archive_refused("its tensors have far more bytes than the file");
    tensors.push_back({std::string(*name), *std::move(tensor)});
  }
  return tensors;
}

}  // namespace tftf
