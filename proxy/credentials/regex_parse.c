/*
 * The parser: recursive over groups, one pass, after a first look that counts
 * the capturing groups, since `\2` is a reference only where there are two of
 * them and `\k` only where one has a name (Annex B.1.2).
 */
#include "proxy/credentials/regex.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "proxy/credentials/regex_name.h"

#define END UINT32_MAX /* past the last unit */

struct parser {
    const uint16_t *text;
    size_t n, at;
    struct regex_tree *tree;
    const char *error; /* the first one */
    unsigned depth;
    uint32_t groups_total; /* of the whole pattern */
    bool has_names;
    struct regex_names names, references;
};

static uint32_t peek(const struct parser *p, size_t ahead)
{
    return p->at + ahead < p->n ? p->text[p->at + ahead] : END;
}

static bool accept(struct parser *p, uint32_t unit)
{
    if (peek(p, 0) != unit)
        return false;
    p->at++;
    return true;
}

static void fail(struct parser *p, const char *why)
{
    if (p->error == NULL)
        p->error = why;
}

static uint32_t new_node(struct parser *p, enum regex_node_type type, uint32_t value)
{
    struct regex_tree *t = p->tree;
    if (t->count == t->capacity) {
        t->capacity *= 2;
        t->nodes = mem_resize(t->nodes, t->capacity, sizeof *t->nodes);
    }
    bool consumes = type == REGEX_UNIT || type == REGEX_CLASS || type == REGEX_BACKREF;
    t->nodes[t->count] = (struct regex_node){.type = type, .consumes = consumes, .value = value};
    return t->count++;
}

static struct regex_class *new_class(struct parser *p, uint32_t *node)
{
    struct regex_tree *t = p->tree;
    if (t->class_count == t->class_capacity) {
        t->class_capacity = t->class_capacity != 0 ? t->class_capacity * 2 : 8;
        t->classes = mem_resize(t->classes, t->class_capacity, sizeof *t->classes);
    }
    t->classes[t->class_count] = (struct regex_class){0};
    *node = new_node(p, REGEX_CLASS, t->class_count);
    return &t->classes[t->class_count++];
}

static void keep_name(struct parser *p, struct regex_names *l, struct regex_name *name,
                      uint32_t value)
{
    if (!regex_names_add(l, name, value))
        fail(p, "Regular expression too large");
}

static void count_groups(struct parser *p)
{
    bool in_class = false;
    for (size_t i = 0; i < p->n; i++) {
        uint32_t c = p->text[i];
        if (c == '\\') {
            i++;
        } else if (in_class) {
            in_class = c != ']';
        } else if (c == '[') {
            in_class = true;
        } else if (c == '(') {
            if (i + 1 >= p->n || p->text[i + 1] != '?') {
                p->groups_total++;
            } else if (i + 2 < p->n && p->text[i + 2] == '<' &&
                       (i + 3 >= p->n || (p->text[i + 3] != '=' && p->text[i + 3] != '!'))) {
                p->groups_total++;
                p->has_names = true;
            }
        }
    }
}

/* `count` hex digits at p->at; false, with nothing taken, when they are not there. */
static bool take_hex(struct parser *p, size_t count, uint32_t *value)
{
    uint32_t v = 0;
    for (size_t i = 0; i < count; i++) {
        int d = regex_hex_digit(peek(p, i));
        if (d < 0)
            return false;
        v = v * 16 + (uint32_t)d;
    }
    p->at += count;
    *value = v;
    return true;
}

/* One to three octal digits with a value below 256; the first is known to be one. */
static uint32_t take_octal(struct parser *p)
{
    uint32_t value = p->text[p->at++] - (uint32_t)'0';
    for (int more = 0; more < 2; more++) {
        uint32_t c = peek(p, 0);
        if (c < '0' || c > '7' || value >= 32)
            break;
        value = value * 8 + (c - '0');
        p->at++;
    }
    return value;
}

/*
 * The escape of a single unit; p->at is behind the backslash. A backslash that
 * starts none (`\c` without a letter) stands for itself, with nothing taken.
 */
