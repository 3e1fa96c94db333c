#include <algorithm>
#include <unordered_set>
#include <utility>

#include "checkpoint/file_names.h"
#include "checkpoint/index_reader.h"
#include "checkpoint/model_choice.h"
#include "checkpoint/refusal.h"
#include "checkpoint/tensor_order.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

constexpr uint64_t kMaxIndex = 256'000'000;
constexpr uint64_t kMaxSideFile = 8'000'000;  // a document takes up to seventy times its text

}  // namespace

struct CheckpointReader::State {
  enum class What { kIndex, kSide, kShard };
  // A file that is being read.
  struct Job {
    What what;
    uint32_t number = 0;  // of the shard, or of the name in side_file_names()
  };
  // A listed file, or the answer to a question of want_files().
  struct Known {
    FileEntry entry;
    bool exists = false;
  };

  State(ModelListing listing, ReaderOptions options_in);

  bool transform() const { return options.mode == ReadMode::kTransform; }
  const Known* find(const std::string& name) const {
    const auto found = files.find(name);
    return found == files.end() ? nullptr : &found->second;
  }
  void ask(const std::string& file, Job job, ByteRange range) {
    jobs[file] = job;
    requests.push_back({file, range});
    ++outstanding;
  }
  void refuse(Error error) {
    if (!refusal) refusal = std::move(error);
  }

  void start(const std::string& name, Job job);
  void start_index(const Known& file);
  void start_side_file(const Known& file, Job job);
  void start_shard(const Known& file, Job job);
  void read_index_text(std::string text);
  void index_problem(std::string problem, ErrorCode code);
  void add_shards(const std::vector<std::string>& names, bool listed);
  void add_other_shards();
  void continue_shard(uint32_t number);
  void finish_shard(uint32_t number, HeaderScan scan);
  void side_file_problem(uint32_t number, std::string reason);
  void refuse_missing();
  void refuse_unusable();

  ReaderOptions options;
  Checkpoint checkpoint;
  std::unordered_map<std::string, Known> files;
  std::unordered_map<std::string, Job> jobs;         // files asked about or being read
  std::vector<std::string> questions;                // for want_files()
  std::vector<ReadRequest> requests;                 // for want()
  uint64_t unanswered = 0;                           // questions
  uint64_t outstanding = 0;                          // requests
  std::vector<std::optional<HeaderReader>> headers;  // by shard, while it is read
  std::vector<std::optional<SideFile>> side_files;   // by side_file_names()
  std::optional<MappedNames> mapped;
  std::optional<Error> refusal;       // certain: nothing more is asked for
  std::optional<Error> side_refusal;  // kTransform, unless something worse is found
};

CheckpointReader::State::State(ModelListing listing, ReaderOptions options_in) : options(options_in) {
  checkpoint.listing = std::move(listing);
  const ModelListing& given = checkpoint.listing;
  for (const FileEntry& entry : given.files) files[entry.name] = {entry, true};
  side_files.resize(side_file_names().size());

  const ModelChoice choice = choose_model(given);
  if (choice.problem && transform()) {
    refuse({.code = ErrorCode::kRefusedInput,
            .message = quote_name(given.given) + " is no model folder: " + *choice.problem + ".",
            .file = given.given});
    return;
  }
  for (uint32_t i = 0; i < side_file_names().size(); ++i) {
    const std::string name(side_file_names()[i]);
    if (name == given.main) continue;
    // The listing of a folder is complete; of a lone file it need not be.
    if (find(name) || given.kind != ModelListing::Kind::kFolder) start(name, {What::kSide, i});
  }
  if (!choice.index.empty()) {
    checkpoint.index.emplace().file = choice.index;
    start(choice.index, {What::kIndex});
  } else {
    add_shards(choice.shards, true);
    add_other_shards();
  }
}

// Begins to read a file, or asks the host whether it is there.
void CheckpointReader::State::start(const std::string& name, Job job) {
  const Known* file = find(name);
  if (!file) {
    jobs[name] = job;
    questions.push_back(name);
    ++unanswered;
    return;
  }
  switch (job.what) {
    case What::kIndex:
      return start_index(*file);
    case What::kSide:
      return start_side_file(*file, job);
    case What::kShard:
      return start_shard(*file, job);
  }
}

void CheckpointReader::State::start_index(const Known& file) {
  if (!file.exists) return index_problem("it is not there", ErrorCode::kRefusedInput);
  if (!file.entry.unreadable.empty())
    return index_problem("it cannot be read: " + file.entry.unreadable, ErrorCode::kIoRead);
  if (!file.entry.regular) return index_problem("it is not a regular file", ErrorCode::kIoRead);
  if (file.entry.size > kMaxIndex)
    return index_problem("it has " + std::to_string(file.entry.size) + " bytes", ErrorCode::kRefusedInput);
  if (file.entry.size == 0) return read_index_text({});
  ask(file.entry.name, {What::kIndex}, {0, file.entry.size});
}

void CheckpointReader::State::index_problem(std::string problem, ErrorCode code) {
  ShardIndex& index = *checkpoint.index;
  if (transform())
    refuse({.code = code,
            .message = "The index " + quote_name(index.file) + " cannot be used: " + problem + ".",
            .file = index.file});
  index.problem = std::move(problem);
  add_other_shards();
}

