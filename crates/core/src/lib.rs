//! The lock manager of one storage bucket as a pure state machine.
