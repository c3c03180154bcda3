//! Seeded defects, each with the words by which it must be found.

macro_rules! defects {
    ($($(#[$doc:meta])+ $name:ident: $($words:literal)|+,)*) => {
        /// A defect.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Defect {
            /// None: where this is found, seeding is what is wrong.
            Nothing,
            $($(#[$doc])+ $name,)*
        }

        /// Every defect.
        pub const ALL: &[Defect] = &[$(Defect::$name),*];

        impl Defect {
            /// Is this what it is found by?
            pub fn is_found_by(self, why: &str) -> bool {
                let words: &[&str] = match self {
                    Defect::Nothing => &[],
                    $(Defect::$name => &[$($words),+],)*
                };
                words.iter().any(|words| why.contains(words))
            }
        }
    };
}

pub(crate) use defects;
