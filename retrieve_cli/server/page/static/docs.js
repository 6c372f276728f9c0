// The description works without this file. With it: a form to try each request, and links that unfold where they lead.
const root = document.getElementById("main").dataset.root;
const key = document.getElementById("key");

for (const each of document.querySelectorAll(".try")) each.hidden = false;

function unfold() {
  const place = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!place) return;
  if (place.localName === "details") place.open = true;
  place.scrollIntoView();
}

window.addEventListener("hashchange", unfold);
unfold();

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form.try");
  if (!form) return;
  event.preventDefault();
  const shown = form.querySelector("pre");
  const query = new URLSearchParams();
  let path = form.dataset.path;
  for (const input of form.querySelectorAll("input")) {
    if (input.dataset.in === "path") path = path.replace("{" + input.name + "}", encodeURIComponent(input.value));
    else if (input.value) query.append(input.name, input.value);
  }
  const headers = { Accept: "application/json" };
  const body = form.elements.body ? form.elements.body.value : undefined;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key && key.value) headers.Authorization = "Bearer " + key.value;
  shown.hidden = false;
  shown.textContent = "…";
  try {
    const url = root + path + (query.size ? "?" + query : "");
    const reply = await fetch(url, { method: form.dataset.method.toUpperCase(), headers, body, cache: "no-store" });
    const text = await reply.text();
    let value = text;
    try {
      value = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      // not JSON: shown as it is
    }
    shown.textContent = reply.status + "\n" + value;
  } catch {
    shown.textContent = "The server does not answer.";
  }
});
