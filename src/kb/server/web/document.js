// Renders a document. Only the elements and attributes below are created, whatever the server
// sends.

import { t } from "./i18n.js";
import { get } from "./api.js";
import { h } from "./dom.js";

const TAGS = new Set(
  "p h2 h3 h4 h5 h6 ul ol li blockquote pre code table thead tbody tr th td hr br strong em s sup a img".split(
    " ",
  ),
);
const ADDRESS = /^(https?:\/\/|mailto:|\/read\/|#)/;

export function draw(rendering) {
  return rendering.nodes.map((node) => element(node, rendering.doc_path));
}

function element(node, document) {
  if (typeof node === "string") return node;
  if (node.tag === "math") return math(node);
  if (!TAGS.has(node.tag)) return "";
  const children = node.children.map((child) => element(child, document));
  const attributes = { id: node.id, start: node.start };
  if (node.lines) [attributes["data-start"], attributes["data-end"]] = node.lines;
  if (node.tag === "a") return link(node, children);
  if (node.tag === "img") return image(node, document);
  if (node.tag === "code" && node.language) return h("code", attributes, highlighted(node.children[0] ?? ""));
  if (node.tag === "pre") return h("pre", { ...attributes, tabindex: "0" }, children);
  if (node.tag === "table")
    return h("div", { class: "table", tabindex: "0", role: "group", "aria-label": t("Table") }, h("table", attributes, children));
  return h(node.tag, attributes, children);
}

// --- formulas ------------------------------------------------------------------------------------

const MATHML = "http://www.w3.org/1998/Math/MathML";
const MATH_TAGS = new Set(
  "mrow mi mn mo mtext mspace msup msub msubsup mover munder munderover mfrac msqrt mroot mtable mtr mtd".split(" "),
);
const MATH_ATTRIBUTES = ["width", "stretchy", "accent", "linethickness", "mathvariant"];

function math(node) {
  const drawn = document.createElementNS(MATHML, "math");
  if (node.display) drawn.setAttribute("display", "block");
  drawn.append(...node.children.map(mathElement));
  return drawn;
}

function mathElement(node) {
  if (typeof node === "string") return node;
  const drawn = document.createElementNS(MATHML, MATH_TAGS.has(node.tag) ? node.tag : "mrow");
  for (const name of MATH_ATTRIBUTES) if (node[name]) drawn.setAttribute(name, node[name]);
  if (node.aligned) drawn.setAttribute("class", "aligned");
  drawn.append(...node.children.map(mathElement));
  return drawn;
}

function link({ href }, children) {
  if (!href || !ADDRESS.test(href)) return h("span", {}, children);
  const outside = /^https?:/.test(href);
  return h(
    "a",
    outside ? { href, rel: "noreferrer noopener", target: "_blank" } : { href },
    children,
  );
}

// Images are fetched, because an img element cannot send the token.
function image({ image: path, alt }, document) {
  const shown = h("img", { alt, class: "loading" });
  get("/images", { document, path })
    .then(({ media_type, image: data }) => {
      shown.src = `data:${media_type};base64,${data}`;
      shown.classList.remove("loading");
    })
    .catch(() => shown.replaceWith(h("span", { class: "missing" }, t("[image: {alt}]", { alt }))));
  return shown;
}

// --- code ----------------------------------------------------------------------------------------

const WORDS =
  "and as assert async await break case catch class const continue def default del do elif else enum except export extends False finally fn for from func function if impl import in interface is lambda let match mod mut new nil None not null or package pass pub raise return self static struct super switch this throw True try type use var void while with yield true false";
const TOKEN = new RegExp(
  [
    "(?<comment>(?:#|//|--)[^\\n]*|/\\*[\\s\\S]*?\\*/)",
    "(?<string>\"(?:\\\\.|[^\"\\\\\\n])*\"|'(?:\\\\.|[^'\\\\\\n])*'|`(?:\\\\.|[^`\\\\])*`)",
    "(?<number>\\b\\d[\\w.]*\\b)",
    `(?<word>\\b(?:${WORDS.split(" ").join("|")})\\b)`,
  ].join("|"),
  "g",
);

export function highlighted(code) {
  const parts = [];
  let at = 0;
  for (const match of code.matchAll(TOKEN)) {
    const kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
    if (match.index > at) parts.push(code.slice(at, match.index));
    parts.push(h("span", { class: `code-${kind}` }, match[0]));
    at = match.index + match[0].length;
  }
  parts.push(code.slice(at));
  return parts;
}
