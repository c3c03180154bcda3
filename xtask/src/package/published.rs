//! Which crates are published.

/// A crate that is published.
pub struct Published {
    pub name: &'static str,
    /// Its folder, from the root of the repository.
    pub folder: &'static str,
    /// It needs no crate of others.
    pub alone: bool,
}

/// The crates that are published, each after those that it depends on.
pub const PUBLISHED: [Published; 20] = [
    Published { name: "woodlot-frame", folder: "frame", alone: true },
    Published { name: "woodlot-llfree", folder: "llfree", alone: true },
    Published { name: "woodlot-onewrite", folder: "onewrite", alone: true },
    Published { name: "woodlot-nbbs", folder: "nbbs", alone: true },
    Published { name: "woodlot-zone", folder: "zone", alone: true },
    Published { name: "woodlot", folder: "woodlot", alone: true },
    Published { name: "woodlot-domains", folder: "domains", alone: true },
    Published { name: "woodlot-compact", folder: "compact", alone: true },
    Published { name: "woodlot-kmem", folder: "kmem", alone: true },
    Published { name: "woodlot-stacks", folder: "stacks", alone: false },
    Published { name: "woodlot-malloc", folder: "malloc", alone: false },
    Published { name: "woodlot-pool", folder: "pool", alone: false },
    Published { name: "woodlot-ostd", folder: "adapters/ostd", alone: true },
    Published { name: "woodlot-x86_64", folder: "adapters/x86_64", alone: false },
    Published { name: "woodlot-kernel", folder: "adapters/kernel", alone: false },
    Published { name: "woodlot-capi", folder: "capi", alone: true },
    Published { name: "woodlot-rivals", folder: "rivals", alone: true },
    Published { name: "woodlot-trace", folder: "trace", alone: false },
    Published { name: "woodlot-bench", folder: "bench", alone: false },
    Published { name: "woodlot-cli", folder: "cli", alone: false },
];
