/*
 * The tree as PCRE2 patterns. Every part is written out: units as \x{}, classes
 * as ranges, so that nothing depends on what PCRE2 takes a name or a letter for.
 * What PCRE2 does otherwise than ECMAScript is provided so:
 *
 * - Groups are unset at each turn of the loop around them. A group that a turn
 *   may pass by is followed by its mark, and each turn of a loop begins with one
 *   reset for each such group in it; both are captures of one unit or none,
 *   which stand for a bit. The group is set when its mark equals the parity of
 *   its resets: a mark is written so that this holds, a reset, if the group is
 *   set, so that it does not. Unlike positions this can be told in every case,
 *   and PCRE2 restores it when it backtracks.
 * - A turn beyond the least number may not be empty, and then fails instead of
 *   ending the loop. A callout compares the positions. If there are turns that
 *   may be empty too, the body is written twice, with two copies of its groups.
 * - A lookbehind of varying length, or with groups or references, becomes a
 *   program of its own (regex_program.h). What it captured is found again by
 *   running it once more where it was, and a reference over its border compares
 *   unit by unit.
 * - A reference to a group that is not closed before it, in the order of trying,
 *   matches empty always: if a loop has closed it, the next turn has unset it.
 * - Counts too large for PCRE2, of a body of fixed length, are positions divided
 *   by that length.
 *
 * Where this differs from ECMAScript, refusing more or telling less:
 *
 * - Refused: bodies of varying length with large bounds, and other patterns
 *   whose code passes PCRE2's 65535 units (a body that is copied for each turn
 *   counts as often; bodies that can be empty under +, nested, double); over
 *   250 kB of translation; groups nested over about 500 deep, lookbehinds over
 *   LOOKS_MAX.
 * - Refused: a reference to a group in a lookbehind from outside, or group 1 in
 *   it, if that lookbehind itself refers to a group outside. Other groups in one
 *   count as unset when the match is done.
 * - A bound above 65535 on a body of varying length is no bound.
 * - A search is given up at its bounds (regex_search.c).
 * - In an empty text a reset has no unit to capture: a group captured in one of
 *   several compulsory turns stays set though the last one passes it by.
 */
#include "proxy/credentials/regex_emit.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum {
    TEXT_MAX = 250000,     /* units of one PCRE2 pattern */
    UNROLLED_MAX = 10000,  /* cost of a repeat beyond which turns are counted by positions */
    BEHIND_MAX = 255,      /* longest alternative given to PCRE2's own lookbehind */
    SCAN_MAX = 255,        /* units a repeat may pass over without a tick */
    LOOKS_MAX = 16,        /* programs within programs */
    PARENTHESES_MAX = 2000 /* bounds PCRE2's recursion when it compiles */
};

/*
 * The text is written twice. A loop begins with the resets of groups that come
 * later: the first pass finds which copies there are, the second is compiled.
 */
enum { PASSES = 2 };

static void emit(struct regex_emitter *e, uint32_t index);

/* Inside a backward program the parts stand in the order of the reversed text. */
static void emit_sequence(struct regex_emitter *e, const struct regex_node *node)
{
    const struct regex_node *nodes = e->t->tree->nodes;
    uint32_t count = 0;
    for (uint32_t c = node->child; c != 0; c = nodes[c].next)
        count++;
    uint32_t *order = mem_array(count, sizeof *order);
    uint32_t i = 0;
    for (uint32_t c = node->child; c != 0; c = nodes[c].next)
        order[e->backward ? count - ++i : i++] = c;
    for (i = 0; i < count; i++)
        emit(e, order[i]);
    free(order);
}

static void emit_choice(struct regex_emitter *e, const struct regex_node *node)
{
    uint32_t skips = e->skips;
    e->skips = e->depth;
    for (uint32_t c = node->child; c != 0; c = e->t->tree->nodes[c].next) {
        emit(e, c);
        if (e->t->tree->nodes[c].next != 0)
            regex_put(e, "|");
    }
    e->skips = skips;
}

