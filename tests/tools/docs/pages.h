// The generated pages of docs/. A new one: its function here, its file beside this one, a line in main.cpp.
#pragma once

#include <string>
#include <string_view>

namespace tftf::docs {

std::string rules_page();
std::string errors_page();
std::string dtypes_page();
std::string formats_page();
std::string commands_section();    // of cli.md
std::string operations_section();  // of cli.md

// First lines of a page that is generated whole.
std::string page_head(std::string_view title);
// A table cell: '|' escaped, no line feeds.
std::string cell(std::string_view text);
// A code span, whatever back-ticks the text has.
std::string code(std::string_view text);

}  // namespace tftf::docs
