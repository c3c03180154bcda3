//! The error numbers: one for each cause, the same for ever.

use core::ffi::{CStr, c_int};

use woodlot_frame::{AllocError, BadSlot, FreeError, InitError, OfflineError, Region};

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $message:literal;)*) => {
        /// Why a call was refused: `WOODLOT_E_…` of the header.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(i32)]
        #[expect(missing_docs, reason = "the message says it")]
        pub enum Error {
            $($(#[$doc])* $name = $number,)*
        }

        impl Error {
            /// Every error, in the order of the numbers.
            pub const ALL: &'static [Error] = &[$(Error::$name,)*];

            /// The error with this number.
            pub fn of(number: c_int) -> Option<Error> {
                match number {
                    $($number => Some(Error::$name),)*
                    _ => None,
                }
            }

            /// What it means, in one line.
            pub const fn message(self) -> &'static CStr {
                match self {
                    $(Error::$name => $message,)*
                }
            }
        }
    };
}

errors! {
    OutOfMemory = -1, c"no such block or run is free";
    OrderTooLarge = -2, c"the order is larger than the largest";
    BadSlot = -3, c"the zone has no such slot";
    BadClass = -4, c"the zone has no such class";
    OutOfRange = -5, c"frames or huge frames outside the zone, or no huge frames at all";
    Misaligned = -6, c"the frame is not aligned to the order";
    InUse = -7, c"a frame of the block or run is allocated or offline";
    NoFrames = -8, c"a run of no frames";
    Reversed = -9, c"the range ends before it begins";
    NoPlace = -10, c"the range has no place of this size and alignment";
    Unsupported = -11, c"this engine cannot do this";
    NotAllocated = -12, c"a frame of the block or run is not allocated";
    Offline = -13, c"the block lies in a huge frame that is offline";
    NotOffline = -14, c"a huge frame is not offline";
    NoMore = -15, c"there is no further one";
    Null = -16, c"a null pointer";
    Unaligned = -17, c"a pointer that is not aligned to its type";
    NotAZone = -18, c"the handle holds no zone";
    TooLong = -19, c"an array longer than the address space";
    BadPlace = -20, c"there is no such kind of place";
    BadMode = -21, c"there is no such mode";
    EmptyZone = -22, c"the zone has no frames";
    ZoneTooLarge = -23, c"the zone is larger than the engine can name";
    NoSlots = -24, c"the zone has no slots";
    TooManySlots = -25, c"more slots than the engine can keep";
    TooManyClasses = -26, c"more classes than the engine can keep";
    DurableShort = -27, c"the durable metadata is too short";
    VolatileShort = -28, c"the volatile metadata is too short";
    DurableNull = -29, c"the durable metadata begins at a null pointer";
    VolatileNull = -30, c"the volatile metadata begins at a null pointer";
    DurableMisaligned = -31, c"the durable metadata is misaligned, or reaches past the last address";
    VolatileMisaligned = -32, c"the volatile metadata is misaligned, or reaches past the last address";
    Overlap = -33, c"the handle and the two parts of the metadata share memory";
    BadEngine = -34, c"there is no such engine in this library";
    BadGeometry = -35, c"there is no such geometry";
    BadClasses = -36, c"not a policy of classes";
    Unknown = -37, c"a cause that has no number yet";
    NotAKmem = -38, c"the handle holds no kernel memory allocator";
    NotObjects = -39, c"the handle holds no cache of objects";
    TooLarge = -40, c"no cookie is for blocks of so many bytes";
    NoCpus = -41, c"no CPUs";
    NoCallback = -42, c"a function that must be there is a null pointer";
    CachesShort = -43, c"the memory for caches is too short";
    DescriptorsShort = -44, c"the memory for page descriptors is too short";
    Unreachable = -45, c"the CPU cannot be reached";
}

impl From<Error> for c_int {
    #[inline]
    fn from(error: Error) -> c_int {
        error as c_int
    }
}

/// The error, and the frame that it is about; 0 where it is about none.
pub(crate) type About = (Error, usize);

#[inline]
pub(crate) fn of_alloc(error: AllocError) -> About {
    match error {
        AllocError::OutOfMemory => (Error::OutOfMemory, 0),
        AllocError::OrderTooLarge(_) => (Error::OrderTooLarge, 0),
        AllocError::BadSlot(_) => (Error::BadSlot, 0),
        AllocError::BadClass(_) => (Error::BadClass, 0),
        AllocError::OutOfRange(frame) => (Error::OutOfRange, frame.0),
        AllocError::Misaligned(frame, _) => (Error::Misaligned, frame.0),
        AllocError::InUse(frame) => (Error::InUse, frame.0),
        AllocError::NoFrames => (Error::NoFrames, 0),
        AllocError::Reversed(frame) => (Error::Reversed, frame.0),
        AllocError::NoPlace(frame) => (Error::NoPlace, frame.0),
        AllocError::Unsupported => (Error::Unsupported, 0),
        _ => (Error::Unknown, 0),
    }
}

#[inline]
pub(crate) fn of_free(error: FreeError) -> About {
    match error {
        FreeError::NotAllocated(frame) => (Error::NotAllocated, frame.0),
        FreeError::OrderTooLarge(_) => (Error::OrderTooLarge, 0),
        FreeError::BadSlot(_) => (Error::BadSlot, 0),
        FreeError::OutOfRange(frame) => (Error::OutOfRange, frame.0),
        FreeError::Misaligned(frame, _) => (Error::Misaligned, frame.0),
        FreeError::Offline(frame) => (Error::Offline, frame.0),
        FreeError::Reversed(frame) => (Error::Reversed, frame.0),
        FreeError::Unsupported => (Error::Unsupported, 0),
        _ => (Error::Unknown, 0),
    }
}

pub(crate) fn of_offline(error: OfflineError) -> About {
    match error {
        OfflineError::OutOfRange => (Error::OutOfRange, 0),
        OfflineError::InUse(frame) => (Error::InUse, frame.0),
        OfflineError::NotOffline => (Error::NotOffline, 0),
        OfflineError::Unsupported => (Error::Unsupported, 0),
        _ => (Error::Unknown, 0),
    }
}

impl From<BadSlot> for Error {
    fn from(_: BadSlot) -> Error {
        Error::BadSlot
    }
}

impl From<InitError> for Error {
    fn from(error: InitError) -> Error {
        match error {
            InitError::EmptyZone => Error::EmptyZone,
            InitError::ZoneTooLarge => Error::ZoneTooLarge,
            InitError::NoSlots => Error::NoSlots,
            InitError::TooManySlots => Error::TooManySlots,
            InitError::TooManyClasses => Error::TooManyClasses,
            InitError::Short { region: Region::Durable, .. } => Error::DurableShort,
            InitError::Short { region: Region::Volatile, .. } => Error::VolatileShort,
            InitError::Misaligned(Region::Durable) => Error::DurableMisaligned,
            InitError::Misaligned(Region::Volatile) => Error::VolatileMisaligned,
            InitError::Overlap => Error::Overlap,
            InitError::Unsupported => Error::Unsupported,
            _ => Error::Unknown,
        }
    }
}
