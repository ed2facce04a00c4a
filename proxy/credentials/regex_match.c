/*
 * The matcher. What may have to be tried again, and what must be put back
 * before, lies on one explicit stack, so that neither a pattern nor a text can
 * exhaust the machine's own; the stack and the number of steps are bounded.
 */
#include "proxy/credentials/regex.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum frame_kind {
    FRAME_CHOICE,   /* a: instruction, b: position to try next */
    FRAME_UNDO,     /* a: register, b: value to put back */
    FRAME_RUN,      /* a: the RUN, b: position reached, c: units that may still be given back */
    FRAME_RUN_LAZY, /* a: the RUN, b: position reached, c: units taken */
    FRAME_LOOK      /* a: the LOOK, b: position it started at, c: the enclosing look's frame */
};
struct frame {
    uint32_t kind, a, b, c;
};

#define NO_LOOK UINT32_MAX

struct matcher {
    const struct regex_program *program;
    const uint16_t *text;
    uint32_t n;
    uint32_t *registers; /* two a group, then two a loop: turns taken, start of this turn */
    struct frame *frames;
    uint32_t count, capacity;
    uint32_t look; /* frame of the innermost lookaround being tried */
    uint32_t steps;
    uint32_t pc, position;
    bool exhausted;
};

static void push(struct matcher *m, enum frame_kind kind, uint32_t a, uint32_t b, uint32_t c)
{
    if (m->count == REGEX_FRAMES_MAX) {
        m->exhausted = true;
        return;
    }
    if (m->count == m->capacity) {
        m->capacity = m->capacity != 0 ? m->capacity * 2 : 256;
        m->frames = mem_resize(m->frames, m->capacity, sizeof *m->frames);
    }
    m->frames[m->count++] = (struct frame){(uint32_t)kind, a, b, c};
}

static void set(struct matcher *m, uint32_t index, uint32_t value)
{
    if (m->registers[index] == value)
        return;
    push(m, FRAME_UNDO, index, m->registers[index], 0);
    m->registers[index] = value;
}

static uint32_t turns(const struct matcher *m, uint32_t loop)
{
    return 2 * (m->program->groups + 1) + 2 * loop;
}

/* Takes one unit in the instruction's direction when it is one that the instruction wants. */
static bool take(const struct matcher *m, const struct regex_insn *insn, uint32_t *position)
{
    if (insn->back ? *position == 0 : *position == m->n)
        return false;
    uint32_t unit = m->text[insn->back ? *position - 1 : *position];
    bool wanted = insn->op == REGEX_OP_UNIT ? unit == insn->a
                                            : regex_class_has(&m->program->classes[insn->a], unit);
    if (wanted)
        *position = insn->back ? *position - 1 : *position + 1;
    return wanted;
}

static bool at_boundary(const struct matcher *m)
{
    bool before = m->position != 0 && regex_is_word(m->text[m->position - 1]);
    bool after = m->position != m->n && regex_is_word(m->text[m->position]);
    return before != after;
}

/* A group that took no part matches empty. */
static bool take_backref(struct matcher *m, const struct regex_insn *insn)
{
    uint32_t first = m->registers[2 * insn->a], last = m->registers[2 * insn->a + 1];
    if (first == REGEX_UNSET || last == REGEX_UNSET)
        return true;
    uint32_t length = last - first;
    if (length > (insn->back ? m->position : m->n - m->position))
        return false;
    uint32_t from = insn->back ? m->position - length : m->position;
    if (length != 0 && memcmp(m->text + first, m->text + from, length * sizeof *m->text) != 0)
        return false;
    m->steps += length;
    m->position = insn->back ? from : from + length;
    return true;
}

/* A loop over a single unit: no frame a turn. */
static bool run(struct matcher *m)
{
    const struct regex_insn *insn = &m->program->code[m->pc];
    const struct regex_loop *loop = &m->program->loops[insn->a];
    uint32_t wanted = loop->lazy ? loop->min : loop->max;
    uint32_t taken = 0;
    while (taken < wanted && take(m, insn + 1, &m->position))
        taken++;
    m->steps += taken;
    if (taken < loop->min)
        return false;
    if (!loop->lazy && taken > loop->min)
        push(m, FRAME_RUN, m->pc, m->position, taken - loop->min);
    if (loop->lazy && taken < loop->max)
        push(m, FRAME_RUN_LAZY, m->pc, m->position, taken);
    m->pc += 2;
    return true;
}

static void enter_loop(struct matcher *m, const struct regex_insn *insn)
{
    const struct regex_loop *loop = &m->program->loops[insn->a];
    uint32_t taken = m->registers[turns(m, insn->a)];
    if (taken < loop->min) {
        m->pc++;
    } else if (taken >= loop->max) {
        m->pc = insn->b;
    } else if (loop->lazy) {
        push(m, FRAME_CHOICE, m->pc + 1, m->position, 0);
        m->pc = insn->b;
    } else {
        push(m, FRAME_CHOICE, insn->b, m->position, 0);
        m->pc++;
    }
}

/* Each turn starts with the groups inside unset. */
static void iterate(struct matcher *m, const struct regex_insn *insn)
{
    const struct regex_loop *loop = &m->program->loops[insn->a];
    uint32_t index = turns(m, insn->a);
    uint32_t taken = m->registers[index];
    set(m, index, taken < REGEX_INFINITE ? taken + 1 : taken);
    set(m, index + 1, m->position);
    for (uint32_t r = 2 * loop->first_group; r < 2 * loop->end_group; r++)
        set(m, r, REGEX_UNSET);
    m->steps += loop->end_group - loop->first_group;
    m->pc++;
}