void CheckpointReader::State::read_index_text(std::string text) {
  ShardIndex& index = *checkpoint.index;
  index = read_index(index.file, std::move(text));
  if (index.problem) return index_problem(*std::move(index.problem), ErrorCode::kRefusedInput);
  mapped = resolve_map(index);
  if (!index.defect && !mapped->twice.empty())
    index.defect = "weight_map has " + quote_name(mapped->twice[0]) + " twice";
  if (!index.defect && !mapped->unsafe.empty())
    index.defect = "it names the shard " + quote_name(mapped->unsafe[0]) +
                   ", which is no plain relative path (" + std::string(*unsafe_reason(mapped->unsafe[0])) +
                   ")";
  if (!index.defect)
    for (const std::string& shard : mapped->shards)
      if (!is_weight_name(shard) && !index.defect)
        index.defect = "it names the shard " + quote_name(shard) + ", which is no .safetensors file";
  if (transform() && index.defect)
    return refuse(
        {.code = ErrorCode::kRefusedInput,
         .message = "The index " + quote_name(index.file) + " cannot be trusted: " + *index.defect + ".",
         .file = index.file});
  add_shards(mapped->shards, true);
  add_other_shards();
  refuse_missing();
}

void CheckpointReader::State::add_shards(const std::vector<std::string>& names, bool listed) {
  const size_t first = checkpoint.shards.size();
  for (const std::string& name : names) {
    Shard& shard = checkpoint.shards.emplace_back();
    shard.name = name;
    shard.status = ShardStatus::kMissing;
    shard.listed = listed;
  }
  headers.resize(checkpoint.shards.size());
  for (size_t i = first; i < checkpoint.shards.size(); ++i)
    if (is_weight_name(checkpoint.shards[i].name) || checkpoint.listing.kind == ModelListing::Kind::kFile)
      start(checkpoint.shards[i].name, {What::kShard, static_cast<uint32_t>(i)});
}

// kInspect: whatever else the folder holds.
void CheckpointReader::State::add_other_shards() {
  if (transform() || checkpoint.listing.kind != ModelListing::Kind::kFolder) return;
  std::unordered_set<std::string_view> taken;
  for (const Shard& shard : checkpoint.shards) taken.insert(shard.name);
  std::vector<std::string> others;
  for (const auto& [name, file] : files)
    if (file.exists && !file.entry.folder && is_weight_name(name) && taken.count(name) == 0)
      others.push_back(name);
  std::sort(others.begin(), others.end());
  add_shards(others, false);
}

void CheckpointReader::State::start_shard(const Known& file, Job job) {
  Shard& shard = checkpoint.shards[job.number];
  if (!file.exists) return;
  shard.status = ShardStatus::kBroken;  // until its header has been read
  shard.size = file.entry.size;
  HeaderOptions header_options;
  header_options.max_header = options.max_header;
  header_options.tail = options.tail;
  HeaderReader reader(shard.name, file.entry.size, header_options);
  if (!file.entry.unreadable.empty())
    reader.fail(file.entry.unreadable);
  else if (!file.entry.regular)
    reader.fail("it is not a regular file");
  headers[job.number].emplace(std::move(reader));
  continue_shard(job.number);
}

void CheckpointReader::State::continue_shard(uint32_t number) {
  HeaderReader& reader = *headers[number];
  if (const auto range = reader.want())
    return ask(checkpoint.shards[number].name, {What::kShard, number}, *range);
  finish_shard(number, reader.take());
  headers[number].reset();
}

void CheckpointReader::State::finish_shard(uint32_t number, HeaderScan scan) {
  Shard& shard = checkpoint.shards[number];
  const bool pointer = std::any_of(scan.findings.begin(), scan.findings.end(),
                                   [](const Diagnostic& finding) { return finding.rule == Rule::ST003; });
  shard.status = scan.sound ? ShardStatus::kOk : pointer ? ShardStatus::kPointer : ShardStatus::kBroken;
  shard.readable = scan.readable;
  shard.header = std::move(scan.header);
  shard.findings = std::move(scan.findings);
  shard.omitted = std::move(scan.omitted);
}

void CheckpointReader::State::start_side_file(const Known& file, Job job) {
  if (!file.exists) return;
  if (!file.entry.unreadable.empty()) return side_file_problem(job.number, file.entry.unreadable);
  if (file.entry.folder) return side_file_problem(job.number, "it is a folder");
  if (!file.entry.regular) return side_file_problem(job.number, "it is not a regular file");
  if (file.entry.size > kMaxSideFile)
    return side_file_problem(job.number, "it has " + std::to_string(file.entry.size) + " bytes");
  if (file.entry.size == 0) {
    side_files[job.number] = SideFile{file.entry.name, {}, parse_json({}, JsonDialect::kPython)};
    return;
  }
  ask(file.entry.name, job, {0, file.entry.size});
}