static void emit_group(struct regex_emitter *e, const struct regex_node *node)
{
    if (node->value == 0) {
        regex_put(e, "(?:");
        emit(e, node->child);
        regex_put(e, ")");
        return;
    }
    e->t->out->home[node->value] = e->program;
    e->t->closed[node->value] = false;
    uint32_t copy = regex_new_copy(e, node->value);
    regex_put(e, "(");
    emit(e, node->child);
    regex_put(e, ")");
    regex_put_mark(e, copy);
    e->t->closed[node->value] = true;
}

/* To a group of another program. */
static void emit_far_reference(struct regex_emitter *e, uint32_t group)
{
    struct regex_translator *t = e->t;
    REGEX_GROW(t->references, t->reference_count, t->reference_capacity, 4);
    t->references[t->reference_count++] = (struct regex_far_reference){e->program, group};
    uint32_t number = ++e->numbers;
    regex_put(e, "(?>()(?:");
    regex_put_action(e, REGEX_ACTION_MORE, number, group, 0);
    regex_put(e, ".)*");
    regex_put_action(e, REGEX_ACTION_COMPARED, number, group, 0);
    regex_put(e, ")");
}

static void emit_reference(struct regex_emitter *e, uint32_t group)
{
    if (!e->t->closed[group])
        return;
    if (e->t->out->home[group] != e->program) {
        emit_far_reference(e, group);
        return;
    }
    regex_put(e, "(?:");
    regex_put_callout(e, REGEX_TICK);
    uint32_t marked = 0;
    for (uint32_t i = 0; i < e->copies; i++) {
        struct regex_copy copy = regex_emitter_program(e)->copies[i];
        if (copy.item != group)
            continue;
        if (copy.mark != 0) {
            regex_put_action(e, REGEX_ACTION_IS_SET, i, 0, 0);
            marked++;
        }
        if (!buf_printf(&e->text, "\\g{%u}", copy.number))
            regex_put_failed(e->t, regex_too_large);
        if (copy.mark != 0)
            regex_put(e, "|");
    }
    if (marked != 0)
        regex_put_action(e, REGEX_ACTION_NONE_SET, group, 0, 0);
    regex_put(e, ")");
}

static bool is_single(const struct regex_node *node)
{
    return node->type == REGEX_UNIT || node->type == REGEX_CLASS;
}

static bool has_fixed_length(const struct regex_shape *shape)
{
    return shape->min == shape->max && shape->max < REGEX_INFINITE;
}

/* Some turns of a loop; before each the copies [first, end) are reset. */
static void emit_turns(struct regex_emitter *e, const struct regex_node *node, uint32_t min,
                       uint32_t max, uint32_t first, uint32_t end, bool must_move)
{
    regex_put(e, "(?:");
    regex_put_resets(e, first, end);
    uint32_t start = 0;
    if (must_move) {
        start = ++e->numbers;
        regex_put(e, "()");
    }
    emit(e, node->child);
    if (must_move)
        regex_put_action(e, REGEX_ACTION_MOVED, start, 0, 0);
    regex_put(e, ")");
    regex_put_quantifier(e, min, max, node->lazy);
}

static void emit_counted(struct regex_emitter *e, const struct regex_node *node, uint32_t first,
                         uint32_t end)
{
    uint32_t length = e->t->shapes[node->child].min;
    uint32_t start = ++e->numbers;
    regex_put(e, "()(?:");
    if (node->max != REGEX_INFINITE)
        regex_put_action(e, REGEX_ACTION_BELOW, start, length, node->max);
    regex_put_resets(e, first, end);
    emit(e, node->child);
    regex_put(e, node->lazy ? ")*?" : ")*");
    regex_put_action(e, REGEX_ACTION_AT_LEAST, start, length, node->min);
}

static bool is_counted(const struct regex_node *node, const struct regex_shape *body, bool single)
{
    uint32_t turns = node->max == REGEX_INFINITE ? node->min : node->max;
    if (body->min == 0 || !has_fixed_length(body))
        return false;
    return turns > REGEX_COUNT_MAX || (!single && turns > 1 && body->cost > UNROLLED_MAX / turns);
}

