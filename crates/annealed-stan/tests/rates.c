/* What BridgeStan makes of rates.stan with rates.json, by hand: the same functions, for a machine without Stan.
 *
 * The state u holds log rates. Each group has log f(u) = log gamma(rate | 2, 0.5) + log poisson(count | rate exposure)
 * + u, the last term being the Jacobian of rate = exp(u). */

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS = 4 };

/* A test compiles the library with a wrong number. */
#ifndef PARAMETERS
#define PARAMETERS GROUPS
#endif

typedef struct bs_model {
  double counts[GROUPS], exposure[GROUPS];
} bs_model;

static char* copied(const char* text) {
  char* copy = malloc(strlen(text) + 1);
  return copy ? strcpy(copy, text) : NULL;
}

bs_model* bs_model_construct(const char* data, unsigned int seed, char** error_msg) {
  (void)seed;
  if (data && *data) {
    *error_msg = copied("this model brings its data along; expected none");
    return NULL;
  }
  bs_model* model = malloc(sizeof *model);
  if (model) *model = (bs_model){{3, 0, 11, 6}, {1.0, 0.5, 2.5, 2.0}};
  return model;
}

void bs_model_destruct(bs_model* model) { free(model); }

void bs_free_error_msg(char* error_msg) { free(error_msg); }

const char* bs_model_info(const bs_model* model) {
  (void)model;
#ifdef WITHOUT_THREADS
  return "STAN_THREADS=false";
#else
  return "STAN_THREADS=true";
#endif
}

int bs_param_num(const bs_model* model, bool include_tp, bool include_gq) {
  (void)model;
  return PARAMETERS + include_tp + include_gq;
}

const char* bs_param_names(const bs_model* model, bool include_tp, bool include_gq) {
  (void)model;
  return include_tp || include_gq ? "" : "rate.1,rate.2,rate.3,rate.4";
}

int bs_param_unconstrain(const bs_model* model, const double* theta, double* theta_unc, char** error_msg) {
  (void)model;
  for (int i = 0; i < GROUPS; i++) {
    if (theta[i] < 0) {
      *error_msg = copied("rate is below 0, but must be greater than or equal to 0");
      return -1;
    }
    theta_unc[i] = log(theta[i]);
  }
  return 0;
}

int bs_param_constrain(const bs_model* model, bool include_tp, bool include_gq, const double* theta_unc, double* theta,
                       void* rng, char** error_msg) {
  (void)model, (void)include_tp, (void)rng;
  if (include_gq) {
    *error_msg = copied("no generated quantities");
    return -1;
  }
  for (int i = 0; i < GROUPS; i++) theta[i] = exp(theta_unc[i]);
  return 0;
}

int bs_param_unc_num(const bs_model* model) {
  (void)model;
  return GROUPS;
}

int bs_log_density_gradient(const bs_model* model, bool propto, bool jacobian, const double* theta_unc, double* val,
                            double* grad, char** error_msg) {
  const double shape = 2, inverse_scale = 0.5;
  if (propto) {
    *error_msg = copied("constants are never dropped here; expected propto = false");
    return -1;
  }
  if (theta_unc[0] > 700) {
    *error_msg = copied("the rate overflows");
    return -1;
  }
  *val = 0;
  for (int i = 0; i < GROUPS; i++) {
    double u = theta_unc[i], rate = exp(u), y = model->counts[i], e = model->exposure[i];
    *val += shape * log(inverse_scale) - lgamma(shape) + (shape - 1) * u - inverse_scale * rate;
    *val += y * (u + log(e)) - rate * e - lgamma(y + 1) + jacobian * u;
    grad[i] = shape - 1 - inverse_scale * rate + y - rate * e + jacobian;
  }
  return 0;
}

int bs_log_density(const bs_model* model, bool propto, bool jacobian, const double* theta_unc, double* lp,
                   char** error_msg) {
  double grad[GROUPS];
  return bs_log_density_gradient(model, propto, jacobian, theta_unc, lp, grad, error_msg);
}
