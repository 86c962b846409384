"use strict";
// Says where a plot or a table is wider than the page.
function mark() {
  document.querySelectorAll(".scroll").forEach(function (e) { e.classList.toggle("over", e.scrollWidth > e.clientWidth + 1); });
}
mark();
window.addEventListener("resize", mark);
document.addEventListener("toggle", mark, true);
// Sorts a table by the column whose heading is clicked, and shows which lines of the plots belong to a row.
document.querySelectorAll("table.sort").forEach(function (table) {
  var body = table.tBodies[0], heads = table.tHead.rows[0].cells;
  function value(row, i) {
    var d = row.cells[i].querySelector("data");
    return d ? Number(d.value) : row.cells[i].textContent;
  }
  function compare(a, b) {
    var x = typeof a === "number", y = typeof b === "number";
    if (x && y) return a - b;
    if (x || y) return x ? -1 : 1; // what is not known comes last
    return String(a).localeCompare(String(b), undefined, {numeric: true});
  }
  Array.prototype.forEach.call(heads, function (head, i) {
    head.querySelector("button").addEventListener("click", function () {
      var down = head.getAttribute("aria-sort") === "ascending";
      Array.prototype.forEach.call(heads, function (h) { h.removeAttribute("aria-sort"); });
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      var rows = Array.prototype.slice.call(body.rows);
      rows.sort(function (p, q) {
        var a = value(p, i), b = value(q, i), c = compare(a, b);
        var unknown = typeof a !== typeof b;
        return down && !unknown ? -c : c;
      });
      rows.forEach(function (row) { body.appendChild(row); });
    });
  });
});
function pick(key) {
  document.querySelectorAll("[data-key]").forEach(function (e) { e.classList.toggle("on", e.getAttribute("data-key") === key); });
  document.querySelectorAll("svg.plot").forEach(function (s) { s.classList.toggle("picked", key !== null && s.querySelector(".on") !== null); });
}
document.querySelectorAll("[data-key]").forEach(function (e) {
  e.addEventListener("mouseenter", function () { pick(e.getAttribute("data-key")); });
  e.addEventListener("mouseleave", function () { pick(null); });
});
