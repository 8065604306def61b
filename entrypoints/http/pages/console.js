// Pages of the console are complete without this script. Account pages and sign-in pages do not load it.

for (const sought of document.querySelectorAll("[aria-keyshortcuts]")) {
  sought.nextElementSibling.hidden = false;
  document.addEventListener("keydown", event => {
    const asks = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
    const types = event.ctrlKey || event.metaKey || event.target.matches("input, textarea, select");
    if (!asks && (event.key !== "/" || types)) return;
    event.preventDefault();
    sought.focus();
    sought.select();
  });
}

// Suggestions come by a form with the token, so what is typed stands in no address. The page works without them: Enter asks.
for (const sought of document.querySelectorAll("[data-suggests]")) {
  const sheet = sought.form.nextElementSibling;
  let pause, asked = 0;
  const close = () => { sheet.hidden = true; asked += 1; };
  const suggest = async () => {
    const mine = asked += 1;
    if (!sought.value.trim()) return close();
    const body = new URLSearchParams(new FormData(sought.form));
    const answer = await fetch(sought.dataset.suggests, { method: "POST", body }).catch(() => null);
    if (mine !== asked) return;
    // Whoever has signed out meanwhile is led to the sign-in page, and that is no suggestion.
    if (!answer?.ok || answer.redirected) return close();
    sheet.innerHTML = await answer.text();
    if (mine === asked) sheet.hidden = false;
  };
  sought.addEventListener("input", () => { clearTimeout(pause); pause = setTimeout(suggest, 120); });
  sought.form.addEventListener("submit", () => { clearTimeout(pause); close(); });
  const around = sought.closest(".asking");
  around.addEventListener("keydown", event => {
    if (event.key === "Escape" && !sheet.hidden) {
      event.preventDefault();
      close();
      sought.focus();
    }
    if (sheet.hidden || !["ArrowDown", "ArrowUp"].includes(event.key)) return;
    event.preventDefault();
    const places = [sought, ...sheet.querySelectorAll("a, button")];
    const next = places.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
    places[Math.max(0, Math.min(next, places.length - 1))].focus();
  });
  document.addEventListener("click", event => { if (!around.contains(event.target)) close(); });
}

// The first sign-in appears: asked for after 2, 4, 8, and then every 10 seconds, until the answer says that it is over.
for (const place of document.querySelectorAll("[data-awaits]")) {
  const until = Date.now() + 600_000;
  let shown = "", newest = "";
  // Nothing moves under a button that somebody is about to press: what is new waits until they have left it.
  const show = focused => {
    if (newest !== shown && !place.contains(focused)) place.innerHTML = shown = newest;
  };
  place.addEventListener("focusout", event => show(event.relatedTarget));
  const look = async seconds => {
    try {
      const answer = await fetch(place.dataset.awaits, { redirect: "error" });
      if (answer.ok) newest = await answer.text();
    } catch { /* The next one may arrive. */ }
    show(document.activeElement);
    if (newest.includes("data-over")) document.querySelector("[data-look]").hidden = true;
    else if (Date.now() > until) document.querySelector("[data-lost]").hidden = false;
    else setTimeout(look, seconds * 1000, Math.min(seconds * 2, 10));
  };
  setTimeout(look, 2000, 4);
}
