//! An executable specification: what four papers prove, as properties of random models, sizes and schedules.
//! A module for each paper; each property names its equation in its first line.

mod barron_luo_2007;
mod grosse_2013;
mod huang_2018;
mod kiwaki_2015;
mod law;
mod maximum;
mod neal_2001;
mod random_models;
