// The filter. The page is complete without it: the field shows only when this runs.
"use strict";

const field = document.getElementById("filter");
const found = document.getElementById("found");
const operations = [...document.querySelectorAll("article.operation")].map((article) => ({
  article,
  link: document.querySelector(`li[data-operation="${article.id}"]`),
  words: article.dataset.words.toLowerCase(),
}));
const groups = [...document.querySelectorAll("main .chapter, nav .chapter-links")].filter((group) =>
  group.querySelector("article.operation, li[data-operation]"),
);

function filter() {
  const asked = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const { article, link, words } of operations) {
    const fits = asked.every((word) => words.includes(word));
    article.hidden = link.hidden = !fits;
    shown += fits;
  }
  for (const group of groups) {
    group.hidden = !group.querySelector("article.operation:not([hidden]), li[data-operation]:not([hidden])");
  }
  found.textContent = asked.length ? `${shown} of ${operations.length}` : "";
}

field.addEventListener("input", filter);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== field) {
    event.preventDefault();
    field.focus();
  } else if (event.key === "Escape" && document.activeElement === field) {
    field.value = "";
    filter();
  }
});
document.querySelector(".filter").hidden = false;
