//! The promises of the crate: a folder for each room of `src`, `across` for promises of all rooms, `problems` for the
//! problems that tests share with `measurements`, and `shared` for what several modules use. They share one binary, so that
//! the generic code of the library is compiled once for all of them.

mod across;
mod adaptive;
mod ais;
mod bidirectional;
mod drift;
mod estimate;
mod kernel;
mod learned;
mod model;
mod nested;
mod path;
mod pilot;
mod population;
mod problems;
mod rbm;
mod shared;
mod tempering;
mod work;
