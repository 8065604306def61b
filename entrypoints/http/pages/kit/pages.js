// Pages are complete without this script. Elements that need it are hidden until it runs.

function turned(button) {
  const { other, otherLabel } = button.dataset;
  button.dataset.other = button.textContent;
  button.textContent = other;
  if (otherLabel) {
    button.dataset.otherLabel = button.getAttribute("aria-label");
    button.setAttribute("aria-label", otherLabel);
  }
}

for (const button of document.querySelectorAll("button[data-show]")) {
  const input = document.getElementById(button.dataset.show);
  button.hidden = false;
  button.addEventListener("click", () => {
    input.type = input.type === "password" ? "text" : "password";
    turned(button);
  });
  // Password managers offer to save a field only if it is sent as a password.
  input.form.addEventListener("submit", () => { input.type = "password"; });
}

for (const button of document.querySelectorAll("button[data-copy]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).innerText);
    turned(button);
    setTimeout(() => turned(button), 2000);
  });
}

for (const button of document.querySelectorAll("button[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => window.print());
}

for (const menu of document.querySelectorAll(".menu")) {
  document.addEventListener("click", event => { if (!menu.contains(event.target)) menu.open = false; });
  menu.addEventListener("keydown", event => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.firstElementChild.focus();
  });
}

// The page leaves by itself when all of its frames have loaded. Nobody waits longer than said.
for (const onward of document.querySelectorAll("[data-seconds]")) {
  setTimeout(() => location.replace(onward.querySelector("a").href), onward.dataset.seconds * 1000);
}

document.querySelector("form[data-leave]")?.submit();

// A sign-in by a password says whether this browser could make a passkey, perhaps by itself, so that nobody is offered one in vain. Pages on
// another host than passkeys belong to can make some only in browsers that know related origins.
const makesPasskeys = document.querySelector("[data-makes-passkeys]");
if (makesPasskeys && window.PublicKeyCredential) {
  const can = PublicKeyCredential.getClientCapabilities?.().catch(() => null);
  Promise.all([PublicKeyCredential.isUserVerifyingPlatformAuthenticatorAvailable?.(), can]).then(([available, can]) => {
    if (!available || ("related" in makesPasskeys.dataset && !can?.relatedOrigins)) return;
    makesPasskeys.value = can?.conditionalCreate ? "conditional" : "yes";
  }, () => {});
}
