// The map of the library: a point for each document. Zooms with the wheel, by buttons and by keys.

import { $, h, show } from "./dom.js";
import { t } from "./i18n.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 1000;
const HEIGHT = 640;
const MARGIN = 30;
const COLORS = 11; // of groups; all others share the last one
const LEAST = 0.02; // the smallest view, as a share of the whole map

function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const place = ({ x, y }) => [
  MARGIN + x * (WIDTH - 2 * MARGIN),
  MARGIN + (1 - y) * (HEIGHT - 2 * MARGIN),
];

const GROUPS = {
  topic: (point, map) => map.topics[point.topic] || t("other"),
  folder: ({ doc_path }) => doc_path.split("/").slice(0, -1).slice(0, 2).join("/") || t("notes"),
  kind: ({ kind }) => (kind ? t(kind.replace("_", " ")) : t("none")),
  format: ({ type }) => type,
  date: ({ date }) => date.slice(0, 4) || t("undated"),
};

export function showMap(map) {
  const circles = map.points.map((point) => {
    const [cx, cy] = place(point);
    const circle = svg("circle", { cx, cy, r: 6 }, svg("title", {}, document.createTextNode(point.title || point.doc_path)));
    const link = svg("a", { href: `/read/${point.doc_path}`, "aria-label": point.title || point.doc_path }, circle);
    const name = () => show($("pointed"), h("a", { href: `/read/${point.doc_path}` }, point.title || point.doc_path), ` ${point.doc_path}`);
    link.addEventListener("pointerenter", name);
    link.addEventListener("focus", () => {
      name();
      into(point);
    });
    return link;
  });
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, tabindex: "0", role: "group", "aria-label": t("Map of {n} document|Map of {n} documents", { n: map.points.length }) },
    ...circles,
    ...topics(map),
  );
  show($("map"), picture);
  const view = { x: 0, y: 0, size: 1 };
  const draw = () => {
    picture.setAttribute("viewBox", `${view.x} ${view.y} ${WIDTH * view.size} ${HEIGHT * view.size}`);
    // Points and names keep their size on the screen, so that a zoom separates them.
    picture.style.setProperty("--scale", view.size);
    for (const circle of picture.querySelectorAll("circle")) circle.setAttribute("r", 6 * view.size);
    for (const text of picture.querySelectorAll("text")) text.setAttribute("font-size", 16 * view.size);
    hideOverlaps([...picture.querySelectorAll("text")]);
  };
  const zoom = (factor, x = view.x + (WIDTH * view.size) / 2, y = view.y + (HEIGHT * view.size) / 2) => {
    const size = Math.min(1, Math.max(LEAST, view.size * factor));
    view.x = x - ((x - view.x) * size) / view.size;
    view.y = y - ((y - view.y) * size) / view.size;
    view.size = size;
    bound();
  };
  const bound = () => {
    view.x = Math.min(WIDTH * (1 - view.size), Math.max(0, view.x));
    view.y = Math.min(HEIGHT * (1 - view.size), Math.max(0, view.y));
    draw();
  };
  const pan = (dx, dy) => {
    view.x += dx * WIDTH * view.size;
    view.y += dy * HEIGHT * view.size;
    bound();
  };
  // Brings a focused point into view.
  function into(point) {
    const [x, y] = place(point);
    const inside = x > view.x && x < view.x + WIDTH * view.size && y > view.y && y < view.y + HEIGHT * view.size;
    if (inside) return;
    view.x = x - (WIDTH * view.size) / 2;
    view.y = y - (HEIGHT * view.size) / 2;
    bound();
  }
  const at = (event) => {
    const box = picture.getBoundingClientRect();
    return [
      view.x + ((event.clientX - box.left) / box.width) * WIDTH * view.size,
      view.y + ((event.clientY - box.top) / box.height) * HEIGHT * view.size,
    ];
  };
  picture.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && view.size === 1 && event.deltaY > 0) return; // scroll on
    event.preventDefault();
    zoom(event.deltaY < 0 ? 0.8 : 1.25, ...at(event));
  }, { passive: false });
  let dragged = null;
  picture.addEventListener("pointerdown", (event) => {
    dragged = at(event);
  });
  picture.addEventListener("pointermove", (event) => {
    if (!dragged || !event.buttons) return;
    const [x, y] = at(event);
    view.x += dragged[0] - x;
    view.y += dragged[1] - y;
    bound();
  });
  picture.addEventListener("dragstart", (event) => event.preventDefault());
  const keys = {
    "+": () => zoom(0.7), "-": () => zoom(1.4), 0: () => zoom(1000),
    ArrowLeft: () => pan(-0.1, 0), ArrowRight: () => pan(0.1, 0), ArrowUp: () => pan(0, -0.1), ArrowDown: () => pan(0, 0.1),
  };
  picture.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  $("zoom-in").onclick = () => zoom(0.7);
  $("zoom-out").onclick = () => zoom(1.4);
  $("zoom-all").onclick = () => zoom(1000);
  $("color").onchange = () => color(map, circles);
  color(map, circles);
  draw();
}

// Hides names that would cover an earlier one; a zoom separates them.
function hideOverlaps(texts) {
  const kept = [];
  for (const text of texts) {
    const { x, y, width, height } = text.getBBox();
    const overlaps = kept.some(
      (other) => x < other.x + other.width && other.x < x + width && y < other.y + other.height && other.y < y + height,
    );
    text.setAttribute("visibility", overlaps ? "hidden" : "visible");
    if (!overlaps) kept.push({ x, y, width, height });
  }
}

// The name of each topic, in the middle of its points; large topics first.
function topics(map) {
  const named = map.topics
    .map((name, topic) => ({ name, places: map.points.filter((point) => point.topic === topic).map(place) }))
    .filter(({ name, places }) => name && places.length)
    .sort((a, b) => b.places.length - a.places.length);
  return named.map(({ name, places }) => {
    const middle = (axis) => places.map((each) => each[axis]).sort((a, b) => a - b)[Math.floor(places.length / 2)];
    // Near an edge, the name leads away from it.
    const anchor = middle(0) < WIDTH * 0.15 ? "start" : middle(0) > WIDTH * 0.85 ? "end" : "middle";
    return svg("text", { x: middle(0), y: middle(1) - 12, "text-anchor": anchor, "font-size": 16, "aria-hidden": "true" }, document.createTextNode(name));
  });
}

function color(map, circles) {
  const by = $("color").value;
  const groups = map.points.map((point) => GROUPS[by](point, map));
  const counts = new Map();
  for (const group of groups) counts.set(group, (counts.get(group) ?? 0) + 1);
  const names = [...counts].sort(([a, x], [b, y]) => (by === "date" ? a.localeCompare(b) : y - x || a.localeCompare(b)));
  const shades = new Map(names.slice(0, COLORS).map(([name], index) => [name, `shade-${index}`]));
  circles.forEach((link, index) => link.setAttribute("class", shades.get(groups[index]) ?? "shade-other"));
  const row = (name, shade, count) => h("li", { class: shade }, h("span", { class: "swatch", "aria-hidden": "true" }), h("span", {}, name), h("span", { class: "n" }, String(count)));
  const rest = names.slice(COLORS).reduce((sum, [, count]) => sum + count, 0);
  show(
    $("legend"),
    names.slice(0, COLORS).map(([name, count]) => row(name, shades.get(name), count)),
    rest ? row(t("other"), "shade-other", rest) : null,
  );
}
