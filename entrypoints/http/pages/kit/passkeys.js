// Passkeys. Their forms are in the page, and hidden. They stay hidden if this script does not run, or if the browser has no passkeys.

const bytes = text => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), one => one.charCodeAt(0));
const base64url = buffer =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

// Older browsers have no parseCreationOptionsFromJSON, parseRequestOptionsFromJSON and toJSON.
function read(options) {
  const named = one => ({ ...one, id: bytes(one.id) });
  return {
    ...options,
    challenge: bytes(options.challenge),
    ...(options.user && { user: { ...options.user, id: bytes(options.user.id) } }),
    ...(options.allowCredentials && { allowCredentials: options.allowCredentials.map(named) }),
    ...(options.excludeCredentials && { excludeCredentials: options.excludeCredentials.map(named) }),
  };
}

function written(credential) {
  const { response } = credential;
  const parts = ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"];
  const known = parts.filter(part => response[part]).map(part => [part, base64url(response[part])]);
  const transports = response.getTransports ? { transports: response.getTransports() } : {};
  return JSON.stringify({
    id: credential.id,
    type: credential.type,
    response: { ...Object.fromEntries(known), ...transports },
    clientExtensionResults: credential.getClientExtensionResults(),
  });
}

async function asked(form) {
  const answer = await fetch(form.dataset.options, { method: "POST", body: new URLSearchParams(new FormData(form)), redirect: "error" });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return read(await answer.json());
}

async function used(form, more, act = form.dataset.passkey) {
  const publicKey = await asked(form);
  const credential = await navigator.credentials[act]({ publicKey, ...more });
  form.elements.credential.value = written(credential);
  form.submit();
}

// A challenge is valid for five minutes. An open page asks for a new challenge before that.
const RENEWED_AFTER = 4 * 60 * 1000;

// Browsers answer at once. One that hangs holds nobody up.
const UPGRADED_WITHIN = 5 * 1000;

// The browser offers passkeys in the field of the address, until `stop` is called.
function offered(form) {
  let current = new AbortController();
  let timer = 0;
  let stopped = false;
  const again = () => {
    current.abort();
    current = new AbortController();
    timer = setTimeout(again, RENEWED_AFTER);
    // Nobody chose a passkey, or the next request replaced this one. Both are normal, so there is no message.
    used(form, { mediation: "conditional", signal: current.signal }).catch(() => {});
  };
  const stop = () => {
    stopped = true;
    clearTimeout(timer);
    current.abort();
  };
  PublicKeyCredential.isConditionalMediationAvailable?.().then(available => { if (available && !stopped) again(); });
  return stop;
}

// Few browsers have these methods yet. What they do is theirs to say, so nothing is said here.
for (const one of document.querySelectorAll("[data-passkey-signal]")) {
  window.PublicKeyCredential?.[one.dataset.passkeySignal]?.(JSON.parse(one.dataset.options)).catch(() => {});
}

// The browser makes a passkey by itself, if it has just filled in the password. If not, nobody is asked or told, and the page goes on.
for (const form of document.querySelectorAll("form[data-upgrade]")) {
  const goOn = () => location.replace(form.dataset.upgrade);
  const known = window.PublicKeyCredential && window.AbortSignal?.timeout;
  const waiting = known && { mediation: "conditional", signal: AbortSignal.timeout(UPGRADED_WITHIN) };
  (known ? used(form, waiting, "create") : Promise.reject()).catch(goOn);
}

// Pages on another host than passkeys belong to can use them only in browsers that know related origins. Others say so.
async function isRelated() {
  const can = await PublicKeyCredential.getClientCapabilities?.();
  return can?.relatedOrigins === true;
}

function explained() {
  for (const other of document.querySelectorAll("[data-without-passkeys]")) other.hidden = true;
  for (const why of document.querySelectorAll("[data-unrelated]")) why.hidden = false;
}

function shown(form) {
  form.hidden = false;
  for (const other of document.querySelectorAll("[data-without-passkeys]")) other.hidden = true;
  const told = form.querySelector("[role=alert]");
  const button = form.querySelector("button");
  let stop = "offered" in form.dataset ? offered(form) : () => {};
  form.addEventListener("submit", async event => {
    event.preventDefault();
    stop();
    told.hidden = true;
    button.disabled = true;
    try {
      await used(form, {});
    } catch (error) {
      told.textContent = error.name === "InvalidStateError" ? form.dataset.known : form.dataset.failed;
      told.hidden = false;
      button.disabled = false;
      button.focus();
      if ("offered" in form.dataset) stop = offered(form);
    }
  });
}

for (const form of document.querySelectorAll("form[data-passkey]")) {
  if (!window.PublicKeyCredential) continue;
  if ("related" in form.dataset) isRelated().then(can => can ? shown(form) : explained(), explained);
  else shown(form);
}
