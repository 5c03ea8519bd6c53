data {
  int<lower=1> groups;
  array[groups] int<lower=0> counts;
  vector<lower=0>[groups] exposure;
}
parameters {
  vector<lower=0>[groups] rate;
}
model {
  rate ~ gamma(2, 0.5);
  counts ~ poisson(rate .* exposure);
}
