//! Boltzmann machines and harmoniums: exact values, bases, bounds, annealing, training.

mod bases;
mod brute_force;
mod deep;
mod gibbs;
mod harmonium;
mod lower_bound;
mod mixtures;
mod moments;
mod spline;
mod start;
mod training;
