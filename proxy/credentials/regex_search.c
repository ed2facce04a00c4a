/*
 * Runs the programs. PCRE2's match and heap limits bound the work from one
 * start. How many starts there are, how far a repeat of one unit goes, and how
 * often a lookbehind runs they do not bound: that is done by processor time,
 * looked at in callouts.
 */
#include "proxy/credentials/regex_program.h"

#include <stdlib.h>
#include <time.h>

#include "base/mem.h"

#define COPIED_MAX ((uint64_t)4 << 30) /* bytes of the frames of those steps */
enum {
    MATCH_LIMIT = 5000000,    /* PCRE2's count of steps that can be taken back, for one start */
    HEAP_KIB = 128 * 1024,    /* for backtracking in the pattern itself */
    LOOK_HEAP_KIB = 8 * 1024, /* the same in each lookbehind that is a program */
    TIME_MAX_MS = 2000,       /* processor time of one search, all matches together */
    UNITS_PER_MS = 500,       /* a longer text has one more millisecond for each so many units */
    TICKS_PER_CHECK = 32      /* callouts between looks at the clock */
};

struct runner {
    pcre2_match_data *data;
    pcre2_match_context *context;
};

struct regex_search {
    const struct regex_programs *programs;
    const uint16_t *text;
    uint16_t *reversed; /* made when first needed */
    uint32_t n;
    struct runner *runners; /* by program; a program never runs within itself */
    uint32_t ticks;
    int64_t deadline; /* 0: the clock was not looked at yet */
    bool gave_up;
};

/* One run of a program, going on (within a callout) or done. */
struct run {
    struct regex_search *search;
    uint32_t program;
    const struct run *parent; /* the run whose callout started this one */
    const PCRE2_SIZE *ovector;
    uint32_t top; /* groups of the ovector that may be read */
};

struct span {
    uint32_t first, last; /* in the text as it is */
};

static int64_t processor_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void tick(struct regex_search *s)
{
    if (++s->ticks % TICKS_PER_CHECK != 0)
        return;
    int64_t now = processor_ms();
    if (s->deadline == 0)
        s->deadline = now + TIME_MAX_MS + s->n / UNITS_PER_MS;
    else if (now > s->deadline)
        s->gave_up = true;
}

static const struct regex_program *program(const struct run *r)
{
    return &r->search->programs->list[r->program];
}

static bool captured(const struct run *r, uint32_t number)
{
    return number < r->top && r->ovector[2 * number] != PCRE2_UNSET;
}

static bool bit(const struct run *r, uint32_t number)
{
    return captured(r, number) && r->ovector[2 * number] != r->ovector[2 * number + 1];
}

static bool parity_of_resets(const struct run *r, const struct regex_copy *copy)
{
    const struct regex_reset *resets = program(r)->resets;
    bool parity = false;
    for (uint32_t i = copy->resets; i != 0; i = resets[i].next)
        parity ^= bit(r, resets[i].number);
    return parity;
}

static bool is_set(const struct run *r, const struct regex_copy *copy)
{
    if (!captured(r, copy->number))
        return false;
    return copy->mark == 0 || bit(r, copy->mark) == parity_of_resets(r, copy);
}

/* The copy of the item that is set: there is one at most. */
static const struct regex_copy *find_set(const struct run *r, uint32_t item)
{
    const struct regex_program *p = program(r);
    for (uint32_t i = 0; i < p->copy_count; i++)
        if (p->copies[i].item == item && is_set(r, &p->copies[i]))
            return &p->copies[i];
    return NULL;
}

static struct span span_of(const struct run *r, uint32_t number)
{
    uint32_t first = (uint32_t)r->ovector[2 * number], last = (uint32_t)r->ovector[2 * number + 1];
    if (program(r)->backward)
        return (struct span){r->search->n - last, r->search->n - first};
    return (struct span){first, last};
}

static int on_callout(pcre2_callout_block *block, void *data);

