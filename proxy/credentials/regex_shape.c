#include "base/mem.h"
#include "proxy/credentials/regex_program.h"

static uint32_t plus(uint32_t a, uint32_t b)
{
    return a < REGEX_INFINITE - b ? a + b : (uint32_t)REGEX_INFINITE;
}

static uint32_t times(uint32_t a, uint32_t b)
{
    uint64_t product = (uint64_t)a * b;
    return product < REGEX_INFINITE ? (uint32_t)product : (uint32_t)REGEX_INFINITE;
}

static void measure(const struct regex_tree *t, struct regex_shape *shapes, uint32_t index);

static struct regex_shape measure_children(const struct regex_tree *t, struct regex_shape *shapes,
                                           uint32_t index)
{
    bool choice = t->nodes[index].type == REGEX_CHOICE;
    struct regex_shape s = {.min = choice ? REGEX_INFINITE : 0, .cost = 4};
    for (uint32_t c = t->nodes[index].child; c != 0; c = t->nodes[c].next) {
        measure(t, shapes, c);
        const struct regex_shape *child = &shapes[c];
        if (choice) {
            s.min = child->min < s.min ? child->min : s.min;
            s.max = child->max > s.max ? child->max : s.max;
        } else {
            s.min = plus(s.min, child->min);
            s.max = plus(s.max, child->max);
        }
        s.cost = plus(s.cost, child->cost);
        s.captures |= child->captures;
        s.refers |= child->refers;
    }
    return s;
}

static void measure(const struct regex_tree *t, struct regex_shape *shapes, uint32_t index)
{
    const struct regex_node *node = &t->nodes[index];
    struct regex_shape s = {0};
    switch (node->type) {
    case REGEX_EMPTY:
    case REGEX_START:
    case REGEX_END:
    case REGEX_BOUNDARY:
        s.cost = 1;
        break;
    case REGEX_UNIT:
        s = (struct regex_shape){.min = 1, .max = 1, .cost = 2};
        break;
    case REGEX_CLASS:
        s = (struct regex_shape){.min = 1, .max = 1};
        s.cost = times((uint32_t)t->classes[node->value].count, 4) + 24;
        break;
    case REGEX_BACKREF:
        s = (struct regex_shape){.max = REGEX_INFINITE, .cost = 20, .refers = true};
        break;
    case REGEX_SEQUENCE:
    case REGEX_CHOICE:
    case REGEX_GROUP:
    case REGEX_LOOK:
    case REGEX_REPEAT:
        s = measure_children(t, shapes, index);
        break;
    }
    if (node->type == REGEX_GROUP && node->value != 0) {
        s.captures = true;
        s.cost = plus(s.cost, 40);
    }
    if (node->type == REGEX_LOOK)
        s.min = s.max = 0;
    if (node->type == REGEX_REPEAT) {
        bool single =
            t->nodes[node->child].type == REGEX_UNIT || t->nodes[node->child].type == REGEX_CLASS;
        uint32_t turns = node->max == REGEX_INFINITE ? node->min + 1 : node->max;
        s.min = times(s.min, node->min);
        s.max = times(s.max, node->max);
        s.cost = single ? plus(s.cost, 4) : times(s.cost, turns);
    }
    shapes[index] = s;
}

struct regex_shape *regex_shapes(const struct regex_tree *tree)
{
    struct regex_shape *shapes = mem_array(tree->count, sizeof *shapes);
    measure(tree, shapes, tree->root);
    return shapes;
}
