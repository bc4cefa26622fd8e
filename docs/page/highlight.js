// Colours for the languages of a project: comments, strings, keywords, numbers and names.

const KEYWORDS = `and as assert async await break case class continue def del elif else except False finally
  for from global if import in is lambda match None nonlocal not or pass raise return True try while
  with yield`.split(/\s+/);
const QUOTED = String.raw`[rfbu]{0,2}(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')`;
const NUMBER = String.raw`\b\d[\w.]*`;

const LANGUAGES = {
  py: language({
    s: String.raw`[rfbu]{0,2}"""[^]*?"""|${QUOTED}`,
    c: "#.*",
    f: String.raw`^\s*@[\w.]+|(?<=\b(?:def|class) )\w+`,
    k: String.raw`\b(?:${KEYWORDS.join("|")})\b`,
    n: NUMBER,
  }),
  toml: language({
    s: QUOTED,
    c: "#.*",
    k: String.raw`^\[.*\]`,
    f: String.raw`^[\w.-]+(?= =)`,
    n: String.raw`${NUMBER}|\b(?:true|false)\b`,
  }),
  md: language({ s: "^```[^]*?^```|`[^`\\n]+`", k: "^#+ .*", f: String.raw`\[[^\]\n]+\](?=\()` }),
  yml: language({ c: "#.*", f: String.raw`^[\w-]+(?=:)`, s: QUOTED }),
  sh: language({ s: QUOTED, c: String.raw`(?<=^|\s)#.*`, f: String.raw`\$\{?\w+\}?` }),
};

/** One pattern of all kinds, of which the first that fits decides; the kind is a class in page.css. */
function language(kinds) {
  const groups = Object.entries(kinds).map(([kind, pattern]) => `(?<${kind}>${pattern})`);
  return new RegExp(groups.join("|"), "gm");
}

const escaped = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

/** The lines of a file in HTML. */
function highlighted(text, path) {
  const pattern = LANGUAGES[path.split(".").pop()];
  let html = "", end = 0;
  for (const found of pattern ? text.matchAll(pattern) : []) {
    const kind = Object.keys(found.groups).find((name) => found.groups[name] !== undefined);
    const wrap = (line) => (line ? `<span class="${kind}">${escaped(line)}</span>` : "");
    html += escaped(text.slice(end, found.index)) + found[0].split("\n").map(wrap).join("\n");
    end = found.index + found[0].length;
  }
  return linesOf(html + escaped(text.slice(end)));
}
