//! Tests of the UI.
