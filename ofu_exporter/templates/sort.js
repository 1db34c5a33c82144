// Lets a click on the head of a column sort its table, the highest first; what is not known stands last.
const sorts = {};  // by the id of a table: the place of the column, and whether the highest is first
const value = (row, place) => {
  const cell = row.cells[place], said = cell.dataset.value ?? cell.textContent.trim();
  const isNumber = cell.dataset.value != null || cell.classList.contains("num");
  return isNumber && /^-?[\d.]/.test(said) ? parseFloat(said.replace(/,/g, "")) : said;
};
const isUnknown = value => ["", "-", "\u2013"].includes(value);
const inOrder = (one, other) => typeof one === "number" && typeof other === "number"
  ? one - other : String(one).localeCompare(String(other), undefined, {numeric: true});
const sort = (table, place, isDown) => {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  [...body.rows].sort((one, other) => {
    const [first, second] = [value(one, place), value(other, place)];
    return isUnknown(first) - isUnknown(second) || (isDown ? -1 : 1) * inOrder(first, second);
  }).forEach(row => body.append(row));
  heads.forEach(head => head.removeAttribute("aria-sort"));
  heads[place].setAttribute("aria-sort", isDown ? "descending" : "ascending");
  if (table.id) sorts[table.id] = [place, isDown];
};
const dress = () => document.querySelectorAll("table.sorts").forEach(table => {
  [...table.tHead.rows[0].cells].forEach((head, place) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    button.onclick = () => sort(table, place, head.getAttribute("aria-sort") !== "descending");
    head.replaceChildren(button);
  });
  if (sorts[table.id]) sort(table, ...sorts[table.id]);
});
dress();
