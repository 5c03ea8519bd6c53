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
  return "STAN_THREADS=true";
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
  *val = 0;
  for (int i = 0; i < GROUPS; i++) {
    double u = theta_unc[i], rate = exp(u), y = model->counts[i], e = model->exposure[i];
    *val += shape * log(inverse_scale) - lgamma(shape) + (shape - 1) * u - inverse_scale * rate;
    *val += y * (u + log(e)) - rate * e - lgamma(y + 1) + jacobian * u;
    grad[i] = shape - 1 - inverse_scale * rate + y - rate * e + jacobian;
  }
  return 0;
}
