//! Promises that hold in all rooms: of arguments and sizes, of what is saved, of the random stream.

mod hostile_arguments;
mod serialization;
mod sizes;
mod value_stability;