static void emit_loop(struct regex_emitter *e, const struct regex_node *node)
{
    const struct regex_shape *body = &e->t->shapes[node->child];
    struct regex_draft *draft = &e->t->drafts[e->program];
    bool resets = body->captures && node->max > 1;
    uint32_t loop = e->ranges++;
    if (loop == draft->count) {
        REGEX_GROW(draft->ranges, draft->count, draft->capacity, 4);
        draft->ranges[draft->count++] = (struct regex_loop_copies){0};
    }
    /* As the last pass found it; nothing is reset in the first. */
    struct regex_loop_copies known = resets ? draft->ranges[loop] : (struct regex_loop_copies){0};
    struct regex_loop_copies now = {.first = e->copies, .middle = e->copies};

    uint32_t skips = e->skips;
    if (node->min == 0)
        e->skips = e->depth;
    e->depth += resets;
    /* What is written twice is captured in one of the two. */
    if (resets && body->min == 0 && node->min > 0 && node->max > node->min)
        e->skips = e->depth;
    if (is_counted(node, body, false)) {
        emit_counted(e, node, known.first, known.end);
    } else if (body->min > 0) {
        emit_turns(e, node, node->min, node->max, known.first, known.end, false);
    } else {
        if (node->min > 0)
            emit_turns(e, node, node->min, node->min, known.first,
                       node->min > 1 ? known.middle : known.first, false);
        now.middle = e->copies;
        uint32_t more = node->max == REGEX_INFINITE ? node->max : node->max - node->min;
        if (more != 0)
            emit_turns(e, node, 0, more, known.first, known.end, true);
    }
    e->depth -= resets;
    e->skips = skips;
    now.end = e->copies;
    e->t->drafts[e->program].ranges[loop] = now;
}

static void emit_repeat(struct regex_emitter *e, const struct regex_node *node)
{
    const struct regex_node *body = &e->t->tree->nodes[node->child];
    if (node->max == 0)
        return;
    if (!is_single(body) || is_counted(node, &e->t->shapes[node->child], true)) {
        emit_loop(e, node);
        return;
    }
    if (node->max > SCAN_MAX)
        regex_put_callout(e, REGEX_TICK);
    emit(e, node->child);
    regex_put_quantifier(e, node->min, node->max, node->lazy);
}

/* Whether PCRE2's own lookbehind takes it, and finds the same. */
static bool is_near(const struct regex_emitter *e, const struct regex_node *look)
{
    const struct regex_node *nodes = e->t->tree->nodes;
    const struct regex_shape *body = &e->t->shapes[look->child];
    if (body->captures || body->refers || body->cost > UNROLLED_MAX || body->max > BEHIND_MAX)
        return false;
    if (nodes[look->child].type != REGEX_CHOICE)
        return has_fixed_length(body);
    for (uint32_t c = nodes[look->child].child; c != 0; c = nodes[c].next)
        if (!has_fixed_length(&e->t->shapes[c]))
            return false;
    return true;
}

static void emit_program(struct regex_translator *t, uint32_t index, uint32_t body);

static uint32_t new_program(struct regex_translator *t, uint32_t parent, bool backward,
                            bool negated)
{
    struct regex_programs *out = t->out;
    out->list = mem_resize(out->list, (size_t)out->count + 1, sizeof *out->list);
    t->drafts = mem_resize(t->drafts, (size_t)out->count + 1, sizeof *t->drafts);
    out->list[out->count] =
        (struct regex_program){.backward = backward, .negated = negated, .parent = parent};
    t->drafts[out->count] = (struct regex_draft){0};
    return out->count++;
}

static void emit_far_look(struct regex_emitter *e, uint32_t index)
{
    struct regex_translator *t = e->t;
    const struct regex_node *node = &t->tree->nodes[index];
    if (t->program_of[index] == 0)
        t->program_of[index] = new_program(t, e->program, node->behind, node->negated);
    uint32_t look = t->program_of[index];
    /* Once a pass, however often the loops around are written. */
    if (t->drafts[look].pass != t->pass)
        emit_program(t, look, node->child);
    regex_put_action(e, REGEX_ACTION_LOOK, look, 0, 0);
    if (!node->negated && t->shapes[node->child].captures) {
        uint32_t copy = regex_new_copy(e, t->tree->groups + look);
        regex_put(e, "()");
        regex_put_mark(e, copy);
    }
}

