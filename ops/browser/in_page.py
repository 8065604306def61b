"""Scripts that the tests run inside a page. They run for the tests, not for the page, so they also run when the page's scripts are off."""

from typing import Final

# Names follow the parts of the accessible name computation that our pages use: aria-label, label, text, value.
PROBES: Final = r"""(() => {
  const tidy = text => (text || "").replace(/\s+/g, " ").trim();
  const seen = element => element.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true });
  const named = element => {
    const label = element.getAttribute("aria-label");
    if (label) return tidy(label);
    if (element.labels && element.labels.length) return tidy(element.labels[0].innerText);
    // The initials of a person or a place are drawn, and nobody reads them out.
    const drawn = '[aria-hidden="true"]';
    if (![...element.querySelectorAll(drawn)].some(part => tidy(part.innerText))) return tidy(element.innerText) || tidy(element.value);
    const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    const words = [];
    while (texts.nextNode()) if (!texts.currentNode.parentElement.closest(drawn)) words.push(texts.currentNode.data);
    return tidy(words.join(" "));
  };
  const usable = () => [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")].filter(seen);
  const one = (found, name, all) => {
    if (found.length === 1) return found[0];
    throw new Error(`${found.length} of the name ${JSON.stringify(name)} among ${JSON.stringify(all.map(named))}`);
  };
  return {
    focusField(label) {
      const all = usable().filter(element => element.labels && element.labels.length);
      const field = one(all.filter(element => named(element) === label), label, all);
      field.focus();
      if (field.select) field.select();
    },
    described(label) {
      const all = usable().filter(element => element.labels && element.labels.length);
      const ids = one(all.filter(element => named(element) === label), label, all).getAttribute("aria-describedby") || "";
      return ids.split(" ").filter(Boolean).map(id => tidy(document.getElementById(id).innerText)).join(" ");
    },
    placeOf(name) {
      const all = usable();
      const element = one(all.filter(element => named(element) === name), name, all);
      element.scrollIntoView({ block: "center", behavior: "instant" });
      const box = element.getClientRects()[0];
      return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
    },
    focused() {
      const element = document.activeElement;
      return element && element !== document.body ? named(element) : "";
    },
    // What the keyboard has to reach, in the order of the page; of a group of radio buttons it reaches one.
    reachable() {
      return usable().filter(element => element.tabIndex >= 0 && !element.disabled && element.type !== "radio").map(named);
    },
    // What has the focus, and whether that can be seen.
    standing() {
      const element = document.activeElement;
      if (!element || element === document.body) return null;
      const style = getComputedStyle(element);
      const box = element.getBoundingClientRect();
      const visible = style.outlineStyle === "auto" || (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2);
      const inside = box.bottom > 0 && box.top < innerHeight;
      const first = element === usable().find(element => element.tabIndex >= 0 && !element.disabled);
      return { first, name: named(element), kind: element.localName, type: element.type || "", visible, inside };
    },
    // Of tables: columns that say nothing, numbers that do not end below each other, and rows that lead nowhere beside their link.
    untidy() {
      const faults = [];
      for (const table of [...document.querySelectorAll("table[role=table]")].filter(seen)) {
        const rows = [...table.tBodies[0].rows];
        const called = tidy(table.caption && table.caption.textContent);
        [...table.tHead.rows[0].cells].forEach((head, at) => {
          const said = cell => cell.querySelector("input, button") || !["", "\u2013"].includes(tidy(cell.textContent));
          if (at && !rows.some(row => said(row.cells[at]))) faults.push(`${called}: nothing under ${tidy(head.textContent)}`);
        });
        // An hour's age is as long as words about times get.
        for (const time of table.querySelectorAll("td time[title]")) time.textContent = "59 minutes ago";
        const [card, own] = [table.closest(".part, main"), table].map(one => one.getBoundingClientRect());
        if (own.left < card.left - 1 || own.right > card.right + 1) faults.push(`${called}: wider than its card`);
        for (const cell of innerWidth > 640 ? table.querySelectorAll("td.number") : []) {
          if (getComputedStyle(cell).textAlign !== "end") faults.push(`${called}: a number begins at the left`);
        }
        for (const row of innerWidth > 640 ? rows : []) {
          const link = row.cells[0].querySelector("a");
          if (link && getComputedStyle(link, "::after").position !== "absolute") faults.push(`${called}: a row is no link`);
        }
      }
      return faults;
    },
    wider() {
      return document.documentElement.scrollWidth - document.documentElement.clientWidth;
    },
    // Buttons below each other are no list of points.
    bulleted() {
      const holds = item => item.querySelector(":scope > button, :scope > .button, :scope > form");
      return [...document.querySelectorAll("li")].filter(item => holds(item) && getComputedStyle(item).listStyleType !== "none").map(named);
    },
    // Words of a chart that lie upon each other, or that its edge cuts.
    collided() {
      const found = [];
      for (const chart of [...document.querySelectorAll("svg.chart")].filter(seen)) {
        const edge = chart.getBoundingClientRect();
        const boxes = [...chart.querySelectorAll("text")].map(one => [one.textContent, one.getBoundingClientRect()]);
        boxes.forEach(([words, box], at) => {
          const isAcross = box.left < edge.left - 1 || box.right > edge.right + 1;
          if (isAcross || box.bottom > edge.bottom + 1 || box.top < edge.top - 1) found.push(`${words} is cut`);
          for (const [others, other] of boxes.slice(at + 1)) {
            const isBeside = box.right <= other.left || other.right <= box.left;
            if (!isBeside && box.top < other.bottom && other.top < box.bottom) found.push(`${words}, ${others}`);
          }
        });
      }
      return found;
    },
    // Addresses that have broken where they need not: within a word, and not at a <wbr>.
    torn() {
      const found = [];
      const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      for (let text = texts.nextNode(); text; text = texts.nextNode()) {
        // Lines for programs break anywhere.
        if (text.parentElement.closest("pre") || text.data.trimStart().startsWith("{")) continue;
        const isPart = [text.previousSibling, text.nextSibling].some(one => one && one.localName === "wbr");
        // Chinese and Japanese break behind nearly every letter, and write names without spaces around them.
        const letter = "[^\\s\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Hangul}\\u3000-\\u303f\\uff00-\\uffef\\-]";
        for (const part of text.data.matchAll(new RegExp(isPart ? `${letter}+` : `${letter}*@${letter}*`, "gu"))) {
          const range = document.createRange();
          range.setStart(text, part.index);
          range.setEnd(text, part.index + part[0].length);
          if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1) found.push(part[0]);
        }
      }
      return found;
    },
    // The next Tab begins at the top.
    fromTheTop() {
      const top = document.createElement("span");
      top.tabIndex = -1;
      document.body.prepend(top);
      top.focus();
      top.remove();
    },
  };
})()"""
