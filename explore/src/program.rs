//! What is known of one thread: a tree from the values it has observed to its next access.
//!
//! ```text
//!   node 0: load #0 ──saw 0──► node 1: compare_exchange #0 (0 → 1) ──saw 0, wrote 1──► node 2: end
//!           │                          └──saw 1──► node 3: …
//!           └──saw 1──► …                                (each edge is learned when first needed)
//! ```
//!
//! # Invariants
//! 1. A node is one history of observations, so it determines all that is local to the thread,
//!    its notes included.
//! 2. The parent of a node is the node it was first reached from. An edge to any other node is a
//!    failed round of [`wait_until`](crate::wait_until), back to the round's first access, or
//!    leads past a [`settle`](crate::settle) to where an equal one has led before.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

/// Which node of a program.
pub type NodeId = u32;

/// What threads say of themselves, in order.
pub type Notes = Rc<Vec<Rc<dyn Any>>>;

/// One access, with its operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    Load,
    Store(u64),
    Swap(u64),
    CompareExchange(u64, u64),
    Fetch(&'static str, u64),
    FetchUpdate,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Call::Load => write!(f, "load"),
            Call::Store(value) => write!(f, "store({value:#x})"),
            Call::Swap(value) => write!(f, "swap({value:#x})"),
            Call::CompareExchange(current, new) => {
                write!(f, "compare_exchange({current:#x}, {new:#x})")
            }
            Call::Fetch(name, value) => write!(f, "{name}({value:#x})"),
            Call::FetchUpdate => write!(f, "fetch_update"),
        }
    }
}

/// An access to an atomic, which is known by the order in which the explorer met it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    pub atom: u32,
    pub call: Call,
}

impl Access {
    /// What the thread learns from this access if the atomic holds `value`.
    pub fn observes(self, value: u64) -> u64 {
        if matches!(self.call, Call::Store(_)) { 0 } else { value }
    }
}

/// What a thread does next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Point {
    Access(Access),
    End,
    Panicked(String),
    /// It has made as many accesses as the options allow.
    TooLong,
}

/// What follows from one observation.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    pub seen: u64,
    pub write: Option<u64>,
    pub next: NodeId,
    /// The round of a [`wait_until`](crate::wait_until) that ends here has failed.
    pub again: bool,
}

/// One history of observations.
#[derive(Debug)]
pub struct Node {
    pub parent: Option<(NodeId, u64)>,
    pub point: Point,
    pub edges: Vec<Edge>,
    pub notes: Notes,
}

/// What is known of one thread.
#[derive(Default, Debug)]
pub struct Program {
    nodes: Vec<Node>,
    /// Where the thread was when it had settled so many times, at last on this state.
    pub settled: HashMap<(usize, Vec<u64>), NodeId>,
}

impl Program {
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    /// What follows from observing `seen` at `id`, if that is known.
    pub fn edge(&self, id: NodeId, seen: u64) -> Option<Edge> {
        self.node(id).edges.iter().copied().find(|edge| edge.seen == seen)
    }

    pub fn link(&mut self, from: NodeId, edge: Edge) {
        debug_assert!(self.edge(from, edge.seen).is_none());
        let edges = &mut self.nodes[from as usize].edges;
        if edges.is_empty() {
            edges.reserve_exact(1); // Most nodes never have a second one.
        }
        edges.push(edge);
    }

    /// A new node.
    pub fn add(&mut self, parent: Option<(NodeId, u64)>, point: Point, notes: Notes) -> NodeId {
        let id = NodeId::try_from(self.nodes.len()).expect("fewer than 2^32 nodes");
        self.nodes.push(Node { parent, point, edges: Vec::new(), notes });
        id
    }

    /// The history of `id`: its ancestors, each with the value observed there.
    pub fn path(&self, id: NodeId) -> Vec<(NodeId, u64)> {
        let mut path: Vec<_> =
            std::iter::successors(self.node(id).parent, |&(up, _)| self.node(up).parent).collect();
        path.reverse();
        path
    }
}
