// Highlights the terms of the query, except words that are common everywhere.

import { post } from "./api.js";
import { h } from "./dom.js";

const COMMON = new Set(
  "a an and are as at be by did do does for from has have how i in is it its of on or that the this to was were what when where which who why will with".split(
    " ",
  ),
);

// The server's limits for one request; a page rarely shows more.
const MAX_TEXTS = 2000;
const MAX_CHARS = 200000;

// The ranges to highlight in each text, in code points. Texts beyond the limits have none.
export async function find(query, texts, signal) {
  if (!query.trim()) return texts.map(() => []);
  const sent = leading(texts);
  const { ranges } = await post("/search/highlights", { query, texts: sent }, signal);
  ranges.push(...texts.slice(sent.length).map(() => []));
  const plain = query
    .toLowerCase()
    .split(/\W+/u)
    .filter(Boolean)
    .every((word) => COMMON.has(word));
  return plain ? ranges : ranges.map((matches, at) => uncommon(Array.from(texts[at]), matches));
}

// The first texts that fit into one request.
function leading(texts) {
  let chars = 0;
  const end = texts.findIndex((text, at) => at >= MAX_TEXTS || (chars += text.length) > MAX_CHARS);
  return end < 0 ? texts : texts.slice(0, end);
}

const uncommon = (characters, ranges) =>
  ranges.filter(([start, end]) => !COMMON.has(characters.slice(start, end).join("").toLowerCase()));

// Ranges count code points and JavaScript strings count UTF-16 units, so texts are split first.
export function marked(text, ranges) {
  if (!ranges || !ranges.length) return [text];
  const characters = Array.from(text);
  const parts = [];
  let at = 0;
  for (const [start, end] of ranges) {
    if (start > at) parts.push(characters.slice(at, start).join(""));
    parts.push(h("mark", {}, characters.slice(start, end).join("")));
    at = end;
  }
  parts.push(characters.slice(at).join(""));
  return parts;
}