/* A step copies a frame, which has room for every group. */
static uint32_t step_limit(const pcre2_code *code)
{
    size_t frame = 0;
    pcre2_pattern_info(code, PCRE2_INFO_FRAMESIZE, &frame);
    uint64_t steps = COPIED_MAX / (frame != 0 ? frame : 1);
    return steps < MATCH_LIMIT ? (uint32_t)steps : (uint32_t)MATCH_LIMIT;
}

static bool prepare(struct regex_search *s, uint32_t index)
{
    const struct regex_program *p = &s->programs->list[index];
    struct runner *runner = &s->runners[index];
    if (runner->data == NULL)
        runner->data = pcre2_match_data_create_from_pattern(p->code, NULL);
    if (runner->context == NULL && (runner->context = pcre2_match_context_create(NULL)) != NULL) {
        uint32_t steps = step_limit(p->code);
        pcre2_set_match_limit(runner->context, steps);
        pcre2_set_depth_limit(runner->context, steps);
        pcre2_set_heap_limit(runner->context, index == 0 ? HEAP_KIB : LOOK_HEAP_KIB);
    }
    if (p->backward && s->reversed == NULL) {
        s->reversed = mem_array(s->n, sizeof *s->reversed);
        for (uint32_t i = 0; i < s->n; i++)
            s->reversed[i] = s->text[s->n - 1 - i];
    }
    return runner->data != NULL && runner->context != NULL;
}

/* Runs r->program from a position of the text; what was captured is in r when it matched. */
static bool run(struct run *r, uint32_t at)
{
    static const uint16_t nothing[1];
    struct regex_search *s = r->search;
    const struct regex_program *p = program(r);
    if (s->gave_up || !prepare(s, r->program)) {
        s->gave_up = true;
        return false;
    }
    const struct runner *runner = &s->runners[r->program];
    const uint16_t *text = p->backward ? s->reversed : s->text;
    pcre2_set_callout(runner->context, on_callout, r);
    int rc = pcre2_match(p->code, s->n != 0 ? text : nothing, s->n, p->backward ? s->n - at : at, 0,
                         runner->data, runner->context);
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH)
        s->gave_up = true;
    r->ovector = pcre2_get_ovector_pointer(runner->data);
    r->top = pcre2_get_ovector_count(runner->data);
    return rc >= 0 && !s->gave_up;
}

/* Where a group lies that was captured in r or, in a lookbehind, in a run from r that is over. */
static bool find_within(const struct run *r, uint32_t group, struct span *span)
{
    const struct regex_programs *all = r->search->programs;
    uint32_t inner = all->home[group];
    if (inner == r->program) {
        const struct regex_copy *copy = find_set(r, group);
        if (copy != NULL)
            *span = span_of(r, copy->number);
        return copy != NULL;
    }
    while (all->list[inner].parent != r->program)
        inner = all->list[inner].parent;
    const struct regex_copy *place = find_set(r, all->groups + inner);
    if (place == NULL || all->list[inner].entangled)
        return false;
    struct run again = {.search = r->search, .program = inner, .parent = r};
    return run(&again, span_of(r, place->number).first) && find_within(&again, group, span);
}

static bool find_group(const struct run *r, uint32_t group, struct span *span)
{
    const struct regex_programs *all = r->search->programs;
    while (!regex_program_within(all, all->home[group], r->program))
        r = r->parent;
    return find_within(r, group, span);
}

/* Compares with a group elsewhere, unit by unit: whether the next one is the same, or all were. */
static bool compare(const struct run *r, const struct regex_action *action, uint32_t position)
{
    const struct regex_search *s = r->search;
    struct span span = {0, 0};
    uint32_t done = position - (uint32_t)r->ovector[2 * action->a];
    uint32_t length = find_group(r, action->b, &span) ? span.last - span.first : 0;
    if (action->type == REGEX_ACTION_COMPARED)
        return done == length;
    if (done >= length || position >= s->n)
        return false;
    return program(r)->backward ? s->text[s->n - 1 - position] == s->text[span.last - 1 - done]
                                : s->text[position] == s->text[span.first + done];
}

static bool look(const struct run *r, uint32_t index, uint32_t position)
{
    const struct regex_search *s = r->search;
    struct run inner = {.search = r->search, .program = index, .parent = r};
    bool matched = run(&inner, program(r)->backward ? s->n - position : position);
    return matched != s->programs->list[index].negated;
}

