// The page works without this file. With it: search as you type, keys, and copying.
const WAIT = 120;
const form = document.getElementById("search");
const box = document.getElementById("q");
const count = document.getElementById("count");
const HOME = document.querySelector("a.brand").href;
const page = form && form.dataset.live !== undefined;
let timer = 0;
let asked = 0;
let pending = null;

document.documentElement.classList.add("scripted");

// ---------------------------------------------------------------- searching

function addressOf() {
  const pairs = [...new FormData(form)].filter(([, value]) => String(value).trim());
  const query = new URLSearchParams(pairs).toString();
  return form.action.split("?")[0] + (query ? "?" + query : "");
}

function unfolded() {
  return new Set([...document.querySelectorAll("#answer details[id][open]")].map((each) => each.id));
}

// Pictures wait until typing has stopped.
function rest(next) {
  for (const each of next.querySelectorAll("img.thumb")) {
    const address = each.getAttribute("src");
    each.removeAttribute("src");
    setTimeout(() => each.isConnected && each.setAttribute("src", address), 8 * WAIT);
  }
}

// Puts the answer of another address in the place of the present one: what was focused and unfolded stays so.
function show(fresh, typed) {
  const answer = document.getElementById("answer");
  const next = fresh.getElementById("answer");
  if (!answer || !next) return false;
  const focused = answer.contains(document.activeElement) ? document.activeElement : null;
  const open = unfolded();
  const known = new Set([...answer.querySelectorAll("details[id]")].map((each) => each.id));
  for (const each of next.querySelectorAll("details[id]")) {
    if (known.has(each.id)) each.open = open.has(each.id);
  }
  const filters = answer.querySelector(".filters");
  const renewed = next.querySelector(".filters");
  if (filters && renewed) renewed.open = filters.open;
  if (typed) rest(next);
  answer.replaceWith(document.adoptNode(next));
  document.title = fresh.title;
  count.textContent = fresh.getElementById("count").textContent;
  const status = document.querySelector(".status");
  const renewedStatus = fresh.querySelector(".status");
  if (status && renewedStatus) status.replaceWith(document.adoptNode(renewedStatus));
  if (focused) {
    const same = [...document.querySelectorAll("#answer input, #answer select")].find(
      (each) => each.name === focused.name && (each.type !== "checkbox" || each.value === focused.value),
    );
    (same || document.getElementById("main")).focus({ preventScroll: true });
  }
  prepare();
  return true;
}

// `how`: "typed" changes the entry of the history that typing began, "chosen" adds one, "moved" leaves it as it is.
async function load(url, how) {
  clearTimeout(timer);
  const number = ++asked;
  if (pending) pending.abort();
  pending = new AbortController();
  document.body.classList.add("busy");
  try {
    const reply = await fetch(url, { signal: pending.signal, headers: { Accept: "text/html" } });
    const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
    if (number !== asked) return;
    if (reply.status === 401 || !show(fresh, how === "typed")) {
      location.assign(url);
      return;
    }
    if (how === "moved") {
      box.value = fresh.getElementById("q").value;
    } else if (url === location.href) {
      history.replaceState({ typed: how === "typed" }, "", url);
    } else if (how === "typed" && history.state && history.state.typed) {
      history.replaceState({ typed: true }, "", url);
    } else {
      history.pushState({ typed: how === "typed" }, "", url);
    }
    document.body.classList.remove("busy");
  } catch (error) {
    if (number !== asked || error.name === "AbortError") return;
    document.body.classList.remove("busy");
    count.textContent = "The server does not answer.";
  }
}

if (page) {
  box.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => load(addressOf(), "typed"), WAIT);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    load(addressOf(), "chosen");
  });
  document.addEventListener("change", (event) => {
    if (event.target.form === form && event.target !== box) load(addressOf(), "chosen");
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest(".chips a, .pages a");
    if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    load(link.href, "chosen").then(() => {
      box.value = new URL(location.href).searchParams.get("q") || "";
      document.getElementById("main").focus();
      window.scrollTo(0, 0);
    });
  });
  window.addEventListener("popstate", () => load(location.href, "moved"));
}

// ---------------------------------------------------------------- keys

function hits() {
  return [...document.querySelectorAll("a.hit")];
}

function move(step) {
  const links = hits();
  const current = document.activeElement.closest(".hits article");
  const place = current ? links.indexOf(current.querySelector("a.hit")) : -1;
  if (place + step < 0) box.focus();
  else if (links[place + step]) links[place + step].focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const typing = event.target.closest("input:not([type=checkbox]), select, textarea");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    if (!box) return location.assign(HOME);
    box.focus();
    box.select();
  } else if (event.key === "Escape") {
    if (event.target === box && box.value && page) {
      event.preventDefault();
      box.value = "";
      box.dispatchEvent(new Event("input", { bubbles: true }));
    } else if (event.target === box && box.value) {
      // a search field empties itself
    } else if (box && event.target !== box && (page || typing || hits().length)) {
      box.focus();
    } else if (!page && (!typing || event.target === box)) {
      back();
    }
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    const free = event.key === "ArrowDown" && ["body", "main"].includes(event.target.localName) && hits().length;
    const inside = free || event.target === box || event.target.closest(".hits article");
    if (!inside || event.shiftKey || (event.target === box && event.key === "ArrowUp")) return;
    if (event.target.closest(".scroll")) return;
    event.preventDefault();
    move(event.key === "ArrowDown" ? 1 : -1);
  }
});

// Where one came from, if that is a page of this server; else the first page.
function back() {
  if (history.length > 1 && document.referrer.startsWith(location.origin)) history.back();
  else location.assign(HOME);
}

// The result that was opened last has the focus again when one comes back.
document.addEventListener("click", (event) => {
  const link = event.target.closest && event.target.closest("a.hit");
  if (link) sessionStorage.setItem("opened", link.href);
});

if (performance.getEntriesByType("navigation").some((each) => each.type === "back_forward")) {
  const opened = hits().find((each) => each.href === sessionStorage.getItem("opened"));
  if (opened) opened.focus();
}

// ---------------------------------------------------------------- copying

function prepare() {
  for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = false;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest && event.target.closest("button[data-copy]");
  if (!button) return;
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Copying is not allowed here";
  }
  setTimeout(() => (button.textContent = label), 1500);
});

prepare();
