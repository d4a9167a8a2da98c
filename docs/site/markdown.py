"""The Markdown of our own pages as HTML: headings, paragraphs, lists, tables, code, links, pictures, emphasis.

What is no such thing is text. Tags are not let through; comments are left out.
"""

import html
import re

_BULLET = re.compile(r"(\s*)(?:[-*+]|(\d+)[.)])\s+(.*)")
_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")
_INLINE = re.compile(r"(?P<ticks>`+)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)"
                     r"|\\(?P<escaped>[\\`*_{}\[\]()#+.!|<>-])"
                     r"|<(?P<plain>https?://[^>\s]+)>"
                     r"|(?P<picture>!?)\[(?P<text>(?:[^\[\]`]|`[^`]*`|\[[^\]]*\])*)\]\((?P<link>[^)\s]+)(?:\s+\"(?P<title>[^\"]*)\")?\)"
                     r"|\*\*(?P<strong>(?=\S).+?(?<=\S))\*\*(?!\*)"
                     r"|(?<![*\w])\*(?P<em>(?=[^\s*])[^*]*?(?<=[^\s*]))\*(?![*\w])", re.S)


def slug(text):
    """What GitHub calls a heading: its anchor."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


class Document:
    """A page: `headings` as (level, text, anchor), and `html(resolve)`, where resolve says where a link leads in the site."""

    def __init__(self, text):
        self._lines = re.sub(r"<!--.*?-->[ ]*\n?", "", text, flags=re.S).splitlines()
        self.headings, self._anchors = [], {}
        self._resolve = lambda link: link
        self._blocks(self._lines)  # for the headings and links
        self.title = self.headings[0][1] if self.headings else ""

    def html(self, resolve):
        self.headings, self._anchors, self._resolve = [], {}, resolve
        return self._blocks(self._lines)

    def _blocks(self, lines):
        out, at = [], 0
        while at < len(lines):
            if not lines[at].strip():
                at += 1
                continue
            for read in (self._code, self._heading, self._table, self._list, self._paragraph):
                if found := read(lines, at):
                    break
            text, at = found
            out.append(text)
        return "\n".join(out)

    def _code(self, lines, at):
        fence = re.match(r" {0,3}(`{3,}|~{3,})\s*(\S*)", lines[at])
        if fence:
            end = next((i for i in range(at + 1, len(lines)) if lines[i].strip().startswith(fence[1])), len(lines))
            inside = lines[at + 1:end]
        elif lines[at].startswith("    ") and (at == 0 or not lines[at - 1].strip()):
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            inside, end = [line[4:] for line in lines[at:end]], end - 1
        else:
            return None
        while inside and not inside[-1].strip():
            inside.pop()
        return "<pre><code>" + html.escape("\n".join(inside)) + "</code></pre>", end + 1

    def _heading(self, lines, at):
        found = re.match(r"(#{1,6})\s+(.*?)\s*#*$", lines[at])
        if not found:
            return None
        level, inside = len(found[1]), self._inline(found[2])
        text = html.unescape(re.sub(r"<[^>]+>", "", inside))
        anchor = slug(text)
        self._anchors[anchor] = self._anchors.get(anchor, -1) + 1
        anchor += f"-{self._anchors[anchor]}" if self._anchors[anchor] else ""
        self.headings.append((level, text, anchor))
        return f'<h{level} id="{html.escape(anchor)}">{inside}</h{level}>', at + 1

    def _table(self, lines, at):
        if "|" not in lines[at] or at + 1 >= len(lines) or not _RULE.match(lines[at + 1]) or "|" not in lines[at + 1]:
            return None
        ways = [("center" if cell.startswith(":") else "right") if cell.endswith(":") else "" for cell in _cells(lines[at + 1])]

        def row(line, tag):
            cells = (_cells(line) + [""] * len(ways))[:len(ways)]
            return "<tr>" + "".join(f'<{tag} class="{way}">' * bool(way) + f"<{tag}>" * (not way) + self._inline(cell) + f"</{tag}>"
                                    for cell, way in zip(cells, ways)) + "</tr>"

        end = at + 2
        while end < len(lines) and lines[end].strip() and "|" in lines[end]:
            end += 1
        head, body = row(lines[at], "th"), "\n".join(row(line, "td") for line in lines[at + 2:end])
        return f'<div class="wide"><table>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table></div>', end

    def _list(self, lines, at):
        first = _BULLET.match(lines[at])
        if not first:
            return None
        tag, indent, items, end = "ol" if first[2] else "ul", len(first[1]), [], at
        while end < len(lines):
            bullet = _BULLET.match(lines[end])
            if bullet and len(bullet[1]) == indent and bool(bullet[2]) == bool(first[2]):
                items.append([bullet[3]])
            elif lines[end].startswith(" " * (indent + 2)) or (lines[end].strip() and lines[end - 1].strip() and not bullet):
                items[-1].append(re.sub(rf"^ {{0,{indent + 2 + bool(first[2])}}}", "", lines[end]))
            elif not lines[end].strip() and end + 1 < len(lines) and self._goes_on(lines[end + 1], indent):
                items[-1].append("")
            else:
                break
            end += 1
        inside = [re.sub(r"^<p>(((?!<p>).)*?)</p>", r"\1", self._blocks(item), count=1, flags=re.S) for item in items]
        return f"<{tag}>\n" + "\n".join(f"<li>{item}</li>" for item in inside) + f"\n</{tag}>", end

    def _goes_on(self, line, indent):
        """Does a list of this indent, behind an empty line, have this one?"""
        bullet = _BULLET.match(line)
        return line.startswith(" " * (indent + 2)) or (bullet is not None and len(bullet[1]) == indent)

    def _paragraph(self, lines, at):
        end = at + 1
        while end < len(lines) and lines[end].strip() and not (
                re.match(r"#{1,6}\s| {0,3}(```|~~~)", lines[end]) or _BULLET.match(lines[end]) or self._table(lines, end)):
            end += 1
        return "<p>" + self._inline("\n".join(line.strip() for line in lines[at:end])) + "</p>", end

    def _inline(self, text):
        out, at = [], 0
        for found in _INLINE.finditer(text):
            out.append(_text(text[at:found.start()]))
            at = found.end()
            if found["code"]:
                code = found["code"]
                code = code[1:-1] if code.startswith(" ") and code.endswith(" ") and code.strip() else code
                out.append(f"<code>{html.escape(code)}</code>")
            elif found["escaped"]:
                out.append(html.escape(found["escaped"]))
            elif found["plain"]:
                out.append(f'<a href="{html.escape(found["plain"])}">{html.escape(found["plain"])}</a>')
            elif found["link"]:
                place = html.escape(self._resolve(found["link"]))
                out.append(f'<img src="{place}" alt="{html.escape(found["text"])}">' if found["picture"]
                           else f'<a href="{place}">{self._inline(found["text"])}</a>')
            elif found["strong"]:
                out.append(f"<strong>{self._inline(found['strong'])}</strong>")
            else:
                out.append(f"<em>{self._inline(found['em'])}</em>")
        return "".join(out) + _text(text[at:])


def _text(text):
    return html.escape(html.unescape(text), quote=False)


def _cells(line):
    """The cells of a row: bars inside code, or behind a backslash, are no borders."""
    line = line.strip()
    line = line[1:] if line.startswith("|") else line
    cells = re.findall(r"((?:`[^`]*`|\\.|[^|\\`]|[\\`])*)(?:\||$)", line)
    while len(cells) > 1 and not cells[-1].strip():
        cells.pop()
        if line.endswith("|"):
            break
    return [re.sub(r"\\\|", "|", cell).strip() for cell in cells]
