#include "proxy/credentials/regex.h"

#include <stdlib.h>

#include "base/mem.h"

static uint32_t emit(struct regex_program *p, enum regex_op op, bool back, uint32_t a)
{
    if (p->count == p->capacity) {
        p->capacity = p->capacity != 0 ? p->capacity * 2 : 32;
        p->code = mem_resize(p->code, p->capacity, sizeof *p->code);
    }
    p->code[p->count] = (struct regex_insn){.op = (uint8_t)op, .back = back, .a = a};
    return p->count++;
}

static uint32_t emit_flagged(struct regex_program *p, enum regex_op op, bool back, bool flag)
{
    uint32_t at = emit(p, op, back, 0);
    p->code[at].flag = flag;
    return at;
}

static uint32_t add_loop(struct regex_program *p, const struct regex_node *node)
{
    if (p->loop_count == p->loop_capacity) {
        p->loop_capacity = p->loop_capacity != 0 ? p->loop_capacity * 2 : 8;
        p->loops = mem_resize(p->loops, p->loop_capacity, sizeof *p->loops);
    }
    p->loops[p->loop_count] = (struct regex_loop){.min = node->min,
                                                  .max = node->max,
                                                  .lazy = node->lazy,
                                                  .first_group = node->first_group,
                                                  .end_group = node->end_group};
    return p->loop_count++;
}

static void compile(struct regex_program *p, const struct regex_tree *t, uint32_t index, bool back);

/* Inside a lookbehind the terms are tried from the last to the first. */
static void compile_sequence(struct regex_program *p, const struct regex_tree *t,
                             const struct regex_node *node, bool back)
{
    uint32_t count = 0;
    for (uint32_t c = node->child; c != 0; c = t->nodes[c].next)
        count++;
    uint32_t *order = mem_array(count, sizeof *order);
    uint32_t i = 0;
    for (uint32_t c = node->child; c != 0; c = t->nodes[c].next)
        order[i++] = c;
    for (i = 0; i < count; i++)
        compile(p, t, order[back ? count - 1 - i : i], back);
    free(order);
}

static void compile_choice(struct regex_program *p, const struct regex_tree *t,
                           const struct regex_node *node, bool back)
{
    /* The jumps to the end are linked through their targets until the end is known. */
    uint32_t jumps = UINT32_MAX;
    for (uint32_t c = node->child; c != 0; c = t->nodes[c].next) {
        if (t->nodes[c].next == 0) {
            compile(p, t, c, back);
            break;
        }
        uint32_t split = emit(p, REGEX_OP_SPLIT, back, 0);
        compile(p, t, c, back);
        jumps = emit(p, REGEX_OP_JUMP, back, jumps);
        p->code[split].a = p->count;
    }
    while (jumps != UINT32_MAX) {
        uint32_t next = p->code[jumps].a;
        p->code[jumps].a = p->count;
        jumps = next;
    }
}

static void compile_repeat(struct regex_program *p, const struct regex_tree *t,
                           const struct regex_node *node, bool back)
{
    if (node->max == 0)
        return;
    uint32_t loop = add_loop(p, node);
    enum regex_node_type body = t->nodes[node->child].type;
    if (body == REGEX_UNIT || body == REGEX_CLASS) {
        emit(p, REGEX_OP_RUN, back, loop);
        compile(p, t, node->child, back);
        return;
    }
    emit(p, REGEX_OP_LOOP_START, back, loop);
    uint32_t top = emit(p, REGEX_OP_LOOP, back, loop);
    emit(p, REGEX_OP_ITERATE, back, loop);
    compile(p, t, node->child, back);
    uint32_t end = emit(p, REGEX_OP_LOOP_END, back, loop);
    p->code[end].b = top;
    p->code[top].b = p->count;
}

static void compile(struct regex_program *p, const struct regex_tree *t, uint32_t index, bool back)
{
    const struct regex_node *node = &t->nodes[index];
    switch (node->type) {
    case REGEX_EMPTY:
        break;
    case REGEX_UNIT:
        emit(p, REGEX_OP_UNIT, back, node->value);
        break;
    case REGEX_CLASS:
        emit(p, REGEX_OP_CLASS, back, node->value);
        break;
    case REGEX_START:
        emit(p, REGEX_OP_START, back, 0);
        break;
    case REGEX_END:
        emit(p, REGEX_OP_END, back, 0);
        break;
    case REGEX_BOUNDARY:
        emit_flagged(p, REGEX_OP_BOUNDARY, back, node->negated);
        break;
    case REGEX_SEQUENCE:
        compile_sequence(p, t, node, back);
        break;
    case REGEX_CHOICE:
        compile_choice(p, t, node, back);
        break;
    case REGEX_GROUP:
        if (node->value != 0)
            emit(p, REGEX_OP_SAVE, back, 2 * node->value + (back ? 1u : 0u));
        compile(p, t, node->child, back);
        if (node->value != 0)
            emit(p, REGEX_OP_SAVE, back, 2 * node->value + (back ? 0u : 1u));
        break;
    case REGEX_BACKREF:
        emit(p, REGEX_OP_BACKREF, back, node->value);
        break;
    case REGEX_LOOK: {
        uint32_t look = emit_flagged(p, REGEX_OP_LOOK, back, node->negated);
        compile(p, t, node->child, node->behind);
        emit_flagged(p, REGEX_OP_LOOK_END, back, node->negated);
        p->code[look].a = p->count;
        break;
    }
    case REGEX_REPEAT:
        compile_repeat(p, t, node, back);
        break;
    }
}

void regex_compile(struct regex_tree *tree, struct regex_program *program)
{
    *program = (struct regex_program){
        .groups = tree->groups, .classes = tree->classes, .class_count = tree->class_count};
    tree->classes = NULL;
    tree->class_count = tree->class_capacity = 0;
    emit(program, REGEX_OP_SAVE, false, 0);
    compile(program, tree, tree->root, false);
    emit(program, REGEX_OP_SAVE, false, 1);
    emit(program, REGEX_OP_MATCH, false, 0);
}

void regex_program_free(struct regex_program *program)
{
    for (uint32_t i = 0; i < program->class_count; i++)
        free(program->classes[i].ranges);
    free(program->classes);
    free(program->loops);
    free(program->code);
    *program = (struct regex_program){0};
}
