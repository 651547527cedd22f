//! Events to come, in the order of time, and of two things at one time the one that was decided earlier first.

use super::world::Event;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The queue. The heap moves small entries only; the events stay where they are.
#[derive(Debug, Default)]
pub struct Queue {
    heap: BinaryHeap<Reverse<(i64, u64, u32)>>,
    events: Vec<Option<Event>>,
    free: Vec<u32>,
    order: u64,
}

impl Queue {
    /// Something happens at `at`.
    pub fn push(&mut self, at: i64, event: Event) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() as u32 - 1
        });
        self.events[slot as usize] = Some(event);
        self.order += 1;
        self.heap.push(Reverse((at, self.order, slot)));
    }

    /// Takes the next event, if it happens until `until`.
    pub fn pop(&mut self, until: i64) -> Option<(i64, Event)> {
        self.heap.peek().filter(|next| next.0.0 <= until)?;
        let Reverse((at, _, slot)) = self.heap.pop()?;
        self.free.push(slot);
        self.events[slot as usize].take().map(|event| (at, event))
    }

    /// Some of what is going to happen does so at `at`, if it was to be later; in the order it had.
    pub fn hasten(&mut self, at: i64, which: impl Fn(&Event) -> bool) {
        let mut waiting = std::mem::take(&mut self.heap).into_sorted_vec();
        // Sorted is the last first, as the heap has it.
        waiting.reverse();
        for Reverse((due, order, slot)) in waiting {
            let hastened = due > at && self.events[slot as usize].as_ref().is_some_and(&which);
            if hastened {
                self.order += 1;
                self.heap.push(Reverse((at, self.order, slot)));
            } else {
                self.heap.push(Reverse((due, order, slot)));
            }
        }
    }
}