static uint32_t take_unit_escape(struct parser *p, bool in_class)
{
    uint32_t c = peek(p, 0), value;
    switch (c) {
    case 'f':
        p->at++;
        return '\f';
    case 'n':
        p->at++;
        return '\n';
    case 'r':
        p->at++;
        return '\r';
    case 't':
        p->at++;
        return '\t';
    case 'v':
        p->at++;
        return '\v';
    case 'c': {
        uint32_t letter = peek(p, 1);
        bool control = letter < 128 && (letter | 0x20) >= 'a' && (letter | 0x20) <= 'z';
        if (in_class && ((letter >= '0' && letter <= '9') || letter == '_'))
            control = true;
        if (!control)
            return '\\';
        p->at += 2;
        return letter & 0x1f;
    }
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
        return take_octal(p);
    case 'x':
        p->at++;
        return take_hex(p, 2, &value) ? value : 'x';
    case 'u':
        p->at++;
        return take_hex(p, 4, &value) ? value : 'u';
    case 'k':
        if (p->has_names)
            fail(p, "Invalid escape");
        p->at++;
        return 'k';
    default:
        p->at++;
        return c;
    }
}

static bool is_class_letter(uint32_t c)
{
    return c == 'd' || c == 'D' || c == 's' || c == 'S' || c == 'w' || c == 'W';
}

/* One atom of a class. A class escape is added at once and END returned; else the unit. */
static uint32_t take_class_atom(struct parser *p, struct regex_class *set)
{
    if (!accept(p, '\\'))
        return p->text[p->at++];
    uint32_t c = peek(p, 0);
    if (c == END) {
        fail(p, "\\ at end of pattern");
        return END;
    }
    if (is_class_letter(c)) {
        p->at++;
        regex_class_add_escape(set, c);
        return END;
    }
    if (c == 'b') {
        p->at++;
        return '\b';
    }
    return take_unit_escape(p, true);
}

static void add_unit(struct regex_class *set, uint32_t unit)
{
    if (unit != END)
        regex_class_add(set, unit, unit);
}

/* p->at is behind the `[`. */
static uint32_t parse_class(struct parser *p)
{
    struct regex_class set = {0};
    bool negated = accept(p, '^');
    while (p->error == NULL && peek(p, 0) != END && peek(p, 0) != ']') {
        uint32_t first = take_class_atom(p, &set);
        if (peek(p, 0) != '-' || peek(p, 1) == ']' || peek(p, 1) == END) {
            add_unit(&set, first);
            continue;
        }
        p->at++;
        uint32_t last = take_class_atom(p, &set);
        if (first == END || last == END) {
            add_unit(&set, first);
            add_unit(&set, '-');
            add_unit(&set, last);
        } else if (first > last) {
            fail(p, "Range out of order in character class");
        } else {
            regex_class_add(&set, first, last);
        }
    }
    if (!accept(p, ']'))
        fail(p, "Unterminated character class");
    regex_class_seal(&set, negated);
    uint32_t node;
    *new_class(p, &node) = set;
    return node;
}

/* A decimal reference to a group that exists somewhere in the pattern, else nothing is taken. */
static bool take_reference(struct parser *p, uint32_t *group)
{
    uint32_t value = 0;
    size_t length = 0;
    for (uint32_t c; (c = peek(p, length)) >= '0' && c <= '9'; length++) {
        value = value * 10 + (c - '0');
        if (value > p->groups_total)
            return false;
    }
    p->at += length;
    *group = value;
    return true;
}

/* `\k` of a pattern with named groups; p->at is behind the k. */
static uint32_t parse_named_reference(struct parser *p)
{
    uint32_t node = new_node(p, REGEX_BACKREF, 0);
    struct regex_name name;
    const char *why = "Invalid named reference";
    if (!accept(p, '<') || (why = regex_name_take(p->text, p->n, &p->at, &name)) != NULL)
        fail(p, why);
    else
        keep_name(p, &p->references, &name, node);
    return node;
}

/* An escape outside a class; p->at is behind the backslash. *assertion: takes no quantifier. */
static uint32_t parse_escape(struct parser *p, bool *assertion)
{
    uint32_t c = peek(p, 0), node, group;
    if (c == END) {
        fail(p, "\\ at end of pattern");
        return 0;
    }
    if (c == 'b' || c == 'B') {
        p->at++;
        *assertion = true;
        node = new_node(p, REGEX_BOUNDARY, 0);
        p->tree->nodes[node].negated = c == 'B';
        return node;
    }
    if (is_class_letter(c)) {
        p->at++;
        struct regex_class *set = new_class(p, &node);
        regex_class_add_escape(set, c);
        regex_class_seal(set, false);
        return node;
    }
    if (c >= '1' && c <= '9' && take_reference(p, &group))
        return new_node(p, REGEX_BACKREF, group);
    if (c == 'k' && p->has_names) {
        p->at++;
        return parse_named_reference(p);
    }
    return new_node(p, REGEX_UNIT, take_unit_escape(p, false));
}

