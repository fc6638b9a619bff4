// The pages of a PDF as images, loaded when they come into view, with the passage marked.

import { t } from "./i18n.js";
import { get } from "./api.js";
import { h, show } from "./dom.js";

export async function showPages(article, rendering, chunkId) {
  const cited = rendering.citation.page ?? 1;
  const first = await load(rendering.doc_path, cited, chunkId);
  const figures = Array.from({ length: first.pages }, (_, at) => {
    const figure = h("figure", { class: "sheet", id: `page=${at + 1}`, "data-page": at + 1 });
    figure.style.aspectRatio = `${first.width} / ${first.height}`;
    return figure;
  });
  show(article, figures);
  draw(figures[cited - 1], first, cited);
  (article.querySelector(".box") ?? figures[cited - 1]).scrollIntoView({ block: "center" });
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        observer.unobserve(target);
        const page = Number(target.dataset.page);
        load(rendering.doc_path, page)
          .then((image) => draw(target, image, page))
          .catch((error) => show(target, h("figcaption", {}, error.message)));
      }
    },
    { rootMargin: "600px" },
  );
  figures.filter((_, at) => at !== cited - 1).forEach((figure) => observer.observe(figure));
}

const load = (document, page, chunk) => get("/page-images", { document, page, chunk });

function draw(figure, { image, media_type, width, height, boxes, pages }, page) {
  figure.style.aspectRatio = `${width} / ${height}`;
  const img = h("img", { alt: t("Page {page} of {pages}", { page, pages }), width, height });
  img.src = `data:${media_type};base64,${image}`;
  const marks = boxes.map(([left, top, wide, high]) => {
    const box = h("span", { class: "box", "aria-hidden": "true" });
    Object.assign(box.style, {
      left: `${100 * left}%`,
      top: `${100 * top}%`,
      width: `${100 * wide}%`,
      height: `${100 * high}%`,
    });
    return box;
  });
  show(figure, img, marks, h("figcaption", {}, t("Page {page} of {pages}", { page, pages })));
}