/* A turn that was not needed and took nothing fails: otherwise it could go on for ever. */
static bool end_turn(struct matcher *m, const struct regex_insn *insn)
{
    uint32_t index = turns(m, insn->a);
    if (m->registers[index] > m->program->loops[insn->a].min &&
        m->registers[index + 1] == m->position)
        return false;
    m->pc = insn->b;
    return true;
}

/* A lookaround matched: nothing in it is tried again. */
static bool end_look(struct matcher *m, bool negative)
{
    uint32_t base = m->look;
    assert(m->frames != NULL && base < m->count);
    struct frame look = m->frames[base];
    m->look = look.c;
    m->steps += m->count - base;
    if (negative) {
        while (m->count > base) {
            const struct frame *f = &m->frames[--m->count];
            if (f->kind == FRAME_UNDO)
                m->registers[f->a] = f->b;
        }
        return false;
    }
    /* Its groups stay set, and are put back when something before it is tried again. */
    uint32_t kept = base;
    for (uint32_t i = base + 1; i < m->count; i++)
        if (m->frames[i].kind == FRAME_UNDO)
            m->frames[kept++] = m->frames[i];
    m->count = kept;
    m->position = look.b;
    m->pc++;
    return true;
}

/* Goes back to the last thing that can be tried another way; false when there is none. */
static bool backtrack(struct matcher *m)
{
    while (m->count != 0) {
        struct frame *f = &m->frames[m->count - 1];
        const struct regex_insn *code = m->program->code;
        m->steps++;
        switch ((enum frame_kind)f->kind) {
        case FRAME_CHOICE:
            m->pc = f->a;
            m->position = f->b;
            m->count--;
            return true;
        case FRAME_UNDO:
            m->registers[f->a] = f->b;
            m->count--;
            break;
        case FRAME_RUN:
            f->b = code[f->a].back ? f->b + 1 : f->b - 1;
            m->position = f->b;
            m->pc = f->a + 2;
            if (--f->c == 0)
                m->count--;
            return true;
        case FRAME_RUN_LAZY:
            if (take(m, &code[f->a + 1], &f->b)) {
                m->position = f->b;
                m->pc = f->a + 2;
                if (++f->c == m->program->loops[code[f->a].a].max)
                    m->count--;
                return true;
            }
            m->count--;
            break;
        case FRAME_LOOK:
            m->look = f->c;
            m->position = f->b;
            m->pc = code[f->a].a;
            m->count--;
            if (code[f->a].flag)
                return true;
            break;
        }
    }
    return false;
}

/* One instruction other than MATCH; false when it fails. */
static bool step(struct matcher *m, const struct regex_insn *insn)
{
    switch ((enum regex_op)insn->op) {
    case REGEX_OP_UNIT:
    case REGEX_OP_CLASS:
        m->pc++;
        return take(m, insn, &m->position);
    case REGEX_OP_START:
        m->pc++;
        return m->position == 0;
    case REGEX_OP_END:
        m->pc++;
        return m->position == m->n;
    case REGEX_OP_BOUNDARY:
        m->pc++;
        return at_boundary(m) != insn->flag;
    case REGEX_OP_BACKREF:
        m->pc++;
        return take_backref(m, insn);
    case REGEX_OP_SAVE:
        set(m, insn->a, m->position);
        m->pc++;
        return true;
    case REGEX_OP_SPLIT:
        push(m, FRAME_CHOICE, insn->a, m->position, 0);
        m->pc++;
        return true;
    case REGEX_OP_JUMP:
        m->pc = insn->a;
        return true;
    case REGEX_OP_LOOP_START:
        set(m, turns(m, insn->a), 0);
        m->pc++;
        return true;
    case REGEX_OP_LOOP:
        enter_loop(m, insn);
        return true;
    case REGEX_OP_ITERATE:
        iterate(m, insn);
        return true;
    case REGEX_OP_LOOP_END:
        return end_turn(m, insn);
    case REGEX_OP_RUN:
        return run(m);
    case REGEX_OP_LOOK:
        push(m, FRAME_LOOK, m->pc, m->position, m->look);
        m->look = m->count - 1;
        m->pc++;
        return true;
    case REGEX_OP_LOOK_END:
        return end_look(m, insn->flag);
    case REGEX_OP_MATCH:
        break;
    }
    return false;
}

/* Tries one start position. A failure leaves every register as it was: all of it was undone. */
static enum regex_result match_at(struct matcher *m, uint32_t start)
{
    m->pc = 0;
    m->position = start;
    m->count = 0;
    m->look = NO_LOOK;
    for (;;) {
        const struct regex_insn *insn = &m->program->code[m->pc];
        if (insn->op == REGEX_OP_MATCH)
            return REGEX_MATCHED;
        bool ok = step(m, insn);
        if (m->exhausted || ++m->steps > REGEX_STEPS_MAX)
            return REGEX_LIMIT;
        if (!ok && !backtrack(m))
            return REGEX_NO_MATCH;
    }
}

enum regex_result regex_search(const struct regex_program *program, const uint16_t *text,
                               uint32_t n, uint32_t from, uint32_t *slots)
{
    struct matcher m = {.program = program, .text = text, .n = n};
    size_t group_slots = 2 * ((size_t)program->groups + 1);
    size_t count = group_slots + 2 * (size_t)program->loop_count;
    m.registers = mem_array(count, sizeof *m.registers);
    for (size_t i = 0; i < count; i++)
        m.registers[i] = REGEX_UNSET;

    enum regex_result result = REGEX_NO_MATCH;
    for (uint32_t start = from; start <= n && result == REGEX_NO_MATCH; start++)
        result = match_at(&m, start);

    if (result == REGEX_MATCHED)
        memcpy(slots, m.registers, group_slots * sizeof *slots);
    free(m.frames);
    free(m.registers);
    return result;
}
