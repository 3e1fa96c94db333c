#include "tftf/plan/journal.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "toy_model.h"

using namespace tftf;
using namespace tftf::test;

namespace {

JournalHead head() {
  return {.plan = std::string(64, 'a'),
          .tile = 1 << 20,
          .inputs = {{"a \"b\"\n.safetensors", 123, 1'700'000'000'123'456'789, "00ff"},
                     {"c", UINT64_MAX, -5, ""}},
          .outputs = std::vector<JournalOutput>{{"out", 1000}, {"b", 0}}};
}

Journal parsed_journal(const std::string& text) {
  auto journal = parse_journal(text, "j");
  REQUIRE(journal.ok());
  REQUIRE(journal->has_value());
  return **std::move(journal);
}

Value value(uint64_t n, double x) {
  Value v;
  v.n[3] = n;
  v.x[1] = x;
  return v;
}

bool same(const Value& a, const Value& b) { return std::memcmp(&a, &b, sizeof(Value)) == 0; }

}  // namespace

TEST_CASE("range sets join, contain and count") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    RangeSet set;
    std::vector<bool> naive(200, false);
    for (int i = 0; i < 30; ++i) {
      const uint64_t begin = random() % 190;
      const uint64_t end = begin + random() % 11;
      set.add(begin, end);
      std::fill(naive.begin() + static_cast<std::ptrdiff_t>(begin),
                naive.begin() + static_cast<std::ptrdiff_t>(end), true);
    }
    CHECK(set.bytes() == static_cast<uint64_t>(std::count(naive.begin(), naive.end(), true)));
    bool agrees = true;
    for (uint64_t begin = 0; begin < 199; ++begin)
      for (uint64_t end = begin; end < 200; ++end)
        agrees = agrees &&
                 set.covers(begin, end) == std::all_of(naive.begin() + static_cast<std::ptrdiff_t>(begin),
                                                       naive.begin() + static_cast<std::ptrdiff_t>(end),
                                                       [](bool b) { return b; });
    CHECK(agrees);
    bool apart = true;
    for (size_t i = 1; i < set.spans().size(); ++i)
      apart = apart && set.spans()[i - 1].end < set.spans()[i].begin;
    CHECK(apart);
  }
}

TEST_CASE("a journal comes back as it was written") {
  JournalBatch batch{.phase = 1};
  batch.done[0].add(0, 10);
  batch.done[0].add(20, 30);
  batch.done[5].add(7, UINT64_MAX);
  batch.values[3] = value(UINT64_MAX, std::nan(""));
  batch.values[9] = value(0, -0.0);
  std::vector<Value> result(4);
  result[2] = value(5, std::numeric_limits<double>::infinity());
  const std::string text = journal_head_line(head()) + journal_result_line(0, result) +
                           journal_batch_line(batch) + journal_batch_line(batch) + journal_renamed_line(1);
  const Journal journal = parsed_journal(text);
  CHECK(journal.head.plan == head().plan);
  CHECK(journal.head.tile == head().tile);
  CHECK(journal.head.inputs == head().inputs);
  CHECK(journal.head.outputs == head().outputs);
  CHECK(journal.length == text.size());
  REQUIRE(journal.done.size() == 6);
  CHECK(journal.done[0].spans().size() == 2);
  CHECK(journal.done[5].covers(7, UINT64_MAX));
  CHECK(journal.renamed == std::vector<bool>{false, true});
  REQUIRE(journal.results.at(0).size() == 1);
  CHECK(journal.results.at(0)[0].first == 2);
  CHECK(same(journal.results.at(0)[0].second, result[2]));
  REQUIRE(journal.partial.at(1).size() == 4);
  CHECK(same(journal.partial.at(1)[0].second, batch.values[3]));
  CHECK(same(journal.partial.at(1)[3].second, batch.values[9]));
  CHECK(journal.was_done({.file = 0, .offset = 20, .row_bytes = 10}));
  CHECK_FALSE(journal.was_done({.file = 0, .offset = 9, .row_bytes = 2}));
  CHECK_FALSE(journal.was_done({.file = 6, .offset = 0, .row_bytes = 1}));
  CHECK(journal.was_done({.file = 6, .offset = 0, .row_bytes = 0}));
}

TEST_CASE("outputs may come later, once") {
  JournalHead late = head();
  late.outputs.reset();
  const std::string outputs = journal_outputs_line({{"x", 5}});
  CHECK_FALSE(parsed_journal(journal_head_line(late)).head.outputs);
  const Journal journal = parsed_journal(journal_head_line(late) + outputs);
  REQUIRE(journal.head.outputs);
  CHECK(journal.head.outputs->at(0) == JournalOutput{"x", 5});
  const std::string twice = journal_head_line(late) + outputs;
  CHECK(parsed_journal(twice + outputs).length == twice.size());
}

TEST_CASE("a journal cut anywhere is one of fewer lines, and none when its first line is torn") {
  JournalBatch batch{.phase = 1};
  batch.done[0].add(0, 10);
  batch.values[1] = value(1, 1.0);
  const std::string first = journal_head_line(head());
  const std::string text = first + journal_batch_line(batch) + journal_renamed_line(0);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    auto journal = parse_journal(text.substr(0, cut), "j");
    REQUIRE(journal.ok());
    CHECK(journal->has_value() == (cut >= first.size()));
    if (!*journal) continue;
    CHECK(text[static_cast<size_t>((*journal)->length) - 1] == '\n');
    // Ranges and values of a flush come and go together.
    CHECK((*journal)->done.empty() == (*journal)->partial.empty());
  }
}

