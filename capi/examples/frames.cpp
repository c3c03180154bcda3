// The header in C++: a frame that is freed where its owner goes out of scope.
#include <cstdlib>
#include <iostream>
#include <vector>

#include <woodlot.h>

namespace {

// Memory for one part of the metadata.
class Part {
public:
    explicit Part(std::size_t size) : bytes_(size + WOODLOT_METADATA_ALIGN) {}

    void *start()
    {
        auto first = reinterpret_cast<std::uintptr_t>(bytes_.data());
        auto rest = (WOODLOT_METADATA_ALIGN - first % WOODLOT_METADATA_ALIGN) % WOODLOT_METADATA_ALIGN;
        return bytes_.data() + rest;
    }

private:
    std::vector<unsigned char> bytes_;
};

// A block that belongs to its scope.
class Frames {
public:
    Frames(const woodlot_zone &zone, std::uint32_t order)
        : zone_(zone), order_(order), block_(woodlot_alloc(&zone, order, WOODLOT_MOVABLE, 0))
    {
    }
    Frames(const Frames &) = delete;
    Frames &operator=(const Frames &) = delete;
    ~Frames()
    {
        if (block_.error == WOODLOT_OK)
            woodlot_free(&zone_, block_.frame, order_, 0);
    }

    explicit operator bool() const { return block_.error == WOODLOT_OK; }
    std::size_t first() const { return block_.frame; }

private:
    const woodlot_zone &zone_;
    std::uint32_t order_;
    woodlot_block block_;
};

} // namespace

int main()
{
    static woodlot_zone zone;
    woodlot_config config{};
    config.frames = 1 << 16;
    config.slots = 1;
    config.geometry = WOODLOT_16K;
    woodlot_metadata_sizes need{};
    if (int error = woodlot_metadata_size(&config, &need)) {
        std::cerr << woodlot_error_message(error) << '\n';
        return EXIT_FAILURE;
    }
    Part durable(need.durable_size), volatile_part(need.volatile_size);
    woodlot_metadata metadata{durable.start(), need.durable_size, volatile_part.start(), need.volatile_size};
    if (int error = woodlot_init(&zone, &config, &metadata, WOODLOT_INIT_FREE)) {
        std::cerr << woodlot_error_message(error) << '\n';
        return EXIT_FAILURE;
    }
    {
        Frames huge(zone, 11);
        if (!huge)
            return EXIT_FAILURE;
        std::cout << woodlot_geometry_name(config.geometry) << ": a huge frame at " << huge.first() << ", "
                  << woodlot_free_frames(&zone).count << " frames are left\n";
    }
    return woodlot_free_frames(&zone).count == config.frames ? EXIT_SUCCESS : EXIT_FAILURE;
}
