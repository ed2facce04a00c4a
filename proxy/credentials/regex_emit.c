#include "proxy/credentials/regex_emit.h"

#include "base/mem.h"

const char regex_too_large[] = "Regular expression too large";

void regex_put_failed(struct regex_translator *t, const char *why)
{
    if (t->error == NULL)
        t->error = why;
}

struct regex_program *regex_emitter_program(const struct regex_emitter *e)
{
    return &e->t->out->list[e->program];
}

void regex_put(struct regex_emitter *e, const char *s)
{
    if (!buf_puts(&e->text, s))
        regex_put_failed(e->t, regex_too_large);
}

void regex_put_unit(struct regex_emitter *e, uint32_t unit)
{
    if (!buf_printf(&e->text, "\\x{%x}", unit))
        regex_put_failed(e->t, regex_too_large);
}

void regex_put_callout(struct regex_emitter *e, uint32_t action)
{
    if (!buf_printf(&e->text, "(?C'%u')", action))
        regex_put_failed(e->t, regex_too_large);
}

void regex_put_action(struct regex_emitter *e, enum regex_action_type type, uint32_t a, uint32_t b,
                      uint32_t c)
{
    struct regex_program *p = regex_emitter_program(e);
    REGEX_GROW(p->actions, p->action_count, p->action_capacity, 8);
    p->actions[p->action_count] = (struct regex_action){type, a, b, c};
    regex_put_callout(e, p->action_count++);
}

void regex_put_quantifier(struct regex_emitter *e, uint32_t min, uint32_t max, bool lazy)
{
    bool fits = true;
    if (min > REGEX_COUNT_MAX)
        regex_put_failed(e->t, regex_too_large);
    if (min == 1 && max == 1)
        return;
    if (max == min)
        fits = buf_printf(&e->text, "{%u}", min);
    else if (max > REGEX_COUNT_MAX)
        fits = buf_printf(&e->text, "{%u,}%s", min, lazy ? "?" : "");
    else
        fits = buf_printf(&e->text, "{%u,%u}%s", min, max, lazy ? "?" : "");
    if (!fits)
        regex_put_failed(e->t, regex_too_large);
}

/* The shorter of the class and its complement. A full class is a dot (PCRE2_DOTALL). */
void regex_put_class(struct regex_emitter *e, const struct regex_class *set)
{
    bool full =
        set->count == 1 && set->ranges[0].first == 0 && set->ranges[0].last == REGEX_UNIT_MAX;
    if (full) {
        regex_put(e, ".");
        return;
    }
    bool inverted = set->count == 0 || set->ranges[set->count - 1].last == REGEX_UNIT_MAX;
    regex_put(e, inverted ? "[^" : "[");
    uint32_t next = 0;
    for (size_t i = 0; i <= set->count; i++) {
        uint32_t first = i < set->count ? set->ranges[i].first : REGEX_UNIT_MAX + 1u;
        uint32_t last = i < set->count ? set->ranges[i].last : REGEX_UNIT_MAX;
        if (inverted) {
            uint32_t gap = next;
            next = last + 1;
            if (first == gap)
                continue;
            last = first - 1;
            first = gap;
        } else if (i == set->count) {
            break;
        }
        regex_put_unit(e, first);
        if (last != first) {
            regex_put(e, "-");
            regex_put_unit(e, last);
        }
    }
    regex_put(e, "]");
}

/* A capture of one unit, ahead or behind, when the action passes, else of none. */
static uint32_t emit_bit(struct regex_emitter *e, enum regex_action_type type, uint32_t copy)
{
    uint32_t number = ++e->numbers;
    regex_put(e, "(?>(?|");
    regex_put_action(e, type, copy, number, 0);
    regex_put(e, "(?|(?=(.))|(?<=(.)))|()))");
    return number;
}

uint32_t regex_new_copy(struct regex_emitter *e, uint32_t item)
{
    struct regex_program *p = regex_emitter_program(e);
    if (e->copies == p->copy_count) {
        REGEX_GROW(p->copies, p->copy_count, p->copy_capacity, 4);
        p->copies[p->copy_count++] = (struct regex_copy){0};
    }
    p->copies[e->copies].item = item;
    p->copies[e->copies].number = ++e->numbers;
    p->copies[e->copies].skips = e->skips;
    return e->copies++;
}

void regex_put_mark(struct regex_emitter *e, uint32_t copy)
{
    uint32_t number = e->skips != 0 ? emit_bit(e, REGEX_ACTION_MARK, copy) : 0;
    regex_emitter_program(e)->copies[copy].mark = number;
}

void regex_put_resets(struct regex_emitter *e, uint32_t first, uint32_t end)
{
    for (uint32_t copy = first; copy < end; copy++) {
        if (regex_emitter_program(e)->copies[copy].skips < e->depth)
            continue;
        uint32_t number = emit_bit(e, REGEX_ACTION_RESET, copy);
        struct regex_program *p = regex_emitter_program(e);
        REGEX_GROW(p->resets, p->reset_count, p->reset_capacity, 4);
        p->resets[p->reset_count] = (struct regex_reset){number, p->copies[copy].resets};
        p->copies[copy].resets = p->reset_count++;
    }
}
