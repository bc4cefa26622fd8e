"""HTML templates of the gallery, with styles and the filter script."""

from html import escape
from string import Template
from typing import Any

PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<style>
:root {
  --page: #f5f6f8; --card: #fff; --text: #1b1f24; --muted: #59626e;
  --line: #d8dde3; --wrong: #b3261e; --focus: #0b57d0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171a; --card: #1e2226; --text: #e8ebee; --muted: #a4aeb9;
    --line: #363d44; --wrong: #ff8a80; --focus: #8ab4f8;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif;
}
main { max-width: 90rem; margin: auto; padding: 1.5rem clamp(1rem, 3vw, 2.5rem) 4rem; }
h1 { margin: 0 0 .5rem; font-size: 1.6rem; line-height: 1.25; overflow-wrap: anywhere; }
h2 { margin: 2.5rem 0 0; font-size: 1.25rem; }
p { margin: 0; max-width: 48rem; color: var(--muted); overflow-wrap: anywhere; }
form {
  position: sticky; top: 0; z-index: 1; display: flex; flex-wrap: wrap; gap: .25rem .75rem;
  align-items: center; margin-top: 1.25rem; padding: .75rem 0; background: var(--page);
  border-bottom: 1px solid var(--line);
}
[hidden] { display: none !important; }
label { font-weight: 600; }
select {
  flex: 1 1 9rem; max-width: 20rem; min-width: 0; padding: .4rem .6rem; font: inherit; color: inherit;
  background: var(--card); border: 1px solid var(--muted); border-radius: .4rem;
}
:focus-visible { outline: 3px solid var(--focus); outline-offset: 2px; }
ul {
  display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: 1rem 0 0; padding: 0;
  list-style: none; font-size: .875rem;
}
ul:empty { display: none; }
li span {
  display: inline-block; width: .9em; height: .9em; margin-right: .4em;
  border: 1px solid var(--muted); border-radius: .2em; vertical-align: -.1em;
}
.cards {
  display: grid; gap: 1rem; margin-top: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 20rem), 1fr));
}
.cards:has(figure:nth-child(3)) {
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr));
}
article {
  display: flex; flex-direction: column; gap: .75rem; padding: .75rem;
  background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
}
.pictures { display: flex; gap: .5rem; }
figure { flex: 1; min-width: 0; margin: 0; }
img { display: block; width: 100%; height: auto; border-radius: .3rem; }
figcaption { margin-top: .2rem; font-size: .8rem; color: var(--muted); }
dl {
  display: grid; grid-template-columns: auto 1fr; gap: .1rem .75rem; margin: 0;
  font-size: .95rem; font-variant-numeric: tabular-nums;
}
dt { color: var(--muted); }
dd { margin: 0; min-width: 0; overflow-wrap: anywhere; font-weight: 600; }
.wrong .prediction { color: var(--wrong); }
code {
  margin-top: auto; font: .8rem ui-monospace, monospace; color: var(--muted);
  overflow-wrap: anywhere;
}
.none { display: none; margin-top: 1rem; }
section:not(:has(article:not([hidden]))) .none { display: block; }
</style>
</head>
<body>
<main>
<h1>$title</h1>
$notes
<ul>$legend</ul>
<form hidden>
<label for="name">Show</label>
<select id="name"><option value="">all</option>$options</select>
<output for="name"></output>
</form>
$sections
</main>
<script>
const select = document.querySelector("select");
const cards = [...document.querySelectorAll("article")];
function filter() {
  for (const card of cards)
    card.hidden = select.value && !card.dataset.names.split(" ").includes(select.value);
  const shown = cards.filter((card) => !card.hidden).length;
  document.querySelector("output").value = shown + " of " + cards.length + " images";
}
select.form.hidden = select.length < 3;
select.addEventListener("change", filter);
filter();
</script>
</body>
</html>
""")

NOTE = Template("<p>$note</p>")

COLOUR = Template('<li><span style="background: rgb$colour"></span>$name</li>')

OPTION = Template('<option value="$number">$name ($count)</option>')

SECTION = Template("""<section>
<h2>$title</h2>
<p>$note</p>
<div class="cards">$cards</div>
<p class="none">No images.</p>
</section>
""")

CARD = Template("""<article data-names="$numbers" class="$kind">
<div class="pictures">$pictures</div>
<dl>$rows</dl>
<code>$source</code>
</article>
""")

PICTURE = Template("""<figure>
<img src="$data" alt="$caption: $said">
<figcaption>$caption</figcaption>
</figure>
""")

ROW = Template('<dt>$name</dt><dd class="$kind">$value</dd>')

TEMPLATES = {
    "page": PAGE,
    "note": NOTE,
    "colour": COLOUR,
    "option": OPTION,
    "section": SECTION,
    "card": CARD,
    "picture": PICTURE,
    "row": ROW,
}


def fill(template: str, **values: Any) -> str:
    """Fills a template with escaped texts and numbers, and lists of HTML."""
    return TEMPLATES[template].substitute(
        {
            name: "".join(value) if isinstance(value, list) else escape(str(value))
            for name, value in values.items()
        }
    )
