// Finds titles; on a wide screen the list of pages stands open.
const find = document.getElementById("find"), found = document.getElementById("found"), pages = document.querySelector("nav details");

const wide = matchMedia("(min-width: 52.01rem)");
const unfold = () => { pages.open = wide.matches; };
wide.addEventListener("change", unfold);
unfold();

// Every word must be in the title; titles that begin with the first one come first, then the short ones.
function matches(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const hits = titles.filter(([title]) => words.every((word) => title.toLowerCase().includes(word)));
  const order = ([title]) => [title.toLowerCase().startsWith(words[0]) ? 0 : 1, title.length];
  return hits.sort((a, b) => order(a)[0] - order(b)[0] || order(a)[1] - order(b)[1]).slice(0, 20);
}

function show() {
  const text = find.value.trim();
  found.hidden = text === "";
  if (found.hidden) return;
  const hits = matches(text);
  found.replaceChildren(...hits.map(([title, place]) => {
    const row = document.createElement("li"), link = document.createElement("a");
    link.textContent = title;
    link.href = document.body.dataset.root + "/" + place;
    row.append(link);
    return row;
  }));
  if (hits.length === 0) {
    const row = document.createElement("li");
    row.textContent = "no title has these words";
    found.append(row);
  }
}

function step(by) {
  const links = [...found.querySelectorAll("a")], at = links.indexOf(document.activeElement) + by;
  (links[at] ?? find).focus();
}

find.addEventListener("input", show);
find.addEventListener("focus", show);
find.addEventListener("keydown", (event) => { if (event.key === "Enter") found.querySelector("a")?.click(); });
found.addEventListener("click", () => { found.hidden = true; });
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== find) {
    event.preventDefault();
    find.focus();
  } else if (event.key === "Escape") {
    found.hidden = true;
    find.blur();
  } else if (!found.hidden && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
    event.preventDefault();
    step(event.key === "ArrowDown" ? 1 : -1);
  }
});
document.addEventListener("click", (event) => { if (!event.target.closest("header")) found.hidden = true; });
document.documentElement.dataset.ready = "yes";
