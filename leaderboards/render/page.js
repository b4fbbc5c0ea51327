"use strict";

// Sorting: a heading's button orders the rows of its table by the cells' data-sort. Rows without
// a value stay at the end whichever way the column runs.
function compare(a, b) {
  const [x, y] = [Number(a), Number(b)];
  return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y;
}

function sortBy(heading) {
  const column = heading.cellIndex;
  const table = heading.closest("table");
  const before = heading.getAttribute("aria-sort");
  const opposite = { ascending: "descending", descending: "ascending" };
  const order = opposite[before] ?? heading.dataset.first;
  for (const other of table.querySelectorAll("th[aria-sort]")) other.setAttribute("aria-sort", "none");
  heading.setAttribute("aria-sort", order);

  const sign = order === "ascending" ? 1 : -1;
  const rows = [...table.tBodies[0].rows].map((row) => [row.cells[column].dataset.sort, row]);
  rows.sort(([a], [b]) => (a === "") - (b === "") || sign * compare(a, b));
  table.tBodies[0].append(...rows.map(([, row]) => row));
}

for (const button of document.querySelectorAll("th[aria-sort] button")) {
  button.addEventListener("click", () => sortBy(button.closest("th")));
}

// Light and dark: the system's choice until the button is pressed.
const theme = document.getElementById("theme");
const systemDark = matchMedia("(prefers-color-scheme: dark)");
function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : systemDark.matches;
}
function nameTheme() {
  theme.textContent = isDark() ? "Light" : "Dark";
  theme.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
}
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
});
systemDark.addEventListener("change", nameTheme);
nameTheme();
theme.hidden = false;

// The page carries its own numbers, so that they survive being passed on without the other files.
const save = document.getElementById("save");
save.addEventListener("click", () => {
  const link = document.createElement("a");
  const text = JSON.stringify(JSON.parse(document.getElementById("data").textContent), null, 1);
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = "board.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href));
});
save.hidden = false;
