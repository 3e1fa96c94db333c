#include "tftf_native/lint_tree.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "scratch_folder.h"

namespace fs = std::filesystem;

namespace tftf {

using test::ScratchFolder;

namespace {

LintTree tree_of(const std::string& path) {
  Result<LintTree> tree = read_lint_tree(path);
  REQUIRE(tree.ok());
  REQUIRE(tree->paths.size() == tree->input.entries.size());
  return std::move(*tree);
}

std::vector<std::string> names(const LintTree& tree) {
  std::vector<std::string> out;
  for (const LintEntry& entry : tree.input.entries) out.push_back(entry.path + (entry.is_folder ? "/" : ""));
  return out;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a folder is walked whole, names in byte order") {
  ScratchFolder s;
  for (const char* name :
       {"b.safetensors", "a/x.safetensors", "a/deep/er/y.safetensors", "a.json", "Z", "\xC3\xA9", "a-b"})
    s.write(name, name);
  const LintTree tree = tree_of(s.path());
  CHECK(tree.input.main.empty());
  CHECK(names(tree) == Names{"Z", "a/", "a-b", "a.json", "a/deep/", "a/deep/er/", "a/deep/er/y.safetensors",
                             "a/x.safetensors", "b.safetensors", "\xC3\xA9"});
  for (size_t i = 0; i < tree.paths.size(); ++i) {
    const LintEntry& entry = tree.input.entries[i];
    CHECK(entry.unreadable.empty());
    if (!entry.is_folder) CHECK(entry.size == entry.path.size());
    CHECK(fs::equivalent(tree.paths[i], s.path() / entry.path));
  }
  // The way PATH is written makes no difference.
  CHECK(names(tree_of(s / "a/..//./")) == names(tree));
}

TEST_CASE("links are followed to files inside only") {
  ScratchFolder s;
  s.write("outside.safetensors", "x");
  s.write("m/real.safetensors", "real");
  s.write("m/sub/other", "xx");
  fs::create_symlink("real.safetensors", s / "m/inside.safetensors");
  fs::create_symlink("../real.safetensors", s / "m/sub/up.safetensors");
  fs::create_symlink("../outside.safetensors", s / "m/out.safetensors");
  fs::create_symlink(s / "outside.safetensors", s / "m/absolute.safetensors");
  fs::create_symlink("nowhere", s / "m/dangling.safetensors");
  fs::create_symlink("loop2", s / "m/loop1");
  fs::create_symlink("loop1", s / "m/loop2");
  fs::create_symlink(".", s / "m/self");
  fs::create_symlink("..", s / "m/sub/parent");
  fs::create_symlink("../m/sub", s / "m/folder");
  // A name that only begins like the folder's.
  s.write("mm/x", "x");
  fs::create_symlink("../mm/x", s / "m/neighbour");
  const LintTree tree = tree_of(s / "m");
  CHECK(names(tree) ==
        Names{"inside.safetensors", "real.safetensors", "sub/", "sub/other", "sub/up.safetensors"});
  CHECK(tree.input.entries[0].size == 4);
  CHECK(tree.paths[0] == s / "m/real.safetensors");
  // PATH itself may be a link: the user named it.
  fs::create_symlink("m", s / "link");
  CHECK(names(tree_of(s / "link")) == names(tree));
  fs::create_symlink("m/real.safetensors", s / "file.safetensors");
  CHECK(tree_of(s / "file.safetensors").input.entries[0].size == 4);
}

TEST_CASE("links of a hub cache entry lead to its blobs") {
  ScratchFolder s;
  s.write("hub/models--a--b/blobs/123", "weights");
  s.write("hub/models--c--d/blobs/456", "other");
  const std::string snapshot = "hub/models--a--b/snapshots/rev";
  fs::create_directories(s / snapshot + "/unet");
  fs::create_symlink("../../blobs/123", s / snapshot + "/model.safetensors");
  fs::create_symlink("../../../blobs/123", s / snapshot + "/unet/x.safetensors");
  fs::create_symlink("../../../models--c--d/blobs/456", s / snapshot + "/stolen.safetensors");
  CHECK(names(tree_of(s / snapshot)) == Names{"model.safetensors", "unet/", "unet/x.safetensors"});
  CHECK(names(tree_of(s / snapshot + "/unet")) == Names{"x.safetensors"});
}

TEST_CASE("what is no regular file becomes an entry that cannot be read, and is never opened") {
  ScratchFolder s;
  REQUIRE(::mkfifo((s / "pipe.safetensors").c_str(), 0600) == 0);
  s.write("a.safetensors", "x");
  fs::create_symlink("pipe.safetensors", s / "link.safetensors");
  const LintTree tree = tree_of(s.path());
  CHECK(names(tree) == Names{"a.safetensors", "link.safetensors", "pipe.safetensors"});
  CHECK(tree.input.entries[0].unreadable.empty());
  CHECK(tree.input.entries[1].unreadable == "not a regular file");
  CHECK(tree.input.entries[2].unreadable == "not a regular file");
  const LintTree lone = tree_of(s / "pipe.safetensors");
  CHECK(lone.input.main == "pipe.safetensors");
  CHECK(lone.input.entries[0].unreadable == "not a regular file");
  // Would wait for ever if it were opened.
  const LintResult result = run_linter(tree, nullptr, kDefaultMaxHeader);
  CHECK(std::count_if(result.findings.begin(), result.findings.end(),
                      [](const Diagnostic& d) { return d.rule == Rule::ST009; }) == 2);
}

TEST_CASE("our own temporary files are left out") {
  ScratchFolder s;
  s.write("model.safetensors.tftf-part", "x");
  s.write(".tftf-journal", "x");
  s.write("out.safetensors.tftf-journal", "x");
  s.write("kept", "x");
  CHECK(names(tree_of(s.path())) == Names{"kept"});
}

TEST_CASE("a file is itself, an index brings its folder") {
  ScratchFolder s;
  s.write("model.safetensors.index.json", "{}");
  s.write("a.safetensors", "x");
  const LintTree file = tree_of(s / "a.safetensors");
  CHECK(file.input.main == "a.safetensors");
  CHECK(names(file) == Names{"a.safetensors"});
  const LintTree index = tree_of(s / "model.safetensors.index.json");
  CHECK(index.input.main == "model.safetensors.index.json");
  CHECK(names(index) == Names{"a.safetensors", "model.safetensors.index.json"});
}

TEST_CASE("a PATH that is not there is a usage error, one that cannot be read is not") {
  ScratchFolder s;
  s.write("a.safetensors", "x");
  for (const std::string& path : {s / "none", s / "a.safetensors/", s / "a.safetensors/x", std::string()}) {
    INFO(path);
    const Result<LintTree> tree = read_lint_tree(path);
    REQUIRE_FALSE(tree.ok());
    CHECK(tree.error().code == ErrorCode::kUsagePath);
  }
  CHECK_FALSE(read_lint_folder(s / "a.safetensors").ok());
  CHECK_FALSE(read_lint_folder(s / "none").ok());
  CHECK(read_lint_folder(s.path()).ok());
  fs::create_symlink("loop", s / "loop");
  CHECK(tree_of(s / "loop").input.entries[0].unreadable == "too many levels of symbolic links");
}

TEST_CASE("folders and files without permission") {
  ScratchFolder s;
  s.write("locked/x.safetensors", "x");
  s.write("secret.safetensors", "x");
  fs::permissions(s / "locked", fs::perms::none);
  fs::permissions(s / "secret.safetensors", fs::perms::none);
  const LintTree tree = tree_of(s.path());
  const bool all_powerful = ::geteuid() == 0;  // permissions do not bind root
  REQUIRE(names(tree).front() == "locked/");
  CHECK(tree.input.entries[0].unreadable == (all_powerful ? "" : "permission denied"));
  const LintResult result = run_linter(tree, nullptr, kDefaultMaxHeader);
  CHECK(std::any_of(result.findings.begin(), result.findings.end(), [&](const Diagnostic& d) {
    return d.rule == (all_powerful ? Rule::ST002 : Rule::ST009) && d.file == "secret.safetensors";
  }));
  fs::permissions(s / "locked", fs::perms::owner_all);
}

TEST_CASE("folders nested deeper than any stack") {
  ScratchFolder s;
  // Longer than PATH_MAX in all, made step by step.
  const fs::path before = fs::current_path();
  fs::current_path(s.path());
  const std::string name(200, 'd');
  for (int i = 0; i < 30; ++i) {
    fs::create_directory(name);
    fs::current_path(name);
  }
  fs::current_path(s.path());
  const LintTree tree = tree_of(s.path());
  CHECK(tree.input.entries.size() >= 19);
  CHECK(tree.input.entries.back().unreadable == "file name too long");
  // Remove from the inside: remove_all works with relative steps and manages.
  fs::current_path(before);
}

TEST_CASE("a file that changes during the data pass is reported, whatever the number of threads") {
  for (uint32_t threads : {1, 2, 8}) {
    ScratchFolder s;
    std::string header = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
    std::string text(8, '\0');
    text[0] = static_cast<char>(header.size());
    text += header + "abcd";
    s.write("a.safetensors", text);
    s.write("b.safetensors", text);
    const LintTree tree = tree_of(s.path());
    LintResult result = run_linter(tree, nullptr, kDefaultMaxHeader);
    fs::resize_file(s / "b.safetensors", text.size() - 1);
    DataPassOptions options;
    options.threads = threads;
    REQUIRE(run_data_pass(tree, result, options).ok());
    const auto found = std::find_if(result.findings.begin(), result.findings.end(),
                                    [](const Diagnostic& d) { return d.rule == Rule::ST009; });
    REQUIRE(found != result.findings.end());
    CHECK(found->file == "b.safetensors");
    CHECK(message(*found) == "b.safetensors cannot be read: it became shorter while it was read.");
  }
}

TEST_CASE("a stopped data pass says so") {
  ScratchFolder s;
  const LintTree tree = tree_of(s.write("a.safetensors", "x"));
  LintResult result = run_linter(tree, nullptr, kDefaultMaxHeader);
  const std::atomic<bool> stop{true};
  DataPassOptions options;
  options.stop = &stop;
  const Result<void> done = run_data_pass(tree, result, options);
  REQUIRE_FALSE(done.ok());
  CHECK(done.error().code == ErrorCode::kInterrupted);
}

}  // namespace tftf
