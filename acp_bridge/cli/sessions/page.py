"""A conversation as one HTML page that needs nothing beside it: no script, no font, no request.

Pure. Everything of the log is escaped; a policy in the page forbids what might get through.
"""

import base64
from collections.abc import Iterator, Mapping
from html import escape
from typing import assert_never

from markdown_it import MarkdownIt  # what `rich` sets Markdown with

from acp_bridge.cli.formatting import clean, line_of, minute
from acp_bridge.content import Diff, Image, PromptBlock, Text
from acp_bridge.text import quantity

from .diff import diff_lines, figures
from .entries import Answer, Card, Entry, Note, Plan, Prompt, Thinking, Timeline, TurnStart, block_text

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_OPEN_LINES = 20
_DIFF_CLASS = {"+": "come", "-": "gone", "@": "place"}

_STYLE = """\
:root { color-scheme: light dark; --ink: #1d1f23; --dim: #6a7078; --paper: #fff; --card: #f5f6f8; --line: #dfe2e7;
  --you: #0b6b3a; --agent: #6b2fb3; --tool: #1257b0; --warn: #8a5a00; --bad: #b3261e; --come: #e3f6e8; --gone: #fdeaea }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e6ea; --dim: #979da6; --paper: #16181c; --card: #1f2228;
  --line: #333842; --you: #6fd39a; --agent: #c3a1f5; --tool: #86b7f7; --warn: #e5b454; --bad: #f28b82;
  --come: #173524; --gone: #3d1f20 } }
body { margin: 0 auto; padding: 2rem 1.2rem 4rem; max-width: 52rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; overflow-wrap: anywhere }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .3rem }
h2 { font-size: .85rem; font-weight: 500; color: var(--dim); border-top: 1px solid var(--line); margin: 2.2rem 0 .8rem;
  padding-top: .6rem }
.facts, .dim { color: var(--dim); font-size: .85rem }
.who { font-size: .8rem; font-weight: 600; margin: 1.2rem 0 .1rem }
.you .who { color: var(--you) } .agent .who { color: var(--agent) }
.you .text { white-space: pre-wrap; background: var(--card); border-radius: .5rem; padding: .6rem .8rem }
.card { border: 1px solid var(--line); border-radius: .5rem; margin: .7rem 0; padding: .5rem .8rem }
.card > .title { font-weight: 600; color: var(--tool) }
.note { border-left: 3px solid var(--line); padding: .1rem .8rem; margin: .8rem 0; color: var(--dim);
  white-space: pre-wrap }
.warning { color: var(--warn) } .error { color: var(--bad) } .note.warning, .note.error { border-color: currentColor }
pre { background: var(--card); border-radius: .4rem; padding: .6rem .8rem; margin: .4rem 0; overflow-x: auto;
  font: 13px/1.45 ui-monospace, monospace; white-space: pre-wrap }
code { font-family: ui-monospace, monospace; font-size: .9em }
pre span { display: block } .come { background: var(--come) } .gone { background: var(--gone) }
.place { color: var(--dim) }
details { color: var(--dim); margin: .5rem 0 } summary { cursor: pointer; font-size: .85rem }
img { max-width: 100%; border-radius: .4rem } table { border-collapse: collapse } td, th { padding: .2rem .6rem;
  border: 1px solid var(--line) }
blockquote { margin: .5rem 0; padding-left: .8rem; border-left: 3px solid var(--line) }
"""

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="generator" content="acp-bridge">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<h1>{title}</h1>
<p class="facts">{facts}</p>
{body}
</body>
</html>
"""


def page(timeline: Timeline, images: Mapping[str, bytes]) -> str:
    """Return the page; `images` are those of prompts and tools by content file; what is not in it is lost."""
    facts = [
        timeline.session_id,
        timeline.cwd,
        minute(timeline.created),
        quantity(timeline.turns, "turn"),
        *timeline.models,
    ]
    if timeline.forked_from:
        facts.append(f"forked from {timeline.forked_from}")
    return _PAGE.format(
        title=_line(timeline.title or "Untitled session"),
        style=_STYLE,
        facts=" · ".join(_line(fact) for fact in facts),
        body="\n".join(part for entry in timeline.entries for part in _parts(entry, images)),
    )


def _parts(entry: Entry, images: Mapping[str, bytes]) -> Iterator[str]:
    match entry:
        case TurnStart():
            how = ", continued" if entry.continues else ""
            yield f"<h2>Turn {entry.turn}{how} · {minute(entry.time)}</h2>"
        case Prompt():
            fate = f' <span class="warning">{_line(entry.fate)}</span>' if entry.fate else ""
            blocks = "\n".join(_block(block, images) for block in entry.blocks)
            yield f'<section class="you"><p class="who">you{fate}</p><div class="text">{blocks}</div></section>'
        case Answer():
            cut = ' <span class="warning">cut off</span>' if entry.partial else ""
            yield f'<section class="agent"><p class="who">agent{cut}</p>{_markdown(entry.text)}</section>'
        case Thinking():
            yield f"<details><summary>thought</summary>{_pre(entry.text.strip())}</details>"
        case Card():
            yield _card(entry, images)
        case Note():
            yield f'<p class="note {entry.level}">{_text(entry.text.strip())}</p>'
        case Plan():
            items = "".join(
                f"<li>{'☑' if item.get('status') == 'completed' else '☐'} {_line(str(item.get('content', '')))}</li>"
                for item in entry.items
            )
            yield f'<div class="card"><span class="title">plan</span><ul>{items}</ul></div>'
        case _:
            assert_never(entry)


def _card(card: Card, images: Mapping[str, bytes]) -> str:
    said = f' <span class="dim">{_line(card.permission)}</span>' if card.permission else ""
    level = "dim" if card.level == "info" else card.level
    head = f'<span class="title">{_line(card.title)}</span> <span class="{level}">{_line(card.status)}</span>{said}'
    return f'<div class="card">{head}{"".join(_result_block(block, images) for block in card.shown)}</div>'


def _result_block(block: Text | Diff | Image, images: Mapping[str, bytes]) -> str:
    match block:
        case Diff():
            lines = diff_lines(block)
            what = "new file" if block.old_text is None else figures(lines)
            spans = "".join(f'<span class="{_DIFF_CLASS.get(line[:1], "")}">{_text(line)}</span>' for line in lines)
            return f'<div class="dim">{_line(block.path)} ({what})</div>' + _fold(f"<pre>{spans}</pre>", len(lines))
        case Text():
            text = block.text.rstrip("\n")
            return _fold(_pre(text), text.count("\n") + 1) if text.strip() else ""
        case Image():
            return f'<div class="dim">{_block(block, images)}</div>'
        case _:
            assert_never(block)


def _block(block: PromptBlock, images: Mapping[str, bytes]) -> str:
    if isinstance(block, Image) and block.file not in images:
        return _text(f"{block_text(block)[:-1]}, lost]")
    if isinstance(block, Image) and block.mime_type in _IMAGES:
        data = base64.b64encode(images[block.file]).decode()
        return f'<img alt="{_line(block_text(block))}" src="data:{block.mime_type};base64,{data}">'
    return _text(block_text(block))


def _fold(html: str, lines: int) -> str:
    """Return what is long folded away."""
    if lines <= _OPEN_LINES:
        return html
    return f"<details><summary>{quantity(lines, 'line')}</summary>{html}</details>"


def _pre(text: str) -> str:
    return f"<pre>{_text(text)}</pre>"


def _markdown(text: str) -> str:
    """Return a model's Markdown as HTML; what is HTML in it stays text, and nothing is fetched from elsewhere."""
    # an image would be a request to wherever the model says, made by whoever opens the page
    renderer = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    return str(renderer.render(clean(text)))


def _text(text: str) -> str:
    return escape(clean(text))


def _line(text: str) -> str:
    return escape(line_of(text))