void CheckpointReader::State::side_file_problem(uint32_t number, std::string reason) {
  const std::string name(side_file_names()[number]);
  if (!side_refusal)
    side_refusal = Error{.code = ErrorCode::kIoRead,
                         .message = quote_name(name) + " cannot be read: " + reason + ".",
                         .file = name};
  SideFile& file = side_files[number].emplace();
  file.name = name;
  file.document.error = JsonError{JsonError::Kind::kSyntax, 0, "it cannot be read: " + reason};
}

// kTransform: a missing shard is known before any header is read.
void CheckpointReader::State::refuse_missing() {
  if (!transform() || unanswered > 0 || refusal) return;
  refusal = tftf::refuse_missing(checkpoint);
}

// kTransform: everything was read. In a fixed order, so that the answer does not depend on the host's.
void CheckpointReader::State::refuse_unusable() {
  if (outstanding > 0)
    return refuse({.code = ErrorCode::kIoRead, .message = "Not every file of the model was read."});
  refusal = tftf::refuse_missing(checkpoint);
  for (const Shard& shard : checkpoint.shards)
    if (shard.status != ShardStatus::kOk) refuse(refuse_shard(shard));
  if (side_refusal) refuse(*side_refusal);
}

CheckpointReader::CheckpointReader(ModelListing listing, ReaderOptions options)
    : state_(std::make_unique<State>(std::move(listing), options)) {}
CheckpointReader::~CheckpointReader() = default;
CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;
CheckpointReader& CheckpointReader::operator=(CheckpointReader&&) noexcept = default;

std::vector<std::string> CheckpointReader::want_files() {
  if (state_->refusal) return {};
  return std::exchange(state_->questions, {});
}

void CheckpointReader::add_file(const std::string& name, std::optional<FileEntry> entry) {
  State& state = *state_;
  const auto job = state.jobs.find(name);
  if (job == state.jobs.end() || state.find(name)) return;
  const State::Job found = job->second;
  state.jobs.erase(job);
  --state.unanswered;
  State::Known& known = state.files[name];
  known.exists = entry.has_value();
  if (entry) known.entry = *std::move(entry);
  known.entry.name = name;
  state.start(name, found);
  if (state.mapped) state.refuse_missing();
}

std::vector<ReadRequest> CheckpointReader::want() {
  if (state_->refusal) return {};
  return std::exchange(state_->requests, {});
}

void CheckpointReader::supply(const ReadRequest& request, Bytes bytes) {
  State& state = *state_;
  const auto found = state.jobs.find(request.file);
  if (found == state.jobs.end()) return;
  const State::Job job = found->second;
  if (job.what != State::What::kShard && bytes.size() != request.range.length)
    return fail(request, "it is shorter than it was when it was listed");
  state.jobs.erase(found);
  --state.outstanding;
  switch (job.what) {
    case State::What::kIndex:
      return state.read_index_text(std::string(as_text(bytes)));
    case State::What::kSide: {
      SideFile& file = state.side_files[job.number].emplace();
      file.name = request.file;
      file.text = as_text(bytes);
      file.document = parse_json(file.text, JsonDialect::kPython);
      return;
    }
    case State::What::kShard:
      state.headers[job.number]->supply(bytes);
      return state.continue_shard(job.number);
  }
}

void CheckpointReader::fail(const ReadRequest& request, std::string reason) {
  State& state = *state_;
  const auto found = state.jobs.find(request.file);
  if (found == state.jobs.end()) return;
  const State::Job job = found->second;
  state.jobs.erase(found);
  --state.outstanding;
  switch (job.what) {
    case State::What::kIndex:
      return state.index_problem("it cannot be read: " + reason, ErrorCode::kIoRead);
    case State::What::kSide:
      return state.side_file_problem(job.number, std::move(reason));
    case State::What::kShard:
      state.headers[job.number]->fail(std::move(reason));
      return state.continue_shard(job.number);
  }
}

bool CheckpointReader::done() const {
  return state_->refusal.has_value() || (state_->unanswered == 0 && state_->outstanding == 0);
}

Result<Checkpoint> CheckpointReader::take() {
  State& state = *state_;
  // What nobody answered is not there.
  while (!state.refusal && state.unanswered > 0) {
    std::vector<std::string> names;
    for (const auto& [name, job] : state.jobs)
      if (!state.find(name)) names.push_back(name);
    if (names.empty()) break;
    for (const std::string& name : names) add_file(name, std::nullopt);
  }
  Checkpoint& checkpoint = state.checkpoint;
  if (!state.refusal && state.transform()) state.refuse_unusable();
  if (!state.refusal) {
    const auto unfound =
        order_tensors(checkpoint, state.mapped ? &*state.mapped : nullptr, !state.transform());
    if (state.transform()) {
      state.refusal = refuse_tensors(checkpoint, unfound);
      // The order says all of it; of half a million tensors it is 60 MB.
      state.mapped.reset();
      if (checkpoint.index)
        std::vector<std::pair<std::string, std::string>>().swap(checkpoint.index->weight_map);
    }
  }
  if (state.refusal) return *std::move(state.refusal);
  for (auto& file : state.side_files)
    if (file) checkpoint.side_files.push_back(*std::move(file));
  return std::move(checkpoint);
}

}  // namespace tftf
