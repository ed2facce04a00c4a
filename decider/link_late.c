#include "decider/link_late.h"

#include <string.h>

#include "decider/message.h"

static uint8_t *slot(struct link_late *late, int64_t id)
{
    return &late->stages[(uint64_t)id % LINK_LATE_WINDOW];
}

static bool in_window(const struct link_late *late, int64_t id)
{
    return id <= late->newest && !link_late_is_forgotten(late, id);
}

void link_late_init(struct link_late *late, int64_t newest)
{
    late->newest = newest;
    memset(late->stages, LINK_NOT_ASKED, sizeof late->stages);
}

int64_t link_late_next_id(const struct link_late *late)
{
    return late->newest < MESSAGE_ID_MAX ? late->newest + 1 : 0;
}

void link_late_given(struct link_late *late)
{
    late->newest++;
    *slot(late, late->newest) = LINK_NOT_ASKED;
}

void link_late_mark(struct link_late *late, int64_t id, enum link_stage stage)
{
    if (in_window(late, id))
        *slot(late, id) = (uint8_t)stage;
}

enum link_stage link_late_stage(const struct link_late *late, int64_t id)
{
    if (!in_window(late, id))
        return LINK_NOT_ASKED;
    return (enum link_stage)late->stages[(uint64_t)id % LINK_LATE_WINDOW];
}

bool link_late_is_forgotten(const struct link_late *late, int64_t id)
{
    return id < late->newest && late->newest - id >= LINK_LATE_WINDOW;
}
