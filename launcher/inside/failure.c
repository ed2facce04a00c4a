#include "launcher/inside/failure.h"

#include <errno.h>
#include <string.h>

/* What fits a message with the rest of it. */
enum { SUBJECT_MAX = 800 };

bool failure(struct buf *error, const char *step, const char *subject)
{
    const char *why = strerror(errno);

    buf_clear(error);
    if (subject != NULL)
        buf_printf(error, "%s %.*s: %s", step, SUBJECT_MAX, subject, why);
    else
        buf_printf(error, "%s: %s", step, why);
    return false;
}

bool failure_because(struct buf *error, const char *step, const char *why)
{
    buf_clear(error);
    buf_printf(error, "%s: %s", step, why);
    return false;
}