static bool act(const struct run *r, const struct regex_action *action, uint32_t position)
{
    const struct regex_copy *copies = program(r)->copies;
    switch (action->type) {
    case REGEX_ACTION_TICK:
        break;
    case REGEX_ACTION_MOVED:
        return r->ovector[2 * action->a] != position;
    case REGEX_ACTION_BELOW:
        return (position - (uint32_t)r->ovector[2 * action->a]) / action->b < action->c;
    case REGEX_ACTION_AT_LEAST:
        return (position - (uint32_t)r->ovector[2 * action->a]) / action->b >= action->c;
    case REGEX_ACTION_RESET:
        return is_set(r, &copies[action->a]) != bit(r, action->b);
    case REGEX_ACTION_MARK:
        return parity_of_resets(r, &copies[action->a]);
    case REGEX_ACTION_IS_SET:
        return is_set(r, &copies[action->a]);
    case REGEX_ACTION_NONE_SET:
        return find_set(r, action->a) == NULL;
    case REGEX_ACTION_LOOK:
        return look(r, action->a, position);
    case REGEX_ACTION_MORE:
    case REGEX_ACTION_COMPARED:
        return compare(r, action, position);
    }
    return true;
}

static int on_callout(pcre2_callout_block *block, void *data)
{
    struct run *r = data;
    uint32_t index = 0;
    for (PCRE2_SIZE i = 0; i < block->callout_string_length; i++)
        index = index * 10 + (block->callout_string[i] - (uint32_t)'0');
    r->ovector = block->offset_vector;
    r->top = block->capture_top;
    tick(r->search);
    bool passes = act(r, &program(r)->actions[index], (uint32_t)block->current_position);
    if (r->search->gave_up)
        return PCRE2_ERROR_CALLOUT;
    return passes ? 0 : 1;
}

/* The groups that are set, each copy looked at once however many groups there are. */
static void fill(const struct run *r, uint32_t *slots)
{
    const struct regex_programs *all = r->search->programs;
    const struct regex_program *p = program(r);
    for (uint32_t i = 0; i < p->copy_count; i++) {
        const struct regex_copy *copy = &p->copies[i];
        if (!is_set(r, copy))
            continue;
        struct span span = span_of(r, copy->number);
        if (copy->item <= all->groups) {
            slots[2 * (size_t)copy->item] = span.first;
            slots[2 * (size_t)copy->item + 1] = span.last;
        } else if (!all->list[copy->item - all->groups].entangled) {
            struct run again = {
                .search = r->search, .program = copy->item - all->groups, .parent = r};
            if (run(&again, span.first))
                fill(&again, slots);
        }
    }
}

struct regex_search *regex_search_new(const struct regex_programs *programs, const uint16_t *text,
                                      uint32_t n)
{
    struct regex_search *s = mem_alloc(sizeof *s);
    *s = (struct regex_search){.programs = programs, .text = text, .n = n};
    s->runners = mem_array(programs->count, sizeof *s->runners);
    return s;
}

enum regex_result regex_search_find(struct regex_search *s, uint32_t from, uint32_t *slots)
{
    struct run r = {.search = s};
    if (from > s->n)
        return REGEX_NO_MATCH;
    bool matched = run(&r, from);
    if (matched) {
        for (size_t i = 0; i < 2 * ((size_t)s->programs->groups + 1); i++)
            slots[i] = REGEX_UNSET;
        slots[0] = (uint32_t)r.ovector[0];
        slots[1] = (uint32_t)r.ovector[1];
        fill(&r, slots);
    }
    if (s->gave_up)
        return REGEX_LIMIT;
    return matched ? REGEX_MATCHED : REGEX_NO_MATCH;
}

void regex_search_free(struct regex_search *s)
{
    if (s == NULL)
        return;
    for (uint32_t i = 0; i < s->programs->count; i++) {
        pcre2_match_data_free(s->runners[i].data);
        pcre2_match_context_free(s->runners[i].context);
    }
    free(s->runners);
    free(s->reversed);
    free(s);
}
