#![doc = include_str!("../docs/guide.md")]

#[doc = links!()]
#[doc = include_str!("../docs/cookbook.md")]
pub mod cookbook {}
#[doc = links!()]
#[doc = include_str!("../docs/batches.md")]
pub mod batches {}
#[doc = links!()]
#[doc = include_str!("../docs/draws.md")]
pub mod draws {}
#[doc = links!()]
#[doc = include_str!("../docs/evidence.md")]
pub mod evidence {}
#[doc = links!()]
#[doc = include_str!("../docs/features.md")]
pub mod features {}
#[doc = links!()]
#[doc = include_str!("../docs/free-energy.md")]
pub mod free_energy {}
#[doc = links!()]
#[doc = include_str!("../docs/intervals.md")]
pub mod intervals {}
#[doc = links!()]
#[doc = include_str!("../docs/long-runs.md")]
pub mod long_runs {}
#[doc = links!()]
#[doc = include_str!("../docs/many-machines.md")]
pub mod many_machines {}
#[doc = links!()]
#[doc = include_str!("../docs/own-models.md")]
pub mod own_models {}
#[doc = links!()]
#[doc = include_str!("../docs/papers-in-code.md")]
pub mod papers_in_code {}
#[doc = links!()]
#[doc = include_str!("../docs/populations.md")]
pub mod populations {}
#[doc = links!()]
#[doc = include_str!("../docs/posterior.md")]
pub mod posterior {}
#[doc = links!()]
#[doc = include_str!("../docs/program.md")]
pub mod program {}
#[doc = links!()]
#[doc = include_str!("../docs/python.md")]
pub mod python {}
#[doc = links!()]
#[doc = include_str!("../docs/rbms.md")]
pub mod rbms {}
#[doc = links!()]
#[doc = include_str!("../docs/schedules.md")]
pub mod schedules {}
#[doc = links!()]
#[doc = include_str!("../docs/second-witness.md")]
pub mod second_witness {}
#[doc = links!()]
#[doc = include_str!("../docs/which-method.md")]
pub mod which_method {}
