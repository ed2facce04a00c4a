#include "proxy/record.h"
