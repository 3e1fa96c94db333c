// Examples below the help of the commands that convert, one table for all of them.
#pragma once

namespace CLI {
class App;
}

namespace tftf::cli {

// Puts the examples and exit statuses of each command behind what its help ends with so far.
void add_examples(CLI::App& app);

}  // namespace tftf::cli