static uint32_t parse_disjunction(struct parser *p);

static void open_capture(struct parser *p, uint32_t node, struct regex_name *name)
{
    if (p->tree->groups == REGEX_GROUPS_MAX) {
        fail(p, "Too many captures");
        return;
    }
    p->tree->nodes[node].value = ++p->tree->groups;
    const char *why = name == NULL ? NULL : regex_name_take(p->text, p->n, &p->at, name);
    if (why != NULL)
        fail(p, why);
}

/* What follows the `(` and says what kind of group it is. */
static void parse_group_kind(struct parser *p, uint32_t node, struct regex_name *name)
{
    struct regex_node *group = &p->tree->nodes[node];
    bool behind = false;
    if (!accept(p, '?')) {
        open_capture(p, node, NULL);
        return;
    }
    if (accept(p, ':'))
        return;
    if (accept(p, '<')) {
        behind = true;
        if (peek(p, 0) != '=' && peek(p, 0) != '!') {
            open_capture(p, node, name);
            return;
        }
    }
    if (peek(p, 0) != '=' && peek(p, 0) != '!') {
        fail(p, "Invalid group");
        return;
    }
    group->type = REGEX_LOOK;
    group->behind = behind;
    group->negated = p->text[p->at++] == '!';
}

/* p->at is behind the `(`. */
static uint32_t parse_group(struct parser *p)
{
    uint32_t node = new_node(p, REGEX_GROUP, 0), child = 0;
    struct regex_name name = {0};
    parse_group_kind(p, node, &name);
    if (p->error == NULL && p->depth == REGEX_NESTING_MAX)
        fail(p, "Regular expression too large");
    if (p->error == NULL) {
        p->depth++;
        child = parse_disjunction(p);
        p->depth--;
        if (!accept(p, ')'))
            fail(p, "Unterminated group");
    }
    struct regex_node *group = &p->tree->nodes[node];
    group->child = child;
    group->consumes = group->type == REGEX_GROUP && p->tree->nodes[child].consumes;
    if (name.count != 0 && regex_names_find(&p->names, &name) != NULL)
        fail(p, "Duplicate capture group name");
    if (name.count != 0)
        keep_name(p, &p->names, &name, group->value);
    return node;
}

static bool take_count(struct parser *p, size_t *at, uint32_t *value)
{
    size_t i = *at;
    uint64_t v = 0;
    for (; i < p->n && p->text[i] >= '0' && p->text[i] <= '9'; i++)
        v = v < REGEX_INFINITE ? v * 10 + (p->text[i] - (uint64_t)'0') : v;
    if (i == *at)
        return false;
    *at = i;
    *value = v < REGEX_INFINITE ? (uint32_t)v : (uint32_t)REGEX_INFINITE;
    return true;
}

/* `{n}`, `{n,}` or `{n,m}`; anything else is no quantifier, and nothing is taken. */
static bool take_interval(struct parser *p, uint32_t *min, uint32_t *max)
{
    size_t at = p->at + 1;
    if (!take_count(p, &at, min))
        return false;
    *max = *min;
    if (at < p->n && p->text[at] == ',') {
        at++;
        if (!take_count(p, &at, max))
            *max = REGEX_INFINITE;
    }
    if (at >= p->n || p->text[at] != '}')
        return false;
    p->at = at + 1;
    return true;
}

static bool take_quantifier(struct parser *p, uint32_t *min, uint32_t *max)
{
    switch (peek(p, 0)) {
    case '*':
        *min = 0;
        *max = REGEX_INFINITE;
        break;
    case '+':
        *min = 1;
        *max = REGEX_INFINITE;
        break;
    case '?':
        *min = 0;
        *max = 1;
        break;
    case '{':
        return take_interval(p, min, max);
    default:
        return false;
    }
    p->at++;
    return true;
}

