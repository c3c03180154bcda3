// A C++ program whose threads hand each other objects, throw, load and unload a library, and fork. `threads PLUGIN` exits
// with 0, or says what was wrong.
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <dlfcn.h>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <vector>

#define CHECK(what) \
    do { if (!(what)) { std::fprintf(stderr, "line %d: %s\n", __LINE__, #what); std::exit(1); } } while (0)

using Item = std::unique_ptr<std::vector<std::string>>;

// What threads hand to each other. Leaked: a thread may come late.
struct Queue {
    std::mutex lock;
    std::condition_variable more;
    std::deque<Item> items;
};
static Queue &queue = *new Queue;

static std::atomic<int> kept;

// A thread has one, which frees when the thread ends: behind its function, in an order of the C library's.
struct Keepsake {
    std::unordered_map<int, std::string> held;
    Keepsake() { kept++; }
    ~Keepsake() {
        kept--;
        // A destructor allocates as well.
        std::string last(held.size() + 100, 'x');
        CHECK(last.size() == held.size() + 100);
    }
};
static thread_local Keepsake keepsake;

static pthread_key_t key;
static void end(void *held) {
    std::free(held);
    // Later than the destructors of C++: memory from a thread that is almost gone.
    delete[] new char[3000];
}

static void produce(int seed) {
    CHECK(!pthread_setspecific(key, std::malloc(seed % 7 * 1000)));
    for (int step = 0; step < 2000; step++) {
        auto item = std::make_unique<std::vector<std::string>>();
        for (int at = 0; at < step % 20; at++) item->emplace_back(at * 13 % 200, char('a' + seed));
        keepsake.held[step % 97] = std::string(step % 300, 'k');
        std::lock_guard<std::mutex> guard(queue.lock);
        queue.items.push_back(std::move(item));
        queue.more.notify_one();
    }
}

static void consume(int count) {
    int thrown = 0;
    for (; count > 0; count--) {
        std::unique_lock<std::mutex> guard(queue.lock);
        queue.more.wait(guard, [] { return !queue.items.empty(); });
        Item item = std::move(queue.items.front());
        queue.items.pop_front();
        guard.unlock();
        try {
            for (auto &text : *item)
                for (char letter : text) CHECK(letter == text[0]);
            keepsake.held[count % 13] = std::to_string(count);
            if (count % 10 == 0) throw std::runtime_error(std::string(count % 1000, 'e'));
        } catch (const std::runtime_error &error) {
            CHECK(error.what() == std::string(count % 1000, 'e'));
            thrown++;
        }
    }
    CHECK(thrown > 0);
}

static void load(const char *plugin) {
    for (int round = 0; round < 20; round++) {
        void *library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
        CHECK(library);
        auto letters = reinterpret_cast<size_t (*)(int)>(dlsym(library, "letters"));
        CHECK(letters && letters(89) == 89 && letters(91) == 1);
        CHECK(!dlclose(library));
    }
}

static void fork_now() {
    for (int child = 0; child < 10; child++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(60);
            std::thread thread([] {
                for (int at = 0; at < 500; at++) keepsake.held[at] = std::string(at, 'c');
            });
            thread.join();
            _exit(std::string(100000, 'x').size() == 100000 ? 0 : 1);
        }
        int status = 1;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
}

int main(int, char **names) {
    CHECK(!pthread_key_create(&key, end));
    for (int round = 0; round < 3; round++) {
        std::vector<std::thread> threads;
        for (int at = 0; at < 4; at++) threads.emplace_back(produce, at + 1);
        for (int at = 0; at < 4; at++) threads.emplace_back(consume, 2000);
        threads.emplace_back(load, names[1]);
        threads.emplace_back(fork_now);
        for (auto &thread : threads) thread.join();
        CHECK(kept == 0 && queue.items.empty());
    }
    std::puts("done");
    return 0;
}
