#include "base/limits.h"

const struct limits limits_default = {
#define LIMITS_DEFAULT(field, key, value, minimum, maximum, why) .field = (value),
    TIMEOUTS(LIMITS_DEFAULT) LIMITS(LIMITS_DEFAULT)
#undef LIMITS_DEFAULT
};