static void emit_look(struct regex_emitter *e, uint32_t index)
{
    const struct regex_node *node = &e->t->tree->nodes[index];
    bool ahead = node->behind == e->backward;
    if (!ahead && !is_near(e, node)) {
        emit_far_look(e, index);
        return;
    }
    e->looks = true;
    regex_put(e, ahead ? "(?" : "(?<");
    regex_put(e, node->negated ? "!" : "=");
    emit(e, node->child);
    regex_put(e, ")");
}

static void emit(struct regex_emitter *e, uint32_t index)
{
    const struct regex_node *node = &e->t->tree->nodes[index];
    if (e->t->error != NULL)
        return;
    switch (node->type) {
    case REGEX_EMPTY:
        break;
    case REGEX_UNIT:
        regex_put_unit(e, node->value);
        break;
    case REGEX_CLASS:
        regex_put_class(e, &e->t->tree->classes[node->value]);
        break;
    case REGEX_START:
    case REGEX_END:
        regex_put(e, (node->type == REGEX_START) != e->backward ? "\\A" : "\\z");
        break;
    case REGEX_BOUNDARY:
        regex_put(e, node->negated ? "\\B" : "\\b");
        break;
    case REGEX_SEQUENCE:
        emit_sequence(e, node);
        break;
    case REGEX_CHOICE:
        emit_choice(e, node);
        break;
    case REGEX_GROUP:
        emit_group(e, node);
        break;
    case REGEX_BACKREF:
        emit_reference(e, node->value);
        break;
    case REGEX_LOOK:
        emit_look(e, index);
        break;
    case REGEX_REPEAT:
        emit_repeat(e, node);
        break;
    }
}

/* Sizes are the only thing that PCRE2 may object to. */
static const char *describe(int code)
{
    switch (code) {
    case PCRE2_ERROR_PARENTHESES_NEST_TOO_DEEP:
    case PCRE2_ERROR_PATTERN_TOO_LARGE:
    case PCRE2_ERROR_HEAP_FAILED:
    case PCRE2_ERROR_LOOKBEHIND_TOO_COMPLICATED:
    case PCRE2_ERROR_PATTERN_TOO_COMPLICATED:
    case PCRE2_ERROR_PATTERN_STRING_TOO_LONG:
    case PCRE2_ERROR_TOO_MANY_CAPTURES:
        return regex_too_large;
    default:
        return "Regular expression not supported";
    }
}

static uint32_t options(const struct regex_emitter *e)
{
    uint32_t bits = PCRE2_DOTALL | PCRE2_MATCH_UNSET_BACKREF | PCRE2_NEVER_UTF | PCRE2_NEVER_UCP |
                    PCRE2_NEVER_BACKSLASH_C;
    /* PCRE2 takes it that a callout never fails, and does not see what it compares with. */
    if (regex_emitter_program(e)->action_count > 1)
        bits |= PCRE2_NO_AUTO_POSSESS | PCRE2_NO_DOTSTAR_ANCHOR;
    /* For (?=a)b*a PCRE2 10.42 looks for two a. */
    if (e->looks)
        bits |= PCRE2_NO_START_OPTIMIZE;
    return e->program == 0 ? bits : bits | PCRE2_ANCHORED;
}

static void compile(struct regex_emitter *e)
{
    size_t n = buf_len(&e->text), offset;
    const uint8_t *text = buf_data(&e->text);
    uint16_t *units = mem_array(n, sizeof *units);
    int code;
    for (size_t i = 0; i < n; i++)
        units[i] = text[i];
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (context == NULL) {
        regex_put_failed(e->t, regex_too_large);
    } else {
        pcre2_set_parens_nest_limit(context, PARENTHESES_MAX);
        regex_emitter_program(e)->code =
            pcre2_compile(units, n, options(e), &code, &offset, context);
        if (regex_emitter_program(e)->code == NULL)
            regex_put_failed(e->t, describe(code));
    }
    pcre2_compile_context_free(context);
    free(units);
}

