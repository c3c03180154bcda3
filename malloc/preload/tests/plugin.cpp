// A library that allocates when it is loaded and frees when it is unloaded; its threads' objects free when they end.
#include <map>
#include <string>

namespace {
struct Loaded {
    std::map<int, std::string> words;
    Loaded() {
        for (int at = 0; at < 500; at++) words[at] = std::string(at % 90, char('a' + at % 26));
    }
};

Loaded loaded;
thread_local std::map<int, std::string> seen;
}  // namespace

extern "C" size_t letters(int word) {
    seen[word] = loaded.words.at(word);
    return seen[word].size();
}
