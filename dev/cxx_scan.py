"""Finds the functions of a C++ file: name, first and last line, parameters, template parameters.

Not a parser: it knows comments, literals and preprocessor lines, and tells by the words before a brace what the brace
opens. Lambdas and local classes belong to the function around them.
"""

import re
from dataclasses import dataclass

TOKEN = re.compile(
    r"""
    (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")
  | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
  | (?P<number>\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*)
  | (?P<char>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
  | (?P<word>[A-Za-z_]\w*)
  | (?P<punct>->|::|<<|<=|>=|==|!=|&&|\|\||[^\s\w])
    """,
    re.VERBOSE | re.DOTALL,
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", re.MULTILINE)
# Words that may stand before a parenthesis that is not a parameter list.
NOT_A_NAME = {"decltype", "noexcept", "alignas", "requires", "explicit", "__attribute__", "__declspec"}
OPENERS, CLOSERS = {"(", "[", "{"}, {")", "]", "}"}


@dataclass
class Token:
    text: str
    kind: str
    line: int


@dataclass
class Function:
    name: str
    first: int
    last: int
    parameters: int
    template_parameters: int

    @property
    def lines(self):
        return self.last - self.first + 1


def blank(match):
    """The same number of lines, without the text."""
    return "\n" * match.group().count("\n")


def tokens_of(source):
    """The tokens of a file, without comments and preprocessor lines."""
    # Comments go first: an apostrophe or a hash in one means nothing.
    keep_literals = lambda m: blank(m) if m.lastgroup == "comment" else m.group()
    source = DIRECTIVE.sub(blank, TOKEN.sub(keep_literals, source))
    line, position = 1, 0
    for match in TOKEN.finditer(source):
        line += source.count("\n", position, match.start())
        position = match.start()
        kind = match.lastgroup if match.lastgroup != "mark" else "raw"
        yield Token(match.group(), kind, line)


def closing(tokens, start):
    """Index of the token that closes the bracket at `start`."""
    depth = 0
    for i in range(start, len(tokens)):
        if tokens[i].text in OPENERS:
            depth += 1
        elif tokens[i].text in CLOSERS:
            depth -= 1
            if depth == 0:
                return i
    return len(tokens) - 1


def closing_angle(tokens, start):
    """Index of the '>' that closes the '<' at `start`, or None where it is a comparison."""
    depth, i = 0, start
    while i < len(tokens):
        text = tokens[i].text
        if text in OPENERS:
            i = closing(tokens, i)
        elif text == "<":
            depth += 1
        elif text == ">":
            depth -= 1
            if depth == 0:
                return i
        elif text in CLOSERS or text == ";":
            return None
        i += 1
    return None


def count_list(tokens):
    """Number of comma-separated items, with brackets and template arguments taken as one."""
    if not tokens or [t.text for t in tokens] == ["void"]:
        return 0
    items, i = 1, 0
    while i < len(tokens):
        if tokens[i].text in OPENERS:
            i = closing(tokens, i)
        elif tokens[i].text == "<":
            i = closing_angle(tokens, i) or i
        elif tokens[i].text == ",":
            items += 1
        i += 1
    return items


def split_templates(head):
    """Takes the template<...> prefixes off a head; returns the rest and the number of template parameters."""
    parameters = 0
    while len(head) > 1 and head[0].text == "template" and head[1].text == "<":
        end = closing_angle(head, 1)
        if end is None:
            break
        parameters += count_list(head[2:end])
        head = head[end + 1 :]
    return head, parameters


def parameter_list(head):
    """Indices of the parentheses around the parameters, or None where the head is not a function's."""
    texts = [t.text for t in head]
    if "operator" in texts:
        at = texts.index("operator") + 1
        if texts[at : at + 2] == ["(", ")"]:
            at += 2
        return (at, closing(head, at)) if (at := index_of(texts, "(", at)) is not None else None
    i = 0
    while i < len(head):
        before = head[i - 1] if i else None
        if texts[i] == "=":
            return None
        if texts[i] == "(":
            end = closing(head, i)
            if before and (before.kind == "word" or before.text == ">") and before.text not in NOT_A_NAME:
                return i, end
            i = end
        elif texts[i] == "<" and before and before.kind == "word":
            i = closing_angle(head, i) or i
        elif texts[i] in OPENERS:
            i = closing(head, i)
        i += 1
    return None


def index_of(items, item, start):
    return items.index(item, start) if item in items[start:] else None


def name_of(head, opening):
    """Everything that belongs to the name before the parameter list: qualifiers, operator symbols, '~'."""
    words = [t.text for t in head[:opening]]
    if "operator" in words:
        return " ".join(words[words.index("operator") : opening])
    start = opening - 1
    while start > 0 and words[start - 1] in ("::", "~"):
        start -= 2 if words[start - 1] == "::" and start > 1 else 1
    name = "".join(words[start:opening])
    if re.fullmatch(r"[A-Z][A-Z0-9_]{3,}", name):  # TEST(Suite, Case) and its kin name themselves by their arguments
        end = closing(head, opening)
        name += "(" + ", ".join(t.text for t in head[opening + 1 : end] if t.text != ",") + ")"
    return name


def is_member_initialiser(head, parameters):
    """In `C::C(int x) : a_{x}, b_(x) {`: does the next brace belong to a member rather than to the body?"""
    after = [t.text for t in head[parameters[1] + 1 :]]
    return ":" in after and (head[-1].kind == "word" or head[-1].text == ">")


def opens_scope(head):
    """Is the brace after this head a namespace, a class or an extern "C" block, whose inside is to be read?"""
    if len(head) == 2 and head[0].text == "extern" and head[1].kind == "string":
        return True
    keyword, i = None, 0
    while i < len(head):
        text = head[i].text
        if text in ("namespace", "class", "struct", "union"):
            keyword = i
        elif text in ("enum", "="):
            return False
        elif text == "(":
            if head[i - 1].text not in NOT_A_NAME:
                keyword = None  # a function that returns `struct X`, or a macro before the class
            i = closing(head, i)
        elif text == "<":
            i = closing_angle(head, i) or i
        i += 1
    return keyword is not None


def initialiser_lambda(head):
    """Index of the parameter list of `auto f = [...](...)`, or None."""
    texts = [t.text for t in head]
    if "=" not in texts or "[" not in texts[texts.index("=") :]:
        return None
    capture_end = closing(head, texts.index("[", texts.index("=")))
    at = capture_end + 1
    return at if at < len(head) and texts[at] == "(" else None


def functions_of(source):
    """Every function with a body, in order."""
    tokens = list(tokens_of(source))
    found, head_start, i = [], 0, 0
    while i < len(tokens):
        text = tokens[i].text
        if text in (";", "}"):
            head_start = i + 1
        elif text == ":" and i and tokens[i - 1].text in ("public", "private", "protected"):
            head_start = i + 1
        elif text in ("(", "["):
            i = closing(tokens, i)
        elif text == "{":
            i, head_start = read_brace(tokens, head_start, i, found)
        i += 1
    return found


def read_brace(tokens, head_start, brace, found):
    """Decides what a brace at namespace or class level opens. Returns where to go on and the next head's start."""
    head, template_parameters = split_templates(tokens[head_start:brace])
    if opens_scope(head):
        return brace, brace + 1
    end = closing(tokens, brace)
    parameters = parameter_list(head)
    if parameters and is_member_initialiser(head, parameters):
        return end, head_start
    if parameters:
        opening, close = parameters
        name, count = name_of(head, opening), count_list(head[opening + 1 : close])
    else:
        opening = initialiser_lambda(head)
        if opening is None:
            return end, head_start  # a braced value: the declaration goes on to its semicolon
        texts = [t.text for t in head]
        name = texts[texts.index("=") - 1]
        count = count_list(head[opening + 1 : closing(head, opening)])
    if name.endswith(")"):
        count = 0  # a macro's arguments are not parameters
    found.append(Function(name, tokens[head_start].line, tokens[end].line, count, template_parameters))
    return end, end + 1