static void emit_program(struct regex_translator *t, uint32_t index, uint32_t body)
{
    struct regex_program *p = &t->out->list[index];
    struct regex_emitter e = {.t = t, .program = index, .backward = p->backward};
    unsigned nesting = 0;
    for (uint32_t outer = index; outer != 0; outer = t->out->list[outer].parent)
        nesting++;
    if (nesting > LOOKS_MAX) {
        regex_put_failed(t, regex_too_large);
        return;
    }
    t->drafts[index].pass = t->pass;
    p->reset_count = 0;
    p->action_count = 0;
    for (uint32_t i = 0; i < p->copy_count; i++)
        p->copies[i].resets = 0;
    REGEX_GROW(p->resets, p->reset_count, p->reset_capacity, 4);
    p->resets[p->reset_count++] = (struct regex_reset){0};

    buf_init(&e.text, TEXT_MAX);
    regex_put_action(&e, REGEX_ACTION_TICK, 0, 0, 0);
    regex_put(&e, "(?:");
    emit(&e, body);
    regex_put(&e, ")");
    if (t->pass == PASSES && t->error == NULL)
        compile(&e);
    buf_free(&e.text);
}

bool regex_program_within(const struct regex_programs *programs, uint32_t p, uint32_t outer)
{
    while (p != outer && p != 0)
        p = programs->list[p].parent;
    return p == outer;
}

/* Whether group's value can be found from program `outer` around its own. In a negative lookbehind
 * that is easy: it is unset. */
static bool is_reachable(const struct regex_programs *out, uint32_t group, uint32_t outer)
{
    bool entangled = false;
    for (uint32_t p = out->home[group]; p != outer; p = out->list[p].parent) {
        if (out->list[p].negated)
            return true;
        entangled |= out->list[p].entangled;
    }
    return !entangled;
}

static void check_references(struct regex_translator *t)
{
    struct regex_programs *out = t->out;
    bool reachable = true;
    for (uint32_t i = 0; i < t->reference_count; i++) {
        const struct regex_far_reference *r = &t->references[i];
        for (uint32_t p = r->program; !regex_program_within(out, out->home[r->group], p);
             p = out->list[p].parent)
            out->list[p].entangled = true;
    }
    for (uint32_t i = 0; i < t->reference_count; i++) {
        uint32_t common = t->references[i].program;
        while (!regex_program_within(out, out->home[t->references[i].group], common))
            common = out->list[common].parent;
        reachable &= is_reachable(out, t->references[i].group, common);
    }
    if (out->groups != 0 && out->home[1] != REGEX_NOWHERE)
        reachable &= is_reachable(out, 1, 0);
    if (!reachable)
        regex_put_failed(
            t, "A group in a lookbehind that refers to another group cannot be used outside");
}

bool regex_translate(const struct regex_tree *tree, struct regex_programs *programs,
                     struct buf *error)
{
    *programs = (struct regex_programs){.groups = tree->groups};
    programs->home = mem_array((size_t)tree->groups + 1, sizeof *programs->home);
    for (uint32_t g = 0; g <= tree->groups; g++)
        programs->home[g] = REGEX_NOWHERE;
    struct regex_shape *shapes = regex_shapes(tree);
    struct regex_translator t = {.tree = tree, .shapes = shapes, .out = programs};
    t.program_of = mem_array(tree->count, sizeof *t.program_of);
    t.closed = mem_array((size_t)tree->groups + 1, sizeof *t.closed);
    new_program(&t, 0, false, false);
    for (t.pass = 1; t.pass <= PASSES && t.error == NULL; t.pass++) {
        t.reference_count = 0;
        memset(t.closed, 0, (size_t)tree->groups + 1);
        emit_program(&t, 0, tree->root);
    }
    if (t.error == NULL)
        check_references(&t);
    if (t.error != NULL)
        buf_puts(error, t.error);

    for (uint32_t i = 0; i < programs->count; i++)
        free(t.drafts[i].ranges);
    free(t.drafts);
    free(t.references);
    free(t.closed);
    free(t.program_of);
    free(shapes);
    return t.error == NULL;
}

void regex_programs_free(struct regex_programs *programs)
{
    for (uint32_t i = 0; i < programs->count; i++) {
        struct regex_program *p = &programs->list[i];
        pcre2_code_free(p->code);
        free(p->copies);
        free(p->resets);
        free(p->actions);
    }
    free(programs->list);
    free(programs->home);
    *programs = (struct regex_programs){0};
}
