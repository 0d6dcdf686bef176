//! An allocator that counts, so that a benchmark can say what a decision and an object cost in memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static ALLOCATED: AtomicU64 = AtomicU64::new(0);
static FREED: AtomicU64 = AtomicU64::new(0);

/// The system's allocator, counted.
pub struct Counting;

// SAFETY: every call is passed on unchanged to the system's allocator; counting touches no memory it hands out.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as u64, Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        FREED.fetch_add(layout.size() as u64, Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATED.fetch_add(size as u64, Relaxed);
        FREED.fetch_add(layout.size() as u64, Relaxed);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// All bytes ever allocated.
pub fn allocated() -> u64 {
    ALLOCATED.load(Relaxed)
}

/// Bytes in use now.
pub fn in_use() -> u64 {
    ALLOCATED.load(Relaxed) - FREED.load(Relaxed)
}