static uint32_t parse_atom(struct parser *p, bool *assertion)
{
    uint32_t c = p->text[p->at], node, low, high;
    switch (c) {
    case '*':
    case '+':
    case '?':
        fail(p, "Nothing to repeat");
        return 0;
    case '{':
        if (take_interval(p, &low, &high)) {
            fail(p, "Nothing to repeat");
            return 0;
        }
        break;
    case '^':
    case '$':
        p->at++;
        *assertion = true;
        return new_node(p, c == '^' ? REGEX_START : REGEX_END, 0);
    case '.': {
        p->at++;
        struct regex_class *set = new_class(p, &node);
        regex_class_add(set, '\n', '\n');
        regex_class_add(set, '\r', '\r');
        regex_class_add(set, 0x2028, 0x2029);
        regex_class_seal(set, true);
        return node;
    }
    case '(':
        p->at++;
        return parse_group(p);
    case '[':
        p->at++;
        return parse_class(p);
    case '\\':
        p->at++;
        return parse_escape(p, assertion);
    default:
        break;
    }
    p->at++;
    return new_node(p, REGEX_UNIT, c);
}

static uint32_t parse_term(struct parser *p)
{
    bool assertion = false;
    uint32_t atom = parse_atom(p, &assertion), min, max;
    if (p->error != NULL || assertion || !take_quantifier(p, &min, &max))
        return atom;
    if (max < min)
        fail(p, "numbers out of order in {} quantifier");
    /* A lookahead takes a quantifier (Annex B), a lookbehind does not. */
    if (p->tree->nodes[atom].type == REGEX_LOOK && p->tree->nodes[atom].behind)
        fail(p, "Invalid quantifier");
    uint32_t node = new_node(p, REGEX_REPEAT, 0);
    struct regex_node *repeat = &p->tree->nodes[node];
    repeat->consumes = p->tree->nodes[atom].consumes && max != 0;
    /* Turns that take nothing are all alike: at most one is made. */
    if (!p->tree->nodes[atom].consumes)
        max = min = min != 0;
    repeat->min = min;
    repeat->max = max;
    repeat->lazy = accept(p, '?');
    repeat->child = atom;
    return node;
}

static uint32_t parse_alternative(struct parser *p)
{
    uint32_t sequence = new_node(p, REGEX_SEQUENCE, 0), last = 0;
    while (p->error == NULL && peek(p, 0) != END && peek(p, 0) != '|' && peek(p, 0) != ')') {
        uint32_t term = parse_term(p);
        if (last == 0)
            p->tree->nodes[sequence].child = term;
        else
            p->tree->nodes[last].next = term;
        last = term;
        p->tree->nodes[sequence].consumes |= p->tree->nodes[term].consumes;
    }
    return sequence;
}

static uint32_t parse_disjunction(struct parser *p)
{
    uint32_t first = parse_alternative(p);
    if (p->error != NULL || peek(p, 0) != '|')
        return first;
    uint32_t choice = new_node(p, REGEX_CHOICE, 0), last = first;
    p->tree->nodes[choice].child = first;
    p->tree->nodes[choice].consumes = p->tree->nodes[first].consumes;
    while (p->error == NULL && accept(p, '|')) {
        uint32_t next = parse_alternative(p);
        p->tree->nodes[last].next = next;
        p->tree->nodes[choice].consumes |= p->tree->nodes[next].consumes;
        last = next;
    }
    return choice;
}

static void resolve_references(struct parser *p)
{
    for (size_t i = 0; i < p->references.count; i++) {
        const struct regex_name_use *use = &p->references.list[i];
        const struct regex_name_use *group = regex_names_find(&p->names, &use->name);
        if (group == NULL)
            fail(p, "Invalid named capture referenced");
        else
            p->tree->nodes[use->value].value = group->value;
    }
}

const char *regex_parse(const uint16_t *pattern, size_t n, struct regex_tree *tree)
{
    *tree = (struct regex_tree){.count = 1, .capacity = 32};
    tree->nodes = mem_array(tree->capacity, sizeof *tree->nodes);
    struct parser p = {.text = pattern, .n = n, .tree = tree};
    count_groups(&p);
    tree->root = parse_disjunction(&p);
    if (p.error == NULL && p.at < n)
        fail(&p, "Unmatched ')'");
    if (p.error == NULL)
        resolve_references(&p);
    regex_names_free(&p.names);
    regex_names_free(&p.references);
    return p.error;
}

void regex_tree_free(struct regex_tree *tree)
{
    for (uint32_t i = 0; i < tree->class_count; i++)
        free(tree->classes[i].ranges);
    free(tree->classes);
    free(tree->nodes);
    *tree = (struct regex_tree){0};
}
