//! `libwoodlot_malloc.so`: the C library's names for the heap of Woodlot.