TEST_CASE("what follows a malformed line is not believed") {
  JournalBatch batch{.phase = 1};
  batch.done[0].add(0, 10);
  const std::string first = journal_head_line(head());
  for (const std::string& bad : std::vector<std::string>{
           "\n", "{}\n", "[]\n", "{\"phase\":1}\n", "{\"phase\":1,\"done\":[[0,5,5]],\"values\":[]}\n",
           "{\"phase\":1,\"done\":[[0,5]],\"values\":[]}\n", "{\"phase\":1,\"done\":[[0,5,9]]}\n",
           "{\"phase\":1,\"done\":[[99999999,5,9]],\"values\":[]}\n",
           "{\"phase\":1,\"done\":[[0,-5,9]],\"values\":[]}\n",
           "{\"phase\":1,\"done\":[[0,5,1e1]],\"values\":[]}\n", "{\"phase\":-1,\"done\":[],\"values\":[]}\n",
           "{\"phase\":0,\"done\":[],\"values\":[[0,1,2,3,4,\"0\",\"0\"]]}\n",
           "{\"out\":0,\"renamed\":false}\n", "{\"out\":4000000000,\"renamed\":true}\n",
           "{\"outputs\":[{\"name\":1,\"size\":1}]}\n", std::string("\0\0\0\n", 4)}) {
    INFO(bad);
    const Journal journal = parsed_journal(first + bad + journal_batch_line(batch));
    CHECK(journal.length == first.size());
    CHECK(journal.done.empty());
    CHECK(journal.partial.empty());
  }
}

TEST_CASE("what is no journal of ours is refused, not overwritten") {
  std::string other = journal_head_line(head());
  other.replace(other.find(":1"), 2, ":2");
  for (const std::string& text : {other, std::string("{\"hello\":1}\n")}) {
    auto journal = parse_journal(text, "some/.tftf-journal");
    REQUIRE_FALSE(journal.ok());
    CHECK(journal.error().code == ErrorCode::kRefusedJournal);
    CHECK(journal.error().message.find("--no-resume") != std::string::npos);
    CHECK(journal.error().file == "some/.tftf-journal");
  }
}

TEST_CASE("a journal continues only the same command over the same inputs") {
  const ToyModel model(1000);
  auto plan = model.plan(100);
  REQUIRE(plan.ok());
  const std::vector<JournalInput> inputs = {{"in0", 1007, 5, "0"}, {"in1", 1064, 6, "1"}};
  const JournalHead now = journal_head(*plan, inputs);
  const auto check = [&](auto change) {
    Journal journal{.head = now};
    change(journal.head);
    auto result = check_journal(journal, now, "j");
    if (result.ok()) return std::string();
    CHECK(result.error().code == ErrorCode::kRefusedJournal);
    CHECK(result.error().message.find("--no-resume") != std::string::npos);
    return result.error().message;
  };
  CHECK(check([](JournalHead&) {}) == "");
  CHECK(check([](JournalHead& h) { h.outputs.reset(); }) == "");
  CHECK(check([](JournalHead& h) { h.plan = "other"; }).find("another command") != std::string::npos);
  CHECK(check([](JournalHead& h) { h.tile = 200; }).find("200") != std::string::npos);
  CHECK(check([](JournalHead& h) { h.inputs[1].mtime_ns = 7; }).find("\"in1\" has changed") !=
        std::string::npos);
  CHECK(check([](JournalHead& h) { h.inputs[1].size = 7; }).find("\"in1\" has changed") != std::string::npos);
  CHECK(check([](JournalHead& h) { h.inputs[0].header_sha256 = "x"; }).find("\"in0\" has changed") !=
        std::string::npos);
  CHECK(check([](JournalHead& h) { h.inputs[0].path = "x"; }).find("another command") != std::string::npos);
  CHECK(check([](JournalHead& h) { h.inputs.pop_back(); }).find("another command") != std::string::npos);
  CHECK(check([](JournalHead& h) { h.outputs->at(0).size = 1; }).find("outputs") != std::string::npos);
}

TEST_CASE("names that are no UTF-8 still compare equal after their way through the journal") {
  PlanBuilder builder("toy", {});
  builder.add_input({"a\xFF", 0, ""});
  builder.add_output({.name = "b\xFF", .size = 0}, "");
  auto plan = builder.build();
  REQUIRE(plan.ok());
  const JournalHead now = journal_head(*plan, {{"a\xFF", 0, 1, ""}});
  CHECK(check_journal(parsed_journal(journal_head_line(now)), now, "j").ok());
}

TEST_CASE("a journal that claims what the plan does not have is refused") {
  const ToyModel model(1000);
  auto plan = model.plan(100);
  REQUIRE(plan.ok());
  const auto state = [&](auto change) {
    Journal journal;
    change(journal);
    return check_journal_state(journal, *plan, "j").ok();
  };
  const uint64_t size = plan->outputs()[1].size;
  const auto done = [](Journal& j, size_t output, uint64_t end) {
    j.done.resize(output + 1);
    j.done[output].add(0, end);
  };
  CHECK(state([&](Journal& j) { done(j, 1, size); }));
  CHECK_FALSE(state([&](Journal& j) { done(j, 1, size + 1); }));
  CHECK_FALSE(state([&](Journal& j) { done(j, 3, 1); }));
  CHECK_FALSE(state([&](Journal& j) { j.renamed.resize(4); }));
  CHECK(state([&](Journal& j) { j.results[0] = {{0, {}}}; }));
  CHECK_FALSE(state([&](Journal& j) { j.results[0] = {{1, {}}}; }));
  CHECK_FALSE(state([&](Journal& j) { j.partial[1] = {{3, {}}}; }));
  CHECK(state([&](Journal& j) { j.partial[1] = {{2, {}}}; }));
}
