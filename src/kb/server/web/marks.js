// Where the terms of the query stand, without those that stand everywhere and say nothing.

import { post } from "./api.js";
import { h } from "./dom.js";

const COMMON = new Set(
  "a an and are as at be by did do does for from has have how i in is it its of on or that the this to was were what when where which who why will with".split(
    " ",
  ),
);

const MOST = 2000; // texts that the server takes at a time; a page shows fewer

// For each text its ranges, in characters as Python counts them.
export async function find(query, texts, signal) {
  if (!query.trim()) return texts.map(() => []);
  const sent = texts.slice(0, MOST);
  const { ranges } = await post("/search/highlights", { query, texts: sent }, signal);
  ranges.push(...texts.slice(MOST).map(() => []));
  const plain = query
    .toLowerCase()
    .split(/\W+/u)
    .filter(Boolean)
    .every((word) => COMMON.has(word));
  return plain ? ranges : ranges.map((found, at) => telling(Array.from(texts[at]), found));
}

const telling = (characters, ranges) =>
  ranges.filter(([start, end]) => !COMMON.has(characters.slice(start, end).join("").toLowerCase()));

// JavaScript counts halves of the rarer characters, so texts are taken apart first.
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
