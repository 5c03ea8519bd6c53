#!/usr/bin/env python3
"""Writes draws of known posteriors in the layouts of CmdStan 2.36, posterior (R), ArviZ and NumPy.

    pip install numpy
    ./make.py

`rates_*.csv`: gamma posteriors of four Poisson rates, the model of `crates/annealed-stan/tests/rates.stan`; the first file holds a warm-up.
The other files hold two parameters of a Gaussian posterior: mu ~ N(1, .5^2), and log sigma ~ N(.6 mu, .2^2).
"""

import csv
import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).parent
COUNTS, EXPOSURE = np.array([3, 0, 11, 6]), np.array([1.0, 0.5, 2.5, 2.0])
SAMPLER = "lp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,divergent__,energy__"
rng = np.random.default_rng(1)


def settings(chain, warm_up, saved, draws, thin):
    return f"""\
# stan_version_major = 2
# stan_version_minor = 36
# stan_version_patch = 0
# model = rates_model
# start_datetime = 2026-11-27 10:12:31 UTC
# method = sample (Default)
#   sample
#     num_samples = {draws}
#     num_warmup = {warm_up}
#     save_warmup = {"true" if saved else "false (Default)"}
#     thin = {thin}
#     adapt
#       engaged = true (Default)
#       gamma = 0.05 (Default)
#       delta = 0.8 (Default)
#       kappa = 0.75 (Default)
#       t0 = 10 (Default)
#       init_buffer = 75 (Default)
#       term_buffer = 50 (Default)
#       window = 25 (Default)
#       save_metric = false (Default)
#     algorithm = hmc (Default)
#       hmc
#         engine = nuts (Default)
#           nuts
#             max_depth = 10 (Default)
#         metric = diag_e (Default)
#         metric_file =  (Default)
#         stepsize = 1 (Default)
#         stepsize_jitter = 0 (Default)
#     num_chains = 1 (Default)
# id = {chain}
# data
#   file = rates.json
# init = 2 (Default)
# random
#   seed = 1
# output
#   file = rates_{chain}.csv
#   diagnostic_file =  (Default)
#   refresh = 100 (Default)
#   sig_figs = 8 (Default)
#   profile_file = profile.csv (Default)
#   save_cmdstan_config = false (Default)
# num_threads = 1 (Default)
# stanc_version = stanc3 v2.36.0
# stancflags =
"""


def rates_row(rate):
    # Stan's log density without constants, Jacobian included, and a transformed parameter.
    lp = ((2 + COUNTS) * np.log(rate) - (0.5 + EXPOSURE) * rate).sum()
    numbers = [lp, 0.9, 0.7, 2, 3, 0, 2 - lp, *rate, rate.sum()]
    return ",".join(f"{number:.8g}" for number in numbers) + "\n"


def rates(chain, warm_up, saved, draws, thin):
    def sampled():
        return rates_row(rng.gamma(2 + COUNTS) / (0.5 + EXPOSURE))

    text = settings(chain, warm_up, saved, draws, thin)
    text += f"{SAMPLER},rate.1,rate.2,rate.3,rate.4,total\n"
    if saved:  # far off, so that one such row is noticed
        text += "".join(rates_row(np.full(4, 1e3)) for _ in range(-(-warm_up // thin)))
    text += "# Adaptation terminated\n# Step size = 0.7\n# Diagonal elements of inverse mass matrix:\n# 0.2, 0.5, 0.1, 0.1\n"
    text += "".join(sampled() for _ in range(-(-draws // thin)))
    text += "# \n#  Elapsed Time: 0.01 seconds (Warm-up)\n#                0.02 seconds (Sampling)\n"
    text += "#                0.03 seconds (Total)\n# \n"
    (FOLDER / f"rates_{chain}.csv").write_text(text)


def normal(chains, draws):
    mu = rng.normal(1.0, 0.5, (chains, draws))
    return mu, np.exp(rng.normal(0.6 * mu, 0.2))


def write(name, header, rows, quoting):
    with open(FOLDER / name, "w", newline="") as file:
        writer = csv.writer(file, quoting=quoting, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


rates(1, warm_up=101, saved=True, draws=250, thin=1)
rates(2, warm_up=101, saved=True, draws=499, thin=2)
rates(3, warm_up=1000, saved=False, draws=250, thin=1)
rates(4, warm_up=1000, saved=False, draws=200, thin=1)

mu, sigma = normal(4, 200)
# R: write.csv(as_draws_df(fit), "r.csv"), numbers rows in a column without a name and quotes text.
rows = [
    [str(200 * c + d + 1), round(mu[c, d], 6), round(sigma[c, d], 6), c + 1, d + 1, 200 * c + d + 1]
    for c in range(4) for d in range(200)
]
write("r.csv", ["", "x[1,1]", "x[2,1]", ".chain", ".iteration", ".draw"], rows, csv.QUOTE_NONNUMERIC)
# ArviZ: idata.to_dataframe(groups="posterior", include_coords=False).to_csv("arviz.csv", index=False), here by draws.
rows = [[c, d, mu[c, d], sigma[c, d]] for d in range(200) for c in range(4)]
write("arviz.csv", ["chain", "draw", "mu", "sigma"], rows, csv.QUOTE_MINIMAL)
np.savez(FOLDER / "arviz.npz", mu=mu, sigma=sigma, theta=np.stack([mu, sigma], axis=-1)[:, :, None, :], data=np.arange(5.0))
np.save(FOLDER / "draws.npy", np.stack([mu, np.log(sigma)], axis=-1))
