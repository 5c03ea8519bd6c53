//! Tests of the estimates of many states.
